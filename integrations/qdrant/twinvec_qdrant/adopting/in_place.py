"""Adoption in place: which description the collection gets or has, and whether it can be adopted where it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twinvec.errors import ConfigurationError
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.adopting.adoption import ADDING, FOREIGN, Adoption
from twinvec_qdrant.adopting.reading import ELSEWHERE
from twinvec_qdrant.adopting.source import ForeignCollection
from twinvec_qdrant.calibration.measuring import try_to_calibrate
from twinvec_qdrant.opening import load_recorded
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
from twinvec_qdrant.report import AdoptReport
from twinvec_qdrant.settings import AUTOMATIC, ChunkSettings, PayloadIndexes
from twinvec_qdrant.stores.points import SPARSE


@dataclass(frozen=True, slots=True)
class FutureSettings:
    """What the collection's description says besides model and layout."""

    chunking: ChunkSettings
    language: str
    payload_indexes: Mapping[str, str | Literal[False]] | Literal[False] | None


def adopt_in_place(
    source: ForeignCollection,
    encoder: SpaceEncoder | None,
    settings: FutureSettings,
    report: AdoptReport,
    *,
    dry_run: bool,
    progress: bool,
) -> None:
    """Check the collection and adopt it, go on with an adoption, or adopt what is new."""
    backend, metadata = source.backend, source.shape.metadata
    finished, begun = "twinvec" in metadata and not metadata.get(ADOPTION), bool(metadata.get(ADOPTION))
    if finished or begun:
        description = _recorded(source, metadata)
        encoder = _of_recorded(description, encoder, backend.location)
        source.layout, source.vector = description.layout or source.layout, description.vector
        source.check_vectors(encoder, report, [FOREIGN] if finished else [], known=True)
    else:
        if encoder is None:
            raise ConfigurationError("name the model that gave the stored vectors: encoder=, --model")
        _check_shape(source)
        source.check_vectors(encoder, report)
        description = _described(source, encoder, settings)
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
        raise ConfigurationError(f"{location}: compares vectors by {distance}, and twinvec by Cosine; {ELSEWHERE}")
    if shape.by_shard_key:
        raise ConfigurationError(f"{location}: its writers choose the shards (shard keys); {ELSEWHERE}")
    if SPARSE in (*shape.sparse, *shape.dense):
        raise ConfigurationError(f"{location}: has vectors named {SPARSE!r}, as twinvec calls its own; {ELSEWHERE}")


def _described(source: ForeignCollection, encoder: SpaceEncoder, settings: FutureSettings) -> Description:
    Analyzer(settings.language)  # refuses a language without a stemmer
    indexes = AUTOMATIC if settings.payload_indexes is None else PayloadIndexes.of(settings.payload_indexes)
    check_requested(indexes, None)
    return Description(
        **dict(generation(encoder, source.vector, late_interaction=False)),
        chunking=settings.chunking,
        language=settings.language,
        index=source.shape.index(source.vector),
        payload_indexes=indexes,
        layout=source.layout,
    )


def _check_metadata(metadata: Mapping[str, Any], description: Description, location: str) -> None:
    """Raise ``ConfigurationError`` if the collection's metadata have keys of a description."""
    taken = sorted(metadata.keys() & description.new_collection().metadata.keys())
    if taken and not metadata.keys() <= {"average_length", "analysis"}:
        raise ConfigurationError(
            f"{location}: its metadata have {', '.join(map(repr, taken))}, where twinvec keeps its own; {ELSEWHERE}"
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
        raise ConfigurationError(f"{location}: is a collection of twinvec, and needs no adoption")
    if description.layout.name != source.layout.name:
        raise ConfigurationError(f"{location}: its layout is {description.layout.name!r}, not {source.layout.name!r}")
    return description


def _of_recorded(description: Description, encoder: SpaceEncoder | None, location: str) -> SpaceEncoder:
    """Return the encoder of the recorded model: the caller's, or else the model by its name."""
    if encoder is None:
        return load_recorded(description, location)
    encoder = in_recorded_space(description, encoder)
    check_space(description, encoder, location)
    check_probes(description, encoder, location)
    return encoder
