"""A collection's description as it is stored, and the checks that an encoder fits the collection.

The space (``twinvec.models.space``) identifies the model. The probes are texts with the vectors that the model gave
them. Probes reveal changes that the space does not show: another version of a library, another precision or export.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.arrays import FloatArray, row_cosines
from twinvec.errors import ConfigurationError, SpaceMismatchError, StoreCorruptError
from twinvec.retrieval import analysis as analyses
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import SpaceEncoder
from twinvec.retrieval.relevance import MANY, Calibration, completed, known_calibration, known_name
from twinvec.support.checks import field_fault
from twinvec_qdrant.encoders import document_vectors, states_dim
from twinvec_qdrant.framework_layout import Layout
from twinvec_qdrant.records.schema import model_id, tenant_path
from twinvec_qdrant.settings import (
    AUTOMATIC,
    DEFAULT_INDEX,
    NEWEST_READING,
    ChunkSettings,
    IndexSettings,
    PayloadIndexes,
)
from twinvec_qdrant.stores.base import Backend, NewCollection
from twinvec_qdrant.stores.points import DENSE, Point

COLLECTION_PROBES = (
    "How do I compare two files and show the differences?",
    "The committee postponed its decision until the spring of 2019, citing costs of 4.5 million.",
    "Größe, naïve café, Ελληνικά, русский, 日本語, العربية",
    "def retry(times: int) -> None: ...",
)
GenerationT = TypeVar("GenerationT", bound="Generation")
ADOPTION = "twinvec_adoption"
"""Key of a collection's metadata that holds its future description while the collection is being adopted."""

SAME_VECTOR_COSINE = 0.98
"""Smallest cosine of vectors that count as equal: exact engines reach 1, 8-bit engines more than 0.99."""


class Probe(BaseModel):
    """A text, and the vector that it had when the collection was created."""

    text: str
    vector: list[float]


class EncoderOptions(BaseModel):
    """The arguments of an ``Encoder`` that replace settings of its model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dim: int | None = None
    max_tokens: int | None = None
    prompts: dict[str, str] | None = None
    default_prompt: str | None = None

    def given(self) -> dict[str, Any]:
        """Return the arguments of ``Encoder``."""
        return self.model_dump(exclude_none=True)


class Generation(BaseModel):
    """A model, and the name of its dense vectors in the store."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    model: str
    options: EncoderOptions = EncoderOptions()
    space: str
    dim: int
    vector: str = DENSE
    states_dim: int | None = Field(default=None, gt=0)
    """Size of a token state; None if the collection keeps no token states."""
    external: Literal[True] | None = None
    """True for a model of another library (``ExternalEncoder``), which only its vectors identify; else None."""
    probes: list[Probe] = Field(min_length=1)
    calibration: Calibration | None = None
    """The calibration of the scores; None until it has been measured."""

    @model_validator(mode="after")
    def _probes_have_vectors(self) -> Self:
        lengths = [np.linalg.norm(probe.vector) for probe in self.probes if len(probe.vector) == self.dim]
        if len(lengths) < len(self.probes) or not all(0 < length < np.inf for length in lengths):
            raise ValueError(f"a probe's vector is zero, not finite, or not of {self.dim} dimensions")
        return self

    def has_vectors_of(self, other: Generation) -> bool:
        """Return whether both are the same model, with the same name of its vectors."""
        return (self.vector, self.space) == (other.vector, other.space)


