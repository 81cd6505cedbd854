"""Fixtures shared by all tests. Models are loaded once a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may depend on the hub
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


@pytest.fixture(scope="session")
def encoder():
    """The default model."""
    from twinvec import Encoder

    return Encoder("default")


@pytest.fixture(scope="session")
def data() -> Path:
    """The measuring sets: TWINVEC_DATA, or ../shared/data beside the project; the test is skipped without them."""
    root = Path(os.environ.get("TWINVEC_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip("measuring sets not found: set TWINVEC_DATA to a folder with ir/, sts/, ...")
    return root
