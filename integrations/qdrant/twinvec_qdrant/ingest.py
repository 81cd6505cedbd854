"""Ingestion: documents -> what is new -> chunks -> vectors -> commits.

Documents are taken in groups and compared with their records; what is unchanged costs no more than that. Chunks of many
documents are encoded in one call. A text that only moved, or whose payload changed, keeps its vector. What is
broken about one document makes that document fail and nothing else: it is named in the report, and its older
version stays. What is broken about the store, or about the encoder altogether, ends the ingest with its error;
what was committed before stays committed, and the next ingest goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any
from uuid import uuid4

import numpy as np

from twinvec.documents import Document, as_document
from twinvec.engines.base import FloatArray
from twinvec.errors import BadVectorError, DocumentError, InputError
from twinvec.progress import Advance, progress_bar
from twinvec_qdrant.backends.base import Backend, Point
from twinvec_qdrant.catalog import Catalog, Change
from twinvec_qdrant.chunking import Chunk, Chunker
from twinvec_qdrant.description import SpaceEncoder
from twinvec_qdrant.lexicon import Lexicon
from twinvec_qdrant.migration import check_in_force
from twinvec_qdrant.reading import Failure
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.schema import Record, canonical, chunk_id, digest, json_payload, point_payload

logger = logging.getLogger(__name__)

_GROUP_DOCUMENTS = 256
_GROUP_CHARACTERS = 4 * 1024 * 1024
_BATCH_CHUNKS = 256  # encoded and committed at a time: what a kill costs, and how often the progress bar moves
_BATCH_CHARACTERS = 8 * 1024 * 1024
_ROUNDS = 5  # a commit is lost only to another writer of the same source


@dataclass(frozen=True, slots=True)
class _Work:
    """A document to write; ``keys`` are the hashes of the chunks' texts."""

    document: Document
    payload: dict[str, Any]
    version: str
    chunks: list[Chunk]
    keys: list[str]
    old: Record | None


