"""Workers on a Ray cluster, each with a GPU to itself."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
import torch

from twinvec import Encoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")

TEXTS = [f"{'the old cat sleeps in the warm sun ' * (row % 7)}number {row}" for row in range(600)]
PAIRS = [{"anchor": f"how does {n} work", "positive": f"all about {n}"} for n in range(32)]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        ray.init("local", num_cpus=4, num_gpus=1, include_dashboard=False, object_store_memory=200 * 1024 * 1024)
        try:
            yield ray
        finally:
            ray.shutdown()


def test_vectors_are_those_of_one_process(cluster, tiny_model):
    import twinvec_ray

    folder = tiny_model("bert")
    rows = cluster.data.from_items([{"text": text, "row": row} for row, text in enumerate(TEXTS)])
    done = twinvec_ray.encode(rows, folder, use_gpu=True, precision="float16").take_all()
    found = np.stack([each["vector"] for each in sorted(done, key=lambda each: each["row"])])
    expected = Encoder(folder, engine="torch", device="cpu").encode(TEXTS)
    assert (found * expected).sum(1).min() > 0.9995


def test_an_ingest_is_that_of_one_process(cluster, tiny_model, tmp_path):
    import twinvec_ray
    from twinvec_qdrant import Collection

    documents = [{"id": str(row), "text": text} for row, text in enumerate(TEXTS[:100])]
    settings = {"encoder": str(tiny_model("bert"))}
    report = twinvec_ray.ingest(documents, "docs", path=tmp_path / "store", use_gpu=True, **settings)
    assert report.new == 100
    with Collection.open("docs", tmp_path / "store") as opened:
        assert opened.ingest(documents).unchanged == 100
        assert opened.search("number 42", 1)[0].id == "42"


def test_training_is_that_of_one_process(cluster, tiny_model, tmp_path):
    import twinvec_ray
    from twinvec.training.run.config import check_config
    from twinvec.training.run.train import train

    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    values = {
        "model": str(tiny_model("bert")),
        "data": [{"path": str(tmp_path / "rows.jsonl")}],
        "objective": {"name": "info_nce"},
        "batches": {"size": 8},
        "schedule": {"steps": 4, "learning_rate": 1e-3},
        "device": "cuda",
    }
    one = train(check_config(values, tmp_path, "run.yaml"), tmp_path / "one")
    two = twinvec_ray.train(check_config(values, tmp_path, "run.yaml"), tmp_path / "two", num_workers=1, use_gpu=True)
    assert two.loss == pytest.approx(one.loss, rel=1e-4)
