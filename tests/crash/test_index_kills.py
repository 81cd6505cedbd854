"""Indexing by LangChain's ``index`` that is killed is repaired by the next one."""

from __future__ import annotations

import pytest

from crash.killing import outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_next_indexing_repairs_what_a_hundred_kills_have_left():
    found = outcome("kill_index.py", "--kills", "100", "--seed", "0")
    assert found["kills"] >= 100
    assert found["half"] > 10, "most kills should fall into the work"
    assert found["served"] >= 12
