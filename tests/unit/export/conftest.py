"""Fixtures of the tests of exports."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Keeps the graphs of tiny models out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINVEC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
