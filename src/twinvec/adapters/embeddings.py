"""An encoder as LangChain and LlamaIndex expect it: queries and documents in, rows of Python floats out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinvec.adapters.coalescing import Coalescer
from twinvec.arrays import unit
from twinvec.retrieval.base import VectorEncoder
from twinvec.text import check_text, check_texts

Row = list[float]
"""One vector, as Python floats."""


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
        """Return the row of one query; raise TextError if the input gate refuses it."""
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
        return _rows(self.encoder.encode_query(texts), self.normalize[0])

    def _documents(self, texts: list[str]) -> list[Row]:
        shown = {"progress": True} if self.progress else {}
        return _rows(self.encoder.encode_document(texts, **shown), self.normalize[1])


def _rows(vectors: Any, normalize: bool) -> list[Row]:
    vectors_ND = np.asarray(vectors, dtype=np.float32)
    rows: list[Row] = (unit(vectors_ND) if normalize else vectors_ND).tolist()
    return rows
