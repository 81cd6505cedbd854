"""The README: its snippets run and print what it says, and its figures are those of the benchmarks it links to."""

from __future__ import annotations

import re

import fences

README = fences.ROOT / "README.md"


def test_snippets_run_and_print_what_is_shown(tmp_path):
    assert len(fences.run(README, tmp_path)) == 2  # one line that marks the beginning, one snippet


def test_figures_are_those_of_the_benchmarks():
    rows = [line for line in README.read_text(encoding="utf-8").splitlines() if "](benchmarks/" in line and "|" in line]
    assert len(rows) == 7
    for row in rows:
        _, task, ours, theirs, source, _ = row.split("|")
        (path,) = re.findall(r"\((benchmarks/\w+\.md)\)", source)
        table = (fences.ROOT / path).read_text(encoding="utf-8")
        figures = re.findall(r"(?<![\w.@])\d+(?:\.\d+)?(?!\w)", ours + theirs)
        assert len(figures) >= 2, row
        for figure in figures:
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", table), f"{figure} is not in {path}: {task}"
