"""Progress of long work, on stderr: on a terminal a bar; otherwise, as in a log file, a line a minute.

A bar counts items, such as documents. If items differ in size, the bar and the time left follow the work done. The
work is measured in a unit that grows with the time of an item, such as bytes, tokens or pairs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_WINDOW_SECONDS = 30.0
_LINE_SECONDS = 60.0


class Advance(Protocol):
    """The function that advances a bar."""

    def __call__(self, count: int, /, *, failed: int = 0, work: float | None = None, note: str | None = None) -> None:
        """Add ``count`` finished items, of which ``failed`` have failed.

        ``work`` is the work done since the last call (default: ``count``); a bar that was made without ``work`` ignores
        it. For a part of an item, ``count`` is 0. ``note`` is shown at the end of the line until the next note.
        """


def unseen(count: int, /, *, failed: int = 0, work: float | None = None, note: str | None = None) -> None:
    """Advance a bar that is not shown."""


@contextmanager
def progress_bar(
    label: str,
    total: int | None,
    unit: str,
    *,
    work: float | None = None,
    work_unit: str = "",
    done: int = 0,
    window: float = _WINDOW_SECONDS,
    shown: bool = True,
) -> Iterator[Advance]:
    """Show a bar with the number of items, the rate, the time left and failures; without a terminal, print lines.

    Args:
        label: What is done, such as "Encoding".
        total: Number of items; None if it is unknown.
        unit: Name of the items in the plural; "" shows the elapsed time only.
        work: Work of all items, which the bar and the time left follow; default: every item is the same work.
        work_unit: Name of the unit of work, such as "pairs": the rate counts work. Default: the rate counts items.
        done: Items that an earlier run has finished; the rate leaves them out.
        window: Seconds over which the rate is averaged.
        shown: False shows nothing.
    """
    if not shown or not sys.stderr.isatty():
        yield _Lines(label, total, unit, done, _before(work, total, done), work) if shown else unseen
        return
    from twinvec.support.progress_display import Count, display

    with display(window) as progress:
        before = _before(work, total, done)
        counted = Count(total, unit, work_unit, items=done, done=done, before=before)
        by_work = work is not None
        task = progress.add_task(label, total=work if by_work else total, completed=before, count=counted)

        def advance(count: int, /, *, failed: int = 0, work: float | None = None, note: str | None = None) -> None:
            counted.items += count
            counted.failed += failed
            counted.note = counted.note if note is None else note
            progress.advance(task, work if by_work and work is not None else count)

        yield advance
        end = progress.tasks[0].total or progress.tasks[0].completed
        progress.update(task, total=end, completed=end)  # the finished bar shows the time that all items took


def _before(work: float | None, total: int | None, done: int) -> int:
    """Return the estimated work of the ``done`` items that an earlier run has finished."""
    return round(work * done / total) if work is not None and total else done


class _Lines:
    """Writes a line a minute: how many items are finished, the share of the work, and how many items have failed."""

    def __init__(self, label: str, total: int | None, unit: str, done: int, before: int, work: float | None) -> None:
        self._label = label
        self._of = "" if total is None else f" of {total:,}"
        self._unit = unit
        self._items = done
        self._worked: float = before
        self._work = work
        self._failed = 0
        self._note = ""
        self._due = time.monotonic() + _LINE_SECONDS

    def __call__(self, count: int, /, *, failed: int = 0, work: float | None = None, note: str | None = None) -> None:
        self._items += count
        self._worked += count if work is None else work
        self._failed += failed
        self._note = self._note if note is None else note
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _LINE_SECONDS
            failed_ones = f"{self._failed:,} failed" if self._failed else ""
            share = f"{min(self._worked / self._work, 1):.0%} of the work" if self._work else ""
            parts = (f"{self._items:,}{self._of} {self._unit}", share, failed_ones, self._note)
            sys.stderr.write(f"{self._label}: {', '.join(filter(None, parts))}\n")
            sys.stderr.flush()
