"""Push: copy a collection to another store with its vectors; nothing is encoded.

A push commits documents as an ingest does (``records/commits``), and skips those that the other store has in the same
version. After a kill, the next push therefore continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any
from uuid import uuid4

from twinvec.errors import ConfigurationError, DocumentError, SpaceMismatchError
from twinvec.support.progress import progress_bar
from twinvec.support.slicing import sliced_by_weight
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.commits import Catalog, Change
from twinvec_qdrant.records.description import Description, name_first_model, stored_description
from twinvec_qdrant.records.notes import are_filtered, indexed_fields
from twinvec_qdrant.records.payload_indexes import PayloadIndexing, shown_indexes
from twinvec_qdrant.records.roots import ROOTS, Roots
from twinvec_qdrant.records.schema import (
    CHUNKS,
    NOTES,
    RECORDS,
    Record,
    chunks_of,
    embedded_text,
    tenant_path,
    user_payload,
)
from twinvec_qdrant.records.words.vocabulary import VOCABULARY
from twinvec_qdrant.report import PushReport
from twinvec_qdrant.settings import ChunkSettings
from twinvec_qdrant.stores.base import Backend, Store
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import DENSE, Point, States, pages

_PAGE = 256  # documents compared, or notes copied, at once
_BATCH_CHUNKS = 512
_MARK = "push"  # key that a description has only while a push begins
_ROUNDS = 5  # tries of a commit, which fails only if another writer changes the same document


def push(source: Catalog, store: Store, *, prune: bool, allow_empty: bool, progress: bool) -> PushReport:
    """Copy the collection of ``source`` to ``store``, and close the store; see ``Collection.push``."""
    try:
        description = stored_description(source.backend)
        target = open_target(store, description)
    except BaseException:
        store.close()
        raise
    with closing(target):
        return _Push(source, description, target).run(prune=prune, allow_empty=allow_empty, progress=progress)


def open_target(store: Store, source: Description) -> Backend:
    """Open the other store's collection, or create it with the settings of ``source``; errors: ``_check_target``."""
    is_new = store.peek() is None
    if is_new:
        fresh = {"vector": DENSE, "next": None, "previous": None, "average_length": 0.0, "layout": None}
        backend = store.create(source.model_copy(update=fresh).new_collection())
    else:
        backend = store.open()
    try:
        if is_new:
            PayloadIndexing(backend, source.payload_indexes).begin()
        _check_target(stored_description(backend), source, backend.location)
    except BaseException:
        backend.close()
        raise
    return backend


def _check_target(target: Description, source: Description, location: str) -> None:
    """Raise ``SpaceMismatchError`` for another model, ``ConfigurationError`` for other settings of the chunks."""
    if target.space != source.space:
        raise SpaceMismatchError(
            f"{location}: has the model {target.model!r} (space {target.space:.12}), but the pushed collection has "
            f"{source.model!r} (space {source.space:.12}). Migrate one of them, or push to another name"
        )
    for name in ("chunking", "language", "tenant_key"):
        theirs, ours = getattr(target, name), getattr(source, name)
        if not (theirs.agrees(ours) if isinstance(theirs, ChunkSettings) else theirs == ours):
            raise ConfigurationError(
                f"{location}: its {name} is {str(theirs)!r}, but {str(ours)!r} in the pushed collection; push to "
                "another name"
            )
    if target.states_dim != source.states_dim:
        theirs, ours = ("no token" if each.states_dim is None else "token" for each in (target, source))
        raise ConfigurationError(
            f"{location}: keeps {theirs} states, but the pushed collection keeps {ours} states (late_interaction); "
            "push to another name"
        )


def _are_the_same(source: Backend, target: Backend) -> bool:
    """Return whether both backends have the same collection.

    A collection on a server may have two addresses or an alias, so one backend writes a mark, and the other looks for
    it. A push of a collection onto itself with ``prune`` could remove documents that another process ingests meanwhile.
    """
    if source.exclusive or target.exclusive:
        return source.place == target.place
    mark = uuid4().hex
    target.write_metadata({_MARK: mark})
    try:
        return source.read_metadata().get(_MARK) == mark
    finally:
        target.write_metadata({_MARK: None})


