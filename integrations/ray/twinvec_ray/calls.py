"""Calls that Ray tasks compute in advance, for a process that reads the results in order.

The calls run in tasks, not in the pool's actors: a file may crash the process that parses it, and an actor would lose
its model and other work. If the process of a call dies, this module repeats the call. Ray would repeat a task that runs
out of memory for ever. The tasks reserve no CPU: after a node's death, the workers may hold all CPUs that are left. The
operating system then shares the CPUs between workers and tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    WorkerCrashedError,
)

from twinvec_qdrant import HelperCall
from twinvec_ray.cluster import Plan
from twinvec_ray.pool import cause_of

AHEAD = 16
"""Number of items that are read in advance, for each CPU of the cluster."""

AHEAD_BYTES = 64 * 1024 * 1024
"""Largest total size of the calls that are computed in advance, in bytes. A larger call is computed by itself."""

TRIES = 4
"""How often a call is tried, each time by another process, before it fails."""

_END = object()
_DEATHS = (LocalRayletDiedError, NodeDiedError, ObjectLostError, OutOfMemoryError, WorkerCrashedError)


@dataclass(slots=True)
class _Taken:
    """An item that was read in advance; ``reference`` refers to its result if a task computes it."""

    item: Any
    reference: Any = None


def with_results(items: Iterator[Any], plan: Plan) -> Generator[Any]:
    """Yield items in their order; the result of a ``HelperCall`` replaces the call. See ``Helpers.with_results``.

    Raise a TwinvecError of a call, and any other error as EngineError.
    """
    tasks = _Tasks(plan)
    taken: deque[_Taken] = deque()
    size = 0
    item = next(items, _END)  # the next item to read
    try:
        while taken or item is not _END:
            room = len(taken) < AHEAD * plan.cores and (not taken or size + _size(item) <= AHEAD_BYTES)
            if room and item is not _END:
                taken.append(tasks.take(item))
                size += _size(item)
                item = next(items, _END)
            else:
                first = taken.popleft()
                size -= _size(first.item)
                yield tasks.result(first)
    finally:
        tasks.close()


class _Tasks:
    """The tasks of one call of ``with_results``. At most one per CPU runs at a time, each in its own process."""

    def __init__(self, plan: Plan) -> None:
        self._task = _TASK.options(num_cpus=0, scheduling_strategy="SPREAD", max_retries=0)
        self._most = plan.cores
        self._waiting: deque[_Taken] = deque()  # calls whose tasks have not begun
        self._running: list[Any] = []  # Ray's references to the results of running tasks

    def take(self, item: Any) -> _Taken:
        """Queue a call for a task; any other item needs no task."""
        taken = _Taken(item)
        if isinstance(item, HelperCall):
            self._waiting.append(taken)
            self._go_on(wait=False)
        return taken

    def result(self, taken: _Taken) -> Any:
        """Return the result of a call when its task has ended; return any other item unchanged."""
        if not isinstance(taken.item, HelperCall):
            return taken.item
        for left in reversed(range(TRIES)):
            while taken.reference is None or taken.reference in self._running:
                self._go_on(wait=True)
            try:
                return ray.get(taken.reference)
            except _DEATHS:
                if left:
                    taken.reference = None
                    self._waiting.appendleft(taken)
                    self._go_on(wait=False)
            except RayError as error:
                raise cause_of(error) from None
        return taken.item.lost

    def close(self) -> None:
        """End the tasks."""
        if ray.is_initialized():  # if Ray does not run, cancelling would start a cluster
            for reference in self._running:
                ray.cancel(reference, force=False)

    def _go_on(self, *, wait: bool) -> None:
        """Remove ended tasks, and start tasks for waiting calls; with ``wait``, wait for the end of a task first."""
        if self._running:
            number, seconds = (1, None) if wait else (len(self._running), 0)
            _, self._running = ray.wait(self._running, num_returns=number, timeout=seconds, fetch_local=False)
        while self._waiting and len(self._running) < self._most:
            taken = self._waiting.popleft()
            taken.reference = self._task.remote(taken.item.function, *taken.item.arguments)
            self._running.append(taken.reference)


def _size(item: Any) -> int:
    return item.size if isinstance(item, HelperCall) else 0


def _do(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


_TASK: Any = ray.remote(_do)
