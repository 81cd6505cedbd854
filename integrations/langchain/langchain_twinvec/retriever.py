"""Retrievers: ``TwinvecRetriever`` for a collection or index, and ``StoreRetriever`` for a vector store."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import ConfigDict, Field, field_validator

from langchain_twinvec.documents import document_of
from twinvec import Retriever, RetrieveRerank
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import Mode
from twinvec.retrieval.retrieve_rerank import OWN_OPTIONS, without_passages
from twinvec.support.checks import check_choice, refuse_unknown
from twinvec_qdrant import all_of, understood_filter


class TwinvecRetriever(BaseRetriever):
    """Retrieves from a twinvec collection or index, and reranks if it has a reranker.

    A document has the hit's id. Its metadata has the hit's payload, ``relevance_score`` and ``twinvec_scores`` (the
    score of each stage by name). The payload of a collection's hit has ``source``, ``position`` and ``heading``, unless
    the ingested document has such keys itself; ``source`` is the id of the document.

        retriever = TwinvecRetriever(retriever=collection, reranker=collection.maxsim(), k=5)
        documents = retriever.invoke("How do I get time off?", filter={"team": "hr"})
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    retriever: Any = Field(exclude=True, repr=False)
    """Any object with ``search(query, limit, filter)``: a ``twinvec_qdrant.Collection``, a ``MemoryIndex``. It may be
    replaced while chains use this retriever."""
    reranker: Any = Field(default=None, exclude=True, repr=False)
    """Any object with ``rerank(query, hits, limit)``; None leaves reranking out."""
    k: int = Field(default=4, ge=1)
    """Largest number of documents."""
    candidates: int = Field(default=100, ge=1)
    """Number of documents to retrieve for the reranker."""
    filter: dict[str, Any] | None = None
    """Conditions on the payload, as in ``twinvec.retrieval.filters``, or a ``qdrant_client.models.Filter``. The filter
    of a call is added to them."""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """More arguments of the retriever's ``search``, such as ``{"mode": "dense"}``."""

    @field_validator("filter", mode="before")
    @classmethod
    def _understood(cls, filter: Any) -> Any:
        return understood_filter(filter)

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings.

        Raises:
            ValidationError: the retriever is a vector store, or has no ``search``; or mode or filter are not valid.
        """
        super().model_post_init(context)
        _check_retriever(self.retriever)
        if "mode" in self.search_kwargs:
            check_choice(self.search_kwargs["mode"], Mode, "mode")

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Any = None,
        **search_kwargs: Any,
    ) -> list[Document]:
        given = {**self.search_kwargs, **search_kwargs}
        own = OWN_OPTIONS if self.reranker is not None else frozenset[str]()
        refuse_unknown({name: given[name] for name in given.keys() - own if not _takes(self.retriever.search, name)})
        options = {**without_passages(self.retriever), **given}  # LangChain's documents have no place for passages
        limit = self.k if k is None else k
        search: Retriever = self.retriever
        if self.reranker is not None:
            search = RetrieveRerank(self.retriever, self.reranker, candidates=self.candidates)
        conditions = all_of([self.filter or {}, understood_filter(filter) or {}]) or None
        hits = search.search(query, limit=limit, filter=conditions, **options)
        return [document_of(hit) for hit in hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await run_in_executor(
            None, self._get_relevant_documents, query, run_manager=run_manager.get_sync(), **options
        )

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = type(self.retriever).__name__
        params["ls_embedding_provider"] = "twinvec"
        model = getattr(getattr(self.retriever, "encoder", None), "name", None)
        if model is not None:
            params["ls_embedding_model"] = model
        return params


def _takes(search: Callable[..., Any], name: str) -> bool:
    """Return whether ``search`` accepts this argument, and the retriever does not give it already."""
    parameters = signature(search).parameters
    takes_all = any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values())
    return name not in ("query", "limit", "filter") and (takes_all or name in parameters)


def _check_retriever(retriever: object) -> None:
    if isinstance(retriever, VectorStore):
        raise ConfigurationError(
            f"retriever: a {type(retriever).__name__} is a vector store: give its collection (store.collection), or "
            "call store.as_retriever()"
        )
    if not callable(getattr(retriever, "search", None)):
        raise ConfigurationError(
            "retriever: expected an object with search(query, limit, filter), such as a twinvec_qdrant.Collection, "
            f"got {type(retriever).__name__}"
        )


class StoreRetriever(VectorStoreRetriever):
    """LangChain's retriever of a store; the ``filter`` of a call is added to that of ``search_kwargs``.

    In LangChain's own retriever, the filter of a call replaces that of ``search_kwargs``: a call could then read other
    tenants' documents, although the retriever is limited to one tenant.
    """

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return super()._get_relevant_documents(query, run_manager=run_manager, **self._within(kwargs))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await super()._aget_relevant_documents(query, run_manager=run_manager, **self._within(kwargs))

    def _within(self, options: dict[str, Any]) -> dict[str, Any]:
        if "filter" not in options:
            return options
        filters = (self.search_kwargs.get("filter"), options["filter"])
        return {**options, "filter": all_of([understood_filter(each) or {} for each in filters]) or None}
