"""A killed adoption leaves a collection that its old application reads, and the next one finishes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("langchain_qdrant")
pytest.importorskip("llama_index.vector_stores.qdrant")


def test_killed_at_random_moments_both_applications_read_all():
    command = [sys.executable, str(Path(__file__).with_name("kill_adoption.py")), "--kills", "32", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["kills"] == outcome["unfinished"] + outcome["adding"] == 32
    assert min(outcome.values()) > 0
