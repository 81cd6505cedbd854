"""Python imports this module at the start of every process that has this folder in ``PYTHONPATH``.

It notes what the workers of a training run do, and holds each that comes where a test wants to kill one. It changes
nothing of the code that runs: it listens to the audit events of files. ``TWINVEC_GATE`` names the folder for the notes
(``training_runs.Gate`` reads them), and ``TWINVEC_GATE_AT`` a file's last two names, such as ``checkpoint-6/complete``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any


def _listen(folder: Path, held_at: str) -> None:
    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "os.rename") or (rank := os.environ.get("RANK")) is None:
            return
        path = arguments[0] if event == "open" else arguments[1]
        if not isinstance(path, str | os.PathLike):
            return
        name = str(path)
        if event == "open" and name.endswith("rows.jsonl"):
            _note(folder, f"worker {rank} {os.getpid()} {name}")
        elif event == "os.rename" and not name.startswith(str(folder)):
            if name.endswith(held_at) and not (folder / "open").exists():
                _note(folder, f"held {rank} {os.getpid()} {name}")
                while not (folder / "over").exists():  # only a kill ends this
                    time.sleep(0.05)
                os._exit(1)
            _note(folder, f"rename {rank} {os.getpid()} {name}")

    sys.addaudithook(hear)


def _note(folder: Path, line: str) -> None:
    """Add a line to the notes; lines of several processes do not mix."""
    handle = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


if "TWINVEC_GATE" in os.environ:
    _listen(Path(os.environ["TWINVEC_GATE"]), os.environ["TWINVEC_GATE_AT"])
