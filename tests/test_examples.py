"""The demo in small: the examples' programs and the commands that a user types, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[1]


def run(*arguments: object, folder: Path) -> str:
    done = subprocess.run([str(each) for each in arguments], cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_documentation_of_the_standard_library_is_found(tmp_path):
    program = [sys.executable, ROOT / "examples" / "pydocs.py", "pydocs.jsonl", "--modules", "difflib", "csv", "shutil"]
    run(*program, folder=tmp_path)
    first = (tmp_path / "pydocs.jsonl").read_bytes()
    rows = [json.loads(line) for line in first.splitlines()]
    assert {"difflib.unified_diff", "csv", "csv.Sniffer", "shutil.copytree"} <= {row["id"] for row in rows}
    assert len({row["id"] for row in rows}) == len(rows) > 50
    run(*program, folder=tmp_path)
    assert (tmp_path / "pydocs.jsonl").read_bytes() == first

    twinvec = Path(sys.executable).with_name("twinvec")
    ingest = (twinvec, "ingest", "pydocs.jsonl", "--collection", "pydocs", "--prune", "--json")
    assert json.loads(run(*ingest, folder=tmp_path))["new"] == len(rows)
    again = json.loads(run(*ingest, folder=tmp_path))
    assert (again["unchanged"], again["encoded"]) == (len(rows), 0)
    questions = ("compare two files and show the differences", "delete a directory and all that is in it")
    found = run(
        twinvec, "search", *questions, "--collection", "pydocs", "--rerank", "maxsim", "--json", folder=tmp_path
    )
    best = [[hit["id"].split(".")[0] for hit in result["hits"][:3]] for result in json.loads(found)["results"]]
    assert set(best[0]) == {"difflib"}
    assert best[1][0] == "shutil"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["."], ". is a folder; name a file in it"), (["a.jsonl", "--modules", "csv", "cvs"], "the module cvs cannot be")],
)
def test_documentation_that_cannot_be_written_is_told_in_a_sentence(tmp_path, arguments, message):
    program = [sys.executable, str(ROOT / "examples" / "pydocs.py"), *arguments]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {message}" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_training_guides_first_command_runs_as_written(tmp_path):
    page = (ROOT / "docs" / "how-to" / "training.md").read_text(encoding="utf-8")
    command = next(line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ twinvec train "))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        shlex.split(command), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("models/mine: 24 steps over 36 rows in ")
    before, after = map(float, re.search(r"pairs\.mrr@10: (\S+) -> (\S+)", done.stdout).groups())
    assert after > before + 10


def test_all_of_the_standard_library_is_several_thousand_passages(tmp_path):
    run(sys.executable, ROOT / "examples" / "pydocs.py", "all.jsonl", folder=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").open(encoding="utf-8")]
    assert len(rows) > 4000
    assert all(row["text"].strip() and row["title"].startswith(row["id"]) for row in rows)
    assert not any(" at 0x" in row["title"] for row in rows)
