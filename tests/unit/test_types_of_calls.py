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
def test_types_of_calls(tmp_path):
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    programs = [str(tmp_path / name) for name in ("right.py", "wrong.py")]
    done = subprocess.run(  # shares the cache of ``make check``
        [sys.executable, "-m", "mypy", *programs], cwd=ROOT, capture_output=True, text=True, check=False
    )
    wrong = {(program, int(line)) for program, line in re.findall(r"(\w+)\.py:(\d+): error", done.stdout)}
    assert wrong == {("wrong", line) for line in (5, 6, 7, 8, 9)}, done.stdout + done.stderr
    assert done.returncode == 1
