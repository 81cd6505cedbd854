"""A killed migration leaves the collection with the old model or the new one, never with a mixture."""

from __future__ import annotations

import pytest

from crash.killing import outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_killed_at_random_moments_one_model_is_in_force():
    found = outcome("kill_migration.py", "--kills", "6", "--seed", "0")
    assert found["kills"] == found["before"] + found["after"] == 6
