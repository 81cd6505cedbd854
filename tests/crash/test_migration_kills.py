"""A killed migration leaves the collection with the old model or the new one, never with a mixture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_killed_at_random_moments_one_model_is_in_force():
    command = [sys.executable, str(Path(__file__).with_name("kill_migration.py")), "--kills", "6", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["kills"] == outcome["before"] + outcome["after"] == 6
