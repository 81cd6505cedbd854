"""Awaitable forms of blocking methods: the same code in a worker thread.

Calls that wait for a server overlap, up to ``MOST_AT_ONCE`` in a process. Calls that compute keep the event loop free.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_AT_ONCE = 64
"""Largest number of calls that run at once in a process; further calls wait for a free thread.

The event loop's default pool has only a few more threads than the machine has cores, so it is not used.
"""


def awaitable(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the awaitable form of a method. A cancelled call stops waiting; work that has begun continues."""

    @wraps(method)
    async def twin(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        call = partial(contextvars.copy_context().run, method, self, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(_threads(), call)

    twin.__name__ = f"a{method.__name__}"
    twin.__doc__ = f"``{method.__name__}``, awaitable: it runs in a worker thread."
    return twin


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="twinvec-async")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of the threads
