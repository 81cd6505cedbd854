"""Push: a collection into another store, with its vectors; nothing is encoded.

Documents are committed as an ingest commits them (``catalog``), and a document that the other store has in the same
version is passed over: a push that was killed goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from uuid import uuid4

from twinvec.errors import ConfigurationError, DocumentError, SpaceMismatchError
from twinvec.support.progress import progress_bar
from twinvec_qdrant.records.bm25_weights import Lexicon
from twinvec_qdrant.records.catalog import Catalog, Change
from twinvec_qdrant.records.description import Description, Generation, read_description
from twinvec_qdrant.records.schema import Record, tenant_path
from twinvec_qdrant.report import PushReport
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import Backend, NewCollection, Store
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import DENSE, Point, States

_PAGE = 256  # documents compared, and notes copied, at a time
_BATCH_CHUNKS = 512
_ROUNDS = 5  # a commit is lost only to another writer of the same document
_CHUNKS = field_is("kind", "chunk")
_NOTES = field_is("kind", "note")


def open_target(store: Store, source: Description) -> Backend:
    """The collection in the other store, made like this one where there is none.

    Raises:
        SpaceMismatchError: there is one, of another model.
        ConfigurationError: there is one that cuts or divides documents differently.
    """
    settings = IndexSettings.from_dict(source.index)
    if store.peek() is None:
        copy = {"vector": DENSE, "next": None, "previous": None, "average_length": 0.0}
        metadata, path = {**source.model_dump(), **copy}, tenant_path(source.tenant_key)
        backend = store.create(NewCollection(source.dim, metadata, settings, path, source.states_dim))
    else:
        backend = store.open()
    try:
        there = read_description(backend.read_metadata(), backend.location)
        if there.space != source.space:
            raise SpaceMismatchError(
                f"{backend.location}: made with the model {there.model!r} (space {there.space}); what is pushed is of "
                f"{source.model!r} (space {source.space}). Migrate one of them, or push to another name"
            )
        for name in ("chunking", "language", "tenant_key"):
            if getattr(there, name) != getattr(source, name):
                raise ConfigurationError(
                    f"{backend.location}: its {name} is {getattr(there, name)!r}, that of what is pushed "
                    f"{getattr(source, name)!r}; push to another name"
                )
        if there.states_dim != source.states_dim:
            kept = "no token states are" if there.states_dim is None else "token states are"
            raise ConfigurationError(
                f"{backend.location}: {kept} kept there, unlike here (late_interaction); push to another name"
            )
    except BaseException:
        backend.close()
        raise
    return backend


class Push:
    """One push of the collection in ``source``, whose model in force is ``model``, to ``target``."""

    def __init__(self, source: Backend, model: Generation, target: Backend) -> None:
        if source.place == target.place:
            raise ConfigurationError(f"{source.location}: a collection cannot be pushed onto itself")
        description = read_description(target.read_metadata(), target.location)
        self.report = PushReport()
        self._source = source
        self._model = model
        self._target = target
        self._target_vector = description.vector
        self._index = IndexSettings.from_dict(description.index)
        self._from = Catalog(source)
        self._to = Catalog(target)
        self._lexicon = Lexicon(target, description)
        self._tenant_path = tenant_path(description.tenant_key)

    def run(self, *, prune: bool, allow_empty: bool, progress: bool) -> PushReport:
        """Copy what the other store has not; see ``Collection.push``."""
        total = self._source.count([field_is("kind", "record")])
        seen: set[str] = set()
        with self._target.writing, progress_bar("Pushing", total, "documents", shown=progress) as advance:
            self._to.recover()
            self._lexicon.refresh()
            if not self._target.count([field_is("kind", "record")]):
                self._target.begin_load(self._tenant_path)
            sources = self._from.sources()
            while page := list(islice(sources, _PAGE)):
                seen.update(page)
                self._copy(page)
                advance(len(page))
            notes = self._copy_notes()
            if prune:
                self._prune(seen, notes, allow_empty=allow_empty)
            self._lexicon.rebalance()
            self._target.build_index(self._index)
        return self.report

    def _copy(self, sources: Sequence[str]) -> None:
        there = self._to.records(sources)
        wanted = []
        for source, record in self._from.records(sources).items():
            if not record.version:  # what is left of a damaged document must not replace a whole one
                self.report.missed.append(source)
            elif source in there and there[source].version == record.version:
                self.report.unchanged += 1
            else:
                wanted.append(record)
        for batch in _batches(wanted):
            for _ in range(_ROUNDS):
                changes = self._changes(batch)
                lost = {change.record.source for change in self._to.write(changes)}
                for change in changes:
                    if change.record.source not in lost:
                        self._lexicon.changed(change.old, change.record)
                        self.report.copied += 1
                        self.report.chunks += len(change.points)
                batch = [record for record in batch if record.source in lost]
                if not batch:
                    break
            self.report.missed += [record.source for record in batch]

    def _changes(self, batch: Sequence[Record]) -> list[Change]:
        """The commits of documents; those of which chunks are gone, changed by a writer or lost are missed."""
        chunks = [chunk for record in batch for chunk in record.chunks]
        points = self._source.retrieve(chunks, None, self._model.vector)
        whole = {key for key, point in points.items() if point.dense is not None}
        states: Mapping[str, States] = {}
        if self._model.states_dim is not None:
            states = self._source.states(chunks, self._model.vector)
            whole &= states.keys()
        self.report.missed += [record.source for record in batch if not whole.issuperset(record.chunks)]
        batch = [record for record in batch if whole.issuperset(record.chunks)]
        there = self._to.records(record.source for record in batch)
        return [self._change(record, there.get(record.source), points, states) for record in batch]

    def _change(
        self, record: Record, old: Record | None, points: Mapping[str, Point], states: Mapping[str, States]
    ) -> Change:
        """The commit of one document."""
        terms = self._lexicon.terms([points[chunk].payload["text"] for chunk in record.chunks])
        revision, there = uuid4().hex, frozenset(old.chunks) if old else frozenset()
        copies = []
        for chunk, sparse in zip(record.chunks, self._lexicon.documents(terms), strict=True):
            if chunk not in there:
                payload = {**points[chunk].payload, "revision": revision}
                dense = points[chunk].dense
                copies.append(Point(chunk, payload, dense, sparse, self._target_vector, states.get(chunk)))
        return Change(replace(record, revision=revision), copies, old)

    def _copy_notes(self) -> set[str]:
        """Copy all notes; their ids."""
        copied: set[str] = set()
        notes = self._source.scroll([_NOTES])
        while page := list(islice(notes, _PAGE)):
            self._target.upsert(page)
            copied.update(note.id for note in page)
        self._target.flush()
        return copied

    def _prune(self, sources: set[str], notes: set[str], *, allow_empty: bool) -> None:
        """Remove the documents and the notes of the other store that are not among these."""
        gone = [source for source in self._to.sources() if source not in sources]
        if gone and not sources and not allow_empty:
            raise DocumentError(
                f"{self._source.location}: holds no documents, and pruning would remove all {len(gone):,} of "
                f"{self._target.location}; if that is meant, say so (allow_empty=True, --allow-empty)"
            )
        lost = self._lost(gone)
        self.report.missed += sorted(lost)
        for record in self._to.remove([source for source in gone if source not in lost]):
            self._lexicon.changed(record, None)
            self.report.deleted += 1
        self._target.delete([note.id for note in self._target.scroll([_NOTES], ["kind"]) if note.id not in notes])
        self._target.flush()

    def _lost(self, sources: Sequence[str]) -> set[str]:
        """Those without a record here whose chunks are here all the same: they may be lost, and not removed."""
        lost: set[str] = set()
        for start in range(0, len(sources), _PAGE):
            named = field_is("source", *sources[start : start + _PAGE])
            lost |= {chunk.payload["source"] for chunk in self._source.scroll([_CHUNKS, named], ["source"])}
        return lost


def _batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    chunks = 0
    for record in records:
        batch.append(record)
        chunks += len(record.chunks)
        if chunks >= _BATCH_CHUNKS:
            yield batch
            batch, chunks = [], 0
    if batch:
        yield batch