class Ingestion:
    """One ingest into one collection.

    Args:
        backend: Where to.
        encoder: Of the collection's model; checked.
        chunker: With the collection's settings.
        settings: Those settings; with the document they decide what its chunks are.
        lexicon: The collection's BM25 weights.
        vector: Name of the dense vector in force.
        given: Vectors of documents that come with theirs, by id; checked.
    """

    def __init__(
        self,
        backend: Backend,
        encoder: SpaceEncoder,
        chunker: Chunker,
        settings: Mapping[str, Any],
        lexicon: Lexicon,
        vector: str,
        given: Mapping[str, FloatArray],
    ) -> None:
        self._backend = backend
        self._encoder = encoder
        self._chunker = chunker
        self._settings = canonical(dict(settings))
        self._lexicon = lexicon
        self._vector = vector
        self._given = given
        self._catalog = Catalog(backend)
        self._report = IngestReport()
        self._seen: dict[str, str] = {}
        self._hidden = 0
        self._advance: Advance = lambda count: None
        self._dry = False

    def run(self, documents: Iterable[object], *, prune: bool, dry_run: bool, progress: bool) -> IngestReport:
        """Take the documents in; see ``Collection.ingest``."""
        if isinstance(documents, (str, bytes, Mapping)) or not isinstance(documents, Iterable):
            raise DocumentError(f"expected an iterable of documents, got {type(documents).__name__}")
        total = length_hint(documents) or None
        self._dry = dry_run
        try:
            with (
                self._backend.writing,
                progress_bar("Ingesting", total, "documents", shown=progress) as self._advance,
            ):
                if not dry_run:
                    self._catalog.recover()
                    self._lexicon.refresh()
                self._take_all(documents)
                if prune:
                    self._prune()
                if not dry_run:
                    self._lexicon.rebalance()
        except BaseException as error:
            error.add_note(f"committed before the error: {self._report}")
            raise
        return self._report

    def _take_all(self, documents: Iterable[object]) -> None:
        pending: list[_Work] = []
        for group in self._groups(documents):
            pending.extend(self._changed(group))
            while _is_full(pending):
                self._write(_take_batch(pending))
        while pending:
            self._write(_take_batch(pending))

    def _groups(self, documents: Iterable[object]) -> Iterator[list[Document]]:
        """Checked documents with different ids, a few hundred at a time."""
        group: list[Document] = []
        characters = 0
        for position, value in enumerate(documents):
            document = self._checked(value, position)
            if document is None:
                continue
            group.append(document)
            characters += len(document.text)
            if len(group) == _GROUP_DOCUMENTS or characters >= _GROUP_CHARACTERS:
                yield group
                group, characters = [], 0
        if group:
            yield group

    def _checked(self, value: object, position: int) -> Document | None:
        if isinstance(value, Failure):
            self._seen.setdefault(value.source, "")
            self._hidden += value.hides
            self._fail(value.source, value.reason)
            return None
        try:
            document = as_document(value, position)
            document = Document(document.id, document.text, document.title, json_payload(document))
        except InputError as error:
            source = _claimed_id(value)
            if source is None:
                self._hidden += 1
            else:
                self._seen.setdefault(source, "")
            self._fail(source or f"document {position}", str(error))
            return None
        version = self._version(document)
        if (earlier := self._seen.setdefault(document.id, version)) != version and earlier:
            self._fail(document.id, "another document with the same id came before; that one was kept")
            return None
        return document

    def _version(self, document: Document) -> str:
        return digest(document.text, document.title, canonical(document.payload), self._settings)

    def _changed(self, group: Sequence[Document]) -> list[_Work]:
        """Those of the group that are new or changed, cut into chunks."""
        records = self._catalog.records(document.id for document in group)
        wanted: dict[str, Document] = {}
        for document in group:
            record = records.get(document.id)
            if document.id in wanted or (record and record.version == self._version(document)):
                self._report.unchanged += 1
                self._advance(1)
            else:
                wanted[document.id] = document
        found = (self._work(document, records.get(document.id)) for document in wanted.values())
        return [work for work in found if work is not None]

    def _work(self, document: Document, old: Record | None) -> _Work | None:
        try:
            chunks = self._chunker.chunks(document)
        except InputError as error:
            self._fail(document.id, str(error))
            return None
        keys = [digest(chunk.text) for chunk in chunks]
        return _Work(document, dict(document.payload), self._version(document), chunks, keys, old)

    def _write(self, batch: Sequence[_Work]) -> None:
        """Encode and commit; what another writer changed meanwhile is planned anew on its version."""
        if self._dry:
            self._foresee(batch)
            return
        check_in_force(self._backend, self._vector)
        for _ in range(_ROUNDS):
            vectors = self._vectors(batch)
            batch = [work for work in batch if all(key in vectors for key in work.keys)]
            lost = self._commit(batch, vectors)
            if not lost:
                return
            records = self._catalog.records(lost)
            batch = [
                _Work(work.document, work.payload, work.version, work.chunks, work.keys, records.get(work.document.id))
                for work in batch
                if work.document.id in lost
            ]
        for work in batch:
            self._fail(work.document.id, "another writer keeps changing it")

    def _foresee(self, batch: Sequence[_Work]) -> None:
        """Count what ``_write`` would do."""
        known = self._stored(batch).keys() | self._brought(batch).keys()
        self._report.encoded += len({key for work in batch for key in work.keys if key not in known})
        for work in batch:
            kept = set(work.old.chunks) if work.old else set()
            ids = [_chunk_point(work, *each)[0] for each in zip(work.chunks, work.keys, strict=True)]
            self._count(work, sum(each not in kept for each in ids))

    def _commit(self, batch: Sequence[_Work], vectors: Mapping[str, FloatArray]) -> set[str]:
        """Write a batch; returns the sources that were lost to another writer."""
        terms = self._lexicon.terms([chunk.text for work in batch for chunk in work.chunks])
        weights = iter(zip(self._lexicon.documents(terms), map(len, terms), strict=True))
        changes: dict[str, tuple[_Work, Change]] = {}
        for work in batch:
            points, length, revision = [], 0, uuid4().hex
            for chunk, key in zip(work.chunks, work.keys, strict=True):
                sparse, count = next(weights)
                length += count
                identity, payload = _chunk_point(work, chunk, key)
                points.append(Point(identity, {**payload, "revision": revision}, vectors[key], sparse, self._vector))
            chunks = tuple(point.id for point in points)
            kept = set(work.old.chunks) if work.old else set()
            record = Record(work.document.id, work.version, revision, chunks, length, {} if chunks else work.payload)
            change = Change(record, [point for point in points if point.id not in kept], work.old)
            changes[work.document.id] = (work, change)
        lost = {change.record.source for change in self._catalog.write([change for _, change in changes.values()])}
        for source, (work, change) in changes.items():
            if source not in lost:
                self._lexicon.changed(work.old, change.record)
                self._count(work, len(change.points))
        return lost

    def _count(self, work: _Work, written: int) -> None:
        if work.old is None:
            self._report.new += 1
        elif work.old.version == work.version:  # another writer committed the same
            self._report.unchanged += 1
        else:
            self._report.updated += 1
        self._report.chunks += written
        self._report.truncated += sum(chunk.truncated for chunk in work.chunks)
        self._advance(1)

    def _vectors(self, batch: Sequence[_Work]) -> dict[str, FloatArray]:
        """The vector of each text, by its key; documents with a text that has none fail."""
        known = self._stored(batch) | self._brought(batch)
        texts = {
            key: chunk.text
            for work in batch
            for key, chunk in zip(work.keys, work.chunks, strict=True)
            if key not in known
        }
        try:
            return known | self._encoded(texts)
        except (BadVectorError, InputError):
            return known | self._encoded_one_by_one(batch, known)

    def _encoded_one_by_one(self, batch: Sequence[_Work], known: dict[str, FloatArray]) -> dict[str, FloatArray]:
        """Encode each document by itself, to find those that cannot be encoded."""
        found: dict[str, FloatArray] = {}
        for work in batch:
            texts = {key: chunk.text for key, chunk in zip(work.keys, work.chunks, strict=True)}
            try:
                found |= self._encoded({key: text for key, text in texts.items() if key not in known | found})
            except (BadVectorError, InputError) as error:
                self._fail(work.document.id, str(error))
        return found

    def _encoded(self, texts: Mapping[str, str]) -> dict[str, FloatArray]:
        if not texts:
            return {}
        vectors_ND = np.asarray(self._encoder.encode_document(list(texts.values())), dtype=np.float32)
        if vectors_ND.shape != (len(texts), self._encoder.dim):
            raise BadVectorError(
                f"the encoder gave vectors of shape {vectors_ND.shape}, expected {(len(texts), self._encoder.dim)}"
            )
        norms_N = np.linalg.norm(vectors_ND, axis=1)
        bad = np.flatnonzero(~np.isfinite(norms_N) | (norms_N == 0))
        if bad.size:
            text = list(texts.values())[int(bad[0])]
            raise BadVectorError(f"the encoder gave a vector that is zero or not finite for {text[:60]!r}")
        self._report.encoded += len(texts)
        return dict(zip(texts, vectors_ND, strict=True))

    def _stored(self, batch: Sequence[_Work]) -> dict[str, FloatArray]:
        """Vectors that the old versions have, by the key of their text."""
        ids = [chunk for work in batch if work.old for chunk in work.old.chunks]
        points = self._backend.retrieve(ids, ["content"], self._vector).values() if ids else ()
        return {point.payload["content"]: point.dense for point in points if point.dense is not None}

    def _brought(self, batch: Sequence[_Work]) -> dict[str, FloatArray]:
        """Vectors that the documents came with, by the key of their one text."""
        return {
            key: self._given[work.document.id] for work in batch if work.document.id in self._given for key in work.keys
        }

    def _prune(self) -> None:
        """Remove the sources that were not among the documents."""
        if self._hidden:
            logger.warning(
                "nothing was pruned: %d failures may hide documents, so that what is missing need not be gone",
                self._hidden,
            )
            return
        gone = [source for source in self._catalog.sources() if source not in self._seen]
        if self._dry:
            self._report.deleted = len(gone)
            return
        for start in range(0, len(gone), _GROUP_DOCUMENTS):
            for record in self._catalog.remove(gone[start : start + _GROUP_DOCUMENTS]):
                self._lexicon.changed(record, None)
                self._report.deleted += 1

    def _fail(self, source: str, reason: str) -> None:
        self._report.fail(source, reason)
        self._advance(1)


