"""Calls that tasks of a cluster do ahead of the process that takes their results in order.

They are tasks, and not calls of the pool's actors: a file may take down the process that parses it, and an actor has a
model and other work to lose. A call whose process has died is done again here and not by Ray, which would start a task
that runs out of memory again forever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    WorkerCrashedError,
)

from twinvec.errors import EngineError
from twinvec_qdrant import HelperCall
from twinvec_ray.cluster import Plan
from twinvec_ray.pool import START_SECONDS, cause_of, not_started

AHEAD = 16
"""Items for each CPU of the cluster that are taken before their turn."""

AHEAD_BYTES = 64 * 1024 * 1024
"""Bytes that the calls among them may have together; a call of more has no other one beside it."""

TRIES = 4
"""Processes that do a call, one after another, until it is given up."""

_END = object()
_DEATHS = (LocalRayletDiedError, NodeDiedError, ObjectLostError, OutOfMemoryError, WorkerCrashedError)


class _Taken(NamedTuple):
    """An item that is taken before its turn, and the reference of its result if it is a call."""

    item: Any
    reference: Any = None


def computed(items: Iterator[Any], plan: Plan) -> Iterator[Any]:
    """Yield items in their order, with the result of each ``HelperCall`` in its place; see ``Helpers.computed``.

    Raises:
        TwinvecError: a call raised it.
        EngineError: a call raised another error; or no task has found room on the cluster.
    """
    tasks = _Tasks(plan)
    taken: deque[_Taken] = deque()
    size = 0
    item = next(items, _END)  # the next one to take
    try:
        while taken or item is not _END:
            room = len(taken) < AHEAD * plan.cores and (not taken or size + _size(item) <= AHEAD_BYTES)
            if room and item is not _END:
                taken.append(tasks.begun(item))
                size += _size(item)
                item = next(items, _END)
            else:
                first = taken.popleft()
                size -= _size(first.item)
                yield tasks.result(first)
    finally:
        for each in taken:
            if each.reference is not None:
                ray.cancel(each.reference, force=False)


class _Tasks:
    """The tasks of one ``computed``."""

    def __init__(self, plan: Plan) -> None:
        self._needs = {"num_cpus": plan.task_cpus}
        self._task = _TASK.options(**self._needs, scheduling_strategy="SPREAD", max_retries=0)
        self._begun = False
        self._probe: Any = None  # the first task, while nobody knows whether it finds room

    def begun(self, item: Any) -> _Taken:
        """Let a task do a call; any other item needs none."""
        if not isinstance(item, HelperCall):
            return _Taken(item)
        if not self._begun:
            self._probe = self._task.remote(bool)
            self._begun = True
        return _Taken(item, self._task.remote(item.function, *item.arguments))

    def result(self, taken: _Taken) -> Any:
        """Wait for the result of a call; any other item is its own result."""
        if taken.reference is None:
            return taken.item
        self._wait_for_room()
        for tries in range(1, TRIES + 1):
            try:
                return ray.get(taken.reference)
            except _DEATHS:
                if tries < TRIES:
                    taken = self.begun(taken.item)
            except RayError as error:
                raise cause_of(error) from None
        return taken.item.lost

    def _wait_for_room(self) -> None:
        """Raise EngineError if other jobs hold the cluster: the first task is short, while a call may take any time."""
        if self._probe is not None:
            done, _ = ray.wait([self._probe], timeout=START_SECONDS)
            if not done:
                raise EngineError(not_started(self._needs))
            self._probe = None


def _size(item: Any) -> int:
    return item.size if isinstance(item, HelperCall) else 0


def _do(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


_TASK: Any = ray.remote(_do)
