"""Goes on with a training run that version 0.1.0 began and that was killed (``fixtures/run.tar.xz``).

A run goes on only where its fingerprint, a hash of the configuration's JSON and of the files of data and model, is what
it was: a field that is added, renamed or reordered makes every unfinished run of a user another run's. The checkpoint
and the record of the run have to be read as they were written.

The archive has the rows, the model, the configuration and the folder of the run, whose record names the folder it was
made in: a run goes on wherever it is moved. Its process was killed for real, after the checkpoint at step 4 of 12. The
model is tiny, with 8 numbers a token, to keep the archive small.

Where this machine computes the recorded weights in a run that nobody killed, the run that goes on has to end with the
same, byte for byte. On another processor or with another torch the steps before the kill were computed differently, so
weights are then compared within ``TOLERANCE``.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from pins.pinning import FIXTURES, pack, plain, recorded, smallest_folder, unpack

ARCHIVE = FIXTURES / "run.tar.xz"
STEPS, KILLED = 12, 4
TOLERANCE = 5e-3  # a step of Adam moves a weight by at most the learning rate, 1e-3, or a little more
TOPICS = ("files", "dogs", "rain", "money")
CONFIG = """\
model: model
objective: {name: info_nce, symmetric: true}
data: [{path: rows.jsonl}, {path: more.jsonl, name: others}]
batches: {size: 8, datasets: 2, kept_tokens: 60, token_budget: 60}
schedule: {steps: 12, learning_rate: 0.001, log_every: 1, checkpoint_every: 4}
evaluation: {pairs: dev.jsonl}
device: cpu
"""


def make(folder: Path) -> None:
    """Begin a run, kill its process, and pack what is left."""
    rows = [
        {"anchor": f"how do {t} work, part {n}", "positive": f"all about {t} {n}"} for n in range(8) for t in TOPICS
    ]
    for name, part in (("rows", rows), ("more", rows[::3]), ("dev", rows[:8])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    (folder / "run.yaml").write_text(CONFIG)
    smallest_folder(folder / "model")
    program = "import torch; torch.set_num_threads(1); from twinvec.cli import main; main()"
    command = [sys.executable, "-c", program, "train", str(folder / "run.yaml"), "-o", str(folder / "run")]
    process = subprocess.Popen(command)
    while not (folder / "run" / "checkpoints" / f"checkpoint-{KILLED}" / "complete").exists():
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    pack(folder, ARCHIVE)


def values(folder: Path) -> dict[str, Any]:
    """The weights of the run that nobody kills, and what the folders of both hold."""
    from twinvec.cli import main

    unpack(ARCHIVE, folder)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.raises(SystemExit, match="0"):
        main(["train", str(folder / "run.yaml"), "-o", str(folder / "whole")])
    torch.set_num_threads(threads)
    record = json.loads((folder / "run" / "training.json").read_text())
    return {
        "weights": digest(folder / "whole"),
        "digest": record["digest"],
        "record": sorted(record),
        **finished(folder / "whole"),
    }


def finished(folder: Path) -> dict[str, Any]:
    """What a finished run's own files are and hold."""
    record, manifest = (json.loads((folder / name).read_text()) for name in ("training.json", "twinvec.json"))
    ours = {"README.md", "training.json", "training.lock", "training.png", "twinvec.json"}
    return {
        "finished record": sorted(record),
        "report": list(record["report"]),
        "manifest": {**manifest, "sha256": sorted(manifest["sha256"])},
        "files": sorted(path.name for path in folder.iterdir() if path.name in ours),
    }


def digest(folder: Path) -> str:
    """Of the weights' bytes."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture
def steps(monkeypatch):
    """How many steps the optimiser has taken."""
    taken = []
    real = torch.optim.AdamW.step

    def step(self, *arguments, **options):
        taken.append(1)
        return real(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    return taken


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_it_goes_on_and_ends_with_the_weights_of_a_run_that_nobody_killed(twinvec, steps, tmp_path):
    unpack(ARCHIVE, tmp_path)
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert (sorted(record), record["digest"]) == (recorded("old_run")["record"], recorded("old_run")["digest"])
    assert (tmp_path / "run" / "checkpoints" / f"checkpoint-{KILLED}" / "complete").is_file()
    done = twinvec("train", tmp_path / "run.yaml", "-o", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["steps"], len(steps)) == (STEPS, STEPS - KILLED), "it was to go on from its checkpoint"
    done = twinvec("train", tmp_path / "run.yaml", "-o", tmp_path / "whole", "--json")
    assert done.code == 0, done.err
    whole = json.loads(done.out)
    assert report.keys() == whole.keys()
    assert report["before"] == pytest.approx(whole["before"], abs=1e-3)
    assert (report["rows"], report["best_step"]) == (whole["rows"], whole["best_step"])
    if digest(tmp_path / "whole") == recorded("old_run")["weights"]:
        assert digest(tmp_path / "run") == recorded("old_run")["weights"]
    assert finished(tmp_path / "run") == finished(tmp_path / "whole")
    pinned = recorded("old_run")
    now = plain(finished(tmp_path / "run"))
    now["manifest"]["trained_with"] = pinned["manifest"]["trained_with"]
    for added in ("files", "history"):  # since; nothing else has changed
        now["finished record"].remove(added)
    now["report"] = [name for name in now["report"] if name not in ("rows_drawn", "classes")]
    assert now == {key: pinned[key] for key in now}
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("run", "whole"))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=0, atol=TOLERANCE)
    new = json.loads((tmp_path / "whole" / "training.json").read_text())
    assert new["digest"] == record["digest"]
    assert new["config"] == json.loads(json.dumps(record["config"]).replace(_place(record), str(tmp_path)))


def _place(record: dict[str, Any]) -> str:
    """The folder that the archive was made in."""
    return str(Path(record["config"]["model"]).parent)
