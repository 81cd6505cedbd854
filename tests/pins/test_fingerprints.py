"""Pins the hashes and keys by which files beside models are found again: of runs, mined rows, caches and exports.

A fingerprint that changes makes an unfinished run or a file of mined rows another's, which is refused. A key of a cache
that changes makes everything in the cache dead weight: graphs are converted anew, embeddings computed anew. What
``twinvec.json`` holds decides whether an export is used or refused; one that version 0.1.0 made, for both runtimes, is
in ``fixtures/export.tar.xz``, and has to be used as it was.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core.storage.kvstore import SimpleKVStore

from llama_index.embeddings.twinvec import TwinvecEmbedding
from pins.pinning import FIXTURES, check, pack, smallest_folder, unpack
from twinvec import Encoder
from twinvec.export.model import export_model
from twinvec.training.data.text_hash import text_hash
from twinvec.training.mining.hard_negatives import MiningJob, MiningOptions, mine_file
from twinvec.training.mining.output_file import file_digest
from twinvec.training.run.config import check_config
from twinvec.training.run.run_folder import file_digests, run_fingerprint

ARCHIVE = FIXTURES / "export.tar.xz"
TEXTS = [f"{kind} number {n} compares two files" for n in range(8) for kind in ("dog", "cat", "Größe", "the lazy fox")]
_NAME = re.compile(r"-[0-9a-f]{8}(?=\.)")
_VERSION = re.compile(r"(?<=[a-z] )[0-9][^,]*")
CONFIGS: dict[str, dict[str, Any]] = {
    "info_nce": {"objective": {"name": "info_nce"}},
    "all sections": {
        "pooling": "cls",
        "max_tokens": 40,
        "prompts": {"query": "find: ", "document": "passage: "},
        "objective": {"name": "info_nce", "scale": 30, "symmetric": True, "false_negative_margin": 0.1},
        "matryoshka": [16, 8],
        "data": [{"path": "rows.jsonl", "weight": 2, "limit": 3}, {"path": "more.jsonl", "name": "m", "weight": 1}],
        "batches": {"size": 8, "datasets": 2, "token_budget": 60, "kept_tokens": 60},
        "schedule": {"steps": 6, "learning_rate": 1e-3, "warmup": 2, "decay": "cosine", "seed": 7},
        "evaluation": {"pairs": "rows.jsonl", "sts": "sts.jsonl", "every": 2, "patience": 3},
        "lora": {"rank": 2, "targets": ["query"]},
        "device": "cpu",
    },
    "triplet": {"objective": {"name": "triplet", "margin": 0.3}},
    "contrastive": {"objective": {"name": "contrastive"}},
    "online_contrastive": {"objective": {"name": "online_contrastive", "distance": "euclidean"}},
    "cosine_regression": {"objective": {"name": "cosine_regression"}, "data": [{"path": "sts.jsonl"}]},
    "softmax": {"objective": {"name": "softmax", "concatenation": "u,v"}},
    "binary": {"kind": "cross-encoder", "objective": {"name": "binary"}},
    "graded": {"kind": "cross-encoder", "objective": {"name": "graded"}, "data": [{"path": "sts.jsonl"}]},
    "columns": {"objective": {"name": "info_nce"}, "data": [{"path": "rows.jsonl", "columns": {"anchor": "q"}}]},
}
HASHED = ("A text.", "  a\tTEXT. ", "Größe STRASSE ß", "ﬁ ① ½ e\u0301", "", "日本語 👩‍👩‍👧")


class UnansweredError(Exception):
    """Ends a run of mining."""


class NoRetriever:
    """Fails at the first search, when the file of mined rows has its header."""

    def search(self, query, limit=10, filter=None):
        raise UnansweredError


def make(folder: Path) -> None:
    """Export a model for both runtimes and in both precisions, and pack it."""
    smallest_folder(folder / "model")
    for engine in ("openvino", "onnx"):
        export_model(folder / "model", folder / "export", engine=engine, calibrate=TEXTS, dims=[4])
        export_model(folder / "model", folder / "export", engine=engine, precision="int8", calibrate=TEXTS, dims=[4])
    shutil.rmtree(folder / "model")
    pack(folder, ARCHIVE)


def values(folder: Path) -> dict[str, Any]:
    """Hashes and keys by what they are of."""
    model = unpack(ARCHIVE, folder) / "export"
    return {
        "runs": _runs(folder),
        "text hashes": {text: text_hash(text) for text in HASHED},
        "mined": _mined(folder),
        "embeddings": _embeddings(model),
    }


def _runs(folder: Path) -> dict[str, Any]:
    for name, rows in (
        ("rows", [{"anchor": "a", "positive": "b"}]),
        ("more", [{"anchor": "ä", "positive": "日本語"}]),
        ("sts", [{"sentence1": "a", "sentence2": "b", "score": 0.5}]),
    ):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "folder").mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt", "left-out.md"):
        (folder / "folder" / name).write_text(name)
    found = {}
    for name, settings in CONFIGS.items():
        for model in ("default", "folder"):
            given = {"model": model, "data": [{"path": "rows.jsonl"}], **settings}
            config = check_config(given, folder, "run.yaml")
            found[f"{name}, {model}"] = run_fingerprint(config, file_digests(config))
        found[f"{name}, as JSON"] = config.model_dump_json(exclude={"model", "data", "evaluation"})
    return found


def _mined(folder: Path) -> dict[str, Any]:
    found = {"file": file_digest(folder / "rows.jsonl"), "with a space": file_digest(folder / "rows.jsonl", "ab12")}
    for name, options in (("default", MiningOptions()), ("margin", MiningOptions(2, 3, 30, 0.05, 0.2))):
        output = folder / f"{name}-mined.jsonl"
        with pytest.raises(UnansweredError):
            mine_file(MiningJob(folder / "rows.jsonl", output, options, "größe 0123"), NoRetriever())
        found[name] = output.with_name(f"{output.name}.partial").read_text().splitlines()
    return found


def _embeddings(model: Path) -> dict[str, Any]:
    found = {}
    for normalize in (True, False):
        store = SimpleKVStore()
        embedding = TwinvecEmbedding(encoder=Encoder(model), normalize=normalize, embeddings_cache=store)
        embedding.get_query_embedding("a question")
        embedding.get_text_embedding("a text")
        embedding.get_text_embedding_batch(["Größe", "a text"])
        found[f"normalize={normalize}"] = {name: sorted(entries) for name, entries in store.to_dict().items()}
    return found


def _manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "twinvec.json").read_text())


def _shape(value: Any) -> Any:
    """What a manifest holds, without figures, versions, and the part of a graph's name that depends on its bytes."""
    if isinstance(value, dict):
        return {_NAME.sub("-", key): _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return f"{len(value)} numbers"
    if isinstance(value, str):
        return _NAME.sub("-", _VERSION.sub("", value))
    return type(value).__name__


def test_hashes_and_keys_are_those_of_before(tmp_path):
    check("fingerprints", values(tmp_path))


@pytest.mark.parametrize("engine", ["openvino", "onnx"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_export_of_before_is_used(tmp_path, monkeypatch, engine, precision):
    monkeypatch.setenv("TWINVEC_CACHE", str(tmp_path / "cache"))
    model = unpack(ARCHIVE, tmp_path) / "export"
    encoder = Encoder(model, engine=engine, precision=precision)
    found = encoder.encode(TEXTS)
    exact = Encoder(model, engine="torch").encode(TEXTS)
    least = 0.9 if precision == "int8" else 1 - 1e-5
    assert np.sum(found * exact, axis=1).min() > least
    assert not (tmp_path / "cache").exists(), "the graph was converted, though the folder has it"
    codes = encoder.encode(TEXTS, storage="int8")
    assert codes.dtype == np.int8
    assert Encoder(model, dim=4).encode(TEXTS[:2], storage="int8").shape == (2, 4)


@pytest.mark.slow
def test_an_export_says_of_itself_what_it_said_before(tmp_path):
    then = _manifest(unpack(ARCHIVE, tmp_path) / "export")
    for precision in ("float32", "int8"):
        export_model(
            smallest_folder(tmp_path / precision),
            tmp_path / "new",
            engine="onnx",
            precision=precision,
            calibrate=TEXTS,
            dims=[4],
        )
    now = _manifest(tmp_path / "new")
    then["exports"] = {key: entry for key, entry in then["exports"].items() if key.startswith("onnx")}
    for added in ("unusual_mean", "unusual_worst"):  # since; nothing else has changed
        del now["exports"]["onnx-int8"]["quality"][added]
    for manifest in (then, now):
        hashes = manifest["sha256"]
        manifest["sha256"] = dict.fromkeys((name for name in hashes if not name.startswith("openvino")), "")
    assert _shape(now) == _shape(then)


@pytest.mark.parametrize(("engine", "package"), [("openvino", "openvino"), ("onnx", "onnxruntime")])
def test_a_cached_graph_is_found_by_the_key_of_before(tmp_path, monkeypatch, engine, package):
    runtime = pytest.importorskip(package)
    monkeypatch.setenv("TWINVEC_CACHE", str(tmp_path / "cache"))
    folder = smallest_folder(tmp_path / "model")
    encoder = Encoder(folder, engine=engine)
    vectors = encoder.encode(["a text"])
    digest = _manifest(unpack(ARCHIVE, tmp_path) / "export")["exports"][f"{engine}-float32"]["network"]
    key = hashlib.sha256(f"2 {engine} {runtime.__version__} {digest}".encode()).hexdigest()[:32]
    home = tmp_path / "cache" / engine / key
    record = json.loads((home / "graph.json").read_text())
    assert list(record) == ["model", "difference", "sha256"]
    names = {"openvino": ["graph.bin", "graph.xml"], "onnx": ["graph.onnx"]}[engine]
    assert sorted(record["sha256"]) == names
    assert sorted(path.name for path in home.iterdir()) == sorted([*names, "graph.json"])
    before = {path: path.stat().st_mtime_ns for path in home.iterdir()}
    assert (Encoder(folder, engine=engine).encode(["a text"]) == vectors).all()
    assert {path: path.stat().st_mtime_ns for path in home.iterdir()} == before
