"""Real ``twinvec serve`` processes for tests."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any


class Server:
    """A process of ``twinvec serve`` that is ready.

    Attributes:
        process: The process.
        ready: What it printed when it was ready: address, pid, store, models.
    """

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, Any]) -> None:
        self.process = process
        self.ready = ready

    @property
    def address(self) -> str:
        """The address of the server."""
        address: str = self.ready["address"]
        return address

    def stop(self, sig: int) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(sig)
        return self.process.wait(120)

    def said(self, words: str) -> str:
        """Wait until the log has a line with these words, and return the line; the log must be a pipe.

        Raises AssertionError where the server does not say them within 120 seconds, or has ended.
        """
        assert self.process.stderr is not None
        limit = threading.Timer(120, self.process.kill)
        limit.start()
        line = next((line for line in self.process.stderr if words in line), None)
        limit.cancel()
        assert line is not None, f"the server does not say {words!r}"
        return line


def command(folder: Path, model: Path, *options: str, before: str = "") -> list[str]:
    """The command line of a server with a model and a store in ``folder``, at a free port.

    ``before`` are statements that the process runs first, such as one that shortens a limit.
    """
    own = ["serve", "--json", "--port", "0", "--path", str(folder / "store"), "--model", f"{model}=tiny"]
    program = ["-c", f"{before}\nfrom twinvec.cli.app import main\nmain()"] if before else ["-m", "twinvec"]
    return [sys.executable, *program, *own, *options]


@contextmanager
def serving(
    folder: Path,
    model: Path,
    *options: str,
    errors: IO[str] | int | None = None,
    terminal: int | None = None,
    before: str = "",
    **environment: str,
) -> Iterator[Server]:
    """Start a server and wait until it is ready; at the end it is killed if it still runs.

    It has no terminal to end it, or that of which ``terminal`` is an open file. ``before`` is as for ``command``.
    """
    process = subprocess.Popen(
        command(folder, model, *options, before=before),
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=os.environ | environment,
        cwd=folder,
        start_new_session=True,
        preexec_fn=partial(_begin, terminal),
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"the server ended with {process.wait(120)}"
        yield Server(process, json.loads(line))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        if process.stderr is not None:
            process.stderr.close()


def _begin(terminal: int | None) -> None:
    """Let SIGHUP reach the process, also if the tests run under nohup; give it its terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if terminal is not None:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
