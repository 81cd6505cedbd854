"""Async forms of blocking methods: the same code, run in a worker thread.

Searches of a server spend their time waiting, so up to ``MOST_AT_ONCE`` of them overlap in a process; further calls
wait for a free thread. The embedded engine runs one search at a time; there, the async form only keeps the event loop
free.
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
"""Most async calls that run at once in a process. The event loop's default executor has only a few threads more than
the machine has cores, so the calls have an executor of their own; it starts threads when they are needed."""


def awaitable(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the async form of a method: it takes the same arguments and raises the same errors.

    Cancelling the call stops the waiting; the work in the thread runs to its end.
    """

    @wraps(method)
    async def run_in_thread(*args: P.args, **options: P.kwargs) -> T:
        call = partial(contextvars.copy_context().run, method, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(_threads(), call)

    run_in_thread.__name__ = f"a{method.__name__}"
    run_in_thread.__doc__ = f"Async form of ``{method.__name__}``: runs it in a worker thread."
    return run_in_thread


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="twinvec-async")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork
