"""A pool of actors that outlives the death of its actors.

Each actor has two calls at a time: one that runs and one that waits. The pool replaces an actor that dies, and goes on
with the others while the new one starts. The caller decides whether to repeat the calls of the dead actor.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayError, RayTaskError

from twinvec.errors import EngineError, TwinvecError

T = TypeVar("T")

logger = logging.getLogger(__name__)

START_SECONDS = 300.0
"""Seconds that the pool waits while no actor has started."""

_RESOURCES = {"num_cpus": "CPU", "num_gpus": "GPU"}  # option of an actor -> resource of a cluster
_AT_ONCE = 2
_CALLS_TO_GROW = 8  # finished calls per permitted actor before one more actor is permitted
_END = object()
_RETRIES = re.compile(r"\nFailed to [^\n]+ after \d+/\d+ attempts .*?believe this to be transient\.", re.DOTALL)
"""Ray's note on its own retries, at the end of an error."""

_MOST_DEATHS = 3  # largest number of deaths since the last finished call, for each actor of the pool


DIED = object()
"""Takes the place of a result if the actor has died, or the machine that held the result is lost."""

BUSY = object()
"""Takes the place of a result if a resource that the actors share, such as a server, was too busy."""


@dataclass(frozen=True, slots=True)
class _Call:
    item: Any
    alone: bool  # whether only this actor had calls, and only one actor was permitted to have calls
    slowed: int  # how often the pool had been slowed down when the call began


@dataclass(slots=True)
class _Member:
    actor: Any
    started: Any  # reference to the result of ``hello``; None once the actor has started
    hello: Any = None
    calls: dict[Any, _Call] = field(default_factory=dict)  # keys: Ray's object references of the results


