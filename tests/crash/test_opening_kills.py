"""A process that is killed while it opens what a killed process has left loses nothing."""

from __future__ import annotations

import pytest

from crash.killing import outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_killed_at_each_step_of_an_opening_nothing_is_lost_also_if_the_opening_would_be_refused():
    found = outcome("kill_opening.py", "--every", "40")
    assert found["whole"] >= 6
    assert found["damaged"] >= 8
