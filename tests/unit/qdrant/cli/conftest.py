"""What the tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture
def place(tmp_path):
    """The options that name a collection and its store."""
    return ("--collection", "notes", "--path", tmp_path / "store")


@pytest.fixture
def twinvec_here(twinvec, monkeypatch):
    """``twinvec_here(folder, "info")``: run a command in a folder and in this process, which has its libraries."""

    def run(folder, *arguments):
        monkeypatch.chdir(folder)
        return twinvec(*arguments)

    return run
