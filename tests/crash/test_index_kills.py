"""Indexing by LangChain's ``index`` that is killed is repaired by the next one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_the_next_indexing_repairs_what_a_hundred_kills_have_left():
    command = [sys.executable, str(Path(__file__).with_name("kill_index.py")), "--kills", "100", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["kills"] == 100
    assert outcome["half"] > 10, "most kills should fall into the work"
    assert outcome["served"] >= 12
