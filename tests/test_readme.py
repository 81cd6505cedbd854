"""The README's snippet runs and prints what the README shows."""

from __future__ import annotations

import fences

README = fences.ROOT / "README.md"


def test_the_quickstart_prints_what_is_shown(tmp_path):
    shown = fences.fences(README)
    assert [fence.info for fence in shown if fence.runs] == ["python"]
    assert sum(fence.note == "output" for fence in shown) == 1
    fences.run(README, tmp_path)
