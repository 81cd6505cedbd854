"""What the adapters to LangChain and LlamaIndex share: an encoder as those frameworks see one.

Queries and documents in, rows of Python floats out, blocking or awaited. What belongs to one framework (its field
names, its events) stays with its adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from twinvec.adapters.coalescing import Gathered
from twinvec.arrays import unit
from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError
from twinvec.models.encoder_spec import read_spec
from twinvec.models.finding import find_model
from twinvec.rerankers.cross_encoder import CrossEncoderReranker, MaxSimReranker
from twinvec.retrieval.memory_index import Reranker
from twinvec.text import check_text, check_texts

Row = list[float]
"""One vector, as Python floats."""


class TextEncoder(Protocol):
    """What ``TwoSided`` needs of an encoder."""

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Vectors of queries: shape (n, dim)."""
        ...

    def encode_document(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """Vectors of documents: shape (n, dim)."""
        ...


class TwoSided:
    """Queries and documents to rows of Python floats.

    Awaited calls do not block the event loop: those that wait at the same time are encoded together, queries and
    documents each in a thread of their own, so that a query never waits for a corpus.

    Args:
        encoder: Gives the vectors.
        normalize: Give every vector the length 1, also where the model does not; a zero vector stays. One answer, or
            one for queries and one for documents.
        progress: Show a progress bar for documents, on a terminal.
    """

    def __init__(
        self, encoder: TextEncoder, *, normalize: bool | tuple[bool, bool] = False, progress: bool = False
    ) -> None:
        self.encoder = encoder
        self.normalize = normalize if isinstance(normalize, tuple) else (normalize, normalize)
        self.progress = progress
        self._gathered_queries = Gathered(self._queries)
        self._gathered_documents = Gathered(self._documents)

    def query(self, text: str) -> Row:
        """The row of one query.

        Raises:
            TextError: the text is refused by the input gate.
        """
        return self._queries([check_text(text, "query")])[0]

    def documents(self, texts: Sequence[str]) -> list[Row]:
        """One row a text, in order.

        Raises:
            TextError: a text is refused by the input gate; named by its index.
        """
        return self._documents(check_texts(texts))

    async def aquery(self, text: str) -> Row:
        """``query``, awaited."""
        return (await self._gathered_queries([check_text(text, "query")]))[0]

    async def adocuments(self, texts: Sequence[str]) -> list[Row]:
        """``documents``, awaited."""
        return await self._gathered_documents(check_texts(texts))

    def _queries(self, texts: list[str]) -> list[Row]:
        return _rows(self.encoder.encode_query(texts), self.normalize[0])

    def _documents(self, texts: list[str]) -> list[Row]:
        return _rows(self.encoder.encode_document(texts, progress=self.progress), self.normalize[1])


def _rows(vectors: Any, normalize: bool) -> list[Row]:
    vectors_ND = np.asarray(vectors, dtype=np.float32)
    rows: list[Row] = (unit(vectors_ND) if normalize else vectors_ND).tolist()
    return rows


@dataclass(frozen=True, slots=True)
class Prompt:
    """What stands before the texts of one side: a text, or the ``name`` of one of the model's prompts."""

    text: str = ""
    name: str | None = None


def open_encoder(
    model: str,
    *,
    revision: str | None = None,
    query_prompt: Prompt | None = None,
    document_prompt: Prompt | None = None,
    prompts: dict[str, str] | None = None,
    cache_folder: str | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    **options: Any,
) -> Encoder:
    """An ``Encoder`` from the settings that frameworks have for one.

    Args:
        model: As for ``Encoder``; a bare name ("all-MiniLM-L6-v2") means the repository of sentence-transformers.
        revision: A commit, branch or tag of a hub model.
        query_prompt: For queries, in place of the model's own.
        document_prompt: For documents, in place of the model's own.
        prompts: All prompts, in place of the model's own.
        cache_folder: Where hub models are kept.
        token: For hub models that are not open to all.
        local_files_only: Take what the hub's cache holds; no hub is asked.
        options: The other arguments of ``Encoder``.

    Raises:
        ConfigurationError: an argument that cannot work.
        ModelError: the model is not found, damaged or not supported.
    """
    name = model if model == "default" or "/" in model or Path(model).exists() else f"sentence-transformers/{model}"
    if revision is not None:
        if "@" in name or Path(name).exists() or name == "default":
            raise ConfigurationError(f"revision {revision!r} is for a hub name without one, not for {model!r}")
        name = f"{name}@{revision}"
    found = find_model(name, cache_folder, token=token, local_files_only=local_files_only)
    sides = {"query": query_prompt, "document": document_prompt}
    if any(sides.values()):
        own = read_spec(found.path).prompts if prompts is None else prompts
        prompts = own | {side: _text(prompt, own) for side, prompt in sides.items() if prompt is not None}
    return Encoder(found, prompts=prompts, **options)


def _text(prompt: Prompt, prompts: dict[str, str]) -> str:
    if prompt.name is None:
        return prompt.text
    if prompt.name not in prompts:
        known = ", ".join(sorted(prompts)) or "none"
        raise ConfigurationError(f"the model has no prompt {prompt.name!r}; its prompts: {known}")
    return prompts[prompt.name]


def open_reranker(model: str = "maxsim", *, encoder: Encoder | None = None, device: str | None = None) -> Reranker:
    """A reranker by name.

    Args:
        model: ``"maxsim"``, or the folder or hub name of a cross-encoder.
        encoder: Gives the token states for "maxsim"; the default encoder unless given.
        device: As for ``Encoder``.

    Raises:
        ModelError: the model is not found, damaged or not supported.
    """
    if model == "maxsim":
        return MaxSimReranker(encoder or Encoder(device=device))
    return CrossEncoderReranker(model, device=device)
