"""Evaluation of models and of the collections that serve them.

Correlations, accuracies and ranking measures are multiplied by 100.
"""

from __future__ import annotations

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {}, modules="beir bias ir nli pairs reranking serving statistics sts tuning"
)
