"""Prepare the standard streams: a command also runs if one is closed, or if standard error cannot be written."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from twinvec.errors import TwinvecError

_STANDARD = 3  # file descriptors: 0, 1 and 2


def prepare_streams() -> None:
    """Open the standard streams that the caller has closed, and prepare the others for failed writes.

    If standard error cannot be written, its messages are dropped. If standard output cannot be written, the error
    names it.
    """
    if isinstance(sys.stderr, io.TextIOWrapper) and _is_file(sys.stderr.buffer):
        messages = io.BufferedWriter(_BestEffort(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(messages, sys.stderr.encoding, "backslashreplace", line_buffering=True)
    if isinstance(sys.stdout, io.TextIOWrapper) and _is_file(sys.stdout.buffer):
        given, results = sys.stdout, _Results(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(results) if hasattr(given.buffer, "raw") else results,
            given.encoding,
            given.errors,
            line_buffering=given.line_buffering,
            write_through=given.write_through,
        )
    _open_closed()


def _is_file(stream: Any) -> bool:
    """Return whether a binary stream writes bytes to a file, and not characters to a console of Windows."""
    return isinstance(getattr(stream, "raw", stream), io.FileIO)  # python -u leaves out the buffer


def _open_closed() -> None:
    """Open the null device in place of each closed stream.

    Otherwise, the next file that is opened, such as one of a store, gets the file descriptor of the closed stream, and
    libraries write their messages to this file.
    """
    while (null := os.open(os.devnull, os.O_RDWR)) < _STANDARD:
        os.set_inheritable(null, True)
    os.close(null)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open until the process ends


class _BestEffort(io.FileIO):
    """A file that drops what cannot be written, because the disk is full or the reader of the pipe is gone."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


class _Results(io.FileIO):
    """A file whose error names standard output. If the reader of the pipe is gone, typer ends the command."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            raise TwinvecError(f"standard output cannot be written: {error.strerror}") from error
