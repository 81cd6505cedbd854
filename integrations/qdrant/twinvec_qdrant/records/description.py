"""What a collection says of itself, and the check that an encoder belongs to it.

The space (``twinvec.models.space``) tells models apart. The probes, a few texts with the vectors that the collection's
model gave them, catch what no digest sees: another library, precision or export that moves the vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from twinvec.arrays import FloatArray, unit, without_direction
from twinvec.errors import BadVectorError, ConfigurationError, SpaceMismatchError, StoreCorruptError
from twinvec.retrieval.base import SpaceEncoder
from twinvec.retrieval.bm25 import Analyzer
from twinvec_qdrant.encoders import states_dim
from twinvec_qdrant.settings import ChunkSettings, IndexSettings
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import DENSE

COLLECTION_PROBES = (
    "How do I compare two files and show the differences?",
    "The committee postponed its decision until the spring of 2019, citing costs of 4.5 million.",
    "Größe, naïve café, Ελληνικά, русский, 日本語, العربية",
    "def retry(times: int) -> None: ...",
)
SAME_VECTOR = 0.98
"""Least cosine between a probe's vectors then and now: exact engines give 1, 8-bit ones above 0.99."""


class Probe(BaseModel):
    """A text and the vector that it had when the collection was made."""

    text: str
    vector: list[float]


class EncoderOptions(BaseModel):
    """What an ``Encoder`` was given in place of its model's own settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dim: int | None = None
    max_tokens: int | None = None
    prompts: dict[str, str] | None = None
    default_prompt: str | None = None

    def given(self) -> dict[str, Any]:
        """As arguments of ``Encoder``."""
        return self.model_dump(exclude_none=True)


class Generation(BaseModel):
    """A model, and the name of the dense vectors that it made."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    model: str
    """Name of the model."""
    options: EncoderOptions = EncoderOptions()
    """What makes it the same encoder again, beside the name."""
    space: str
    dim: int
    vector: str = DENSE
    states_dim: int | None = Field(default=None, gt=0)
    """Size of a token's state, where token states are kept beside the dense vectors."""
    probes: list[Probe] = Field(min_length=1)

    @model_validator(mode="after")
    def _probes_have_vectors(self) -> Self:
        if any(len(probe.vector) != self.dim or not any(probe.vector) for probe in self.probes):
            raise ValueError(f"a probe's vector is zero or not of {self.dim} dimensions")
        return self


