"""What a progress bar shows, by rich: "Encoding ━━━━━━ 1,024/4,096 texts, 350/s, 0:09 left"."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text


@dataclass(slots=True)
class Count:
    """The field ``count`` of a task: numbers of items, and names; ``before`` is the work of the ``done`` items."""

    total: int | None
    unit: str
    work_unit: str
    done: int
    before: int
    items: int
    failed: int = 0
    note: str = ""


def display(window: float) -> Progress:
    """Return a display on stderr for one task; ``window`` is in seconds."""
    return Progress(
        TextColumn("{task.description}", table_column=Column(overflow="ellipsis", max_width=16, no_wrap=True)),
        BarColumn(bar_width=None),
        _Figures(table_column=Column(no_wrap=True)),
        console=Console(stderr=True),
        expand=True,
        speed_estimate_period=window,
        redirect_stdout=sys.stdout.isatty(),  # a stdout that is a file stays as it is
    )


class _Figures(ProgressColumn):
    """Items, rate, failures, and the time left, or the elapsed time if the time left is unknown."""

    def render(self, task: Task) -> Text:
        speed = _speed(task)
        if task.finished:
            time = f"in {_clock(task.finished_time or 0.0)}"
        elif speed and task.remaining is not None:
            time = f"{_clock(task.remaining / speed)} left"
        else:
            time = _clock(task.elapsed or 0.0)
        count: Count = task.fields["count"]
        text = Text(", ".join(part for part in (_items(count), _rate(task, speed), time) if part))
        if count.failed:
            text.append(f", {count.failed:,} failed", style="red")
        if count.note:
            text.append(f", {count.note}")
        return text


def _speed(task: Task) -> float:
    """Return the work per second within the window.

    At the very beginning and after the end, return the work per second since the start.
    """
    if task.speed and not task.finished:
        return task.speed
    seconds = task.finished_time if task.finished else task.elapsed
    return (task.completed - task.fields["count"].before) / seconds if seconds else 0.0


def _items(count: Count) -> str:
    if not count.unit:
        return ""
    of = "" if count.total is None else f"/{count.total:,}"
    return f"{count.items:,}{of} {count.unit}"


def _rate(task: Task, speed: float) -> str:
    """Return the rate of work if its unit has a name, else the rate of items."""
    count: Count = task.fields["count"]
    if count.work_unit:
        return f"{_number(speed)} {count.work_unit}/s" if speed else ""
    worked, items = task.completed - count.before, count.items - count.done
    return f"{_number(speed * items / worked)}/s" if worked and items else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
