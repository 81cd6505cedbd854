"""Open or create a collection: check that it exists, and that encoder and settings fit it.

The checks read only the description, before the store opens, so an encoder that does not fit changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from twinvec.engines import Precision
from twinvec.errors import CollectionNotFoundError, ConfigurationError, ModelError, SpaceMismatchError
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.ingest.cutting.chunking import Chunker
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.description import (
    Description,
    EncoderOptions,
    check_probes,
    check_space,
    generation,
    read_description,
)
from twinvec_qdrant.records.payload_indexes import PayloadIndexing, check_requested
from twinvec_qdrant.records.recorded_space import in_recorded_space
from twinvec_qdrant.records.schema import tenant_path
from twinvec_qdrant.settings import (
    AUTOMATIC,
    DEFAULT_CLUSTER,
    DEFAULT_INDEX,
    NEWEST_READING,
    ChunkSettings,
    ClusterSettings,
    IndexSettings,
    PayloadIndexes,
)
from twinvec_qdrant.stores.base import Backend, Store
from twinvec_qdrant.stores.points import DENSE

DEFAULT_LANGUAGE = "english"


@dataclass(frozen=True, slots=True)
class RequestedSettings:
    """Settings that a caller requests.

    None, and ``DEFAULT_LANGUAGE`` as the language, mean the default for a new collection, and the recorded setting for
    an existing one.
    """

    encoder: SpaceEncoder | None = None
    chunking: ChunkSettings | None = None
    index: IndexSettings | None = None
    tenant_key: str | None = None
    language: str = DEFAULT_LANGUAGE
    late_interaction: bool | None = None
    cluster: ClusterSettings | None = None
    payload_indexes: PayloadIndexes | None = None
    precision: Precision = "auto"


def open_in(
    store: Store, name: str, wanted: RequestedSettings, *, create: bool
) -> tuple[Backend, Description, SpaceEncoder | None, BM25Weights]:
    """Open or create the collection as ``Collection.open`` does; a returned encoder None is loaded at its first use."""
    opened: Store | Backend = store
    compared = None  # the probes that the encoder has been compared with
    try:
        metadata = store.peek()
        if metadata is None:
            if not create:
                raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
            encoder = wanted.encoder or load_space_encoder("default", precision=wanted.precision)
            wanted = replace(wanted, encoder=encoder)
            created = _new_description(wanted, encoder)
            _check_repeatable(created, encoder, store.location)
            compared = created.probes
            opened = backend = store.create(
                replace(created.new_collection(), cluster=wanted.cluster or DEFAULT_CLUSTER)
            )
            PayloadIndexing(backend, created.payload_indexes).begin()
        else:
            if wanted.encoder is not None:
                described = read_description(metadata, store.location)
                wanted = replace(wanted, encoder=in_recorded_space(described, wanted.encoder))
            _matching_description(metadata, wanted, store.location)
            opened = backend = store.open()
        description = _matching_description(backend.read_metadata(), wanted, backend.location)
        description = _decided(backend, description, wanted.chunking)
        if wanted.cluster is not None:
            _check_cluster(backend, wanted.cluster)
        if wanted.encoder is not None and description.probes != compared:
            check_probes(description, wanted.encoder, backend.location)
        weights = BM25Weights(backend, description)
        if not backend.exclusive:  # a server: the first search then needs one request less
            weights.read_vocabulary()
        return backend, description, wanted.encoder, weights
    except BaseException:
        opened.close()
        raise


def _decided(backend: Backend, description: Description, wanted: ChunkSettings | None) -> Description:
    """Record the caller's values of chunk settings that the collection has not decided; return the description."""
    chunking = description.chunking if wanted is None else description.chunking.decided(wanted)
    if chunking != description.chunking:
        backend.write_metadata({"chunking": chunking.as_dict()})
    return description.model_copy(update={"chunking": chunking})


def _check_cluster(backend: Backend, wanted: ClusterSettings) -> None:
    """Raise ``ConfigurationError`` if the server has other settings; apply the wanted read consistency."""
    now = backend.cluster()
    if now is None:
        if wanted.given():
            raise ConfigurationError(f"{backend.location}: cluster settings need a server; leave cluster out")
        return
    for name, value in wanted.given().items():
        if name != "read_consistency" and value != getattr(now, name):
            raise ConfigurationError(
                f"{backend.location}: its {name} is {getattr(now, name)}, not {value}; leave it out, or change it "
                "(twinvec reindex --cluster, Collection.reindex)"
            )
    backend.read_consistently(wanted.read_consistency)


