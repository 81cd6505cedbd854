"""Rerankers: twinvec's as a LangChain document compressor, and its cross-encoder as a ``BaseCrossEncoder``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from langchain_twinvec.documents import hit_of, with_scores
from twinvec import CrossEncoderReranker
from twinvec.rerankers.open import open_reranker
from twinvec.retrieval.base import Reranker


class TwinvecReranker(BaseDocumentCompressor):
    """Puts documents into a new order by looking at query and text together.

    Gives copies: ``metadata["relevance_score"]`` is the new score, ``metadata["twinvec_scores"]`` has those of all
    stages by name. The documents handed in stay as they are.

        compressor = TwinvecReranker(model="maxsim", top_n=3)
        best = compressor.compress_documents(documents, "How do I get time off?")
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())

    model: str = "maxsim"
    """``"maxsim"`` (late interaction over the default encoder's token states), or the folder or hub name of a
    cross-encoder."""
    reranker: Any = Field(default=None, exclude=True, repr=False)
    """A reranker that is open already, in place of ``model``: anything with ``rerank(query, hits, limit)``."""
    top_n: int | None = Field(default=3, ge=1)
    """How many documents are kept; None for all."""
    device: str | None = None
    """As for ``twinvec.CrossEncoderReranker``."""

    _reranker: Reranker = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the reranker."""
        self._reranker = open_reranker(self.model, device=self.device) if self.reranker is None else self.reranker

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """The best ``top_n`` of the documents, best first, as copies that carry their scores.

        Raises:
            TextError: the query or a document's text is refused by the input gate.
        """
        documents = list(documents)
        hits = [hit_of(document, position) for position, document in enumerate(documents)]
        best = self._reranker.rerank(query, hits, limit=self.top_n) if hits else []
        return [with_scores(documents[hit.payload["position"]], hit) for hit in best]


class TwinvecCrossEncoder(BaseModel, BaseCrossEncoder):
    """A cross-encoder, for whatever in LangChain takes one.

        scores = TwinvecCrossEncoder(model="path/to/cross-encoder").score([("query", "text")])

    Raises:
        ModelError: the model is not found, damaged, or not a cross-encoder with one label.
    """

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), populate_by_name=True)

    model_name: str = Field(alias="model")
    """A folder in sentence-transformers' CrossEncoder format, or a hub name."""
    device: str | None = None
    """``"cpu"``, ``"cuda"``, ...; a GPU is taken where there is one unless given."""
    max_tokens: int | None = None
    """Cut longer pairs here, in place of the model's own limit."""

    _reranker: CrossEncoderReranker = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the model."""
        self._reranker = CrossEncoderReranker(self.model_name, device=self.device, max_tokens=self.max_tokens)

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """One score a pair (query, text), in order.

        Raises:
            TextError: a text is refused by the input gate; named by its index.
        """
        scores: list[float] = self._reranker.score(text_pairs).tolist()
        return scores
