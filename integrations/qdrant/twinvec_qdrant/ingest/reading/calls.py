"""Calls: what other processes may do for the one that reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class HelperCall:
    """A call that another process may do.

    Attributes:
        function: A function of a module that every process can import; what it gives depends on its arguments only.
        arguments: Its arguments.
        size: Bytes of the arguments, about.
        lost: What stands for the result if every process that did the call has died.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    size: int
    lost: Any


WithResults = Callable[[Iterator[Any]], Iterator[Any]]
"""Yields the items that it gets in their order, with the result of each ``HelperCall`` in its place."""
