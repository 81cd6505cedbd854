"""One SentenceTransformer for the tests of training, and runs without what only costs time."""

from __future__ import annotations

import copy
import gc
import sys
from functools import cache
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def _loaded():
    from sentence_transformers import SentenceTransformer

    from twinvec.models.finding import find_model

    return SentenceTransformer(str(find_model("default").path), device="cpu")


@pytest.fixture
def model(_loaded):
    """The default model as a SentenceTransformer of the test's own, with two of its six layers, to be quick."""
    model = copy.deepcopy(_loaded)
    backbone = model[0].auto_model
    backbone.encoder.layer = backbone.encoder.layer[:2]
    backbone.config.num_hidden_layers = 2
    return model


@pytest.fixture
def excluded():
    """``excluded(texts)``: the mask of all pairs that ``PairTexts`` excludes, as ``info_nce`` takes it."""

    def mask(texts):
        whole = torch.zeros(len(texts.anchors_B), len(texts.candidates_N), dtype=torch.bool)
        found = texts.tile(*map(slice, (0, 0), whole.shape))
        if found is not None:
            columns, pairs = found
            whole[:, columns] = pairs
        return whole

    return mask


@pytest.fixture(autouse=True)
def _one_thread():
    """Models this small gain nothing from threads, which only wait for one another on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _short_collections():
    """Every run ends with a garbage collection, which need not look at all modules that are imported."""
    if "sentence_transformers" in sys.modules:
        _freeze()


@cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture
def drawn():
    """For tests that look at the picture of a run."""


@pytest.fixture(autouse=True)
def _undrawn(request, monkeypatch):
    """Runs of four steps take longer to draw than to train: the picture is left empty, but for tests with ``drawn``."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **options: Path(path).touch())
