"""Steps: work written once for callers that block and for callers that await.

A function that may have to wait is a generator. It yields a step to wait for (``Work``, ``Encode`` or ``Ask``), and the
``yield`` returns the step's result or raises its error. Two drivers perform the steps: ``run`` blocks the caller,
``run_awaiting`` awaits on an event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from twinvec.arrays import FloatArray

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """A call that blocks: it computes, loads a model, or uses a store that cannot be awaited."""

    call: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Encode:
    """Encoding of queries; on an event loop, searches that wait at the same time share one call of ``encode``."""

    encode: Callable[[list[str]], Any]
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a server: the name of a method of its client, and the arguments after the collection's name.

    ``alone`` forbids merging the request with others that wait at the same time.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False


Step = Work | Encode | Ask
Steps = Generator[Step, Any, T]


def encoded(encode: Callable[[list[str]], Any], texts: Sequence[str]) -> Steps[FloatArray]:
    """Return the vectors that ``encode`` computes for the texts."""
    vectors: FloatArray = yield Encode(encode, texts)
    return vectors


def worked(call: Callable[[], T]) -> Steps[T]:
    """Return the result of a blocking call."""
    result: T = yield Work(call)
    return result


def asked(method: str, *arguments: Any, **options: Any) -> Steps[Any]:
    """Send a request to the server, and return its answer."""
    return (yield Ask(method, arguments, options))


def run(steps: Steps[T], ask: Callable[[Ask], Any] | None = None) -> T:
    """Run the steps to their end and block until then; ``ask`` sends requests."""

    async def perform(step: Step) -> Any:
        if isinstance(step, Work):
            return step.call()
        if isinstance(step, Encode):
            return step.encode(list(step.texts))
        assert ask is not None, f"a store without requests has yielded {step}"
        return ask(step)

    try:
        run_awaiting(steps, perform).send(None)  # runs to the end, because ``perform`` never suspends
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("a step has waited")


async def run_awaiting(steps: Steps[T], perform: Callable[[Step], Awaitable[Any]]) -> T:
    """Run the steps to their end on an event loop; ``perform`` awaits each."""
    try:
        step = next(steps)
        while True:
            try:
                result = await perform(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
                del result  # frees thousands of objects before the next answer comes
    except StopIteration as end:
        value: T = end.value
        return value
