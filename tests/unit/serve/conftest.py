"""A model for the server's processes."""

from __future__ import annotations

import pytest

import models


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A tiny model with its graph, so that a server of it starts without torch."""
    return models.export(tmp_path_factory.mktemp("models"))
