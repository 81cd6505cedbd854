"""A server that is killed during an ingest over HTTP loses nothing that it has acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_what_was_acknowledged_is_there_after_kills_and_signals():
    command = [sys.executable, str(Path(__file__).with_name("kill_serve.py")), "--kills", "20", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["kills"] == 20
    assert outcome["terminated"] >= 2
    assert outcome["acknowledged"] > 10
    assert outcome["cut"] > 10
    assert outcome["lost"] == 0
