"""Several processes change one collection at once and are killed: it stays what a dict says."""

from __future__ import annotations

import pytest

from crash.killing import outcome


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("script", "seed"), [("walk_collection.py", 2), ("walk_collection.py", 3), ("walk_server.py", 4)]
)
def test_a_collection_holds_what_was_acknowledged(script, seed):
    found = outcome(script, "--kills", "12", "--seed", str(seed))
    assert found["kills"] >= 12
    assert sum(found["done"].values()) > 5
