"""Awaitable forms of blocking methods: the same code in a worker thread.

Calls that wait for a server overlap, up to ``MOST_AT_ONCE`` in a process. Of calls that compute, only
``MOST_COMPUTING`` run at once: more such calls would not end sooner, and would keep the event loop waiting for the
interpreter's lock. One more thread hands calls to the workers, because starting a thread makes its caller wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_AT_ONCE = 64
"""Largest number of waiting calls that run at once in a process; further calls wait for a free thread.

The event loop's default pool has only a few more threads than the machine has cores, so it is not used.
"""

MOST_COMPUTING = 2
"""Largest number of computing calls that run at once in a process."""


def awaitable(
    method: Callable[Concatenate[Any, P], T], *, computes: bool = False, writes: str = ""
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the awaitable form of a method; ``computes`` means that its calls compute more than they wait.

    A cancelled call stops waiting; work that has begun continues. If the method writes, ``writes`` names the object to
    close before a retry, and the new docstring says so.
    """
    most = MOST_COMPUTING if computes else MOST_AT_ONCE

    @wraps(method)
    async def twin(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        function = partial(contextvars.copy_context().run, method, self, *args, **options)
        answer: Future[T] = Future()
        _dispatcher().submit(_hand_on, most, function, answer)
        return await asyncio.wrap_future(answer)

    twin.__name__ = f"a{method.__name__}"
    twin.__doc__ = f"``{method.__name__}``, awaitable: it runs in a worker thread."
    if writes:
        twin.__doc__ += f" A cancelled call goes on writing in that thread: before a retry, close {writes}."
    return twin


def _hand_on(most: int, function: Callable[[], T], answer: Future[T]) -> None:
    try:
        _threads(most).submit(_run, function, answer)
    except BaseException as error:  # the interpreter ends, or the system has no thread left
        answer.set_exception(error)


def _run(function: Callable[[], T], answer: Future[T]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        found = function()
    except BaseException as error:  # errors of any type are passed on to the caller, who waits
        answer.set_exception(error)
    else:
        answer.set_result(found)


@cache
def _dispatcher() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="twinvec-dispatcher")


@cache
def _threads(most: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(most, thread_name_prefix="twinvec-async")


def _forget_threads() -> None:
    _dispatcher.cache_clear()
    _threads.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # a forked process lacks the threads
