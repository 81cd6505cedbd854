"""What commands print: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_WIDTH_OF_FILES = 160  # columns, where the output is no terminal
_WIDEST = 10_000
_LONGEST_LINE = 400  # characters looked at


def table(title: str, *columns: str, numbers: tuple[str, ...] = (), rest: str = "") -> Table:
    """An empty table for plain text.

    Columns in ``numbers`` are set flush right; the one named ``rest`` takes what the others leave of the line.
    """
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, expand=bool(rest))
    for column in columns:
        flush_right = column in numbers
        made.add_column(
            column,
            justify="right" if flush_right else "left",
            no_wrap=flush_right,
            overflow="fold",
            ratio=1 if column == rest else None,
        )
    return made


def named_text(name: str, text: str) -> RenderableType:
    """A name, whole, and below it the beginning of a text, as much as the line takes."""
    from rich.console import Group
    from rich.text import Text

    start = " ".join("".join(c if c.isprintable() else " " for c in text[:_LONGEST_LINE]).split())
    return Group(Text(name, overflow="fold"), Text(start, style="dim", no_wrap=True, overflow="ellipsis"))


def properties(values: Mapping[str, str]) -> Table:
    """Names and values, one pair a line."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    for name, value in values.items():
        made.add_row(f"  {name}", value)
    return made


def fits(part: RenderableType) -> bool:
    """Whether the output is wide enough for a table: any width is, where it is no terminal."""
    console = _console()
    return not sys.stdout.isatty() or _needed(console, part) <= console.width


def show(*parts: RenderableType) -> None:
    """Print to standard output; where that is no terminal, nothing is cut or wrapped."""
    for part in parts:
        console = _console()
        if not sys.stdout.isatty():
            console.width = max(console.width, _needed(console, part))
        console.print(part, soft_wrap=isinstance(part, str))


def _console() -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH_OF_FILES
    return Console(width=width, markup=False, highlight=False, emoji=False)


def _needed(console: Console, part: RenderableType) -> int:
    """Columns that a part takes; of one that fills whatever there is, the least."""
    from rich.measure import Measurement

    wanted = Measurement.get(console, console.options.update(max_width=_WIDEST), part)
    return wanted.minimum if getattr(part, "expand", False) else wanted.maximum


def show_json(value: Any) -> None:
    """Print one JSON object, in one line."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))
