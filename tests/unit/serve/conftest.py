"""A model for the server's processes."""

from __future__ import annotations

import pytest

import models


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A tiny model, exported, so that a server with it starts without torch."""
    return models.export(tmp_path_factory.mktemp("models"))
