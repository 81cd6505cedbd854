"""A server that is killed during an ingest over HTTP loses nothing that it has acknowledged."""

from __future__ import annotations

import pytest

from crash.killing import outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_what_was_acknowledged_is_there_after_kills_and_signals():
    found = outcome("kill_serve.py", "--kills", "20", "--seed", "0")
    assert found["kills"] == 20
    assert found["terminated"] >= 2
    assert found["acknowledged"] > 10
    assert found["cut"] > 10
    assert found["lost"] == 0
