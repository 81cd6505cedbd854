"""Stands in for the helpers of an ingest: this process does their calls, some items ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from twinvec_qdrant import HelperCall


def read_ahead(
    items: Iterator[Any], ahead: int = 4, dies: Callable[[HelperCall], bool] = lambda call: False
) -> Iterator[Any]:
    """What ``Helpers.with_results`` does; ``dies`` says which calls every process dies of."""
    taken: deque[Any] = deque()
    for each in items:
        if isinstance(each, HelperCall):
            taken.append(each.lost if dies(each) else each.function(*each.arguments))
        else:
            taken.append(each)
        if len(taken) == ahead:
            yield taken.popleft()
    yield from taken
