"""Two workers on one node train the same weights as one process, and raise the same errors."""

from __future__ import annotations

from functools import partial

import pytest

from crash.cluster.training_runs import STEPS, assert_same_weights, prepare
from twinvec.errors import ConfigurationError, DocumentError
from twinvec.training.run.config import read_config
from twinvec.training.run.train import train as train_alone
from twinvec_ray import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


def test_the_weights_are_those_of_one_process(cluster, tiny_model, tmp_path):
    config = read_config(prepare(tmp_path, tiny_model("bert")))
    train_alone(config, tmp_path / "one")
    report = train(config, tmp_path / "two", num_workers=2)
    assert report.steps == STEPS
    assert_same_weights(tmp_path / "two", tmp_path / "one")
    assert not list(tmp_path.glob(".*.ray"))


def test_the_error_of_a_worker_is_that_of_one_process(cluster, tiny_model, tmp_path):
    config = read_config(prepare(tmp_path, tiny_model("bert")))
    (tmp_path / "rows.jsonl").write_text('{"anchor": "a", "positive": 5}\n')
    told = []
    for call in (
        partial(train_alone, config, tmp_path / "one"),
        partial(train, config, tmp_path / "two", num_workers=2, max_failures=0),
    ):
        with pytest.raises(DocumentError) as raised:
            call()
        told.append(str(raised.value))
    assert told[0] == told[1]
    assert "rows.jsonl, row 1" in told[0]


def test_a_folder_of_another_run_is_refused_before_the_workers_start(tiny_model, tmp_path):
    config = read_config(prepare(tmp_path, tiny_model("bert")))
    train_alone(config, tmp_path / "run")
    other = config.model_copy(update={"device": None})
    with pytest.raises(ConfigurationError, match=r"run: holds a run with another configuration: device was \"cpu\""):
        train(other, tmp_path / "run", address="127.0.0.1:1")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"file: is a file; choose another folder"):
        train(config, tmp_path / "file", address="127.0.0.1:1")
    with pytest.raises(ConfigurationError, match=r"/proc/none/run: the folder cannot be made"):
        train(config, "/proc/none/run", address="127.0.0.1:1")