def load_recorded(description: Description, location: str, precision: Precision = "auto") -> SpaceEncoder:
    """Load the recorded model; raise ``ModelError`` if that fails, ``SpaceMismatchError`` if the model has changed."""
    encoder = load_space_encoder(description.model, description.options, precision)
    check_space(description, encoder, location)
    check_probes(description, encoder, location)
    return encoder


def load_space_encoder(
    model: str, options: EncoderOptions | None = None, precision: Precision = "auto"
) -> SpaceEncoder:
    """Load the model of this name; the note of a ``ModelError`` says how to name another model."""
    from twinvec.encoder import Encoder

    try:
        return Encoder(model, precision=precision, **(options.given() if options else {}))
    except ModelError as error:
        error.add_note(
            "if the model is in another place, name it with --model of search or ingest, or with encoder= in Python"
        )
        raise


def _new_description(wanted: RequestedSettings, encoder: SpaceEncoder) -> Description:
    chunking = wanted.chunking or ChunkSettings()
    Chunker(encoder, chunking)
    Analyzer(wanted.language)  # refuses a language without a stemmer
    tenant_path(wanted.tenant_key)  # refuses a key that cannot name tenants
    payload_indexes = wanted.payload_indexes or AUTOMATIC
    check_requested(payload_indexes, wanted.tenant_key)
    return Description(
        **dict(generation(encoder, DENSE, late_interaction=wanted.late_interaction or False)),
        chunking=chunking,
        language=wanted.language,
        index=wanted.index or DEFAULT_INDEX,
        tenant_key=wanted.tenant_key,
        payload_indexes=payload_indexes,
        reading=NEWEST_READING,
    )


def _check_repeatable(created: Description, encoder: SpaceEncoder, location: str) -> None:
    """Raise ``ConfigurationError`` if the encoder gives the same texts, the probes, other vectors at a second call."""
    try:
        check_probes(created, encoder, location)
    except SpaceMismatchError:
        raise ConfigurationError(
            f"the encoder {encoder.name!r} gives a text another vector at each call, so that no search finds it: use "
            "embeddings that repeat their vectors; in tests, for example, LangChain's DeterministicFakeEmbedding"
        ) from None


def _matching_description(metadata: Mapping[str, Any], wanted: RequestedSettings, location: str) -> Description:
    description = read_description(metadata, location)
    check_wanted(description, wanted, location)
    return description


def check_wanted(description: Description, wanted: RequestedSettings, location: str) -> None:
    """Raise ``ConfigurationError`` or ``SpaceMismatchError`` if requested settings differ from the recorded ones."""
    if wanted.chunking is not None and not wanted.chunking.agrees(description.chunking):
        raise ConfigurationError(
            f"{location}: holds {description.chunking}, not {wanted.chunking}; leave chunking out, or ingest into "
            "a new collection"
        )
    if wanted.index not in (None, description.index):
        raise ConfigurationError(
            f"{location}: is indexed with {description.index}, not with {wanted.index}; leave the settings of the "
            "index out, or change them (twinvec reindex --quantization, Collection.reindex)"
        )
    if wanted.payload_indexes not in (None, description.payload_indexes):
        raise ConfigurationError(
            f"{location}: its payload indexes are {description.payload_indexes}, not {wanted.payload_indexes}; leave "
            "payload_indexes out, or change them (twinvec reindex --payload-index, Collection.reindex)"
        )
    if wanted.tenant_key not in (None, description.tenant_key):
        raise ConfigurationError(
            f"the collection's tenant_key is {description.tenant_key!r}, not {wanted.tenant_key!r}, and cannot change: "
            "leave tenant_key out, or ingest into a new collection"
        )
    check_same_language(description.language, wanted.language, location)
    if wanted.late_interaction not in (None, description.states_dim is not None):
        kept = "keeps no token states" if description.states_dim is None else "keeps token states"
        raise ConfigurationError(
            f"{location}: the collection {kept}, and this setting cannot change; leave late_interaction out, or ingest "
            "into a new collection"
        )
    if wanted.encoder is not None:
        check_space(description, wanted.encoder, location)


def check_same_language(recorded: str, wanted: str, location: str) -> None:
    """Raise ``ConfigurationError`` if a caller requests another language than the recorded one."""
    if wanted not in (DEFAULT_LANGUAGE, recorded):
        raise ConfigurationError(
            f"{location}: its language is {recorded!r}, not {wanted!r}, and cannot change: leave language out, or "
            "ingest into a new collection"
        )