class _Push:
    def __init__(self, source: Catalog, model: Description, target: Backend) -> None:
        if _are_the_same(source.backend, target):
            raise ConfigurationError(f"{source.backend.location}: a collection cannot be pushed onto itself")
        description = stored_description(target)
        self._report = PushReport()
        self._source = source.backend
        self._source_catalog = source
        self._model = model
        self._target = target
        self._description = description
        self._bm25 = BM25Weights(target, description)
        self._target_catalog = Catalog(target, self._bm25)
        self._copied_roots: Mapping[str, Any] | None = None
        self._indexing = PayloadIndexing(
            target, description.payload_indexes, shown_indexes(self._source, description.tenant_key)
        )

    def run(self, *, prune: bool, allow_empty: bool, progress: bool) -> PushReport:
        total = self._source.count([RECORDS])
        seen: set[str] = set()
        with self._target.writing, progress_bar("Pushing", total, "documents", shown=progress) as advance:
            chunking = self._description.chunking.decided(self._model.chunking)
            reading = {"reading": self._model.reading} if self._model.reading else {}
            self._target.write_metadata({"chunking": chunking.as_dict(), **reading})
            self._target_catalog.recover()
            self._bm25.refresh()
            if not self._target.holds([RECORDS]):
                self._target.begin_load(tenant_path(self._description.tenant_key))
                name_first_model(self._target, self._description)
            self._indexing.begin()  # called while the collection is empty, so that no stored values have to be read
            for page in pages(self._source_catalog.sources(), _PAGE):
                # called after the documents are listed, because another process may add a root and then its documents
                self._copy_roots()
                seen.update(page)
                self._copy(page)
                advance(len(page))
            notes = self._copy_notes()
            if prune:
                self._prune(seen, notes, allow_empty=allow_empty)
            self._bm25.rebalance()
            self._target.build_index(self._description.index)
        return self._report

    def _copy_roots(self) -> None:
        """Copy the recorded sources before their documents.

        Otherwise, documents might be without a recorded source after a kill, or if their source is removed from the
        pushed collection meanwhile. They would count as documents of the first source, and be pruned with it.
        """
        for roots in self._source.retrieve([ROOTS]).values():
            if roots.payload != self._copied_roots:
                self._target.upsert([Roots(self._target).joined(roots)])
                self._copied_roots = roots.payload

    def _copy(self, sources: Sequence[str]) -> None:
        there = self._target_catalog.records(sources)
        wanted = []
        for source, record in self._source_catalog.records(sources).items():
            if not record.version:  # a damaged document must not replace a whole one
                self._report.missed.append(source)
            elif source in there and there[source].version == record.version:
                self._report.unchanged += 1
            else:
                wanted.append(record)
        for batch in sliced_by_weight(wanted, lambda record: len(record.chunks), most=_PAGE, heaviest=_BATCH_CHUNKS):
            for _ in range(_ROUNDS):
                changes = self._changes(batch)
                self._indexing.see(user_payload(point.payload) for change in changes for point in change.points)
                self._indexing.see(change.record.payload for change in changes)
                lost = {change.record.source for change in self._target_catalog.write(changes)}
                for change in changes:
                    if change.record.source not in lost:
                        self._report.copied += 1
                        self._report.chunks += len(change.points)
                batch = [record for record in batch if record.source in lost]
                if not batch:
                    break
            self._report.missed += [record.source for record in batch]

    def _changes(self, batch: Sequence[Record]) -> list[Change]:
        """Return the commits of documents; report a document as missed if its chunks are lost or have changed."""
        chunks = [chunk for record in batch for chunk in record.chunks]
        points = chunks_of(self._source.retrieve(chunks, None, self._model.vector))
        whole = {key for key, point in points.items() if point.dense is not None}
        states: Mapping[str, States] = {}
        if self._model.states_dim is not None:
            states = self._source.states(chunks, self._model.vector)
            whole &= states.keys()
        self._report.missed += [record.source for record in batch if not whole.issuperset(record.chunks)]
        batch = [record for record in batch if whole.issuperset(record.chunks)]
        there = self._target_catalog.records(record.source for record in batch)
        revision = uuid4().hex
        return [self._change(record, revision, there.get(record.source), points, states) for record in batch]

    def _change(
        self,
        record: Record,
        revision: str,
        old: Record | None,
        points: Mapping[str, Point],
        states: Mapping[str, States],
    ) -> Change:
        terms = self._bm25.terms([embedded_text(points[chunk].payload) for chunk in record.chunks])
        there = frozenset(old.chunks) if old else frozenset()
        copies = []
        for chunk, sparse in zip(record.chunks, self._bm25.documents(terms), strict=True):
            if chunk not in there:
                payload = {**points[chunk].payload, "revision": revision}
                dense = points[chunk].dense
                copies.append(Point(chunk, payload, dense, sparse, self._description.vector, states.get(chunk)))
        return Change(replace(record, revision=revision), copies, old, space=self._description.space)

    def _copy_notes(self) -> set[str]:
        copied = {VOCABULARY}  # the vocabulary is not copied: the other collection counts words in its own chunks
        for page in pages((each for each in self._source.scroll([NOTES]) if each.id != VOCABULARY), _PAGE):
            self._indexing.see(
                indexed_fields(note.payload["metadata"], self._description.payload_indexes)
                for note in page
                if are_filtered(note.payload["namespace"])
            )
            # the other collection keeps its own recorded sources, at least until their documents are pruned
            joined = [note if note.id != ROOTS else Roots(self._target).joined(note) for note in page]
            self._target.upsert(joined)
            copied.update(note.id for note in page)
        self._target.flush()
        return copied

    def _prune(self, sources: set[str], notes: set[str], *, allow_empty: bool) -> None:
        gone = [source for source in self._target_catalog.sources() if source not in sources]
        if gone and not sources and not allow_empty:
            raise DocumentError(
                f"{self._source.location}: holds no documents, and pruning would remove all {len(gone):,} documents of "
                f"{self._target.location}; to allow that, give allow_empty=True (--allow-empty)"
            )
        lost = self._lost(gone)
        self._report.missed += sorted(lost)
        for _ in self._target_catalog.remove([source for source in gone if source not in lost]):
            self._report.deleted += 1
        self._target.delete([note.id for note in self._target.scroll([NOTES], ["kind"]) if note.id not in notes])
        if not lost:
            self._target.upsert(list(self._source.retrieve([ROOTS]).values()))
        self._target.flush()

    def _lost(self, sources: Sequence[str]) -> set[str]:
        """Return the documents that have chunks in the pushed collection, but whose records it may have lost."""
        lost: set[str] = set()
        for page in pages(sources, _PAGE):
            named = field_is("source", *page)
            lost |= {chunk.payload["source"] for chunk in self._source.scroll([CHUNKS, named], ["source"])}
        return lost
