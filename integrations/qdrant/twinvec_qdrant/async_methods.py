"""Awaitable forms of a collection's methods: they run on the event loop if the store permits it, else in a thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from twinvec.support.async_methods import awaitable
from twinvec_qdrant.stores.steps import Steps

P = ParamSpec("P")
T = TypeVar("T")


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


class _Unrun:
    """Wraps a collection so that a method returns its steps (``stores.steps``) instead of running them."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def _run(self, steps: Steps[T]) -> Steps[T]:
        return steps
