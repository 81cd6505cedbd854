"""``adopt_collection``: find the collection, check it and the model, and adopt it in place or copy its documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from twinvec.errors import BadVectorError, ConfigurationError, InputError
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import SpaceEncoder
from twinvec.retrieval.documents import Document
from twinvec.support.checks import check_flags, check_methods, string
from twinvec.support.progress import progress_bar
from twinvec_qdrant.adopting.in_place import ADDING, FOREIGN, Adoption
from twinvec_qdrant.adopting.reading import ELSEWHERE, document_of, is_ours, layout_of
from twinvec_qdrant.adopting.source import ForeignCollection, chosen_vector, opened
from twinvec_qdrant.calibration.measuring import try_to_calibrate
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.encoders import check_encoder, checked_vector
from twinvec_qdrant.framework_layout import Layout, LayoutName
from twinvec_qdrant.ingest.cutting.code import checked_chunking
from twinvec_qdrant.opening import (
    DEFAULT_LANGUAGE,
    RequestedSettings,
    check_same_language,
    check_wanted,
    load_recorded,
    load_space_encoder,
)
from twinvec_qdrant.opening_store import GRPC_PORT, QdrantClient, StorePlace
from twinvec_qdrant.records.description import (
    ADOPTION,
    Description,
    check_probes,
    check_space,
    generation,
    read_description,
)
from twinvec_qdrant.records.payload_indexes import check_requested
from twinvec_qdrant.records.recorded_space import in_recorded_space
from twinvec_qdrant.report import AdoptReport, IngestReport
from twinvec_qdrant.settings import AUTOMATIC, ChunkSettings, PayloadIndexes
from twinvec_qdrant.stores.points import SPARSE, Point, pages

_PAGE = 1000  # points that are copied at once


def adopt_collection(
    name: str,
    *,
    layout: LayoutName,
    encoder: SpaceEncoder | str | None = None,
    url: str | None = None,
    client: QdrantClient | None = None,
    local_path: str | Path | None = None,
    api_key: str | None = None,
    into: Collection | None = None,
    text_key: str | None = None,
    metadata_key: str | None = None,
    vector_name: str | None = None,
    chunking: ChunkSettings | Literal[False] = False,
    language: str = DEFAULT_LANGUAGE,
    payload_indexes: Mapping[str, str | Literal[False]] | Literal[False] | None = None,
    dry_run: bool = False,
    progress: bool = False,
    wait_seconds: float = 10.0,
    grpc: bool = False,
    grpc_port: int = GRPC_PORT,
) -> AdoptReport:
    """Turn a collection of LangChain's or LlamaIndex's ``QdrantVectorStore`` into twinvec's; encode no document.

    The model encodes the texts of a sample, and must give the stored vectors. Every point becomes a document with the
    point's id. The point keeps its id, vectors and payload, and gets fields of twinvec, a sparse vector and a record;
    the framework's class can go on reading and writing the collection. After a kill, the next call continues. A later
    call adopts points that the framework's application has written since, and removes documents that it has deleted.

    With ``into``, the documents are copied with their vectors into the collection ``into``, and nothing else changes.

    Args:
        name: Name of the collection.
        layout: The framework whose class made the collection: "langchain" or "llama_index".
        encoder: The model that gave the stored vectors: an encoder, or its name. Default: the model of ``into``, or
            the recorded model of a collection that was adopted before.
        url: Address of the Qdrant server.
        client: A ``QdrantClient`` of the caller, which stays open.
        local_path: Folder of a ``QdrantClient(path=...)``, instead of a server.
        api_key: The argument of ``Collection.open``; so are ``wait_seconds``, ``grpc`` and ``grpc_port``.
        into: Collection that gets the documents; it has the same model, and no chunking.
        text_key: Payload key of the texts; default: "page_content" for LangChain, "text" for LlamaIndex' old nodes.
        metadata_key: LangChain's payload key of the metadata; default: "metadata".
        vector_name: Name of the dense vectors; default: the name that the framework's class uses.
        chunking: How later ingests cut documents; adopted documents stay as they are. Default: no chunking, as
            the vector stores of the frameworks' adapters require.
        language: Snowball language of BM25's stemmer. With "english", a collection that was adopted before keeps its
            own language, and so does ``into``.
        payload_indexes: The argument of ``Collection.open``.
        dry_run: Check and count; write nothing.
        progress: Show progress: a bar on a terminal, a line a minute elsewhere.

    Raises:
        CollectionNotFoundError: the collection does not exist.
        SpaceMismatchError: the model does not give the stored vectors; nothing was written.
        ConfigurationError: the layout is wrong, the collection cannot be adopted in place, a setting differs from
            the earlier adoption, or arguments contradict one another; nothing was written.
        StoreError: the store failed; the next call continues.
    """
    if sum(each is not None for each in (url, client, local_path)) != 1:
        raise ConfigurationError("give exactly one of url, client and local_path, to say where the collection is")
    for key, argument in ((text_key, "text_key"), (metadata_key, "metadata_key"), (vector_name, "vector_name")):
        if key is not None:
            string(key, argument)
    check_flags(dry_run=dry_run, progress=progress)
    cutting = None if chunking is False else checked_chunking(chunking)
    wanted = layout_of(layout, text_key, metadata_key)
    if isinstance(encoder, str):
        encoder = load_space_encoder(encoder)
    elif encoder is not None:
        check_encoder(encoder, "an encoder, such as Encoder(...), or a model's name")
    if into is not None:
        check_methods(into, ("ingest", "info"), "into", "a collection, as Collection.open returns it")
    place = StorePlace(None, url, client, api_key, wait_seconds, grpc, grpc_port)
    with opened(name, place, local_path) as backend:
        shape = backend.shape()
        source = ForeignCollection(backend, shape, wanted, chosen_vector(shape, wanted, vector_name, backend.location))
        report = AdoptReport(layout)
        if into is None:
            indexes = None if payload_indexes is None else PayloadIndexes.of(payload_indexes)
            requested = RequestedSettings(encoder, cutting, language=language, payload_indexes=indexes)
            _adopt_in_place(source, requested, report, dry_run=dry_run, progress=progress)
        else:
            if encoder is not None and encoder.space != into.encoder.space:
                raise ConfigurationError(f"{into!r} has another model than {encoder.name!r}: leave encoder out")
            if cutting is not None or payload_indexes is not None:
                raise ConfigurationError(f"{into!r} keeps its chunking and payload indexes: leave them out")
            check_same_language(into.info()["language"], language, repr(into))
            source.check_vectors(into.encoder, report, in_place=False)
            _copy_into(into, source, report, dry_run=dry_run, progress=progress)
        return report


def _adopt_in_place(
    source: ForeignCollection, wanted: RequestedSettings, report: AdoptReport, *, dry_run: bool, progress: bool
) -> None:
    """Check and adopt the collection; continue an interrupted adoption, or adopt points newer than an earlier one."""
    backend, metadata = source.backend, source.shape.metadata
    finished, begun = "twinvec" in metadata and not metadata.get(ADOPTION), bool(metadata.get(ADOPTION))
    if finished or begun:
        description = _recorded(source, metadata)
        check_wanted(description, replace(wanted, encoder=None), backend.location)
        encoder = _of_recorded(description, wanted.encoder, backend.location)
        source.layout, source.vector = description.layout or source.layout, description.vector
        source.check_vectors(encoder, report, [FOREIGN] if finished else [], known=True)
    elif wanted.encoder is None:
        raise ConfigurationError("name the model that gave the stored vectors: encoder=, --model")
    else:
        encoder = wanted.encoder
        _check_shape(source)
        source.check_vectors(encoder, report)
        description = _new_description(source, wanted, encoder)
        _check_metadata(metadata, description, backend.location)
    begun = begun or bool(metadata.get(ADDING))
    adoption = Adoption(backend, description, report, finished=finished, begun=begun)
    if dry_run:
        adoption.count(progress=progress)
        return
    adoption.run(progress=progress)
    try_to_calibrate(backend, lambda: encoder, only_if_due=True)


def _check_shape(source: ForeignCollection) -> None:
    shape, location = source.shape, source.backend.location
    distance = shape.dense[source.vector].distance
    if distance != "Cosine":
        raise ConfigurationError(
            f"{location}: the collection compares vectors by {distance}, but twinvec by Cosine; {ELSEWHERE}"
        )
    if shape.by_shard_key:
        raise ConfigurationError(f"{location}: its writers choose the shards by shard keys; {ELSEWHERE}")
    if SPARSE in (*shape.sparse, *shape.dense):
        raise ConfigurationError(f"{location}: has vectors named {SPARSE!r}, a name that twinvec needs; {ELSEWHERE}")


def _new_description(source: ForeignCollection, wanted: RequestedSettings, encoder: SpaceEncoder) -> Description:
    Analyzer(wanted.language)  # raises an error for a language without a stemmer
    payload_indexes = wanted.payload_indexes or AUTOMATIC
    check_requested(payload_indexes, None)
    return Description(
        **dict(generation(encoder, source.vector, late_interaction=False)),
        chunking=wanted.chunking or ChunkSettings(enabled=False),
        language=wanted.language,
        index=source.shape.index(source.vector),
        payload_indexes=payload_indexes,
        layout=source.layout,
    )


def _check_metadata(metadata: Mapping[str, Any], description: Description, location: str) -> None:
    """Raise ``ConfigurationError`` if the collection's metadata already have keys that a description needs."""
    taken = sorted(metadata.keys() & description.new_collection().metadata.keys())
    if taken and not metadata.keys() <= {"average_length", "analysis"}:
        raise ConfigurationError(
            f"{location}: its metadata have {', '.join(map(repr, taken))}, which twinvec needs for its own metadata; "
            f"{ELSEWHERE}"
        )


