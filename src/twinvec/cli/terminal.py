"""What commands print: tables for people, one JSON object for programs."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

import typer

from twinvec.escaping import escaped, escaped_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_FILE_WIDTH = 160  # columns, if the output is not a terminal
_WIDEST = 10_000
_TRAILING_BLANKS = re.compile(r" +$", re.MULTILINE)


def table(title: str, *columns: str, numbers: tuple[str, ...] = (), rest: str = "") -> Table:
    """Return a table without rows.

    The columns that ``numbers`` names are aligned right. The column that ``rest`` names takes the rest of the line.
    """
    from rich import box

    made = _table_class()(
        title=escaped(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, expand=bool(rest)
    )
    for column in columns:
        flush_right = column in numbers
        made.add_column(
            _escaped_lines(column),
            justify="right" if flush_right else "left",
            no_wrap=flush_right,
            overflow="fold",
            ratio=1 if column == rest else None,
        )
    return made


@cache
def _table_class() -> type[Table]:
    """Return a class of tables that print texts unchanged, except for control characters."""
    from rich.table import Table

    class EscapedTable(Table):
        def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
            super().add_row(*(_escaped_lines(each) if isinstance(each, str) else each for each in cells), **options)

    return EscapedTable


def properties(values: Mapping[str, str]) -> Table:
    """Return a table of names and values, one pair a line."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column()
    made.add_column(overflow="fold")
    for name, value in values.items():
        made.add_row(f"  {escaped(name)}", _escaped_lines(value))
    return made


def indented(text: Text, spaces: int, widest: int) -> Text:
    """Indent the lines of a text; on a terminal, also fold them to its width, or to ``widest`` columns if less."""
    from rich.text import Text

    console = _console()
    width = min(console.width, widest) - spaces if sys.stdout.isatty() else _WIDEST
    folded_lines = text.wrap(console, max(width, 1))
    for line in folded_lines:
        line.rstrip()
    return Text("\n").join(Text(" " * spaces).append_text(line) for line in folded_lines)


def fits(part: RenderableType) -> bool:
    """Return whether the output is wide enough for a table. A file is always wide enough."""
    console = _console()
    return not sys.stdout.isatty() or _needed(console, part) <= console.width


def show(*parts: RenderableType) -> None:
    """Print to standard output. A file gets whole lines: nothing is truncated, wrapped or padded with blanks."""
    console = _console()
    usual = console.width
    for part in (_escaped_lines(each) if isinstance(each, str) else each for each in parts):
        if sys.stdout.isatty():
            console.print(part, soft_wrap=isinstance(part, str))
            continue
        console.width = max(usual, _needed(console, part))
        with console.capture() as padded:
            console.print(part, soft_wrap=isinstance(part, str))
        console.out(_TRAILING_BLANKS.sub("", padded.get()), end="")


def _escaped_lines(text: str) -> str:
    return escaped(text, keep="\n")


def _console() -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() else _FILE_WIDTH
    console = Console(width=width, markup=False, highlight=False, emoji=False)
    if console.no_color:  # NO_COLOR asks for plain text, so bold type and links are left out too
        console = Console(width=width, markup=False, highlight=False, emoji=False, color_system=None)
    return console


def _needed(console: Console, part: RenderableType) -> int:
    """Return the number of columns that a part needs; for a part that fills the line, the smallest number."""
    from rich.measure import Measurement

    wanted = Measurement.get(console, console.options.update(max_width=_WIDEST), part)
    return wanted.minimum if getattr(part, "expand", False) else wanted.maximum


def folded(text: str, stream: TextIO) -> str:
    """Return a text with its lines folded between words to the width of a terminal; a file gets whole lines."""
    if not stream.isatty():
        return text
    fold = textwrap.TextWrapper(
        shutil.get_terminal_size().columns,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(fold.fill(line) for line in text.split("\n"))


def tell(line: str) -> None:
    """Print a line to standard output, folded on a terminal. Control characters, such as line feeds, are escaped."""
    typer.echo(folded(escaped(line), sys.stdout))


def complain(*lines: str) -> None:
    """Print lines to standard error, in the way that ``tell`` prints to standard output."""
    for line in lines:
        typer.echo(folded(escaped(line), sys.stderr), err=True)


def show_json(value: Any) -> None:
    """Print one JSON object, in one line; in ASCII if the encoding of the output may lack a character."""
    typer.echo(escaped_json(json.dumps(value, ensure_ascii=not _takes_all(sys.stdout), allow_nan=False)))


def replace_unknown_characters() -> None:
    """Let standard output show a question mark for a character that its encoding lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not _takes_all(sys.stdout):
        sys.stdout.reconfigure(errors="replace")


def _takes_all(output: TextIO) -> bool:
    return (output.encoding or "utf-8").lower().replace("_", "-").startswith("utf")
