"""TwinvecEmbedding: a twinvec encoder as LlamaIndex's ``BaseEmbedding``.

The class accepts arguments of ``HuggingFaceEmbedding`` and returns the same vectors; it refuses other arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index.embeddings.twinvec.cache import SpaceCache, query_lookup
from twinvec import Encoder
from twinvec.adapters.embeddings import QueryDocumentEmbedder, open_encoder
from twinvec.adapters.origins import note_origin
from twinvec.adapters.sentence_transformers import loading_options
from twinvec.errors import ConfigurationError, SpaceMismatchError
from twinvec.support.checks import string

_BGE = re.compile(r"BAAI/bge-(?:small|base|large)-(?P<language>en|zh)(?:-v1\.5)?(?:@.*)?")
_BGE_QUERY_INSTRUCTIONS = {
    "en": "Represent this question for searching relevant passages: ",
    "zh": "为这个句子生成表示以用于检索相关文章：",
}
"""Prompts that LlamaIndex puts before queries of the BGE models, whose own settings lack them."""


class TwinvecEmbedding(BaseEmbedding):
    """Embeddings of a sentence-transformers model, computed by twinvec.

    Awaited calls do not block the event loop; calls that wait at the same time are encoded together. Several models may
    share an ``embeddings_cache``: its keys name the model, and whether the text is a query.

        embedding = TwinvecEmbedding(model_name="default")
        vector = embedding.get_query_embedding("How do I get time off?")

    Args:
        model_name: ``"default"``, a folder in the sentence-transformers format, or a hub name, as for
            ``twinvec.Encoder``.
        max_length: Truncate longer texts to this many tokens (default: the model's limit).
        query_instruction: Prompt before queries (default: the model's).
        text_instruction: Prompt before texts (default: the model's).
        normalize: Scale every vector to length 1, even if the model does not.
        embed_batch_size: Number of texts per call; the engine splits them into batches under a token budget.
        cache_folder: Folder of hub models (default: the hub's cache).
        trust_remote_code: Only False: code that comes with a model is never run.
        device: ``"cpu"``, ``"cuda"``, ... (default: a GPU if torch has one).
        parallel_process: Only False: several processes, and their ``target_devices``, are not supported.
        revision: A commit, branch or tag of a hub model.
        engine: The engine, as for ``twinvec.Encoder``; ``backend`` is another name for it.
        precision: As for ``twinvec.Encoder``.
        dimensions: Truncate vectors to this many leading dimensions (for Matryoshka models).
        show_progress_bar: Show progress for texts: a bar on a terminal, a line a minute elsewhere.
        space: The space that ``to_dict`` recorded; a model with other vectors is refused.
        encoder: An open encoder, instead of a model's name.
        model_kwargs: Other arguments of ``SentenceTransformer`` that ``HuggingFaceEmbedding`` passes on: token,
            local_files_only, truncate_dim, and ``model_kwargs`` with a dtype.

    Raises:
        ConfigurationError: an argument is invalid.
        ModelError: the model is not found, damaged or not supported.
        SpaceMismatchError: the model has another space than ``space``.
    """

    engine: str = Field(description="Engine of the computation.")
    precision: str = Field(description="Precision of the computation.")
    device: str | None = Field(description="Device of the computation.")
    dimensions: int | None = Field(description="Number of leading dimensions of a vector.")
    max_length: int = Field(description="Longest input in tokens.")
    query_instruction: str | None = Field(description="Prompt before queries.")
    text_instruction: str | None = Field(description="Prompt before texts.")
    normalize: bool = Field(description="Whether every vector has length 1.")
    cache_folder: str | None = Field(description="Folder of hub models.")
    show_progress_bar: bool = Field(description="Whether to show a progress bar for texts.")
    revision: str | None = Field(description="Commit, branch or tag of a hub model.")
    space: str = Field(description="Hex digest of everything that decides the model's vectors.")

    _encoder: Encoder = PrivateAttr()
    _sides: QueryDocumentEmbedder = PrivateAttr()

    def __init__(
        self,
        model_name: str | None = None,
        *,
        max_length: int | None = None,
        query_instruction: str | None = None,
        text_instruction: str | None = None,
        normalize: bool = True,
        embed_batch_size: int = 256,
        cache_folder: str | None = None,
        trust_remote_code: bool = False,
        device: str | None = None,
        callback_manager: CallbackManager | None = None,
        num_workers: int | None = None,
        embeddings_cache: BaseKVStore | None = None,
        rate_limiter: Any = None,
        parallel_process: bool = False,
        target_devices: Sequence[str] | None = None,
        revision: str | None = None,
        engine: str = "auto",
        backend: str | None = None,
        precision: str = "auto",
        dimensions: int | None = None,
        show_progress_bar: bool = False,
        space: str | None = None,
        encoder: Encoder | None = None,
        **model_kwargs: Any,
    ) -> None:
        if parallel_process:
            raise ConfigurationError(
                f"parallel_process must be False: several processes (target_devices={target_devices}) are not supported"
            )
        options = _translated({**model_kwargs, "trust_remote_code": trust_remote_code}, dimensions, precision)
        if encoder is not None:
            _check_no_settings(model_name, options)
        dimensions = options.pop("dim", dimensions)
        fields: dict[str, Any] = {
            "engine": backend or engine,
            "precision": options.pop("precision", precision),
            "device": device,
            "cache_folder": cache_folder,
            "revision": revision,
        }
        if encoder is None:
            name = model_name or "default"
            if query_instruction is None:
                query_instruction = _known_instruction(name)
            options |= {"query_prompt": query_instruction, "document_prompt": text_instruction}
            encoder = open_encoder(name, dim=dimensions, max_tokens=max_length, **fields, **options)
        _check_space(encoder, space)
        fields |= {
            "model_name": model_name or encoder.name,
            "embed_batch_size": embed_batch_size,
            "callback_manager": callback_manager or CallbackManager([]),
            "num_workers": num_workers,
            "embeddings_cache": _own_cache(embeddings_cache, encoder.space + ("" if normalize else ":raw")),
            "rate_limiter": rate_limiter,
            "dimensions": dimensions,
            "max_length": encoder.max_tokens,
            "query_instruction": query_instruction,
            "text_instruction": text_instruction,
            "normalize": normalize,
            "show_progress_bar": show_progress_bar,
            "space": encoder.space,
        }
        super().__init__(**fields)
        self._encoder = encoder
        self._sides = QueryDocumentEmbedder(encoder, normalize=normalize, progress=show_progress_bar)

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised settings."""
        return "TwinvecEmbedding"

    @property
    def encoder(self) -> Encoder:
        """The encoder that computes the vectors."""
        return self._encoder

    def get_query_embedding(self, query: str) -> list[float]:
        """Return the vector of a query."""
        with query_lookup():
            return super().get_query_embedding(query)

    async def aget_query_embedding(self, query: str) -> list[float]:
        """``get_query_embedding``, awaitable; queries that wait at the same time share a batch."""
        with query_lookup():
            return await super().aget_query_embedding(query)

    def get_agg_embedding_from_queries(
        self, queries: list[str], agg_fn: Callable[..., list[float]] | None = None
    ) -> list[float]:
        """Return one vector for several queries, by default their mean."""
        return self._noted(super().get_agg_embedding_from_queries(queries, agg_fn))

    async def aget_agg_embedding_from_queries(
        self, queries: list[str], agg_fn: Callable[..., list[float]] | None = None
    ) -> list[float]:
        """``get_agg_embedding_from_queries``, awaitable."""
        return self._noted(await super().aget_agg_embedding_from_queries(queries, agg_fn))

    def _noted(self, vector: list[float]) -> list[float]:
        """Note the space of a vector of several queries, so that a store can check it, and return the vector."""
        note_origin(np.asarray([vector], dtype=np.float32), self._encoder)
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._sides.query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await self._sides.aquery(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._sides.documents([text])[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._sides.adocuments([text]))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._sides.documents(texts)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._sides.adocuments(texts)


def _translated(model_kwargs: dict[str, Any], dimensions: int | None, precision: str) -> dict[str, Any]:
    options = loading_options(model_kwargs)
    if "prompts" in options:
        raise ConfigurationError("prompts: give query_instruction and text_instruction")
    options.pop("default_prompt", None)  # not used: queries and texts have prompts of their own
    if (dimensions is not None and "dim" in options) or (precision != "auto" and "precision" in options):
        raise ConfigurationError(
            "dimensions or precision is given twice, once by the name of sentence-transformers; give it once"
        )
    return options


def _check_no_settings(model_name: str | None, options: dict[str, Any]) -> None:
    if options:
        raise ConfigurationError(
            f"an encoder is given; leave these out, and set them when you open the encoder: {', '.join(options)}"
        )
    if model_name is not None:
        raise ConfigurationError("give a model's name or an encoder, not both")


def _check_space(encoder: Encoder, space: str | None) -> None:
    if space is not None and space != encoder.space:
        raise SpaceMismatchError(
            f"the settings were saved with a model of space {space[:12]}, but {encoder.name} now has "
            f"{encoder.space[:12]}: find the model that they were saved with, or leave out 'space' and embed again"
        )


def _own_cache(cache: BaseKVStore | None, space: str) -> BaseKVStore | None:
    store = cache.store if isinstance(cache, SpaceCache) else cache
    return SpaceCache(store, space) if isinstance(store, BaseKVStore) else store


def _known_instruction(model_name: str) -> str | None:
    bge = _BGE.fullmatch(string(model_name, "model_name"))
    return _BGE_QUERY_INSTRUCTIONS[bge["language"]] if bge else None
