"""A killed adoption leaves a collection that its old application reads, and the next one finishes it."""

from __future__ import annotations

import pytest

from crash.killing import outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

pytest.importorskip("langchain_qdrant")
pytest.importorskip("llama_index.vector_stores.qdrant")


def test_killed_at_random_moments_both_applications_read_all():
    found = outcome("kill_adoption.py", "--kills", "32", "--seed", "0")
    assert found["kills"] == found["unfinished"] + found["adding"] >= 32
    assert min(found.values()) > 0
