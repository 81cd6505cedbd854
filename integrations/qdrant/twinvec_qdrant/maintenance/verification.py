"""Verification: compare what the records promise with what the store holds.

This finds acknowledged points that the store has lost, chunks without a vector of the collection's model, and chunks
whose text, document or position differs from what was written. Vectors are not compared, because this would take as
long as encoding again; an embedded store keeps checksums of its files instead. A chunk is stray if no record lists it
and no intent covers it. A document that has chunks, but neither a record nor an intent, has lost its record; its chunks
do not count as stray.

Chunks that were saved from damaged files may lack vectors, and so may chunks that were written just before a migration
switched to another model. A repair encodes these first (``heal``, ``finish_switch``).

Other writers may run meanwhile. Verification therefore reads chunks first, then intents and records, and reads
suspicious chunks a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple
from uuid import uuid4

from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.maintenance.migration import encoded_chunks, finish_switch
from twinvec_qdrant.maintenance.reindex import index_payload
from twinvec_qdrant.records.commits import Catalog, Change
from twinvec_qdrant.records.description import Description, stored_description
from twinvec_qdrant.records.intents import unfinished_sources
from twinvec_qdrant.records.schema import (
    CHUNKS,
    EMBEDDED_FIELDS,
    NOTES,
    RECORDS,
    Record,
    canonical,
    chunk_content,
    chunk_id,
    chunk_key,
    chunks_of,
    digest,
    embedded_text,
    hidden_keys,
    record_id,
    tenant_path,
    user_payload,
)
from twinvec_qdrant.report import RepairReport, VerifyReport
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import IdIs, LacksVector, StoreCondition, field_is
from twinvec_qdrant.stores.points import Point, pages, states_name

_BATCH = 256
_COMPARED = ("source", "revision", "position", "text", "content", "embedded", "key")


@dataclass(frozen=True, slots=True)
class _Compared:
    """Result of a comparison.

    Attributes:
        records: All records.
        changed: Ids of the chunks that differ from what was written.
        stray: Revision of each stray chunk, by its id.
        incomplete: Commits that mark the documents with missing or changed chunks.
        forgotten: Commits that mark the documents without a record.
    """

    records: Sequence[Record]
    changed: Collection[str]
    stray: Mapping[str, str]
    incomplete: Sequence[Change]
    forgotten: Sequence[Change]


class _Place(NamedTuple):
    """Document and position of a chunk, and the revision of its commit."""

    source: str
    revision: str
    position: int


def verify(catalog: Catalog, *, repair: bool, encoder: Callable[[], SpaceEncoder]) -> VerifyReport:
    """Compare records and chunks; see ``Collection.verify``. ``encoder`` loads the encoder of the collection's model.

    If a migration changes the model meanwhile, the comparison starts again.
    """
    backend = catalog.backend
    backend.check_files()
    damage = backend.damage
    if repair and damage is not None:
        heal(catalog, stored_description(backend), encoder())
    while True:
        model = stored_description(backend)
        if repair:
            finish_switch(backend, model, encoder)
            if backend.exclusive:  # on a server, another program may have written points without a payload
                backend.delete([each.id for each in backend.scroll((), ["kind"]) if not each.payload])
            catalog.recover()
        compared = _compare(catalog, model)
        if stored_description(backend).vector == model.vector:
            break
    if repair:
        backend.delete(list(compared.stray), set(compared.stray.values()))
        backend.delete(list(compared.changed))
        for page in pages([*compared.incomplete, *compared.forgotten], _BATCH):
            catalog.write(page)
        backend.flush()
        backend.end_repair()
    records = compared.records
    marked = {each.source for each in records if not each.version}
    report = VerifyReport(
        len(records),
        len({chunk for record in records for chunk in record.chunks}),
        sorted({change.record.source for change in compared.incomplete} | marked),
        [change.record.source for change in compared.forgotten],
        len(compared.stray),
        repair,
    )
    if damage is None:
        return report
    lost = damage.counts.get("record", 0) - len(records) - len(compared.forgotten)
    lost_notes = damage.counts.get("note", 0) - backend.count([NOTES])
    return RepairReport(**asdict(report), damaged=list(damage.files), lost=max(lost, 0), lost_notes=max(lost_notes, 0))


def _compare(catalog: Catalog, model: Description) -> _Compared:
    backend = catalog.backend
    names = _vector_names(model)
    chunks: dict[str, _Place] = {}
    changed = set()
    for each in backend.scroll([CHUNKS], _COMPARED):
        own = each.payload
        chunks[each.id] = _Place(own.get("source", ""), own.get("revision", ""), own.get("position", -1))
        if not _as_written(own):
            changed.add(each.id)
    bare = _bare(backend, CHUNKS, names)
    unfinished = unfinished_sources(backend)
    records = [Record.of_payload(each.payload) for each in backend.scroll([RECORDS])]
    listed = {chunk for record in records for chunk in record.chunks}
    recorded = {record.source for record in records}
    changed |= {chunk for record in records for chunk in _misplaced(record, chunks)}
    loose = {chunk: own.source for chunk, own in chunks.items() if chunk not in listed and own.source not in unfinished}
    seen = {chunk: chunks[chunk].revision for chunk, source in loose.items() if source in recorded}
    # read a second time: a chunk that was removed or written again meanwhile is not stray
    stray = dict(catalog.revisions(seen).items() & seen.items())
    forgotten = list(_forgotten(catalog, set(loose.values()) - recorded, model.analyzer))
    whole = chunks.keys() - bare - changed
    suspects = (record.source for record in records if not whole.issuperset(record.chunks))
    return _Compared(records, changed, stray, list(_incomplete(catalog, suspects, names, changed)), forgotten)


def _vector_names(model: Description) -> list[str]:
    """Return the names of the vectors that every chunk has."""
    return [model.vector] if model.states_dim is None else [model.vector, states_name(model.vector)]


def _as_written(own: Mapping[str, Any]) -> bool:
    """Return whether the texts of a chunk agree with the hashes in its payload."""
    text = own.get("text", "")
    if digest(text) != own.get("content"):
        return False
    return own.keys().isdisjoint(("embedded", "key")) or chunk_key(text, own.get("embedded", text)) == own.get("key")


def _misplaced(record: Record, chunks: Mapping[str, _Place]) -> Iterator[str]:
    """Yield the chunks of the record that belong to another document or are in another order."""
    last = -1
    for chunk in record.chunks:
        if (place := chunks.get(chunk)) is not None:
            if place.source != record.source or place.position <= last:
                yield chunk
            else:
                last = place.position


def _bare(backend: Backend, condition: StoreCondition, names: Iterable[str]) -> set[str]:
    return {each.id for name in names for each in backend.scroll([condition, LacksVector(name)], ["kind"])}


def _incomplete(
    catalog: Catalog, sources: Iterable[str], names: Iterable[str], changed: Collection[str]
) -> Iterator[Change]:
    """Yield a commit for each incomplete source: its record, with the existing chunks only and an empty version."""
    for record in catalog.records(sources).values():
        read = chunks_of(catalog.backend.retrieve(record.chunks, ["kind"]))
        there = read.keys() - _bare(catalog.backend, IdIs(record.chunks), names)
        whole = tuple(chunk for chunk in record.chunks if chunk in there and chunk not in changed)
        if whole != record.chunks:
            revision = f"{record.revision} incomplete"
            yield Change(replace(record, version="", revision=revision, chunks=whole), (), record)


def _forgotten(catalog: Catalog, sources: set[str], analyzer: Analyzer) -> Iterator[Change]:
    """Yield a commit for each source without a record: a record of its chunks, with an empty version.

    Intents, records and chunks are read in this order, in which a writer changes them to remove a document.
    """
    sources = sources - unfinished_sources(catalog.backend)
    for source in sorted(sources - catalog.records(sources).keys()):
        chunks = catalog.backend.scroll([field_is("source", source), CHUNKS], ["position", *EMBEDDED_FIELDS])
        if places := {chunk.payload["position"]: chunk for chunk in chunks}:
            there = [places[position] for position in sorted(places)]
            terms = sum(map(len, analyzer.terms([embedded_text(chunk.payload) for chunk in there])))
            record = Record(source, "", uuid4().hex, tuple(chunk.id for chunk in there), terms, {})
            yield Change(record, (), None)


def heal(catalog: Catalog, model: Description, encoder: SpaceEncoder) -> None:
    """Remove points that contradict their ids, encode chunks without vectors, and renew BM25 weights and indexes."""
    backend = catalog.backend
    backend.delete([point.id for point in backend.scroll(()) if not _is_whole(point)])
    for name in _vector_names(model):
        for page in pages(backend.scroll([CHUNKS, LacksVector(name)], EMBEDDED_FIELDS), _BATCH):
            backend.update_dense(encoded_chunks(page, encoder, model))
    for page in pages(backend.scroll([CHUNKS], EMBEDDED_FIELDS), _BATCH):
        weights = catalog.weights.documents(catalog.weights.terms([embedded_text(point.payload) for point in page]))
        backend.update_sparse({point.id: weight for point, weight in zip(page, weights, strict=True)})
    if (path := tenant_path(model.tenant_key)) is not None:
        backend.index_field(path, "keyword")
    index_payload(backend, model.payload_indexes, model.tenant_key)
    backend.flush()
    backend.build_index(model.index)


def _is_whole(point: Point) -> bool:
    """Return whether the content of a chunk or a record agrees with its id; True for all other points."""
    own = point.payload
    try:
        if own["kind"] == "record":
            return point.id == record_id(own["source"]) and isinstance(own["size"], int)
        if own["kind"] != "chunk":
            return True
        payload = canonical(user_payload(own))
        key = chunk_key(own["text"], embedded_text(own))
        content = chunk_content(key, own["heading"], own.get("title", ""), payload, hidden_keys(own))
        return point.id == chunk_id(own["source"], own["position"], content)
    except (KeyError, TypeError, AttributeError, ValueError):
        return False
