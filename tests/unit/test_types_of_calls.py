"""What type checkers know of calls: the types of answers, and options that do not exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

RIGHT = """
from collections.abc import Iterator
from typing import Any
from typing_extensions import assert_type
import numpy as np
import numpy.typing as npt
import twinvec
import twinvec_qdrant
Floats = npt.NDArray[np.float32]

def encoded(encoder: twinvec.Encoder, texts: list[str], options: dict[str, Any]) -> None:
    assert_type(encoder.encode(texts), Floats)
    assert_type(encoder.encode("a", prompt="query", progress=True), Floats)
    assert_type(encoder.encode_query(texts), Floats)
    assert_type(encoder.encode_document(texts), Floats)
    assert_type(encoder.encode_stream(texts, window=3), Iterator[Floats])
    assert_type(encoder.encode(texts, storage="int8"), npt.NDArray[Any])
    encoder.encode_query(texts, **options)

async def awaited(stages: twinvec.RetrieveRerank) -> None:
    assert_type(await stages.asearch("a", limit=3), list[twinvec.Hit])
    assert_type(await stages.asearch_many(["a"]), list[list[twinvec.Hit]])

def reported(collection: twinvec_qdrant.Collection) -> None:
    report: twinvec_qdrant.VerifyReport = collection.verify()
    try:
        collection.ingest([])
    except twinvec.errors.IngestError as error:
        assert_type(error.report.failures, list[tuple[str, str]])
    twinvec.similarity.cluster
"""
WRONG = """
import twinvec

async def encoded(encoder: twinvec.Encoder, stages: twinvec.RetrieveRerank) -> None:
    encoder.encode("a", prmpt="query")
    encoder.encode_query("a", storge="int8")
    encoder.encode_document("a", prompt="query")
    list(encoder.encode_stream(["a"], windw=3))
    encoder.dim = "a"
"""


@pytest.mark.slow
@pytest.mark.parametrize(("program", "lines"), [(RIGHT, set()), (WRONG, {5, 6, 7, 8, 9})], ids=["right", "wrong"])
def test_types_of_calls(program, lines, tmp_path):
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "program.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert {int(line) for line in re.findall(r"program\.py:(\d+): error", done.stdout)} == lines, done.stdout
    assert done.returncode == bool(lines), done.stdout + done.stderr
