"""twinvec's rerankers as a LangChain document compressor, and its cross-encoder as a ``BaseCrossEncoder``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from langchain_twinvec.documents import check_documents, hits_of, with_scores
from twinvec import CrossEncoderReranker
from twinvec.engines.select import check_device
from twinvec.rerankers.open import open_reranker
from twinvec.retrieval.base import Reranker
from twinvec.support.checks import check_methods


class TwinvecReranker(BaseDocumentCompressor):
    """Reranks documents by comparing each text with the query.

    The results are copies of the documents: ``metadata["relevance_score"]`` is the new score, and
    ``metadata["twinvec_scores"]`` has the score of each stage by name.

        compressor = TwinvecReranker(model="maxsim", top_n=3)
        best = compressor.compress_documents(documents, "How do I get time off?")

    Raises:
        pydantic.ValidationError: a field is unknown or its value is invalid.
        ModelError: the model is not found, damaged or not supported.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())

    model: str = "maxsim"
    """``"maxsim"`` (late interaction over the default encoder's token states), or the folder or hub name of a
    cross-encoder."""
    reranker: Any = Field(default=None, exclude=True, repr=False)
    """An open reranker, instead of ``model``: any object with ``rerank(query, hits, limit)``."""
    top_n: int | None = Field(default=3, ge=1)
    """Largest number of documents; None keeps all."""
    device: str | None = None
    """Device of a cross-encoder, as for ``twinvec.CrossEncoderReranker``."""

    _reranker: Reranker = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the reranker, or check the one that is given."""
        check_device(self.device)
        if self.reranker is not None:
            check_methods(self.reranker, ("rerank",), "reranker", "a reranker, such as MaxSimReranker(...)")
        self._reranker = open_reranker(self.model, device=self.device) if self.reranker is None else self.reranker

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return copies of the best ``top_n`` documents with their scores, best first.

        Raises:
            DocumentError: ``documents`` is not a list of documents.
            TextError: the query or a document's text is invalid (not a string, too long, or with a lone surrogate).
        """
        documents = check_documents(documents, hint="")
        hits = hits_of(documents)
        best = self._reranker.rerank(query, hits, limit=self.top_n) if hits else []
        return [with_scores(documents[hit.payload["position"]], hit) for hit in best]


class TwinvecCrossEncoder(BaseModel, BaseCrossEncoder):
    """A cross-encoder of twinvec as LangChain's ``BaseCrossEncoder``.

        scores = TwinvecCrossEncoder(model="path/to/cross-encoder").score([("query", "text")])

    Raises:
        ModelError: the model is not found, damaged, or not a cross-encoder with one label.
    """

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), populate_by_name=True)

    model_name: str = Field(alias="model")
    """A folder in sentence-transformers' CrossEncoder format, or a hub name."""
    device: str | None = None
    """``"cpu"``, ``"cuda"``, ... (default: a GPU if there is one)."""
    max_tokens: int | None = None
    """Truncate longer pairs to this many tokens (default: the model's limit)."""

    _reranker: CrossEncoderReranker = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the model."""
        check_device(self.device)
        self._reranker = CrossEncoderReranker(self.model_name, device=self.device, max_tokens=self.max_tokens)

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Return one score for each pair (query, text), in order.

        Raises:
            TextError: a text is invalid (not a string, too long, or with a lone surrogate); the error names its index.
        """
        scores: list[float] = self._reranker.score(text_pairs).tolist()
        return scores