class Pool(Generic[T]):
    """Actors of one kind.

    The pool begins with ``least`` actors. While all of them are at work and the cluster has room, the pool adds others.
    If a call fails because a shared resource is busy, only half of the actors get calls from then on. The number grows
    slowly again while calls succeed.

    Args:
        make: Makes an actor. Its method ``hello`` loads the model, and returns the identity of the process.
        least: Number of actors to begin with.
        most: Largest number of actors.
        needs: The resources of each actor, as options of Ray's actors.
        busy: Type of the error after which a call may succeed later, with fewer actors at work.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        least: int,
        most: int,
        needs: dict[str, Any],
        busy: type[TwinvecError] | None = None,
    ) -> None:
        self._make = make
        self._needs = needs
        self._deaths = 0
        self._most = most
        self._busy = busy
        self._permitted = float(most)  # actors that have calls at the same time
        self._slowed = 0
        self.ended: list[Any] = []
        """The results of ``hello`` of the actors that have died."""
        self._members = [self._new() for _ in range(least)]

    def idle(self) -> list[Any]:
        """Return the results of ``hello`` of the actors without calls."""
        return [member.hello for member in self._members if member.started is None and not member.calls]

    def close(self) -> None:
        """Kill the Ray actors of the pool."""
        for member in self._members:
            ray.kill(member.actor)
        self._members = []

    def results(self, items: Iterator[T], submit: Callable[[Any, T], Any]) -> Iterator[tuple[T, Any]]:
        """Yield each item with its result, in any order. The caller must repeat items with ``DIED`` or ``BUSY``.

        ``submit`` takes an actor and an item, and returns the reference of the result. Items are read only when an
        actor has room for them.

        Raise a TwinvecError of an actor, but the error ``busy`` only if no other actor was at work. Raise EngineError
        if no actor starts, or if the actors die again and again.
        """
        exhausted, idle_since = False, time.monotonic()
        try:
            while True:
                while not exhausted and (member := self._with_room()):
                    item: Any = next(items, _END)
                    if item is _END:
                        exhausted = True
                    else:
                        call = _Call(item, self._is_alone(member), self._slowed)
                        member.calls[submit(member.actor, item)] = call
                if not exhausted:
                    self._grow()
                if exhausted and not any(member.calls for member in self._members):
                    return
                done, _ = ray.wait(self._waiting(), num_returns=1, timeout=5.0)
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

    def _grow(self) -> None:
        """Add an actor if more are permitted, all have started, and the cluster has room for another one."""
        if len(self._members) >= int(self._permitted) or any(each.started is not None for each in self._members):
            return
        free: Callable[[], dict[str, Any]] = ray.available_resources
        has = free()
        if all(has.get(_RESOURCES[need], 0.0) >= amount for need, amount in self._needs.items()):
            self._members.append(self._new())

    def _with_room(self) -> _Member | None:
        """Return the actor with the fewest calls, if it has room and may have calls."""
        ready = [member for member in self._members if member.started is None]
        permitted = sorted(ready, key=lambda member: not member.calls)[: int(self._permitted)]
        least = min(permitted, key=lambda member: len(member.calls), default=None)
        return least if least is not None and len(least.calls) < _AT_ONCE else None

    def _is_alone(self, member: _Member) -> bool:
        """Return whether no other actor has calls, and only one actor is permitted to have calls."""
        return int(self._permitted) == 1 and not any(each.calls for each in self._members if each is not member)

    def _waiting(self) -> list[Any]:
        starting = [member.started for member in self._members if member.started is not None]
        return [*starting, *(reference for member in self._members for reference in member.calls)]

    def _arrived(self, reference: Any) -> Iterator[tuple[T, Any]]:
        member = next((each for each in self._members if each.started is reference or reference in each.calls), None)
        if member is None:
            return  # the actor has died, and was replaced already
        try:
            result = ray.get(reference)
        except (RayActorError, ObjectLostError) as error:  # a result is lost with the machine that holds it
            yield from self._replaced(member, error)
            return
        except RayTaskError as error:
            yield from self._refused(member, reference, cause_of(error))
            return
        if member.started is reference:
            member.hello, member.started = result, None
            return
        self._deaths = 0
        self._permitted = min(self._permitted + 1 / (_CALLS_TO_GROW * self._permitted), self._most)
        yield member.calls.pop(reference).item, result

    def _refused(self, member: _Member, reference: Any, cause: TwinvecError) -> Iterator[tuple[T, Any]]:
        """Give calls to fewer actors if the error says that the shared resource is busy; raise any other error."""
        call = member.calls.get(reference)
        alone = len(self._members) == 1 if call is None else call.alone
        if self._busy is None or alone or not isinstance(cause, self._busy):
            raise cause from None
        if call is None:  # the actor could not start
            ray.kill(member.actor)
            self._members.remove(member)
            self._slow_down(len(self._members), cause)
            return
        if call.slowed == self._slowed:  # the pool was not slowed down since the call began
            self._slow_down(sum(1 for each in self._members if each.calls) // 2, cause)
        yield member.calls.pop(reference).item, BUSY

    def _slow_down(self, actors: int, cause: TwinvecError) -> None:
        """Give calls to at most this number of actors, but to at least one."""
        self._permitted = max(1.0, min(self._permitted // 2, actors))
        self._slowed += 1
        logger.warning("%s; %d of %d workers go on", cause, int(self._permitted), len(self._members))

    def _replaced(self, member: _Member, error: RayError) -> Iterator[tuple[T, Any]]:
        self._deaths += 1
        ray.kill(member.actor)  # the actor may still run on an unreachable machine
        if member.hello is not None:
            self.ended.append(member.hello)
        row = self._members.index(member)
        lost = [call.item for call in member.calls.values()]
        member.calls.clear()
        if self._deaths > _MOST_DEATHS * len(self._members):
            raise EngineError(f"the workers die again and again: {error}")
        self._members[row] = self._new()
        yield from ((item, DIED) for item in lost)

    def _not_started(self) -> str:
        whole: Callable[[], dict[str, Any]] = ray.cluster_resources
        free: Callable[[], dict[str, Any]] = ray.available_resources
        return (
            f"no worker has started for {START_SECONDS:.0f} seconds: each needs {_resources(self._needs)}, and the "
            f"cluster has {_resources(whole())}, of which {_resources(free())} are free"
        )


def cause_of(error: RayError) -> TwinvecError:
    """Return the TwinvecError of a task, or an EngineError that quotes the error. Both lack Ray's notes on retries."""
    cause = error.cause if isinstance(error, RayTaskError) else None
    if isinstance(cause, TwinvecError):
        cause.__dict__.pop("__notes__", None)
        cause.args = tuple(_RETRIES.sub("", each) if isinstance(each, str) else each for each in cause.args)
        return cause
    said = _RETRIES.sub("", str(error if cause is None else f"{type(cause).__name__}: {cause}"))
    return EngineError(f"a worker failed: {said}")


def _resources(values: dict[str, Any]) -> str:
    shown = {_RESOURCES.get(name, name): value for name, value in values.items()}
    return ", ".join(f"{shown[name]:g} {name}" for name in ("CPU", "GPU") if shown.get(name)) or "no CPU"
