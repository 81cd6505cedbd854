"""Async twins of blocking methods: the same code, in a worker thread.

Searches of a server overlap fully, being spent in waiting. The embedded engine computes one at a time; there a twin
keeps the event loop free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The awaitable form of a method; it takes the same arguments and raises the same errors.

    Cancelled, it stops waiting; what has begun is done to its end.
    """

    @wraps(method)
    async def twin(*args: P.args, **options: P.kwargs) -> T:
        return await asyncio.to_thread(method, *args, **options)

    twin.__name__ = f"a{method.__name__}"
    twin.__doc__ = f"``{method.__name__}``, awaitable: it runs in a worker thread."
    return twin
