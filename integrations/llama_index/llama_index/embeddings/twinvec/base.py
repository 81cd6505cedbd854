"""TwinvecEmbedding: a twinvec encoder as LlamaIndex's ``BaseEmbedding``.

Takes the arguments of ``HuggingFaceEmbedding`` too, with the same vectors; what cannot be honoured is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index.embeddings.twinvec.cache import SpaceCache, asking
from twinvec import Encoder
from twinvec.adapters.embeddings import QueryDocumentEmbedder
from twinvec.adapters.opening import Prompt, open_encoder
from twinvec.adapters.sentence_transformers import loading_options
from twinvec.errors import ConfigurationError, SpaceMismatchError

_BGE = re.compile(r"BAAI/bge-(?:small|base|large)-(?P<language>en|zh)(?:-v1\.5)?(?:@.*)?")
_BGE_QUERY_INSTRUCTIONS = {
    "en": "Represent this question for searching relevant passages: ",
    "zh": "为这个句子生成表示以用于检索相关文章：",
}
"""What LlamaIndex puts before queries of the BGE models, which do not carry it in their own settings."""


class TwinvecEmbedding(BaseEmbedding):
    """Embeddings of a sentence-transformers model, run by twinvec.

    Queries and texts get the model's prompts for them, where it has any, unless an instruction is given. Awaited
    calls do not block the event loop, and those that wait at the same time are encoded together. An
    ``embeddings_cache`` may be shared: its keys tell models and sides apart.

        embedding = TwinvecEmbedding(model_name="default")
        vector = embedding.get_query_embedding("How do I get time off?")

    Args:
        model_name: ``"default"``, a folder in the sentence-transformers format, or ``"org/name"`` or
            ``"org/name@commit"``.
        max_length: Cut longer texts here, in tokens, in place of the model's own limit.
        query_instruction: Put before queries, in place of the model's own prompt.
        text_instruction: Put before texts, in place of the model's own prompt.
        normalize: Give every vector the length 1, also where the model does not.
        embed_batch_size: Texts handed over at once; batches for the engine are made of them under a token budget.
        cache_folder: Where hub models are kept, in place of the hub's own cache.
        trust_remote_code: Only False: code that comes with a model is never run.
        device: ``"cpu"``, ``"cuda"``, ...; a GPU is taken where there is one unless given.
        parallel_process: Only False: several processes are not supported; ``target_devices`` would be theirs.
        revision: A commit, branch or tag of a hub model.
        engine: What computes, as for ``twinvec.Encoder``; ``backend`` is another name for it.
        precision: Of the computation, as for ``twinvec.Encoder``.
        dimensions: Keep this many leading dimensions (Matryoshka models).
        show_progress_bar: Show a progress bar for texts, on a terminal.
        space: What ``to_dict`` recorded; a model that now gives other vectors is refused.
        encoder: An encoder that is open already, in place of a model's name.
        model_kwargs: Further arguments of ``SentenceTransformer`` that ``HuggingFaceEmbedding`` passes on: token,
            local_files_only, truncate_dim, and the dtype in a ``model_kwargs`` of their own.

    Raises:
        ConfigurationError: an argument that cannot work.
        ModelError: the model is not found, damaged or not supported.
        SpaceMismatchError: the model is not the one that ``space`` was recorded of.
    """

    engine: str = Field(description="What computes.")
    precision: str = Field(description="Precision of the computation.")
    device: str | None = Field(description="Device of the computation.")
    dimensions: int | None = Field(description="How many leading dimensions are kept.")
    max_length: int = Field(description="Longest input in tokens.")
    query_instruction: str | None = Field(description="Put before queries.")
    text_instruction: str | None = Field(description="Put before texts.")
    normalize: bool = Field(description="Whether every vector has length 1.")
    cache_folder: str | None = Field(description="Where hub models are kept.")
    show_progress_bar: bool = Field(description="Whether to show a progress bar for texts.")
    revision: str | None = Field(description="Commit, branch or tag of a hub model.")
    space: str = Field(description="Hex digest of all that decides the model's vectors.")

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
        if trust_remote_code:
            raise ConfigurationError("trust_remote_code: code that comes with a model is never run")
        if parallel_process:
            raise ConfigurationError(f"parallel_process: several processes ({target_devices}) are not supported")
        passed_on = loading_options(model_kwargs)
        if "prompts" in passed_on:
            raise ConfigurationError("prompts: give query_instruction and text_instruction")
        passed_on.pop("default_prompt", None)  # each side has its own
        if (dimensions is not None and "dim" in passed_on) or (precision != "auto" and "precision" in passed_on):
            raise ConfigurationError("dimensions or precision is given twice, once in sentence-transformers' terms")
        if encoder is not None and passed_on:
            raise ConfigurationError(f"an encoder is given; set these there: {', '.join(passed_on)}")
        dimensions = passed_on.pop("dim", dimensions)
        precision = passed_on.pop("precision", precision)
        if encoder is None:
            name = model_name or "default"
            if query_instruction is None:
                query_instruction = _known_instruction(name)
            encoder = open_encoder(
                name,
                revision=revision,
                query_prompt=_prompt(query_instruction),
                document_prompt=_prompt(text_instruction),
                engine=backend or engine,
                precision=precision,
                device=device,
                dim=dimensions,
                max_tokens=max_length,
                cache_folder=cache_folder,
                **passed_on,
            )
        elif model_name is not None:
            raise ConfigurationError("give a model's name or an encoder, not both")
        if space is not None and space != encoder.space:
            raise SpaceMismatchError(
                f"the settings were saved with a model of space {space[:12]}, but {encoder.name} now has "
                f"{encoder.space[:12]}: find the model that they were saved with, or leave out 'space' and embed again"
            )
        if isinstance(embeddings_cache, SpaceCache):
            embeddings_cache = embeddings_cache.store
        if isinstance(embeddings_cache, BaseKVStore):
            embeddings_cache = SpaceCache(embeddings_cache, encoder.space + ("" if normalize else ":raw"))
        settings: dict[str, Any] = {
            "model_name": model_name or encoder.name,
            "embed_batch_size": embed_batch_size,
            "callback_manager": callback_manager or CallbackManager([]),
            "num_workers": num_workers,
            "embeddings_cache": embeddings_cache,
            "rate_limiter": rate_limiter,
            "engine": backend or engine,
            "precision": precision,
            "device": device,
            "dimensions": dimensions,
            "max_length": encoder.max_tokens,
            "query_instruction": query_instruction,
            "text_instruction": text_instruction,
            "normalize": normalize,
            "cache_folder": cache_folder,
            "show_progress_bar": show_progress_bar,
            "revision": revision,
            "space": encoder.space,
        }
        super().__init__(**settings)
        self._encoder = encoder
        self._sides = QueryDocumentEmbedder(encoder, normalize=normalize, progress=show_progress_bar)

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised settings."""
        return "TwinvecEmbedding"

    @property
    def encoder(self) -> Encoder:
        """The encoder behind it."""
        return self._encoder

    def get_query_embedding(self, query: str) -> list[float]:
        """The vector of a query."""
        with asking():
            return super().get_query_embedding(query)

    async def aget_query_embedding(self, query: str) -> list[float]:
        """``get_query_embedding`` without blocking the event loop; queries that wait together share a batch."""
        with asking():
            return await super().aget_query_embedding(query)

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


def _prompt(text: str | None) -> Prompt | None:
    return None if text is None else Prompt(text)


def _known_instruction(model_name: str) -> str | None:
    bge = _BGE.fullmatch(model_name)
    return _BGE_QUERY_INSTRUCTIONS[bge["language"]] if bge else None
