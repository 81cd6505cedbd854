"""The retriever of a vector store, whose own filter holds for every call."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStoreRetriever

from twinvec_qdrant import all_of, understood_filter


class StoreRetriever(VectorStoreRetriever):
    """LangChain's retriever of a store; the ``filter`` of a call is added to that of ``search_kwargs``.

    In LangChain's own retriever, the filter of a call replaces that of ``search_kwargs``: a call could then leave the
    tenant to which the retriever is limited.
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