class Description(Generation):
    """A collection's description as it is stored: its settings, its model, and the models before and after it."""

    twinvec: Literal[1] = 1
    """Version of the description's format."""
    distance: Literal["cosine"] = "cosine"
    chunking: ChunkSettings
    language: str
    """Snowball language of BM25's stemmer."""
    index: IndexSettings = DEFAULT_INDEX
    tenant_key: str | None = None
    """Payload key that names a document's tenant, in a collection of many tenants."""
    average_length: float = 0.0
    """Average number of terms of a chunk that the stored BM25 weights assume; 0 before the first ingest."""
    analysis: int = 1
    """Version of the analysis of words; stored with the first ``average_length``, unless it is 1."""
    reading: int | None = Field(default=None, ge=1, le=NEWEST_READING)
    """Reading version, by which text is extracted from files; None until an ingest decides it."""
    payload_indexes: PayloadIndexes = AUTOMATIC
    """The settings of payload indexes; the default is left out, because older versions do not know the field."""
    layout: Layout | None = None
    """The payload keys of the framework whose collection was adopted; None for a collection that twinvec made."""
    next: Generation | None = None
    """The model of an unfinished migration."""
    previous: Generation | None = None
    """The model before the last migration, as long as the store keeps its vectors."""

    @field_validator("chunking", "index", mode="before")
    @classmethod
    def _parse_settings(cls, value: object, info: ValidationInfo) -> object:
        settings = ChunkSettings if info.field_name == "chunking" else IndexSettings
        try:
            return settings.from_dict(value) if isinstance(value, Mapping) else value
        except TypeError as error:
            raise ValueError(str(error)) from error

    @field_validator("payload_indexes", mode="before")
    @classmethod
    def _parse_payload_indexes(cls, value: Any) -> PayloadIndexes:
        return PayloadIndexes.of(value)

    @field_serializer("chunking")
    def _chunking_as_dict(self, value: ChunkSettings) -> dict[str, Any]:
        return value.as_dict()

    @field_serializer("payload_indexes")
    def _payload_indexes_as_value(self, value: PayloadIndexes) -> Any:
        return value.as_value()

    @field_validator("language")
    @classmethod
    def _has_a_stemmer(cls, value: str) -> str:
        Analyzer(value)
        return value

    @field_validator("analysis")
    @classmethod
    def _is_a_known_analysis(cls, value: int) -> int:
        Analyzer(version=value)
        return value

    @property
    def analyzer(self) -> Analyzer:
        """The analysis of words in the collection's texts and queries; before the first ingest, the newest version."""
        return Analyzer(self.language, self.analysis if self.average_length else analyses.NEWEST_ANALYSIS)

    @property
    def scale(self) -> Calibration | None:
        """Scale for fusing scores; None for a collection of an older version of twinvec until it is calibrated.

        If the collection is not calibrated, its scale depends on the name of the model and the length of the chunks. If
        the scale also depended on the space, the order of hits in existing collections would change.
        """
        return completed(self._measured, known_calibration(self._unchanged_model_name, MANY, self.average_length))

    def judged_by(self, chunks: int) -> Calibration | None:
        """Return the calibration of relevance: the collection's own, or else its model's for this number of chunks."""
        return completed(self._measured, self.known(chunks))

    def known(self, chunks: int = MANY) -> Calibration:
        """Return the calibration that twinvec knows for the model, by its name or space, and this number of chunks."""
        name = known_name(self._unchanged_model_name, self.space)
        return known_calibration(name, chunks, self.average_length)

    @property
    def _measured(self) -> Calibration | None:
        return self.calibration or (Calibration() if self.analysis > 1 or not self.average_length else None)

    @property
    def _unchanged_model_name(self) -> str:
        return "" if self.options.given() else self.model

    def new_collection(self) -> NewCollection:
        """Return the store's settings of a new collection; raise ``ConfigurationError`` on an invalid tenant key."""
        optional = ("payload_indexes", "external", "analysis", "reading", "calibration", "layout")
        default = {name for name in optional if getattr(self, name) == Description.model_fields[name].default}
        stored = self.model_dump(exclude=default)
        return NewCollection(self.dim, stored, self.index, tenant_path(self.tenant_key), self.states_dim)

    def switched(self, following: Generation) -> Description:
        """Return the description after the end of a migration to the model ``following``."""
        previous = Generation.model_validate(self.model_dump())
        return self.model_copy(update={**dict(following), "next": None, "previous": previous})

    def changes(self, before: Description) -> dict[str, Any]:
        """Return the fields whose values differ from those in ``before``; only these are written."""
        old = before.model_dump()
        return {key: value for key, value in self.model_dump().items() if value != old[key]}


def generation(encoder: SpaceEncoder, vector: str, *, late_interaction: bool) -> Generation:
    """Return the encoder's model with its probes; ``vector`` names the model's vectors in the store.

    Raise ``BadVectorError`` if the encoder gives invalid vectors, and ``ConfigurationError`` if ``late_interaction`` is
    set and the encoder has no token states.
    """
    vectors_PD = _probe_vectors(encoder, COLLECTION_PROBES)
    probes = [Probe(text=text, vector=each.tolist()) for text, each in zip(COLLECTION_PROBES, vectors_PD, strict=True)]
    return Generation(
        model=encoder.name,
        options=_options(encoder),
        space=encoder.space,
        dim=encoder.dim,
        vector=vector,
        states_dim=states_dim(encoder) if late_interaction else None,
        external=True if isinstance(encoder, ExternalEncoder) else None,
        probes=probes,
    )


def under_the_name_of(encoder: SpaceEncoder, model: GenerationT) -> GenerationT:
    """Return ``model`` with the name and the options of an encoder that has the same space."""
    return model.model_copy(update={"model": encoder.name, "options": _options(encoder)})


