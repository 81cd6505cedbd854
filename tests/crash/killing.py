"""Processes that are killed at chosen moments after they have begun their work, and the command line of such a test.

The script runs itself once more for each process, with ``--work``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def killed(script: str, folder: Path, seed: int, step: int, delay: float) -> bool:
    """Let a script do its work ``step`` for ``delay`` seconds; False where it was done before."""
    command = [sys.executable, script, "--work", str(folder), "--seed", str(seed), "--step", str(step)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "started\n", process.stderr.read()
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.kill()
            return True
        assert process.returncode == 0, process.stderr.read()
        return False


def command_line(
    description: str | None, run: Callable[[Path, int, int], Any], work: Callable[[Path, int, int], None], kills: int
) -> None:
    """Kill many processes (``run``), or be one of them (``work``).

    Args:
        description: What the script does.
        run: Takes a folder, a number of kills and a seed; returns a dataclass with the outcome, which is printed.
        work: Takes the folder, the seed and the step.
        kills: Default number of kills.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        print("started", flush=True)
        work(options.work, options.seed, options.step)
        return
    with TemporaryDirectory() as folder:
        print(json.dumps(asdict(run(Path(folder), options.kills, options.seed))))
