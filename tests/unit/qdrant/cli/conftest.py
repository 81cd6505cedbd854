"""What the tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture
def place(tmp_path):
    """The options that name a collection and its store."""
    return ("--collection", "notes", "--path", tmp_path / "store")