def _options(encoder: SpaceEncoder) -> EncoderOptions:
    from twinvec.encoder import Encoder

    return EncoderOptions(**encoder.overrides) if isinstance(encoder, Encoder) else EncoderOptions()


def read_description(metadata: Mapping[str, Any], location: str) -> Description:
    """Parse a stored description.

    Raise ``ConfigurationError`` if twinvec did not create the collection, and ``StoreCorruptError`` if the description
    is damaged or of a later version of twinvec.
    """
    check_ours(metadata, location)
    try:
        return Description.model_validate(metadata)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {field_fault(each)}" for each in error.errors())
        raise StoreCorruptError(f"{location}: the collection's description is not valid: {wrong}") from error


def stored_description(backend: Backend) -> Description:
    """Return the description of an open collection; errors are those of ``read_description``."""
    return read_description(backend.read_metadata(), backend.location)


def check_ours(metadata: Mapping[str, Any], location: str) -> None:
    """Raise ``ConfigurationError`` unless twinvec has made or adopted the collection with these metadata."""
    if metadata.get(ADOPTION):
        raise ConfigurationError(
            f"{location}: the adoption of this collection is not finished; finish it (twinvec adopt, adopt_collection)"
        )
    if "twinvec" not in metadata:
        raise ConfigurationError(
            f"{location}: not a collection of twinvec; adopt it if LangChain's or LlamaIndex's QdrantVectorStore has "
            "filled it (twinvec adopt, adopt_collection), or choose another name"
        )


def check_space(description: Description, encoder: SpaceEncoder, location: str) -> None:
    """Raise ``SpaceMismatchError`` if the spaces of the encoder and of the collection's model differ."""
    if encoder.space != description.space:
        raise SpaceMismatchError(
            f"{location}: made with the model {description.model!r} ({description.dim} dimensions, space "
            f"{description.space:.12}), but the encoder is {encoder.name!r} ({encoder.dim} dimensions, space "
            f"{encoder.space:.12}). Their vectors cannot be compared: open the collection with its own model, or "
            "migrate it to the other model (twinvec migrate, Collection.migrate)"
        )


def check_probes(description: Generation, encoder: SpaceEncoder, location: str) -> None:
    """Raise ``SpaceMismatchError`` if the encoder's vectors of the probes differ from the stored vectors."""
    texts = [probe.text for probe in description.probes]
    now_PD = _probe_vectors(encoder, texts)
    then_PD = np.array([probe.vector for probe in description.probes], dtype=np.float32)
    if now_PD.shape != then_PD.shape:
        raise SpaceMismatchError(
            f"{location}: its vectors have {then_PD.shape[1]} dimensions, but {encoder.name!r} gives vectors of "
            f"{now_PD.shape[1]} dimensions; open the collection with its own model"
        )
    cosines = row_cosines(now_PD, then_PD)
    worst = int(np.argmin(cosines))
    if cosines[worst] < SAME_VECTOR_COSINE:
        raise SpaceMismatchError(
            f"{location}: the encoder {encoder.name!r} has the collection's model, but its vectors have changed since "
            f"the collection was created: cosine {cosines[worst]:.4f} for {texts[worst]!r}, expected at least "
            f"{SAME_VECTOR_COSINE}. A library, a precision or an export has changed: use the one of that time, or "
            "ingest into a new collection"
        )


def _probe_vectors(encoder: SpaceEncoder, texts: Sequence[str]) -> FloatArray:
    from twinvec.tokens.truncation import unreported_truncations

    with unreported_truncations():  # the probes are not the user's texts
        return document_vectors(encoder, texts)


def name_model(backend: Backend, model: Generation) -> None:
    """Write the point that names the collection's present model; searches read it (``served_model``)."""
    named = {"vector": model.vector, "space": model.space}
    backend.upsert([Point(model_id(), {"kind": "model", **named})])


def name_first_model(backend: Backend, description: Description) -> None:
    """Before the first documents of a collection on a server, write the point that names its model.

    An embedded store needs no such point, because it notices that its folder was replaced. Collections with version 1
    of the analysis of words are of older versions of twinvec, and get no such point.
    """
    if not backend.exclusive and description.analyzer.version > 1:
        name_model(backend, description)


def check_current_model(backend: Backend, vector: str, space: str) -> None:
    """Raise ``SpaceMismatchError`` if the collection now has a model of another ``space`` or ``vector`` name."""
    now = stored_description(backend)
    if (now.vector, now.space) != (vector, space):
        raise SpaceMismatchError(
            f"{backend.location}: its model has changed during the ingest to {now.model!r} ({now.dim} dimensions, "
            f"space {now.space:.12}); ingest again: the next ingest uses that model"
        )
