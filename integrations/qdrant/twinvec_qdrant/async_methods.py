"""Awaitable forms of a collection's methods: they run on the event loop if the store permits it, else in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar

from twinvec.support.async_methods import awaitable
from twinvec_qdrant.stores.steps import Steps

P = ParamSpec("P")
T = TypeVar("T")

_PAGE = 512  # items that a worker thread reads at a time


def awaiting(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the awaitable form of a method that ends with ``self._run(steps)``."""
    threaded, computed = awaitable(method), awaitable(method, computes=True)

    @wraps(method)
    async def twin(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        backend = self._backend
        if not backend.can_await:
            # an exclusive backend computes in this process; a shared backend waits for a server
            return await (computed if backend.exclusive else threaded)(self, *args, **options)
        steps: Any = method(_Unrun(self), *args, **options)
        found: T = await backend.run_awaiting(steps)
        return found

    twin.__name__ = f"a{method.__name__}"
    twin.__doc__ = f"``{method.__name__}``, awaitable."
    return twin


def streaming(method: Callable[Concatenate[Any, P], Iterator[T]]) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """Return the asynchronous form of a method that returns an iterator; it reads in a worker thread."""
    begin = awaitable(method)

    @wraps(method)
    async def twin(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncIterator[T]:
        found = await begin(self, *args, **options)
        while page := await _next_page(found):
            for each in page:
                yield each

    twin.__name__ = f"a{method.__name__}"
    twin.__doc__ = f"``{method.__name__}``, for ``async for``: it runs in a worker thread."
    return twin


_next_page = awaitable(lambda items: list(islice(items, _PAGE)))


class _Unrun:
    """Wraps a collection so that a method returns its steps (``stores.steps``) instead of running them."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def _run(self, steps: Steps[T]) -> Steps[T]:
        return steps
