"""Processes of tests, such as one that holds an embedded collection open, for tests of what others may do meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinvec_qdrant import Collection
from words import WordEncoder

HOLDER = """
    import sys
    from words import WordEncoder
    from twinvec_qdrant import Collection
    with Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False, wait_seconds=60) as collection:
        collection.ingest([("tea", "green tea")])
        print("open", flush=True)
        sys.stdin.read()
"""
"""To be run with a folder as argument; holds the collection from "open" on its output to the end of its input."""


def with_helpers() -> dict[str, str]:
    """An environment in which a process finds the helpers of the tests."""
    folders = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def started(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a process of a program, with pipes for its input, its output and its errors."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, text=True, env=with_helpers(), **pipes)


def left_by_a_kill(program: str, folder: Path) -> Path:
    """Run a program on a store until the program kills itself; return the folder of the store."""
    with started(program, folder) as process:
        assert process.wait() == -signal.SIGKILL
    return folder


def open_notes(folder: Path, **options: Any) -> Collection:
    """Open the collection "notes" of a folder, as the programs of these tests do."""
    return Collection.open("notes", folder, encoder=WordEncoder(), chunking=False, **options)


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the collection "notes" of a folder, until its input ends."""
    with started(HOLDER, folder) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        yield holder


@contextmanager
def stopped(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Let a process do nothing within the block: what it has locked stays locked, however long the block takes."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
