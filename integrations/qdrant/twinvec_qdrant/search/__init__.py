"""Search: a query becomes hits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec_qdrant.search.searcher import Searcher as Searcher

__getattr__, __dir__ = lazy_names(__name__, {"searcher": "Searcher"})
