"""The request: the arguments of a search except the query, checked once, where they enter."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field

from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import MAX_LIMIT, Mode, check_limit
from twinvec.retrieval.filters import Filter, listed_keys, parse_filter
from twinvec.support.checks import check_choice, is_integer
from twinvec_qdrant.records.schema import filter_conditions
from twinvec_qdrant.stores.conditions import StoreCondition


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The checked arguments of ``Collection.search``; errors are the same, except that fusion checks the weights.

    ``named`` holds the payload keys that the filter restricts to listed values.
    """

    limit: int = 10
    mode: Mode = "hybrid"
    filter: InitVar[Filter | None] = None
    group: bool = True
    offset: int = 0
    weights: tuple[float, float] = (1.0, 1.0)
    exact: bool = False
    conditions: tuple[StoreCondition, ...] = field(init=False)
    named: frozenset[str] = field(init=False)

    def __post_init__(self, filter: Filter | None) -> None:
        check_limit(self.limit)
        if not is_integer(self.offset) or not 0 <= self.offset <= MAX_LIMIT:
            raise ConfigurationError(f"offset must be an integer from 0 to {MAX_LIMIT:,}, got {self.offset!r}")
        check_choice(self.mode, Mode, "mode")
        parsed = parse_filter(filter)
        object.__setattr__(self, "conditions", filter_conditions(parsed))
        object.__setattr__(self, "named", listed_keys(parsed))

    @property
    def depth(self) -> int:
        """Return the number of candidates needed: those of the pages before and of this one."""
        return self.offset + self.limit
