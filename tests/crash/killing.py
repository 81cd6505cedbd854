"""A Python process that is killed at a chosen moment after it has begun its work."""

from __future__ import annotations

import subprocess
import sys


def killed(arguments: list[str], delay: float) -> bool:
    """Run a script, which prints "started" when it begins, for ``delay`` seconds; False where it was done before."""
    command = [sys.executable, *arguments]
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
