"""TwinvecRetriever: a twinvec collection or index as a LlamaIndex retriever."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index.vector_stores.twinvec.filters import as_filter
from llama_index.vector_stores.twinvec.nodes import scored_node
from twinvec import Retriever, RetrieveRerank
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import Mode, Reranker, check_limit
from twinvec.retrieval.retrieve_rerank import OWN_OPTIONS, without_passages
from twinvec.support.async_methods import awaitable
from twinvec.support.checks import check_choice, mapping

if TYPE_CHECKING:
    from llama_index.vector_stores.twinvec.filters import AnyFilters

_GIVEN = ("query", "limit", "filter")
"""The arguments of ``search`` that the retriever itself gives."""


class TwinvecRetriever(BaseRetriever):
    """Retrieves from a twinvec collection or index, and reranks if it has a reranker.

    A node has the hit's payload as metadata and the score of each stage by name (``node.scores``). A collection that
    ``TwinvecVectorStore`` filled returns the stored nodes.

        retriever = TwinvecRetriever(collection, reranker=collection.maxsim(), similarity_top_k=5)
        nodes = retriever.retrieve("How do I get time off?")

    Args:
        retriever: Any object with ``search(query, limit, filter)``, such as a ``twinvec_qdrant.Collection``.
        reranker: Any object with ``rerank(query, hits, limit)``; None leaves reranking out.
        similarity_top_k: Largest number of nodes.
        candidates: Number of nodes to retrieve for the reranker.
        filter: Conditions on the payload: ``MetadataFilters``, a mapping as in ``twinvec.retrieval.filters``, or a
            ``qdrant_client.models.Filter``.
        search_options: More arguments of the retriever's ``search``, such as ``{"mode": "dense"}``.

    Raises:
        ConfigurationError: ``similarity_top_k`` or ``candidates`` is below 1; the retriever has no ``search`` (a vector
            store has none); its ``search`` lacks an option; or the mode is unknown.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        reranker: Reranker | None = None,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        candidates: int = 100,
        filter: AnyFilters | None = None,
        search_options: dict[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, objects=objects, verbose=verbose)
        check_limit(similarity_top_k, "similarity_top_k")
        check_limit(candidates, "candidates")
        _check_retriever(retriever)
        options = {} if search_options is None else mapping(search_options, "search_options")
        self._search = retriever if reranker is None else RetrieveRerank(retriever, reranker, candidates)
        _check_options(options, retriever, reranks=reranker is not None)
        self._options = {
            **without_passages(retriever),  # nodes have no place for passages
            **options,
            "limit": similarity_top_k,
            "filter": None if filter is None else as_filter(filter),
        }

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [scored_node(hit) for hit in self._search.search(query_bundle.query_str, **self._options)]

    _aretrieve = awaitable(_retrieve)


def _check_retriever(retriever: object) -> None:
    if not callable(getattr(retriever, "search", None)):
        is_store = isinstance(retriever, BasePydanticVectorStore)
        hint = "give its collection (store.client)" if is_store else "such as a twinvec_qdrant.Collection"
        raise ConfigurationError(
            f"retriever: expected an object with search(query, limit, filter), got {type(retriever).__name__}; {hint}"
        )


def _check_options(options: Mapping[str, Any], retriever: Retriever, *, reranks: bool) -> None:
    """Refuse an option that neither the retriever's ``search`` nor ``RetrieveRerank`` accepts."""
    parameters = signature(retriever.search).parameters
    if all(each.kind is not Parameter.VAR_KEYWORD for each in parameters.values()):
        others = sorted(OWN_OPTIONS) if reranks else []
        known = [each for each in dict.fromkeys([*parameters, *others]) if each not in _GIVEN]
        for name in options:
            check_choice(name, known, "search_options:")
    if "mode" in options:
        check_choice(options["mode"], Mode, "mode")
