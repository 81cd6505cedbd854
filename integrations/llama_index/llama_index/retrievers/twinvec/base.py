"""TwinvecRetriever: a twinvec collection or index as a LlamaIndex retriever."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle

from llama_index.vector_stores.twinvec.nodes import scored_node
from twinvec import Retriever, RetrieveRerank
from twinvec.retrieval.base import Reranker, check_limit
from twinvec.retrieval.filters import Filter
from twinvec.support.async_methods import awaitable


class TwinvecRetriever(BaseRetriever):
    """Retrieves from a twinvec collection or index, and reranks if it has a reranker.

    A node has the hit's payload as metadata and the score of each stage by name (``node.scores``). A collection that
    ``TwinvecVectorStore`` filled returns the stored nodes.

        retriever = TwinvecRetriever(collection, reranker=MaxSimReranker(encoder), similarity_top_k=5)
        nodes = retriever.retrieve("How do I get time off?")

    Args:
        retriever: Any object with ``search(query, limit, filter)``, such as a ``twinvec_qdrant.Collection``.
        reranker: Any object with ``rerank(query, hits, limit)``; None leaves reranking out.
        similarity_top_k: Largest number of nodes.
        candidates: Number of nodes to retrieve for the reranker.
        filter: Conditions on the payload, as in ``twinvec.retrieval.filters``.
        search_options: More arguments of the retriever's ``search``, such as ``{"mode": "dense"}``.

    Raises:
        ConfigurationError: ``similarity_top_k`` or ``candidates`` is below 1.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        reranker: Reranker | None = None,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        candidates: int = 100,
        filter: Filter | None = None,
        search_options: dict[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, objects=objects, verbose=verbose)
        check_limit(similarity_top_k, "similarity_top_k")
        self._search = retriever if reranker is None else RetrieveRerank(retriever, reranker, candidates)
        self._options = {**(search_options or {}), "limit": similarity_top_k, "filter": filter}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [scored_node(hit) for hit in self._search.search(query_bundle.query_str, **self._options)]

    _aretrieve = awaitable(_retrieve)
