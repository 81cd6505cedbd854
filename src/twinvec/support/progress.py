"""Progress bars for long work, on stderr, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """The function that advances a bar."""

    def __call__(self, count: int, /, *, failed: int = 0) -> None:
        """Add ``count`` finished items, of which ``failed`` have failed."""
        ...


def unseen(count: int, /, *, failed: int = 0) -> None:
    """Advance a bar that is not shown."""


@contextmanager
def progress_bar(label: str, total: int | None, unit: str, *, shown: bool = True) -> Iterator[Advance]:
    """Show a bar with rate, remaining time and failures, on a terminal only; ``total`` is None if it is unknown."""
    if not shown or not sys.stderr.isatty():
        yield unseen
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total, unit=unit, rate="", failed="")
        failures = 0

        def advance(count: int, /, *, failed: int = 0) -> None:
            nonlocal failures
            failures += failed
            progress.advance(task, count)
            speed = progress.tasks[0].speed
            shown = f"{failures:,} failed" if failures else ""
            progress.update(task, rate=f"{speed:,.0f}/s" if speed else "", failed=shown)

        yield advance
