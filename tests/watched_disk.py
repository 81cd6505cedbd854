"""What reaches the disk, in which order: only a power cut would show a mistake, so the tests watch the calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def disk_steps(monkeypatch: pytest.MonkeyPatch, rename: str) -> list[str]:
    """Return a list that grows: the path of each file or folder that is synced, and "old -> new" of each rename.

    ``rename`` is the method of ``Path`` that renames. All calls are still made.
    """
    steps: list[str] = []
    fsync, renamed = os.fsync, getattr(Path, rename)

    def watched_fsync(handle: int) -> None:
        steps.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def watched_rename(path: Path, new: Path) -> Path:
        steps.append(f"{path.name} -> {new.name}")
        return renamed(path, new)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, rename, watched_rename)
    return steps
