"""Common code of the embedding classes of LangChain and LlamaIndex: open an encoder, and return vectors as floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.adapters.coalescing import Coalescer
from twinvec.adapters.origins import note_origin
from twinvec.arrays import unit
from twinvec.encoder import Encoder
from twinvec.engines.select import check_device
from twinvec.errors import ConfigurationError
from twinvec.models.encoder_spec import read_spec
from twinvec.models.finding import find_model
from twinvec.retrieval.base import VectorEncoder
from twinvec.text import check_text, check_texts

Row = list[float]
"""One vector, as Python floats."""


def open_encoder(
    model: str,
    *,
    revision: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    prompt_names: Mapping[str, str] | None = None,
    prompts: dict[str, str] | None = None,
    cache_folder: str | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    **options: Any,
) -> Encoder:
    """Open an ``Encoder`` from a framework's settings; errors and ``options`` are as for ``Encoder``.

    A ``model`` name without an organisation ("all-MiniLM-L6-v2") is one of the organisation sentence-transformers.
    ``revision`` is a commit, branch or tag. ``query_prompt`` and ``document_prompt`` each replace one prompt of the
    model; ``prompts`` replaces all prompts. ``prompt_names`` maps "query" or "document" to the name of another prompt
    of the model. ``token`` gives access to private hub models. ``local_files_only`` prevents any request to the hub.
    """
    check_device(options.get("device"))
    name = model if model == "default" or "/" in model or Path(model).exists() else f"sentence-transformers/{model}"
    if revision is not None:
        if "@" in name or Path(name).exists() or name == "default":
            raise ConfigurationError(f"revision needs a hub name that has no revision, got {model!r} and {revision!r}")
        name = f"{name}@{revision}"
    found = find_model(name, cache_folder, token=token, local_files_only=local_files_only)
    texts = {"query": query_prompt, "document": document_prompt}
    given = {side: text for side, text in texts.items() if text is not None}
    names = {side: name for side, name in (prompt_names or {}).items() if side not in given}
    if given or names:
        own = read_spec(found.path).prompts if prompts is None else prompts
        for prompt in names.values():
            if prompt not in own:
                known = ", ".join(sorted(own)) or "none"
                raise ConfigurationError(f"the model has no prompt {prompt!r}; its prompts: {known}")
        prompts = own | given | {side: own[name] for side, name in names.items()}
    return Encoder(found, prompts=prompts, **options)


class QueryDocumentEmbedder:
    """Embeds queries and documents, blocking or awaited.

    Calls that wait at the same time are encoded together. Queries and documents have a thread each, so that a query
    never waits for a corpus. ``normalize`` (one bool, or one for queries and one for documents) scales every vector to
    length 1, even if the model does not; a zero vector stays. ``progress`` shows a bar for documents.
    """

    def __init__(
        self, encoder: VectorEncoder, *, normalize: bool | tuple[bool, bool] = False, progress: bool = False
    ) -> None:
        self.encoder = encoder
        self.normalize = normalize if isinstance(normalize, tuple) else (normalize, normalize)
        self.progress = progress
        self._coalesced_queries = Coalescer(self._queries)
        self._coalesced_documents = Coalescer(self._documents)

    def query(self, text: str) -> Row:
        """Return the row of one query; raise TextError if the query is invalid."""
        return self._queries([check_text(text, "query")])[0]

    def documents(self, texts: Sequence[str]) -> list[Row]:
        """Return one row for each text, in order; a TextError names the index of the text."""
        return self._documents(check_texts(texts))

    async def aquery(self, text: str) -> Row:
        """``query``, awaited."""
        return (await self._coalesced_queries([check_text(text, "query")]))[0]

    async def adocuments(self, texts: Sequence[str]) -> list[Row]:
        """``documents``, awaited."""
        return await self._coalesced_documents(check_texts(texts))

    def _queries(self, texts: list[str]) -> list[Row]:
        return self._rows(self.encoder.encode_query(texts), self.normalize[0])

    def _documents(self, texts: list[str]) -> list[Row]:
        shown = {"progress": True} if self.progress else {}
        return self._rows(self.encoder.encode_document(texts, **shown), self.normalize[1])

    def _rows(self, vectors: Any, normalize: bool) -> list[Row]:
        vectors_ND = np.asarray(vectors, dtype=np.float32)
        vectors_ND = unit(vectors_ND) if normalize else vectors_ND
        note_origin(vectors_ND, self.encoder)
        rows: list[Row] = vectors_ND.tolist()
        return rows
