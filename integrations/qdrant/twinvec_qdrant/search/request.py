"""The request: all arguments of a search except the query, checked once at the start."""

from __future__ import annotations

from copy import copy
from dataclasses import InitVar, dataclass, field

from twinvec.retrieval.base import Mode, check_least_relevance, check_limit, check_offset
from twinvec.retrieval.feedback import check_feedback
from twinvec.retrieval.filters import Filter, listed_keys, parse_filter
from twinvec.support.checks import check_choice
from twinvec_qdrant.records.schema import filter_conditions
from twinvec_qdrant.stores.conditions import StoreCondition


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The checked arguments of ``Collection.search``; raises its errors. The fusion later checks ``weights``.

    ``passages`` says whether each hit gets the passage that answers the query. ``syntax`` says whether queries may have
    phrases in quotes and excluded words (``retrieval.syntax``). ``named`` holds the payload keys that the filter
    restricts to listed values.
    """

    limit: int = 10
    mode: Mode = "hybrid"
    filter: InitVar[Filter | None] = None
    group: bool = True
    offset: int = 0
    weights: tuple[float, float] = (1.0, 1.0)
    exact: bool = False
    passages: bool = True
    feedback: int = 0
    syntax: bool = False
    min_relevance: float | None = None
    conditions: tuple[StoreCondition, ...] = field(init=False)
    named: frozenset[str] = field(init=False)

    def __post_init__(self, filter: Filter | None) -> None:
        check_limit(self.limit)
        check_offset(self.offset)
        check_choice(self.mode, Mode, "mode")
        check_feedback(self.feedback)
        check_least_relevance(self.min_relevance)
        parsed = parse_filter(filter)
        object.__setattr__(self, "exact", bool(self.exact))  # the embedded Qdrant engine accepts bool only
        object.__setattr__(self, "conditions", filter_conditions(parsed))
        object.__setattr__(self, "named", listed_keys(parsed))

    @property
    def moves(self) -> bool:
        """Return whether feedback moves the vectors of the queries before the search."""
        return self.feedback > 0 and self.mode != "sparse"

    def of_first_hits(self) -> SearchRequest:
        """Return the request for the first hits, towards which feedback moves the query's vector."""
        first = copy(self)
        for name, value in (("limit", self.feedback), ("offset", 0), ("feedback", 0)):
            object.__setattr__(first, name, value)
        return first

    @property
    def depth(self) -> int:
        """Return the number of candidates needed for this page and the pages before it."""
        return self.offset + self.limit
