"""The output of a benchmark, and the time of a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


class Output:
    """Prints each line, and at ``write`` writes all lines to ``file`` if it is set."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lines: list[str] = []

    def __call__(self, line: str) -> None:
        self._lines.append(line)
        print(line, flush=True)

    def write(self) -> None:
        """Write the lines to the file."""
        if self._file is not None:
            self._file.write_text("\n".join(self._lines).rstrip("\n") + "\n", encoding="utf-8")


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
