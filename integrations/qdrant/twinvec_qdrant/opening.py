"""Opening and making a collection: which store, whether there is one, and whether encoder and settings belong to it.

Everything is checked on the description alone, before the store is opened; an encoder that does not belong leaves no
trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from twinvec.errors import CollectionNotFoundError, ConfigurationError, ModelError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.ingest.chunking import Chunker
from twinvec_qdrant.records.bm25_weights import Lexicon
from twinvec_qdrant.records.description import (
    Description,
    EncoderOptions,
    check_probes,
    check_space,
    describe,
    read_description,
)
from twinvec_qdrant.records.schema import tenant_path
from twinvec_qdrant.settings import ChunkSettings, IndexSettings
from twinvec_qdrant.stores.base import Backend, NewCollection, Store


class Opened(NamedTuple):
    """An open store that holds a collection of the encoder's."""

    backend: Backend
    description: Description
    encoder: SpaceEncoder | None


@dataclass(frozen=True, slots=True)
class RequestedSettings:
    """What a caller asks of a collection; None for as it is, or as usual for a new one."""

    encoder: SpaceEncoder | None
    chunking: ChunkSettings | None
    index: IndexSettings | None
    tenant_key: str | None
    language: str
    late_interaction: bool | None


def open_in(store: Store, name: str, wanted: RequestedSettings, *, create: bool) -> Opened:
    """The collection in a store, made where there is none; see ``Collection.open`` for arguments and errors."""
    opened: Store | Backend = store
    try:
        metadata = store.peek()
        if metadata is None:
            if not create:
                raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
            wanted = replace(wanted, encoder=wanted.encoder or load_encoder("default"))
            opened = backend = store.create(_new(wanted))
        else:
            _checked(metadata, wanted, store.location)
            opened = backend = store.open()
        description = _checked(backend.read_metadata(), wanted, backend.location)
        if wanted.encoder is not None:
            check_probes(description, wanted.encoder, backend.location)
        return Opened(backend, description, wanted.encoder)
    except BaseException:
        opened.close()
        raise


def load_recorded(description: Description, location: str) -> SpaceEncoder:
    """The model that a collection was made with, checked against it.

    Raises:
        ModelError: it cannot be loaded.
        SpaceMismatchError: it is not what it was.
    """
    encoder = load_encoder(description.model, description.options)
    check_space(description, encoder, location)
    check_probes(description, encoder, location)
    return encoder


def load_encoder(model: str, options: EncoderOptions | None = None) -> SpaceEncoder:
    """The model of this name."""
    from twinvec.encoder import Encoder

    try:
        return Encoder(model, **(options.given() if options else {}))
    except ModelError as error:
        error.add_note(
            "a model that lies elsewhere is named by --model; in Python, give an encoder of your own as encoder="
        )
        raise


def _new(wanted: RequestedSettings) -> NewCollection:
    """What a new collection is made of; what cannot work is refused before anything is made."""
    assert wanted.encoder is not None
    chunking, index = wanted.chunking or ChunkSettings(), wanted.index or IndexSettings()
    Chunker(wanted.encoder, chunking)
    Lexicon.check_language(wanted.language)
    path = tenant_path(wanted.tenant_key)
    description = describe(
        wanted.encoder,
        chunking,
        wanted.language,
        index,
        wanted.tenant_key,
        late_interaction=wanted.late_interaction or False,
    )
    return NewCollection(wanted.encoder.dim, description.model_dump(), index, path, description.states_dim)


def _checked(metadata: Mapping[str, Any], wanted: RequestedSettings, location: str) -> Description:
    """The description of a collection that goes with what is asked for."""
    description = read_description(metadata, location)
    chunking, index = ChunkSettings.from_dict(description.chunking), IndexSettings.from_dict(description.index)
    if wanted.chunking not in (None, chunking):
        raise ConfigurationError(
            f"{location}: holds {chunking}, not {wanted.chunking}; leave the settings of chunking out, or ingest into "
            "a new collection"
        )
    if wanted.index not in (None, index):
        raise ConfigurationError(
            f"{location}: is indexed with {index}, not with {wanted.index}; leave the settings of the index out, or "
            "change them (twinvec migrate --quantization, Collection.reindex)"
        )
    if wanted.tenant_key not in (None, description.tenant_key):
        divided = f"by {description.tenant_key!r}" if description.tenant_key else "between no tenants"
        raise ConfigurationError(f"{location}: is divided {divided}, not by {wanted.tenant_key!r}")
    if wanted.late_interaction not in (None, description.states_dim is not None):
        kept = "keeps no token states" if description.states_dim is None else "keeps token states"
        raise ConfigurationError(
            f"{location}: {kept}, which is settled when a collection is made: leave late_interaction out, or ingest "
            "into a new collection"
        )
    if wanted.encoder is not None:
        check_space(description, wanted.encoder, location)
    return description