def _chunk_point(work: _Work, chunk: Chunk, key: str) -> tuple[str, dict[str, Any]]:
    """The id and the payload of a chunk."""
    source = work.document.id
    content = digest(key, chunk.heading, canonical(work.payload))
    own = {
        "kind": "chunk",
        "source": source,
        "position": chunk.position,
        "heading": chunk.heading,
        "text": chunk.text,
        "content": key,
    }
    return chunk_id(source, chunk.position, content), point_payload(own, work.payload)


def _claimed_id(value: object) -> str | None:
    """The id that a broken document gives itself, if it can be told."""
    if isinstance(value, Mapping):
        found = value.get("id", value.get("_id"))
    elif isinstance(value, tuple):
        found = value[0] if value else None
    else:
        found = getattr(value, "id", None)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return found if isinstance(found, str) and found else None


def _characters(work: _Work) -> int:
    return sum(len(chunk.text) for chunk in work.chunks)


def _is_full(pending: Sequence[_Work]) -> bool:
    return (
        sum(len(work.chunks) for work in pending) >= _BATCH_CHUNKS
        or sum(map(_characters, pending)) >= _BATCH_CHARACTERS
    )


def _take_batch(pending: list[_Work]) -> list[_Work]:
    """Take works off the front until the batch is full."""
    size = 0
    chunks = characters = 0
    while size < len(pending) and chunks < _BATCH_CHUNKS and characters < _BATCH_CHARACTERS:
        chunks += len(pending[size].chunks)
        characters += _characters(pending[size])
        size += 1
    batch = pending[:size]
    del pending[:size]
    return batch
