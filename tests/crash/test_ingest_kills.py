"""An ingest that is killed loses nothing, leaves nothing, and is finished by the next one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_killed_at_random_moments_every_document_stays_whole():
    command = [sys.executable, str(Path(__file__).with_name("kill_ingest.py")), "--kills", "6", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["kills"] == 6
    assert outcome["points"] > 100
    assert (outcome["lost"], outcome["phantoms"], outcome["duplicates"]) == (0, 0, 0)


def test_a_kill_costs_at_most_five_seconds_of_a_huge_document():
    command = [sys.executable, str(Path(__file__).with_name("kill_slow_ingest.py")), "--kills", "8", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["kills"] > 2
    assert outcome["whole"]
    assert outcome["chunks"] == 600
    assert outcome["repeated"] > 0
    assert outcome["worst"] <= 5
