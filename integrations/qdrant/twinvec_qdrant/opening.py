"""Opening and making a collection: which store, whether there is one, and whether encoder and settings belong to it.

Everything is checked on the description alone, before the store is opened; an encoder that does not belong leaves no
trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from twinvec.errors import CollectionNotFoundError, ConfigurationError, ModelError
from twinvec_qdrant.backends.base import Backend, NewCollection, Store
from twinvec_qdrant.chunking import Chunker, ChunkSettings
from twinvec_qdrant.description import (
    Description,
    EncoderOptions,
    SpaceEncoder,
    check_probes,
    check_space,
    describe,
    read_description,
)
from twinvec_qdrant.lexicon import Lexicon


class Opened(NamedTuple):
    """An open store that holds a collection of the encoder's."""

    backend: Backend
    description: Description
    encoder: SpaceEncoder | None


def open_in(
    store: Store,
    name: str,
    encoder: SpaceEncoder | None,
    chunking: ChunkSettings | None,
    *,
    create: bool,
    language: str,
) -> Opened:
    """The collection in a store, made where there is none; see ``Collection.open`` for arguments and errors."""
    opened: Store | Backend = store
    try:
        metadata = store.peek()
        if metadata is None:
            if not create:
                raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
            encoder = encoder or load_encoder("default")
            settings = chunking or ChunkSettings()
            Chunker(encoder, settings)  # both refuse what cannot work before anything is made
            Lexicon.check_language(language)
            description = describe(encoder, settings.as_dict(), language)
            opened = backend = store.create(NewCollection(encoder.dim, description.model_dump()))
        else:
            _checked(metadata, encoder, chunking, store.location)
            opened = backend = store.open()
        description = _checked(backend.read_metadata(), encoder, chunking, backend.location)
        if encoder is not None:
            check_probes(description, encoder, backend.location)
        return Opened(backend, description, encoder)
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
    from twinvec import Encoder

    try:
        return Encoder(model, **(options.given() if options else {}))
    except ModelError as error:
        error.add_note("to open the collection with an encoder of your own, give it as encoder=")
        raise


def _checked(
    metadata: Mapping[str, Any], encoder: SpaceEncoder | None, chunking: ChunkSettings | None, location: str
) -> Description:
    """The description of a collection that goes with the encoder and the chunking asked for."""
    description = read_description(metadata, location)
    recorded = ChunkSettings.from_dict(description.chunking)
    if chunking is not None and chunking != recorded:
        raise ConfigurationError(
            f"{location}: holds {recorded}, not {chunking}; leave the settings of chunking out, or ingest into a new "
            "collection"
        )
    if encoder is not None:
        check_space(description, encoder, location)
    return description
