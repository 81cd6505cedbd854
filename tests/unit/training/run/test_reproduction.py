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
    path = Path(__file__).parents[4] / "examples" / "reproduce_sbert.py"
    spec = importlib.util.spec_from_file_location("reproduce_sbert", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join("\t".join(row) for row in [columns, *rows]) + "\n")


@pytest.fixture
def tables(example, tiny_model, tmp_path, monkeypatch, capsys):
    """What the example prints about the data below ``tmp_path``: the rows of each table, without their head."""
    nli = [(label, f"{word} here", f"{word} and {label}") for word in WORDS for label in LABELS]
    scored = [(f"{n % 6}", f"{word} here", f"{word} {n}") for n, word in enumerate(WORDS * 3)]
    for name in ("snli/dev", "cad/train", "taxinli/all", "rte/train"):
        write(tmp_path / "nli" / f"{name}.tsv", ("label", "premise", "hypothesis"), nli)
    for name in ("train", "dev", "test"):
        write(tmp_path / "sts" / "stsb" / f"{name}.tsv", ("score", "sentence1", "sentence2"), scored)
    monkeypatch.setattr(example, "fresh_base", lambda folder: tiny_model("bert", normalize=False))

    def printed(*options: str) -> list[list[str]]:
        monkeypatch.setattr(sys, "argv", ["reproduce_sbert.py", "--data", str(tmp_path), "--rows", "16", *options])
        example.main()
        lines = capsys.readouterr().out.splitlines()
        groups = [list(group) for is_row, group in groupby(lines, lambda line: line.startswith("|")) if is_row]
        return [body for _, _, *body in groups]  # after the head and its rule

    return printed


def figure(row: str) -> str:
    """Our figure, or the last of them."""
    return row.split("|")[-2].strip()


@pytest.mark.slow
def test_every_cell_of_every_table_is_filled(tables):
    found = tables()
    assert [len(rows) for rows in found] == [3, 7, 3, 4, 1]
    figures = [figure(row) for rows in found for row in rows]
    assert all(-100 <= float(figure) <= 100 for figure in figures)
    assert len(set(figures)) > 4, "models that were trained in another way give other figures"


def test_cells_stay_blank_where_data_is_not_at_hand(tables, tmp_path):
    (tmp_path / "nli" / "cad" / "train.tsv").unlink()
    (tmp_path / "nli" / "rte" / "train.tsv").unlink()
    objectives, data, entailment = tables("--tables", "objective", "data", "entailment")
    assert [bool(figure(row)) for row in objectives] == [False, True, True]
    assert [bool(figure(row)) for row in data] == [False, True, False, True]
    assert [figure(row) for row in entailment] == [""]
