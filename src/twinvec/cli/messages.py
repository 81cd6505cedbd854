"""Messages of a command on stderr: twinvec's own warnings are shown, messages of libraries are hidden.

Libraries print progress bars of loaded weights, warnings of deprecated calls, and settings that they guess. ``--debug``
shows these messages. Errors that a library logs are always shown.
"""

from __future__ import annotations

import logging
import os
import sys

from twinvec.cli.terminal import folded
from twinvec.escaping import escaped

_QUIET = {
    "DATASETS_VERBOSITY": "error",
    "GRPC_VERBOSITY": "ERROR",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # also hides the progress bars of transformers
    "HF_HUB_VERBOSITY": "error",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Environment variables that libraries read when they are imported; a value set by the user stays."""


def print_own_messages(*, debug: bool) -> None:
    """Print warnings of twinvec on stderr; with ``debug``, print warnings of libraries, too.

    A command whose loggers have the level INFO, as those of ``twinvec serve``, prints their messages of this level.
    """
    handler = _ToStderr()
    handler.setLevel(logging.INFO)  # a level for the handler too, because bm25s sets its own logger to DEBUG
    logging.basicConfig(format="twinvec: %(message)s", handlers=[handler])
    if debug:
        return
    handler.addFilter(_is_shown)
    logging.captureWarnings(True)  # sends warnings to the logger py.warnings
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)


def _is_shown(record: logging.LogRecord) -> bool:
    return record.name.startswith("twinvec") or record.levelno >= logging.ERROR


class _ToStderr(logging.Handler):
    """A log handler that writes to the current ``sys.stderr``, which a progress bar replaces while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        is_line = record.name.startswith("twinvec") and not record.exc_info
        text = escaped(self.format(record), keep="" if is_line else "\n")
        sys.stderr.write(f"{folded(text, sys.stderr)}\n")
