"""Verification: what the records promise, against what the store holds.

A store that lost acknowledged points, or chunks without a vector of the model in force, show here only. Other
writers may be at work on a server: chunks are read before intents and records, so that what they write meanwhile is
not taken for left over, and what seems to be missing is looked at a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from twinvec_qdrant.backends.base import Backend, states_name
from twinvec_qdrant.backends.conditions import Condition, IdIs, LacksVector, field_is
from twinvec_qdrant.catalog import Catalog, Change
from twinvec_qdrant.description import Generation
from twinvec_qdrant.report import VerifyReport
from twinvec_qdrant.schema import Record

_BATCH = 256


def verify(backend: Backend, model: Generation, *, repair: bool) -> VerifyReport:
    """Compare records and chunks; see ``Collection.verify``. ``model`` is the one in force."""
    catalog = Catalog(backend)
    names = [model.vector] if model.states_dim is None else [model.vector, states_name(model.vector)]
    if repair:
        catalog.recover()
    chunks = {each.id: each.payload for each in backend.scroll([field_is("kind", "chunk")], ["source", "revision"])}
    bare = _bare(backend, field_is("kind", "chunk"), names)
    busy = {source for intent in backend.scroll([field_is("kind", "intent")]) for source in intent.payload["sources"]}
    records = [Record.of_payload(each.payload) for each in backend.scroll([field_is("kind", "record")])]
    listed = {chunk for record in records for chunk in record.chunks}
    stray = [chunk for chunk, own in chunks.items() if chunk not in listed and own["source"] not in busy]
    whole = chunks.keys() - bare
    suspects = (record.source for record in records if not whole.issuperset(record.chunks))
    incomplete = list(_incomplete(backend, catalog, suspects, names))
    if repair:
        backend.delete(stray, {chunks[chunk]["revision"] for chunk in stray})
        for start in range(0, len(incomplete), _BATCH):
            catalog.write(incomplete[start : start + _BATCH])
        backend.flush()
    sources = sorted(change.record.source for change in incomplete)
    return VerifyReport(len(records), len(listed), sources, len(stray), repair)


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
