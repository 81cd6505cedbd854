"""Verification: what the records promise, against what the store holds.

A store that lost acknowledged points, or a migration's vectors that are not complete, shows here and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace

from twinvec_qdrant.backends.base import Backend, LacksVector, field_is
from twinvec_qdrant.catalog import Catalog, Change
from twinvec_qdrant.report import VerifyReport
from twinvec_qdrant.schema import Record

_BATCH = 256


def verify(backend: Backend, vector: str, *, repair: bool) -> VerifyReport:
    """Compare records and chunks; see ``Collection.verify``. ``vector`` names the dense vector in force."""
    catalog = Catalog(backend)
    if repair:
        catalog.recover()
    busy = {source for intent in backend.scroll([field_is("kind", "intent")]) for source in intent.payload["sources"]}
    records = [Record.of_payload(each.payload) for each in backend.scroll([field_is("kind", "record")])]
    sources = {each.id: each.payload["source"] for each in backend.scroll([field_is("kind", "chunk")], ["source"])}
    bare = {each.id for each in backend.scroll([field_is("kind", "chunk"), LacksVector(vector)], ["kind"])}
    listed = {chunk for record in records for chunk in record.chunks}
    stray = [chunk for chunk, source in sources.items() if chunk not in listed and source not in busy]
    whole = sources.keys() - bare
    incomplete = [record for record in records if not whole.issuperset(record.chunks) and record.source not in busy]
    if repair:
        backend.delete(stray)
        for start in range(0, len(incomplete), _BATCH):
            catalog.write([_marked(record, whole) for record in incomplete[start : start + _BATCH]])
        backend.flush()
    return VerifyReport(len(records), len(listed), sorted(each.source for each in incomplete), len(stray), repair)


def _marked(record: Record, whole: set[str]) -> Change:
    """The record without what is missing, of a version that no document has."""
    chunks = tuple(chunk for chunk in record.chunks if chunk in whole)
    return Change(replace(record, version="", revision=f"{record.revision} incomplete", chunks=chunks), (), record)
