"""Tuning: choose the mode, the weights and the reranker of a search, by judged queries or by pseudo-queries."""

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("Tuning", "tune", "tune_by_documents"), "search_settings"))
