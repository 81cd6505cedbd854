"""Wrong types at the entry points: an error of twinvec that names the argument, before a cluster is looked for."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from twinvec.errors import ConfigurationError, InputError
from twinvec.training.run.config import TrainConfig
from twinvec_ray import encode, evaluate, ingest, mine_negatives, nearest, read, train, write

NO_PATH = [5, None, b"bytes", [1], {}, "\ud800", "a\0b"]
NO_DATASET = [5, None, b"bytes", [1], {}, "texts.parquet", Path("texts.parquet"), object]
NO_STRING = [5, b"bytes", [1], {"a": 1}, Path("a"), "\ud800"]
GRADES = {"q": {"d": 1}}
DATASET = SimpleNamespace(schema=None, map_batches=None, context=None)


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a cluster is looked for")

    monkeypatch.setattr(ray, "init", fail)


def refused(said: str, function, *arguments, **options):
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        function(*arguments, **options)


@pytest.mark.parametrize("value", NO_PATH, ids=repr)
def test_what_is_no_path(value):
    refused("source ", read, value)
    refused("output ", write, DATASET, value)
    refused("folder ", train, TrainConfig.model_construct(), value)


def test_a_path_is_a_place_as_its_string_is(tmp_path):
    with pytest.raises(InputError, match=r"none\.parquet: no such file or folder"):
        read(tmp_path / "none.parquet")
    refused("to a folder NAME.parquet or NAME.lance", write, DATASET, tmp_path / "vectors.npy")


@pytest.mark.parametrize("value", NO_DATASET, ids=repr)
def test_what_is_no_dataset(value):
    refused("dataset: expected a Ray dataset", write, value, "vectors.parquet")
    refused("dataset: expected a Ray dataset", encode, value)
    refused("queries: expected a Ray dataset", nearest, value, DATASET)
    refused("vectors: expected a Ray dataset", nearest, DATASET, value)
    refused("pairs: expected a Ray dataset", mine_negatives, value, DATASET)
    refused("corpus: expected a Ray dataset", mine_negatives, DATASET, value)
    refused("found: expected a Ray dataset", evaluate, value, GRADES)


@pytest.mark.parametrize("value", NO_STRING, ids=repr)
def test_what_is_no_string(value):
    for name in ("text", "column"):
        refused(f"{name} ", encode, DATASET, **{name: value})
    for name in ("id", "column", "query_id", "query_column"):
        with pytest.raises(ConfigurationError, match=rf"^{name} (must be|has) "):
            nearest(DATASET, DATASET, **{name: value})
    for name in ("id", "column", "text", "corpus_column"):
        refused(f"{name} ", mine_negatives, DATASET, DATASET, **{name: value})
    refused("address ", ingest, [("a", "tea")], "notes", "store", address=value)


def test_what_is_no_setting():
    for value in (5, None, "ndcg@10", b"bytes", {}, [], [5]):
        refused("measure", evaluate, DATASET, GRADES, measures=value)
    for value in (5, "q", b"bytes", [1]):
        refused("qrels: expected a mapping", evaluate, DATASET, value)
    for value in (5, None, {}, "run.yaml", Path("run.yaml")):
        refused("config: expected TrainConfig(...)", train, value, "folder")
    for value in (5, {}, "hard"):
        refused("options: expected MiningOptions(...)", mine_negatives, DATASET, DATASET, value)
