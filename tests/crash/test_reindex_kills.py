"""Erasing deleted texts (``reindex``) loses nothing when it is killed."""

from __future__ import annotations

import pytest

from crash.killing import outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_killed_at_random_moments_reindex_loses_nothing_and_the_next_one_erases():
    found = outcome("kill_reindex.py", "--kills", "40", "--seed", "0")
    assert found["kills"] == 40
    assert found["copies"] > 8, "most kills should fall into a reindex"
    assert found["erased"] >= 10
    assert found["documents"] == 30
