"""Tuning: choose the mode, the weights and the reranker of a search, by judged queries or by pseudo-queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.evaluation.tuning.search_settings import Tuning as Tuning
    from twinvec.evaluation.tuning.search_settings import tune as tune
    from twinvec.evaluation.tuning.search_settings import tune_by_documents as tune_by_documents

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Tuning": "search_settings",
        "tune": "search_settings",
        "tune_by_documents": "search_settings",
    },
)
