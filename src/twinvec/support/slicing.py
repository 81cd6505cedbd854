"""Cutting items into lists that are small enough for one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def sliced_by_weight(
    items: Iterable[Item], weigh: Callable[[Item], int], *, most: int, heaviest: int
) -> Iterator[list[Item]]:
    """Yield the items in lists of at most ``most`` items, whose weights add up to at most ``heaviest``.

    An item that is heavier than ``heaviest`` is alone in its list.
    """
    part: list[Item] = []
    weight = 0
    for item in items:
        added = weigh(item)
        if part and (len(part) == most or weight + added > heaviest):
            yield part
            part, weight = [], 0
        part.append(item)
        weight += added
    if part:
        yield part
