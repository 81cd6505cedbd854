"""What the adapters to LangChain and LlamaIndex share: an encoder as those frameworks see one.

Queries and documents in, rows of Python floats out, blocking or awaited. What belongs to one framework (its field
names, its events) stays with its adapter.
"""

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
        self, encoder: VectorEncoder, *, normalize: bool | tuple[bool, bool] = False, progress: bool = False
    ) -> None:
        self.encoder = encoder
        self.normalize = normalize if isinstance(normalize, tuple) else (normalize, normalize)
        self.progress = progress
        self._gathered_queries = Coalescer(self._queries)
        self._gathered_documents = Coalescer(self._documents)

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
        shown = {"progress": True} if self.progress else {}
        return _rows(self.encoder.encode_document(texts, **shown), self.normalize[1])


def _rows(vectors: Any, normalize: bool) -> list[Row]:
    vectors_ND = np.asarray(vectors, dtype=np.float32)
    rows: list[Row] = (unit(vectors_ND) if normalize else vectors_ND).tolist()
    return rows
