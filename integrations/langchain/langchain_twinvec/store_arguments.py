"""Arguments in the form of ``QdrantVectorStore``, translated for ``TwinvecVectorStore``: mode, name and model."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from langchain_core.embeddings import Embeddings

from langchain_twinvec.embeddings import TwinvecEmbeddings
from twinvec import Encoder
from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import Mode
from twinvec.support.checks import check_choice


def search_mode(mode: Mode, retrieval_mode: Any) -> Mode:
    """Return the mode that one of the two arguments names; ``retrieval_mode`` may be LangChain's enum."""
    plain = getattr(retrieval_mode, "value", retrieval_mode)
    if plain not in (None, mode) and mode != "dense":
        raise ConfigurationError(f"mode is {mode!r}, but retrieval_mode is {plain!r}: give only one of them")
    wanted: Mode = plain or mode
    check_choice(wanted, Mode, "mode")
    return wanted


def with_name(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments; a collection name of None becomes a random name, as in ``QdrantVectorStore``."""
    if "collection_name" in arguments and arguments["collection_name"] is None:
        return {**arguments, "collection_name": uuid4().hex}
    return arguments


def encoder_of(embedding: Embeddings) -> Encoder | ExternalEncoder:
    """Return the encoder of LangChain's embeddings.

    A subclass of ``TwinvecEmbeddings`` that embeds in its own way is like any other class: its methods are called.
    """
    own_methods = (TwinvecEmbeddings.embed_documents, TwinvecEmbeddings.embed_query)
    if isinstance(embedding, TwinvecEmbeddings) and embedding.encoder is not None:
        kind = type(embedding)
        if (kind.embed_documents, kind.embed_query) == own_methods:
            return embedding.encoder
    model = getattr(embedding, "model_name", None) or getattr(embedding, "model", None)
    name = ":".join([type(embedding).__name__, *([model] if isinstance(model, str) else [])])
    return ExternalEncoder(
        name, lambda texts: [embedding.embed_query(text) for text in texts], embedding.embed_documents
    )
