"""Figures that pages quote from a benchmark are those of the table that the same row links to."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("page", "rows"), [("README.md", 9), ("docs/comparison.md", 27)])
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


def test_the_plan_is_computed_from_the_tables_as_they_are():
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "plan.py"], capture_output=True, text=True, check=True)
    plan = (ROOT / "benchmarks" / "PLAN.md").read_text(encoding="utf-8")
    assert done.stdout.strip() == plan.strip(), "run python benchmarks/plan.py --output benchmarks/PLAN.md"
    encoding = plan.split("## Encoding")[1].split("## ")[0]
    guide = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    rows = [line for line in encoding.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == 3
    assert all(row in guide for row in rows), "copy the rows to docs/scale.md"
