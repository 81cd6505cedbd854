"""Two workers on one node train the same weights as one process."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


def test_the_weights_are_those_of_one_process(cluster, tiny_model, tmp_path):
    from crash.cluster.training_runs import STEPS, assert_same_weights, prepare
    from twinvec.training.run.config import read_config
    from twinvec.training.run.train import train as train_alone
    from twinvec_ray import train

    config = read_config(prepare(tmp_path, tiny_model("bert")))
    train_alone(config, tmp_path / "one")
    report = train(config, tmp_path / "two", num_workers=2)
    assert report.steps == STEPS
    assert_same_weights(tmp_path / "two", tmp_path / "one")
    assert not list(tmp_path.glob(".*.ray"))
