"""The examples of the integrations, each run as a user runs it, in a process and a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).parents[1] / "examples"


def start(example: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / example), *map(str, arguments)]
    environment = {**os.environ, "TMPDIR": str(folder)}  # in memory where that is possible, as the folder is
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)


def run(example: str, *arguments: object, folder: Path) -> str:
    done = start(example, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_langchain_answers_from_the_passage_that_holds_the_answer(tmp_path) -> None:
    first = run("rag_langchain.py", folder=tmp_path)
    assert "5 added, 0 unchanged" in first
    assert first.splitlines()[-1].startswith("The VPN client")
    second = run("rag_langchain.py", "When are expenses paid?", folder=tmp_path)
    assert "0 added, 5 unchanged" in second
    assert second.splitlines()[-1].startswith("Expenses are paid")


@pytest.mark.parametrize(
    ("example", "answer"), [("rag_langchain.py", "No passage answers this."), ("rag_llama_index.py", "Empty Response")]
)
def test_a_blank_question_finds_no_passage(tmp_path, example, answer) -> None:
    assert run(example, "", folder=tmp_path).splitlines()[-1] == answer


def test_llama_index_shows_the_model_the_passage_that_holds_the_answer(tmp_path) -> None:
    first = run("rag_llama_index.py", folder=tmp_path)
    assert "5 nodes written" in first
    assert "  vpn.md:" in first
    assert "The VPN client" in first
    second = run("rag_llama_index.py", "When are expenses paid?", folder=tmp_path)
    assert "0 nodes written" in second
    assert "Expenses are paid" in second


def test_a_tuned_model_takes_the_place_of_the_old(tmp_path) -> None:
    for _ in range(2):  # it may be run again
        output = run("swap_model.py", folder=tmp_path)
        assert re.search(r"^before: [01] of 2 right", output, re.MULTILINE)
        assert re.search(r"^after:  2 of 2 right", output, re.MULTILINE)
        assert "migrated: 6 texts encoded" in output
        assert re.search(r"^refused: .*tuned", output, re.MULTILINE)


@pytest.mark.parametrize("example", ["evaluate_retrievers.py", "reproduce_sbert.py"])
def test_wrong_data_is_told_in_one_line(tmp_path, example) -> None:
    done = start(example, "--data", tmp_path / "lost", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"{tmp_path / 'lost'}")


@pytest.mark.parametrize(("option", "least"), [("--queries", 1), ("--documents", 0)])
def test_too_small_a_part_is_refused(tmp_path, option, least) -> None:
    done = start("evaluate_retrievers.py", "--data", tmp_path, option, least - 1, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"error: {option} must be at least {least}\n")


def test_both_frameworks_find_the_same(tmp_path, data) -> None:
    output = run("evaluate_retrievers.py", "--data", data, "--queries", 5, "--documents", 20, folder=tmp_path)
    rows = re.findall(r"^(LangChain|LlamaIndex), (.*?)\s+([\d.]+)\s+([\d.]+)\s+[\d.]+$", output, re.MULTILINE)
    figures: dict[str, set[tuple[str, str]]] = {}
    for _, system, ndcg, recall in rows:
        figures.setdefault(system, set()).add((ndcg, recall))
    assert set(figures) == {"dense", "hybrid", "hybrid, maxsim"}
    assert len(rows) == 6
    assert all(len(found) == 1 for found in figures.values())
    assert all(float(recall) > 90 for found in figures.values() for _, recall in found)
