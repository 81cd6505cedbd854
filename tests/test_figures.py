"""Figures that pages quote from a benchmark are those of the table that the same row links to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("page", "rows"), [("README.md", 7), ("docs/comparison.md", 21)])
def test_figures_are_in_the_table_that_is_linked(page, rows):
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    quoting = [line for line in lines if line.startswith("|") and "benchmarks/" in line]
    assert len(quoting) == rows
    for line in quoting:
        _, task, ours, theirs, source, _ = line.split("|")
        (path,) = re.findall(r"\]\((.*?)\)", source)
        table = (ROOT / page).parent.joinpath(path).read_text(encoding="utf-8")
        figures = re.findall(r"(?<![\w.@])\d[\d,]*(?:\.\d+)?(?!\w)", ours + theirs)
        assert len(figures) >= 2, line
        for figure in figures:
            assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d,]|\.\d)", table), (
                f"{task}: {figure} is not in {path}"
            )
