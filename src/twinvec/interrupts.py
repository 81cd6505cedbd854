"""Interruptions: of a command by Ctrl-C, and of any work by an exception that a signal handler raises.

A task queue ends a task by such an exception, for example when its time limit is over. The exception can come out of
any line of the work, which then must not take it for a fault of a file or a server.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import CO_VARARGS
from traceback import walk_stack, walk_tb
from types import FrameType

INTERRUPTED = 130
"""The exit code of an interrupted command: 128 + SIGINT."""


def tell_interrupted() -> None:
    """Print to standard error that the command was interrupted."""
    print("twinvec: interrupted; run the same command again", file=sys.stderr)  # noqa: T201


def raise_of_handler(error: BaseException) -> None:
    """Raise the exception of a signal handler that is, or has caused, ``error``; do nothing for any other error."""
    if (found := of_handler(error)) is not None:
        raise found


def of_handler(error: BaseException) -> BaseException | None:
    """Return the exception of a signal handler that is, or has caused, the error that is being handled; else None."""
    return next((each for each in _with_causes(error) if any(_is_handler(frame) for frame in _frames(each))), None)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and the errors that it was raised from or during.

    An error that a caller was already handling when it called this code is no cause, and is left out.
    """
    running = {frame for frame, _ in walk_stack(sys._getframe())}
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        yield each
        seen.add(id(each))
        context = each.__context__
        # an error that a caller was handling before was caught in a frame that still runs
        is_of_caller = context is not None and next(_frames(context), None) in running
        each = each.__cause__ or (None if is_of_caller else context)


def _frames(error: BaseException) -> Iterator[FrameType]:
    return (frame for frame, _ in walk_tb(error.__traceback__))


def _is_handler(frame: FrameType) -> bool:
    """Return whether a signal handler runs in the frame: one of its arguments is the frame that it interrupted."""
    code, interrupted = frame.f_code, frame.f_back
    positional = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[: positional + bool(code.co_flags & CO_VARARGS)]
    values = [frame.f_locals.get(name) for name in names]
    if code.co_flags & CO_VARARGS:
        values += values.pop() or ()
    return interrupted is not None and any(each is interrupted for each in values)
