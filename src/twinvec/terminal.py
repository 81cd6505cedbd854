"""What commands print: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_WIDTH_OF_FILES = 160  # columns, where the output is no terminal


def table(title: str, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns named in ``numbers`` are set flush right. Cells are plain text, without markup."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        right = column in numbers
        made.add_column(column, justify="right" if right else "left", no_wrap=right)
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


def one_line(text: str, length: int) -> str:
    """The beginning of a text, in one line of printable characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * length]).split())
    return line if len(line) <= length and len(text) <= 4 * length else line[: length - 1].rstrip() + "…"