def _recorded(source: ForeignCollection, metadata: Mapping[str, Any]) -> Description:
    location = source.backend.location
    future = metadata.get(ADOPTION)
    if future:
        kept = {key: metadata[key] for key in ("average_length", "analysis") if key in metadata}
        description = read_description({**future, **kept}, location)
    else:
        description = read_description(metadata, location)
    if description.layout is None:
        raise ConfigurationError(f"{location}: is already a collection of twinvec, and needs no adoption")
    if description.layout.name != source.layout.name:
        raise ConfigurationError(f"{location}: its layout is {description.layout.name!r}, not {source.layout.name!r}")
    return description


def _of_recorded(description: Description, encoder: SpaceEncoder | None, location: str) -> SpaceEncoder:
    """Return the encoder of the recorded model: the caller's encoder, or else the model loaded by its name."""
    if encoder is None:
        return load_recorded(description, location)
    encoder = in_recorded_space(description, encoder)
    check_space(description, encoder, location)
    check_probes(description, encoder, location)
    return encoder


def _copy_into(
    target: Collection, source: ForeignCollection, report: AdoptReport, *, dry_run: bool, progress: bool
) -> None:
    """Ingest the documents of all points into ``target``, with their vectors; the source stays as it is.

    This is for a collection that cannot be adopted in place: on an older server, in the folder of qdrant-client's local
    mode, with another distance, or with payload keys that twinvec needs. Ids stay the same. The copy is an ingest of
    documents with vectors, so the next call continues it and copies new documents.
    """
    backend, layout = source.backend, source.layout
    with progress_bar("Copying", backend.count([]), "points", shown=progress) as advance:
        for page in pages(backend.scroll([], []), _PAGE):
            read = backend.retrieve([point.id for point in page], None, source.vector)
            _copy(target, layout, [read[point.id] for point in page if point.id in read], report, dry_run=dry_run)
            advance(len(page))


def _copy(target: Collection, layout: Layout, points: list[Point], report: AdoptReport, *, dry_run: bool) -> None:
    documents: list[Document] = []
    vectors = {}
    for point in points:
        if is_ours(point.payload) and point.dense is None:
            continue  # a record that an abandoned adoption left
        try:
            document = document_of(layout, point.id, point.payload)
            if point.dense is None:
                raise InputError("it has no vector of the model")
            vectors[document.id] = checked_vector(point.dense, len(point.dense)).tolist()
        except (InputError, BadVectorError) as error:
            report.skip(point.id, str(error))
        else:
            documents.append(document)
    ingested = IngestReport()
    target.ingest(documents, vectors=vectors, dry_run=dry_run, allow_all_failed=True, report=ingested)
    report.adopted += ingested.new + ingested.updated
    report.unchanged += ingested.unchanged
    for source, reason in [*ingested.failures, *ingested.empties]:
        report.skip(source, reason)
