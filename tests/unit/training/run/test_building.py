"""What a run trains, built from its configuration."""

from __future__ import annotations

import json

import numpy as np
import pytest

from models import build
from twinvec import Encoder
from twinvec.training.data.rows import open_rows
from twinvec.training.losses.modules import VectorLoss
from twinvec.training.run.building import build_parts
from twinvec.training.run.config import check_config

TEXTS = ["one text", "another, longer text", "a third"]


class Seeing(VectorLoss):
    """Keeps the vectors that it gets."""

    def forward(self, vectors, labels, hashes):
        self.seen = [arm.detach().numpy() for arm in vectors]
        return sum(arm.sum() for arm in vectors)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("truncate_dim", [None, 8])
def test_the_objective_gets_the_vectors_that_the_model_is_served_with(tmp_path, normalize, truncate_dim):
    folder = build(tmp_path / "base", "bert", normalize=normalize, truncate_dim=truncate_dim)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"anchor": a, "positive": a}) + "\n" for a in TEXTS))
    values = {
        "model": str(folder),
        "objective": {"name": "info_nce"},
        "data": [{"path": "rows.jsonl"}],
        "device": "cpu",
    }
    config = check_config(values, tmp_path, "run.yaml")
    sources = [open_rows(source, "info_nce", tmp_path / "cache") for source in config.data]
    parts = build_parts(config, sources, tmp_path / "cache")
    parts.loss.loss = Seeing()
    parts.model.eval()
    parts.loss([parts.model.preprocess(TEXTS), parts.model.preprocess(TEXTS[:1])])
    served = Encoder(folder, engine="torch").encode(TEXTS)
    for found, expected in zip(parts.loss.loss.seen, (served, served[:1]), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=1e-5)
