"""Processes that are killed at chosen moments after they have begun their work, and the command line of such a test.

A server process imports the script once, and forks: a process begins its work in milliseconds. ``outcome`` runs such a
command line in a test.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Work = Callable[[Path, int, int], None]
"""What a process does: takes a folder, a seed and the step."""

_START_SECONDS = 120.0
processes = multiprocessing.get_context("forkserver")


def killed(
    work: Work, folder: Path, seed: int, step: int, delay: float, begun: Callable[[], bool] = lambda: True
) -> bool:
    """Start a process that does its work ``step``, kill it, and return True; or return False if it was done before.

    The kill comes ``delay`` seconds after ``begun`` returns True. On a slow machine it would otherwise come before
    there is anything to lose.
    """
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=_begin, args=(theirs, work, folder, seed, step))
    process.start()
    theirs.close()
    assert ours.poll(_START_SECONDS), "the process has not started"
    assert ours.recv() == "started"
    while process.exitcode is None and not begun():
        process.join(0.01)
    process.join(delay)
    if process.exitcode is None:
        process.kill()
        process.join()
        return True
    assert process.exitcode == 0, "the process has failed; its error stands above"
    return False


def seconds_of(work: Work, folder: Path, seed: int, step: int) -> float:
    """Do the work without a kill, and return how many seconds it took."""
    started = time.perf_counter()
    work(folder, seed, step)
    return time.perf_counter() - started


def _begin(started: Connection, work: Work, folder: Path, seed: int, step: int) -> None:
    started.send("started")
    work(folder, seed, step)


def outcome(script: str, *options: str) -> dict[str, Any]:
    """Run a script of this folder in a test, and return what it prints.

    Its stores are where pytest's folders are, in memory where that is possible: a store syncs every commit, and most of
    these scripts would only wait for a disk. The folder is not the test's own: a socket in it must have a short path.

    Args:
        script: Its name.
        *options: Those of its command line.
    """
    command = [sys.executable, str(Path(__file__).with_name(script)), *options]
    with TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        environment = {**os.environ, "TMPDIR": folder}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def command_line(description: str | None, run: Callable[[Path, int, int], Any], kills: int) -> None:
    """Kill many processes (``run``).

    Args:
        description: What the script does.
        run: Takes a folder, a number of kills and a seed; returns a dataclass with the outcome, which is printed.
        kills: Default number of kills.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # with which the server process finds the script
    processes.set_forkserver_preload([Path(sys.argv[0]).stem])  # by its name: Python 3.11 ignores "__main__" here
    with TemporaryDirectory() as folder:
        print(json.dumps(asdict(run(Path(folder), options.kills, options.seed))))
