"""Async twins of blocking methods: the same code, in a worker thread.

Searches of a server overlap, being spent in waiting, up to ``MOST_AT_ONCE`` of a process; further ones wait for their
turn. The embedded engine computes one at a time; there a twin keeps the event loop free.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_AT_ONCE = 64
"""Twins under way at once in a process. The event loop's own threads are a few more than there are cores, and are not
used; threads begin when they are needed."""


def awaitable(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The awaitable form of a method; it takes the same arguments and raises the same errors.

    Cancelled, it stops waiting; what has begun is done to its end.
    """

    @wraps(method)
    async def twin(*args: P.args, **options: P.kwargs) -> T:
        call = partial(contextvars.copy_context().run, method, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(_threads(), call)

    twin.__name__ = f"a{method.__name__}"
    twin.__doc__ = f"``{method.__name__}``, awaitable: it runs in a worker thread."
    return twin


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="twinvec-async")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of the threads
