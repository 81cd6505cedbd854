"""Tuning: choose the mode, the weights and the reranker of a search, by judged queries or by made-up ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.evaluation.tuning.search_settings import ASSURED as ASSURED
    from twinvec.evaluation.tuning.search_settings import CANDIDATES as CANDIDATES
    from twinvec.evaluation.tuning.search_settings import FOLDS as FOLDS
    from twinvec.evaluation.tuning.search_settings import MIXES as MIXES
    from twinvec.evaluation.tuning.search_settings import PLAIN as PLAIN
    from twinvec.evaluation.tuning.search_settings import PSEUDO_DOCUMENTS as PSEUDO_DOCUMENTS
    from twinvec.evaluation.tuning.search_settings import WORDS as WORDS
    from twinvec.evaluation.tuning.search_settings import Tuning as Tuning
    from twinvec.evaluation.tuning.search_settings import by_passages as by_passages
    from twinvec.evaluation.tuning.search_settings import choose as choose
    from twinvec.evaluation.tuning.search_settings import measure_settings as measure_settings
    from twinvec.evaluation.tuning.search_settings import tune as tune
    from twinvec.evaluation.tuning.search_settings import tune_by_documents as tune_by_documents

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ASSURED": "search_settings",
        "CANDIDATES": "search_settings",
        "FOLDS": "search_settings",
        "MIXES": "search_settings",
        "PLAIN": "search_settings",
        "PSEUDO_DOCUMENTS": "search_settings",
        "Tuning": "search_settings",
        "WORDS": "search_settings",
        "by_passages": "search_settings",
        "choose": "search_settings",
        "measure_settings": "search_settings",
        "tune": "search_settings",
        "tune_by_documents": "search_settings",
    },
)
