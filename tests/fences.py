"""The fenced blocks of Markdown pages: how they are found, wherever they stand, and how a page's blocks are run.

All blocks of a page run in one process and one folder, in their order: Python blocks share names, shell blocks run
in bash. A comment on the line before a block says what else is to be done with it:

    <!-- not run: REASON -->    show it only; the test knows every reason and how often it may occur
    <!-- file: NAME -->         write it to this file first
    <!-- output -->             what the block before it prints, but for spaces; "..." stands for anything
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

ROOT = Path(__file__).parents[1]
PYTHON, SHELL = ("python",), ("sh", "console")
SHOWN = ("diff", "json", "text", "toml", "yaml")
"""Languages that are shown and not run."""

_OPENS = re.compile(r"^(?P<indent>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
_NOTE = re.compile(r"^\s*<!--\s*(?P<what>not run|file|output)(?::\s*(?P<value>.*?))?\s*-->\s*$")
_BREAK = "\N{INFORMATION SEPARATOR FOUR}"


@dataclass(frozen=True)
class Fence:
    """A fenced block."""

    page: Path
    line: int
    info: str
    """All that stands behind the ticks, such as ``python``."""
    text: str
    note: str = ""
    """``not run``, ``file``, ``output``, or nothing."""
    value: str = ""
    """What the note says: a reason or the name of a file."""

    @property
    def runs(self) -> bool:
        return self.info in (*PYTHON, *SHELL) and self.note != "not run"


def pages() -> list[Path]:
    """Every Markdown file of the project."""
    return sorted(
        page
        for page in ROOT.rglob("*.md")
        if not {"build", "dist", "tuned"} & set(page.relative_to(ROOT).parts)  # made by make, and by an example
        and not any(part.startswith(".") for part in page.relative_to(ROOT).parts)
    )


def fences(page: Path) -> list[Fence]:
    """The blocks of a page, those within lists, quotes, tabs and admonitions too."""
    return list(_fences(page, iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))))


def _fences(page: Path, lines: Iterator[tuple[int, str]]) -> Iterator[Fence]:
    note = None
    for number, line in lines:
        if opened := _OPENS.match(line):
            closes = re.compile(rf"^[ \t>]*{opened['ticks'][0]}{{{len(opened['ticks'])},}}[ \t]*$")
            quoted = ">" in opened["indent"]
            inner = []
            for _, text in lines:
                if closes.match(text):
                    break
                inner.append(re.sub(r"^\s*>\s?", "", text) if quoted else text)
            else:
                raise AssertionError(f"{page}:{number}: the block does not end")
            what, value = (note["what"], note["value"] or "") if note else ("", "")
            yield Fence(page, number, opened["info"].strip(), dedent("\n".join(inner)) + "\n", what, value)
        else:
            assert "```" not in line, f"{page}:{number}: a block begins where it is not seen"
        note = _NOTE.match(line)


def run(page: Path, folder: Path) -> None:
    """Run the blocks of a page in a folder, and compare what they print with what the page shows."""
    program = [f"import subprocess\ndef _begin(line): print({_BREAK!r} + str(line), flush=True)"]
    for fence in fences(page):
        if fence.note == "file":
            program.append(f"with open({fence.value!r}, 'w', encoding='utf-8') as _file: _file.write({fence.text!r})")
        if fence.runs:
            program.append(f"_begin({fence.line})")
            program.append(fence.text if fence.info in PYTHON else _in_bash(fence))
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-u", "-c", "\n\n".join(program)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, f"{page}:\n{done.stdout}\n{done.stderr}"
    _compare(page, done.stdout)


def _in_bash(fence: Fence) -> str:
    """Python that runs a shell block; of a console block, the lines behind ``$``."""
    text = fence.text
    if fence.info == "console":
        text = "\n".join(line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ "))
    return f"subprocess.run(['bash', '-euo', 'pipefail', '-c', {text!r}], check=True)"


def _compare(page: Path, printed: str) -> None:
    """Each block of output is what the block before it printed."""
    blocks = dict(part.split("\n", 1) for part in printed.split(_BREAK)[1:])
    before = None
    for fence in fences(page):
        if fence.note == "output":
            assert before is not None, f"{page}:{fence.line}: output of nothing"
            found = blocks[str(before.line)]
            pattern = ".*?".join(re.escape(part) for part in " ".join(fence.text.split()).split("..."))
            alike = re.fullmatch(pattern, " ".join(found.split()))
            assert alike, f"{page}:{fence.line}: the output now is\n{found}"
        elif fence.runs:
            before = fence


def main() -> None:
    """``python tests/fences.py PAGE...``: run the blocks of pages with the packages that this interpreter has."""
    for page in map(Path, sys.argv[1:]):
        number = sum(fence.runs for fence in fences(page))
        with TemporaryDirectory() as folder:
            run(page, Path(folder))
        print(f"{page}: {number} blocks run")


if __name__ == "__main__":
    main()
