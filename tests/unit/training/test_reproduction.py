"""``examples/reproduce_sbert.py`` from end to end, on rows and a model that are tiny."""

from __future__ import annotations

import importlib.util
import sys
from itertools import groupby
from pathlib import Path

import pytest

WORDS = ("dogs", "rain", "money", "music", "bread", "stars")
LABELS = ("entailment", "contradiction", "neutral")


@pytest.fixture
def example():
    path = Path(__file__).parents[3] / "examples" / "reproduce_sbert.py"
    spec = importlib.util.spec_from_file_location("reproduce_sbert", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join("\t".join(row) for row in [columns, *rows]) + "\n")


def test_every_cell_of_every_table_is_filled(example, tiny_model, tmp_path, monkeypatch, capsys):
    nli = [(label, f"{word} here", f"{word} and {label}") for word in WORDS for label in LABELS]
    scored = [(f"{n % 6}", f"{word} here", f"{word} {n}") for n, word in enumerate(WORDS * 3)]
    for name in ("snli/dev", "cad/train", "taxinli/all", "rte/train"):
        write(tmp_path / "nli" / f"{name}.tsv", ("label", "premise", "hypothesis"), nli)
    for name in ("train", "dev", "test"):
        write(tmp_path / "sts" / "stsb" / f"{name}.tsv", ("score", "sentence1", "sentence2"), scored)
    monkeypatch.setattr(example, "fresh_base", lambda folder: tiny_model("bert", normalize=False))
    monkeypatch.setattr(sys, "argv", ["reproduce_sbert.py", "--data", str(tmp_path), "--rows", "16"])
    example.main()
    lines = capsys.readouterr().out.splitlines()
    tables = [list(table) for is_row, table in groupby(lines, lambda line: line.startswith("|")) if is_row]
    rows = [line for _, _, *body in tables for line in body]  # after the head and its rule
    figures = [line.split("|")[-2].strip() for line in rows]
    assert [len(table) - 2 for table in tables] == [3, 7, 3, 4, 1]
    assert all(-100 <= float(figure) <= 100 for figure in figures)
    assert len(set(figures)) > 4, "models that were trained in another way give other figures"
