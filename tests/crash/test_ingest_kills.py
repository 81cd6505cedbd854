"""An ingest that is killed loses nothing, leaves nothing, and is finished by the next one."""

from __future__ import annotations

import pytest

from crash.killing import outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_killed_at_random_moments_every_document_stays_whole():
    found = outcome("kill_ingest.py", "--kills", "6", "--seed", "0")
    assert found["kills"] == 6
    assert found["points"] > 100
    assert (found["lost"], found["phantoms"], found["duplicates"]) == (0, 0, 0)


def test_a_kill_costs_at_most_five_seconds_of_a_huge_document():
    found = outcome("kill_slow_ingest.py", "--kills", "8", "--seed", "0")
    assert found["kills"] > 2
    assert found["whole"]
    assert found["chunks"] == 600
    assert found["repeated"] > 0
    assert found["worst"] <= 5
