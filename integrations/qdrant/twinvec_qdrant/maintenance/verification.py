"""Verification: what the records promise, against what the store holds.

A store that lost acknowledged points, or chunks without a vector of the model in force, show here only. Other
writers may be at work on a server: chunks are read before intents and records, so that what they write meanwhile is
not taken for left over, and what seems to be missing, or left over, is looked at a second time. Chunks of a source that
has neither a record nor a writer's intent are no left-overs: the store lost the record.

Whether texts and vectors are what they were is not looked at: that would take the time of encoding them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from uuid import uuid4

from twinvec.retrieval.bm25 import Analyzer
from twinvec_qdrant.records.catalog import Catalog, Change
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.schema import Record
from twinvec_qdrant.report import VerifyReport
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import Condition, IdIs, LacksVector, field_is
from twinvec_qdrant.stores.points import states_name

_BATCH = 256


def verify(backend: Backend, model: Description, *, repair: bool) -> VerifyReport:
    """Compare records and chunks; see ``Collection.verify``. ``model`` is the one in force."""
    catalog = Catalog(backend)
    names = [model.vector] if model.states_dim is None else [model.vector, states_name(model.vector)]
    if repair:
        catalog.recover()
    chunks = {each.id: each.payload for each in backend.scroll([field_is("kind", "chunk")], ["source", "revision"])}
    bare = _bare(backend, field_is("kind", "chunk"), names)
    busy = _busy(backend)
    records = [Record.of_payload(each.payload) for each in backend.scroll([field_is("kind", "record")])]
    listed = {chunk for record in records for chunk in record.chunks}
    recorded = {record.source for record in records}
    loose = {chunk: own["source"] for chunk, own in chunks.items() if chunk not in listed and own["source"] not in busy}
    seen = {chunk: chunks[chunk]["revision"] for chunk, source in loose.items() if source in recorded}
    stray = dict(catalog.revisions(seen).items() & seen.items())  # others may have been removed or written anew
    forgotten = list(_forgotten(backend, catalog, set(loose.values()) - recorded, Analyzer(model.language)))
    whole = chunks.keys() - bare
    suspects = (record.source for record in records if not whole.issuperset(record.chunks))
    incomplete = list(_incomplete(backend, catalog, suspects, names))
    if repair:
        backend.delete(list(stray), set(stray.values()))
        marked = [*incomplete, *forgotten]
        for start in range(0, len(marked), _BATCH):
            catalog.write(marked[start : start + _BATCH])
        backend.flush()
    return VerifyReport(
        len(records),
        len(listed),
        sorted({change.record.source for change in incomplete} | {each.source for each in records if not each.version}),
        [change.record.source for change in forgotten],
        len(stray),
        repair,
    )


def _busy(backend: Backend) -> set[str]:
    """The sources that a writer is at work on, or was when it died."""
    intents = backend.scroll([field_is("kind", "intent")], ["sources"])
    return {source for intent in intents for source in intent.payload["sources"]}


def _bare(backend: Backend, condition: Condition, names: Iterable[str]) -> set[str]:
    """The points that lack one of the vectors."""
    return {each.id for name in names for each in backend.scroll([condition, LacksVector(name)], ["kind"])}


def _incomplete(backend: Backend, catalog: Catalog, sources: Iterable[str], names: Iterable[str]) -> Iterator[Change]:
    """For each source that is incomplete its record without what is missing, of a version that no document has."""
    for record in catalog.records(sources).values():
        there = backend.retrieve(record.chunks, []).keys() - _bare(backend, IdIs(record.chunks), names)
        whole = tuple(chunk for chunk in record.chunks if chunk in there)
        if whole != record.chunks:
            revision = f"{record.revision} incomplete"
            yield Change(replace(record, version="", revision=revision, chunks=whole), (), record)


def _forgotten(backend: Backend, catalog: Catalog, sources: set[str], analyzer: Analyzer) -> Iterator[Change]:
    """For each source without a record one of the chunks that are there, of a version that no document has.

    Intents are read before records, and records before chunks, as whoever removes a document lets go of them.
    """
    sources = sources - _busy(backend)
    for source in sorted(sources - catalog.records(sources).keys()):
        chunks = backend.scroll([field_is("source", source), field_is("kind", "chunk")], ["position", "text"])
        if places := {chunk.payload["position"]: chunk for chunk in chunks}:
            there = [places[position] for position in sorted(places)]
            terms = sum(map(len, analyzer.terms([chunk.payload["text"] for chunk in there])))
            record = Record(source, "", uuid4().hex, tuple(chunk.id for chunk in there), terms, {})
            yield Change(record, (), None)
