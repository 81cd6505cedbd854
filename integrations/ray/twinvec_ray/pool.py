"""A pool of actors that outlives the death of its actors.

Each actor has two calls at a time: one it works on, and one that waits for it. An actor that dies is replaced; whoever
gave it the calls decides what becomes of them. The pool goes on with the actors it has while a new one is starting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from twinvec.errors import EngineError, TwinvecError

T = TypeVar("T")

START_SECONDS = 300.0
"""How long the pool waits while no actor has started."""

_AT_ONCE = 2
_MOST_DEATHS = 3  # of actors of the pool in a row, for each actor, while none of them gets anything done


class Died:
    """The result of a call whose actor has died."""


DIED = Died()


@dataclass(slots=True)
class _Member:
    actor: Any
    started: Any  # the reference of what it says when it has started; None once it has
    hello: Any = None
    calls: dict[Any, Any] = field(default_factory=dict)  # reference -> item


class Pool(Generic[T]):
    """Actors of one kind.

    Args:
        make: Makes an actor. Its method ``hello`` loads what it needs, and says who it is.
        size: Number of actors.
        needs: What each of them needs, for the error if none starts.
    """

    def __init__(self, make: Callable[[], Any], size: int, needs: dict[str, Any]) -> None:
        self._make = make
        self._needs = needs
        self._deaths = 0
        self._size = size
        self.ended: list[Any] = []
        """What the actors that have died said when they started."""
        self._members = [self._new() for _ in range(size)]

    def close(self) -> None:
        """Kill the Ray actors of the pool."""
        for member in self._members:
            ray.kill(member.actor)
        self._members = []

    def results(self, items: Iterator[T], submit: Callable[[Any, T], Any]) -> Iterator[tuple[T, Any]]:
        """Yield each item with its result, or with ``DIED``, in any order.

        ``submit`` takes an actor and an item, and returns the reference of the result. No more items are taken than the
        actors have room for.

        Raises:
            TwinvecError: an actor raised it.
            EngineError: no actor starts, or all of them die again and again; the message says what they need.
        """
        exhausted, idle_since = False, time.monotonic()
        try:
            while True:
                while not exhausted and (member := self._with_room()):
                    item = next(items, DIED)
                    if isinstance(item, Died):
                        exhausted = True
                    else:
                        member.calls[submit(member.actor, item)] = item
                waiting = self._waiting()
                if exhausted and not any(member.calls for member in self._members):
                    return
                done, _ = ray.wait(waiting, num_returns=1, timeout=5.0)
                if done or any(member.started is None for member in self._members):
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since > START_SECONDS:
                    raise EngineError(self._not_started())
                for reference in done:
                    yield from self._arrived(reference)
        finally:
            for member in self._members:
                for reference in member.calls:
                    ray.cancel(reference, force=False)
                member.calls.clear()

    def _new(self) -> _Member:
        actor = self._make()
        return _Member(actor, actor.hello.remote())

    def _with_room(self) -> _Member | None:
        """Return the actor with the fewest calls, if it has room."""
        ready = [member for member in self._members if member.started is None]
        least = min(ready, key=lambda member: len(member.calls), default=None)
        return least if least is not None and len(least.calls) < _AT_ONCE else None

    def _waiting(self) -> list[Any]:
        starting = [member.started for member in self._members if member.started is not None]
        return [*starting, *(reference for member in self._members for reference in member.calls)]

    def _arrived(self, reference: Any) -> Iterator[tuple[T, Any]]:
        member = next((each for each in self._members if each.started is reference or reference in each.calls), None)
        if member is None:
            return  # its actor has died, which another call of it has told
        try:
            result = ray.get(reference)
        except RayActorError as error:
            yield from self._replaced(member, error)
            return
        except RayTaskError as error:
            raise cause_of(error) from None
        if member.started is reference:
            member.hello, member.started = result, None
            return
        self._deaths = 0
        yield member.calls.pop(reference), result

    def _replaced(self, member: _Member, error: RayActorError) -> Iterator[tuple[T, Any]]:
        self._deaths += 1
        if member.hello is not None:
            self.ended.append(member.hello)
        row = self._members.index(member)
        lost = list(member.calls.values())
        member.calls.clear()
        if self._deaths > _MOST_DEATHS * self._size:
            raise EngineError(f"the workers die again and again: {error}")
        self._members[row] = self._new()
        yield from ((item, DIED) for item in lost)

    def _not_started(self) -> str:
        whole: Callable[[], dict[str, Any]] = ray.cluster_resources
        free: Callable[[], dict[str, Any]] = ray.available_resources
        return (
            f"no worker has started for {START_SECONDS:.0f} seconds: each needs {_resources(self._needs)}, and of the "
            f"cluster's {_resources(whole())} there are free: {_resources(free())}"
        )


def cause_of(error: RayError) -> TwinvecError:
    """Return what a task or an actor raised, without Ray's notes on retries; or an EngineError that quotes it."""
    cause = error.cause if isinstance(error, RayTaskError) else None
    if isinstance(cause, TwinvecError):
        cause.__dict__.pop("__notes__", None)
        return cause
    return EngineError(f"a worker failed: {error if cause is None else f'{type(cause).__name__}: {cause}'}")


def _resources(values: dict[str, Any]) -> str:
    names = {"num_cpus": "CPU", "num_gpus": "GPU"}
    shown = {names.get(name, name): value for name, value in values.items()}
    return ", ".join(f"{shown[name]:g} {name}" for name in ("CPU", "GPU") if shown.get(name)) or "no CPU"
