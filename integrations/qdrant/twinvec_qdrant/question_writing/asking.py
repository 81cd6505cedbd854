"""Sends several prompts at once, and yields the answers in the order of their arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def answers(
    ask: Callable[[T], str | None], items: Iterable[T], parallel: int
) -> Generator[tuple[T, str | None], None, None]:
    """Yield each item with its answer; ``parallel`` threads call ``ask``.

    After an error, the answers to prompts already sent are still yielded, since each may have cost money. Then the
    error is raised. An interrupted caller does not wait for answers: the threads end with the process.
    """
    waiting = deque(items)
    received: SimpleQueue[tuple[T, str | None] | BaseException | None] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                item = waiting.popleft()
            except IndexError:
                break
            try:
                received.put((item, ask(item)))
            except BaseException as error:  # the caller's model may raise any error
                waiting.clear()
                received.put(error)
        received.put(None)

    working = min(parallel, len(waiting))
    for _ in range(working):
        Thread(target=work, name="twinvec-asking", daemon=True).start()
    failure: BaseException | None = None
    try:
        while working:
            found = received.get()
            if isinstance(found, tuple):
                yield found
            elif found is None:
                working -= 1
            else:
                failure = failure or found
    finally:
        waiting.clear()
    if failure is not None:
        raise failure
