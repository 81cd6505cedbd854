"""What commands print: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_WIDTH_OF_FILES = 160  # columns, where the output is no terminal
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


def show(*parts: RenderableType) -> None:
    """Print to standard output."""
    from rich.console import Console

    console = Console(
        width=None if sys.stdout.isatty() else _WIDTH_OF_FILES, markup=False, highlight=False, emoji=False
    )
    for part in parts:
        console.print(part)


def show_json(value: Any) -> None:
    """Print one JSON object, in one line."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))