class Description(Generation):
    """A collection's description, as it is stored: the model in force, and those before and after it."""

    twinvec: Literal[1] = 1
    """Version of the layout."""
    distance: Literal["cosine"] = "cosine"
    chunking: dict[str, Any]
    """Fields of ``ChunkSettings``."""
    language: str
    """Of BM25's stemmer."""
    index: dict[str, Any] = Field(default_factory=lambda: IndexSettings().as_dict())
    """Fields of ``IndexSettings``."""
    tenant_key: str | None = None
    """The key of payloads that says whose a document is, in a collection of many tenants."""
    average_length: float = 0.0
    """Terms of a chunk that the stored BM25 weights take as average; 0 before the first ingest."""
    next: Generation | None = None
    """The model of a migration that is under way."""
    previous: Generation | None = None
    """The model before the last migration, while its vectors are kept."""

    @field_validator("chunking")
    @classmethod
    def _is_chunking(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            ChunkSettings.from_dict(value)
        except TypeError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("index")
    @classmethod
    def _is_index(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            IndexSettings.from_dict(value)
        except TypeError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("language")
    @classmethod
    def _is_language(cls, value: str) -> str:
        Analyzer(value)
        return value

    def switched(self, following: Generation) -> Description:
        """With another model in force."""
        previous = Generation.model_validate(self.model_dump())
        return self.model_copy(update={**dict(following), "next": None, "previous": previous})

    def changes(self, before: Description) -> dict[str, Any]:
        """The fields, as they are stored, that differ from those of ``before``: all that a change of it may write."""
        old = before.model_dump()
        return {key: value for key, value in self.model_dump().items() if value != old[key]}


def describe(
    encoder: SpaceEncoder,
    chunking: ChunkSettings,
    language: str,
    index: IndexSettings,
    tenant_key: str | None,
    *,
    late_interaction: bool,
) -> Description:
    """The description of a new collection; with ``late_interaction`` it keeps token states.

    Raises:
        BadVectorError: the encoder gives no usable vectors.
        ConfigurationError: it has no token states to keep.
    """
    return Description(
        **dict(generation(encoder, DENSE, late_interaction=late_interaction)),
        chunking=chunking.as_dict(),
        language=language,
        index=index.as_dict(),
        tenant_key=tenant_key,
    )


def generation(encoder: SpaceEncoder, vector: str, *, late_interaction: bool) -> Generation:
    """An encoder's model, with its probes, and the name for its vectors.

    Raises:
        BadVectorError: the encoder gives no usable vectors.
        ConfigurationError: with ``late_interaction``, it has no token states.
    """
    vectors_PD = _probe_vectors(encoder, COLLECTION_PROBES)
    probes = [Probe(text=text, vector=each.tolist()) for text, each in zip(COLLECTION_PROBES, vectors_PD, strict=True)]
    from twinvec.encoder import Encoder

    options = EncoderOptions(**encoder.overrides) if isinstance(encoder, Encoder) else EncoderOptions()
    return Generation(
        model=encoder.name,
        options=options,
        space=encoder.space,
        dim=encoder.dim,
        vector=vector,
        states_dim=states_dim(encoder) if late_interaction else None,
        probes=probes,
    )


def read_description(metadata: Mapping[str, Any], location: str) -> Description:
    """The description that a store gave.

    Raises:
        ConfigurationError: the collection was not made by twinvec.
        StoreCorruptError: it was, and its description is damaged or of a later version.
    """
    check_ours(metadata, location)
    try:
        return Description.model_validate(metadata)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise StoreCorruptError(f"{location}: the collection's description is not valid: {wrong}") from error


def check_ours(metadata: Mapping[str, Any], location: str) -> None:
    """Leave collections alone that twinvec did not make.

    Raises:
        ConfigurationError: it did not make this one.
    """
    if "twinvec" not in metadata:
        raise ConfigurationError(f"{location}: not a collection of twinvec's; choose another name")


def check_space(description: Description, encoder: SpaceEncoder, location: str) -> None:
    """Check that the encoder is of the collection's model, by its space.

    Raises:
        SpaceMismatchError: it is not.
    """
    if encoder.space != description.space:
        raise SpaceMismatchError(
            f"{location}: made with the model {description.model!r} ({description.dim} dimensions, space "
            f"{description.space}), but the encoder is {encoder.name!r} ({encoder.dim} dimensions, space "
            f"{encoder.space}). Their vectors cannot be compared: open the collection with its own model, or "
            "bring it over to the other one (twinvec migrate, Collection.migrate)"
        )


def check_probes(description: Generation, encoder: SpaceEncoder, location: str) -> None:
    """Check that the encoder still gives the vectors that the collection was made with.

    Raises:
        SpaceMismatchError: it does not.
        BadVectorError: it gives no usable vectors.
    """
    texts = [probe.text for probe in description.probes]
    now_PD = _probe_vectors(encoder, texts)
    then_PD = np.array([probe.vector for probe in description.probes], dtype=np.float32)
    if now_PD.shape != then_PD.shape:
        raise SpaceMismatchError(
            f"{location}: vectors of {then_PD.shape[1]} dimensions; {encoder.name!r} gives {now_PD.shape[1]}"
        )
    cosines = np.sum(unit(now_PD) * unit(then_PD), axis=1)
    worst = int(np.argmin(cosines))
    if cosines[worst] < SAME_VECTOR:
        raise SpaceMismatchError(
            f"{location}: the encoder {encoder.name!r} is of the right model, but its vectors are not those that the "
            f"collection was made with: cosine {cosines[worst]:.4f} for the probe {texts[worst]!r}, expected at least "
            f"{SAME_VECTOR}. A library, a precision or an export differs: use the settings of the time, or ingest into "
            "a new collection"
        )


def check_in_force(backend: Backend, vector: str) -> None:
    """Refuse to write for a model that is no longer in force; ``vector`` names its vectors.

    Raises:
        SpaceMismatchError: the collection has been migrated.
    """
    now = read_description(backend.read_metadata(), backend.location)
    if now.vector != vector:
        raise SpaceMismatchError(
            f"{backend.location}: has been migrated to the model {now.model!r} ({now.dim} dimensions, space "
            f"{now.space}) since it was opened; open it again with that one"
        )


def _probe_vectors(encoder: SpaceEncoder, texts: Sequence[str]) -> FloatArray:
    vectors_PD = np.asarray(encoder.encode_document(list(texts)), dtype=np.float32)
    if vectors_PD.ndim != 2 or len(vectors_PD) != len(texts):
        raise BadVectorError(f"encoder {encoder.name!r}: shape {vectors_PD.shape} for {len(texts)} texts")
    if without_direction(vectors_PD).size:
        raise BadVectorError(f"encoder {encoder.name!r}: the vector of a probe text is zero or not finite")
    return vectors_PD
