"""``--ray`` without an address starts a cluster on the cores of this machine, and ends it with the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import models
import office_files
from twinvec import Encoder
from twinvec_qdrant import Collection
from twinvec_qdrant.cli.options import SOME_FAILED
from unit.ray.test_ingest_command import compared
from words import sentences

pytestmark = [pytest.mark.slow, pytest.mark.timeout(580)]

PROGRAM = "from twinvec.cli.app import main; main()"
SECONDS = 400


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A tiny model with its graph, so that the processes start without torch."""
    return str(models.export(tmp_path_factory.mktemp("models")))


@pytest.fixture
def run(model):
    """``run("ingest", ...)``: the command in a process of its own that knows no cluster; what it prints.

    With ``--ray``, it starts a cluster; what Ray tells of its own affairs is not printed.
    """
    with TemporaryDirectory(dir="/tmp", prefix="ray-") as place:  # sockets need a short path
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RAY_TMPDIR": place}
        environment.pop("RAY_ADDRESS", None)

        def run(*arguments: object, code: int = 0) -> str:
            program = f"import patient_ray; {PROGRAM}" if "--ray" in arguments else PROGRAM
            command = [sys.executable, "-c", program, *map(str, arguments), "--model", model]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
            assert done.returncode == code, done.stderr
            if "--ray" in arguments:
                assert list(Path(place).glob("ray/session_*")), "no cluster was started"
                assert "INFO" not in done.stderr
            return done.stdout

        yield run
        end = time.monotonic() + SECONDS
        while any(place.encode() in _read(each) for each in Path("/proc").glob("[0-9]*/cmdline")):
            assert time.monotonic() < end, "the cluster goes on"
            time.sleep(0.1)


def contents(path: Path, model: str) -> dict[str, tuple[dict[str, Any], Any]]:
    """The payload and the vector of each point, by id."""
    with Collection.open("docs", path, encoder=Encoder(model)) as collection:
        backend, vector = collection._backend, collection._serving.current.description.vector
        points = backend.retrieve([each.id for each in backend.scroll([])], vector=vector)
    return {key: (compared(each.payload), each.dense) for key, each in points.items()}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""


def test_ingest_fills_the_collection_of_one_process(run, model, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for row, text in enumerate(sentences(12, seed=5, longest=60)):
        if row % 3:
            (folder / f"{row}.md").write_text(text)
        else:
            office_files.write_docx(folder / f"{row}.docx", [text])
    (folder / "rows.csv").write_text("id,text,price\n1,green tea,7\n2,black tea,5\n")
    (folder / "broken.pdf").write_text("not a PDF")
    command = ["ingest", folder, "-c", "docs", "--json"]
    spread = json.loads(run(*command, "--path", tmp_path / "spread", "--ray", code=SOME_FAILED))
    alone = json.loads(run(*command, "--path", tmp_path / "alone", code=SOME_FAILED))
    assert spread == alone
    assert (spread["new"], spread["failed"]) == (14, 1)
    found, wanted = (contents(tmp_path / name, model) for name in ("spread", "alone"))
    assert len(wanted) > 2 * 14
    assert found.keys() == wanted.keys()
    for key, (payload, vector) in wanted.items():
        assert found[key][0] == payload
        assert (found[key][1] is None) == (vector is None)
        if vector is not None:
            np.testing.assert_allclose(found[key][1], vector, atol=1e-5)


def test_encode_gives_the_vectors_of_one_process(run, model, tmp_path):
    texts = sentences(300, seed=6)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    shown = run("encode", "--ray", tmp_path / "texts.jsonl", "-o", tmp_path / "vectors.parquet")
    assert f"{tmp_path / 'vectors.parquet'}: 300 vectors of 32 numbers, " in shown
    rows = pq.read_table(tmp_path / "vectors.parquet").to_pylist()
    assert sorted(row["text"] for row in rows) == sorted(texts)
    wanted = dict(zip(texts, Encoder(model).encode(texts), strict=True))
    for row in rows:
        np.testing.assert_allclose(row["vector"], wanted[row["text"]], atol=1e-5)
