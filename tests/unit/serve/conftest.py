"""A model for the server's processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

import models


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A tiny model with its graph, so that a server of it starts without torch."""
    folder = tmp_path_factory.mktemp("models")
    built = models.build(folder / "built", "bert")
    command = [sys.executable, "-m", "twinvec", "export", str(built), "-o", str(folder / "tiny")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "tiny"
