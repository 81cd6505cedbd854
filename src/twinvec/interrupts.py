"""The exit code and the message of a command that Ctrl-C interrupts."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""The exit code of an interrupted command: 128 + SIGINT."""


def tell_interrupted() -> None:
    """Print to standard error that the command was interrupted."""
    print("twinvec: interrupted; run the same command again", file=sys.stderr)  # noqa: T201
