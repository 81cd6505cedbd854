"""Exports: complete folders, what their manifests say, what is refused, and what a kill leaves behind."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from cases import slow
from twinvec import CrossEncoderReranker, Encoder
from twinvec.arrays import unit
from twinvec.errors import (
    ConfigurationError,
    InputError,
    MissingExtraError,
    ModelIntegrityError,
    TextError,
    UnsupportedModelError,
)
from twinvec.export.model import LEAST_TEXTS, export_model, sample_texts
from twinvec.export.unusual_texts import UNUSUAL_TEXTS
from twinvec.installation import install_line
from twinvec.models.integrity import MANIFEST, write_manifest
from twinvec.support.cpu import sums_bytes_exactly
from watched_disk import disk_steps
from words import sentences

TEXTS = sentences(120, seed=3)
OTHERS = sentences(40, seed=4)


@pytest.fixture(scope="module")
def source(tmp_path_factory, tiny_model):
    """A model with the picture that its model card shows."""
    model = tiny_model("bert", dense=((24, "Tanh"),), prompts={"query": "find: ", "document": "text: "})
    folder = shutil.copytree(model, tmp_path_factory.mktemp("sources") / "model")
    (folder / "training.png").write_bytes(b"a picture")
    return folder


@pytest.fixture(scope="module")
def int8(tmp_path_factory, source):
    """A folder with an int8 export, and the report of it; not to be changed."""
    folder = tmp_path_factory.mktemp("exports") / "int8"
    return folder, export_model(source, folder, precision="int8", calibrate=TEXTS)


@pytest.fixture
def copy(int8, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(int8[0], tmp_path / "copy")


def manifest_of(folder):
    return json.loads((folder / MANIFEST).read_text())


def change_manifest(folder, change):
    manifest = manifest_of(folder)
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def files_of(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.slow
def test_the_folder_is_the_whole_model(int8, source):
    folder, report = int8
    of_model = {name for name in files_of(source) if not name.endswith(".md")}
    of_graph = {f"openvino/{report.graph.stem}{suffix}" for suffix in (".xml", ".bin")}
    assert set(files_of(folder)) - {"README.md"} == of_model | of_graph | {MANIFEST}
    assert set(manifest_of(folder)["sha256"]) == {"model.safetensors", "2_Dense/model.safetensors"} | of_graph
    ours, theirs = (Encoder(each, engine="torch") for each in (folder, source))
    assert ours.space == theirs.space
    np.testing.assert_array_equal(ours.encode(OTHERS), theirs.encode(OTHERS))


def test_int8_computes_and_is_near(int8, source):
    folder, report = int8
    assert report.passed
    found = Encoder(folder)
    exact = Encoder(source, engine="torch")
    assert found.engine.name == "openvino, cpu, int8"
    assert found.space == exact.space
    near = cosines(found.encode_document(OTHERS), exact.encode_document(OTHERS))
    assert near.min() > 0.97
    assert near.max() < 1 - 1e-7, "these are the vectors of float32"
    states = zip(found.encode_tokens(OTHERS[:5]), exact.encode_tokens(OTHERS[:5]), strict=True)
    assert all(cosines(mine, theirs).mean() > 0.95 for mine, theirs in states)


def test_a_vector_hardly_depends_on_its_batch(int8):
    encoder = Encoder(int8[0])
    alone = np.stack([encoder.encode(text) for text in OTHERS])
    assert cosines(encoder.encode(OTHERS), alone).min() > 0.9995


def test_what_was_measured_is_kept(int8):
    folder, report = int8
    entry = manifest_of(folder)["exports"]["openvino-int8"]
    assert entry["quality"] == report.quality
    assert entry["passed"] is report.passed is True
    assert entry["texts"] == {"calibrated": report.calibrated_on, "measured": report.measured_on}
    assert report.calibrated_on + report.measured_on == len(set(TEXTS))
    assert 0.97 < report.quality["cosine_worst"] <= report.quality["cosine_mean"] < 1
    assert 0.8 < report.quality["top10_overlap"] <= 1


def test_texts_of_no_usual_kind_are_measured_too(int8):
    folder, report = int8
    near, exact = (Encoder(folder, precision=precision) for precision in ("int8", "float32"))
    found = cosines(near.encode_document(UNUSUAL_TEXTS), exact.encode_document(UNUSUAL_TEXTS))
    assert report.quality["unusual_worst"] == pytest.approx(found.min(), abs=1e-4)
    assert report.quality["unusual_mean"] == pytest.approx(found.mean(), abs=1e-4)


def test_neither_torch_nor_transformers_is_imported(int8, tmp_path):
    program = (
        "import sys, twinvec; encoder = twinvec.Encoder(sys.argv[1], precision='int8');"
        "encoder.encode(['a fox', 'a cat'], storage='int8');"
        "hits = [twinvec.Hit(id='1', text='a fox', score=1.0)];"
        "twinvec.MaxSimReranker(encoder).rerank('fox', hits);"
        "print(sorted({'torch', 'transformers', 'sentence_transformers', 'nncf'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, str(int8[0])]
    environment = os.environ | {"TWINVEC_CACHE": str(tmp_path / "nothing")}
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment)
    assert run.stdout.strip() == "[]"
    assert not (tmp_path / "nothing").exists()


def test_precisions_by_name(int8, source):
    assert Encoder(int8[0], precision="int8").engine.name == "openvino, cpu, int8"
    exact = Encoder(int8[0], engine="openvino", precision="float32")
    assert exact.engine.name == "openvino, cpu, float32"
    assert cosines(exact.encode(OTHERS), Encoder(source, engine="torch").encode(OTHERS)).min() > 0.99999
    for options in ({}, {"engine": "openvino"}):
        with pytest.raises(ConfigurationError, match=r"no int8 export for openvino.* twinvec export MODEL"):
            Encoder(source, precision="int8", **options).encode("fox")
    for options in ({"device": "cuda"}, {"engine": "torch"}):
        with pytest.raises(ConfigurationError, match=r"not on 'cuda'|not in 'int8'"):
            Encoder(int8[0], precision="int8", **options).encode("fox")


@pytest.mark.slow
def test_dimensions_can_be_cut(int8):
    found = Encoder(int8[0], dim=7)
    assert found.engine.name == "openvino, cpu, int8"
    np.testing.assert_allclose(found.encode(OTHERS), unit(Encoder(int8[0]).encode(OTHERS)[:, :7]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found.encode(OTHERS), axis=1), 1, atol=1e-5)


def test_one_that_did_not_pass_is_used_by_name_only(copy):
    change_manifest(copy, lambda manifest: manifest["exports"]["openvino-int8"].update(passed=False))
    assert Encoder(copy).engine.name == "torch, cpu, float32"
    assert Encoder(copy, engine="openvino").engine.name == "openvino, cpu, float32"
    assert Encoder(copy, precision="int8").engine.name == "openvino, cpu, int8"


def test_weights_of_8_bits_are_for_processors_that_sum_them_exactly(copy):
    bits = manifest_of(copy)["exports"]["openvino-int8"]["weight_bits"]
    assert bits == (8 if sums_bytes_exactly() else 7)
    change_manifest(copy, lambda manifest: manifest["exports"]["openvino-int8"].update(weight_bits=8))
    assert Encoder(copy).engine.name.endswith("int8" if sums_bytes_exactly() else "float32")
    assert Encoder(copy, precision="int8").engine.name == "openvino, cpu, int8"


@pytest.mark.slow
def test_bounds_decide(tmp_path, source, monkeypatch):
    monkeypatch.setattr("twinvec.export.model.BOUNDS", {"cosine_mean": 0.9, "cosine_worst": 1.0, "top10_overlap": 0.1})
    report = export_model(source, tmp_path / "model", precision="int8", calibrate=TEXTS[:LEAST_TEXTS])
    assert not report.passed
    assert manifest_of(tmp_path / "model")["exports"]["openvino-int8"]["passed"] is False


def test_ranges_for_int8_storage(int8, source):
    folder, _ = int8
    encoder = Encoder(folder, precision="float32", engine="openvino")
    vectors = encoder.encode_document(OTHERS)
    codes = encoder.encode_document(OTHERS, storage="int8")
    assert (codes.dtype, codes.shape) == (np.int8, vectors.shape)
    back = encoder.restore(codes)
    assert cosines(back, vectors).min() > 0.999
    np.testing.assert_array_equal(encoder.restore(codes[3]), back[3])
    assert np.abs(encoder.encode_document(OTHERS[3], storage="int8").astype(int) - codes[3]).max() <= 1
    low = np.array(manifest_of(folder)["ranges"]["low"])
    assert (low < vectors.min(axis=0) + 0.2).all()


@pytest.mark.slow
def test_ranges_hold_the_calibration_texts_with_and_without_prompts(tiny_model, tmp_path):
    prompts = {"query": "find: ", "document": "fox dog lake house: ", "cluster": "group: "}
    model = tiny_model("bert", prompts=prompts, default_prompt="cluster")
    folder = export_model(model, tmp_path / "out", calibrate=TEXTS, dims=[8]).folder
    for dim, key in ((None, "ranges"), (8, "ranges-8")):
        encoder = Encoder(folder, dim=dim)
        ranges = manifest_of(folder)[key]
        assert ranges["texts"] == len(set(TEXTS))
        for prompt in (None, "", *prompts):
            vectors = encoder.encode(TEXTS, prompt=prompt)
            assert (np.array(ranges["low"]) <= vectors).all(), prompt
            assert (vectors <= np.array(ranges["high"])).all(), prompt


@pytest.mark.slow
def test_int8_storage_of_cut_vectors(source, tmp_path):
    folder = export_model(source, tmp_path / "out", calibrate=TEXTS, dims=[5, 12]).folder
    for dim in (5, 12, 24):
        encoder = Encoder(folder, dim=dim)
        codes = encoder.encode_document(OTHERS, storage="int8")
        assert (codes.dtype, codes.shape) == (np.int8, (len(OTHERS), dim))
        assert cosines(encoder.restore(codes), encoder.encode_document(OTHERS)).min() > 0.999
    export_model(source, folder, calibrate=TEXTS)
    Encoder(folder, dim=5).encode("fox", storage="int8")  # another export leaves them there


def test_dims_that_a_model_has_not(source, tiny_cross_encoder, tmp_path):
    with pytest.raises(ConfigurationError, match="dims: expected a list of whole numbers, got 8"):
        export_model(source, tmp_path / "out", calibrate=TEXTS, dims=8)
    for dims in ([0], [25], [3.0], [True]):
        with pytest.raises(ConfigurationError, match="dim must"):
            export_model(source, tmp_path / "out", calibrate=TEXTS, dims=dims)
    with pytest.raises(ConfigurationError, match="a cross-encoder has no vectors"):
        export_model(tiny_cross_encoder("bert"), tmp_path / "out", calibrate=TEXTS, dims=[8])
    with pytest.raises(ConfigurationError, match="--calibrate"):
        export_model(source, tmp_path / "out", dims=[8])
    assert list(tmp_path.iterdir()) == []


def test_int8_storage_needs_ranges(int8, source):
    for encoder in (Encoder(source), Encoder(int8[0], dim=5)):
        with pytest.raises(
            ConfigurationError, match=rf"folder has none; .* -o FOLDER --calibrate TEXTS --dim {encoder.dim}"
        ):
            encoder.encode(["fox"], storage="int8")
        with pytest.raises(ConfigurationError, match="int8 storage needs the value ranges of"):
            encoder.restore(np.zeros((1, encoder.dim), dtype=np.int8))


@pytest.mark.parametrize("codes", [np.zeros((2, 24)), np.zeros((2, 23), dtype=np.int8), np.int8(3)])
def test_what_are_no_codes(int8, codes):
    with pytest.raises(InputError, match="int8 codes in 24 columns"):
        Encoder(int8[0]).restore(codes)


def test_a_second_export_joins_the_first(copy, source):
    before = set(files_of(copy))
    report = export_model(source, copy)
    assert before < set(files_of(copy))
    assert report.quality["difference"] < 1e-5
    assert set(manifest_of(copy)["exports"]) == {"openvino-int8", "openvino-float32"}
    assert manifest_of(copy)["ranges"]
    assert Encoder(copy, precision="float32").engine.name == "openvino, cpu, float32"
    assert Encoder(copy).engine.name == "openvino, cpu, int8"
    again = shutil.copytree(copy, copy.with_name("again"))
    assert export_model(copy, copy).graph == report.graph
    assert files_of(copy) == files_of(again)


@pytest.mark.slow
def test_an_export_of_other_texts_takes_the_place_of_the_first(copy, int8):
    report = export_model(copy, copy, precision="int8", calibrate=OTHERS)
    assert report.graph.name != int8[1].graph.name
    graphs = [name for name in files_of(copy) if name.startswith("openvino/")]
    assert graphs == [f"openvino/{report.graph.stem}{suffix}" for suffix in (".bin", ".xml")]
    assert Encoder(copy).engine.name == "openvino, cpu, int8"


def test_what_a_folder_knows_of_its_making_stays(tiny_copy, tmp_path):
    write_manifest(tiny_copy, {"trained_on": "pairs"})
    (tiny_copy / "optimizer.bin").write_text("no part of the model")
    export_model(tiny_copy, tmp_path / "out")
    assert manifest_of(tmp_path / "out")["trained_on"] == "pairs"
    assert "optimizer.bin" not in files_of(tmp_path / "out")


@pytest.mark.parametrize("suffix", [".xml", ".bin"])
def test_a_changed_graph_is_refused(copy, suffix):
    [path] = (copy / "openvino").glob(f"*{suffix}")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ModelIntegrityError, match=rf"{path.name}: changed or damaged"):
        Encoder(copy)
    path.unlink()
    with pytest.raises(ModelIntegrityError, match=rf"{path.name}: missing"):
        Encoder(copy)


def test_a_graph_of_other_weights_is_refused(copy, tiny_model):
    other = tiny_model("bert", dense=((24, "Tanh"),), seed=1)
    shutil.copy(other / "model.safetensors", copy)
    with pytest.raises(ModelIntegrityError, match=r"model\.safetensors: changed"):
        Encoder(copy)
    manifest = manifest_of(copy)
    write_manifest(copy, manifest)  # as training into this folder would
    with pytest.raises(ModelIntegrityError, match="made from other weights or settings; export the model again"):
        Encoder(copy).encode("fox")
    assert Encoder(copy, engine="torch").encode("fox").shape == (24,)
    with pytest.raises(ConfigurationError, match="int8 storage needs the value ranges of"):
        Encoder(copy, engine="torch").encode("fox", storage="int8")


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_exports_of_other_settings_give_way(copy, source, elsewhere):
    export_model(source, copy)
    pooling = copy / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"pooling_mode": "cls"}))
    with pytest.raises(ModelIntegrityError, match="export the model again"):
        Encoder(copy).encode("fox")
    report = export_model(
        copy, copy.with_name("new") if elsewhere else copy, precision="int8", calibrate=TEXTS[:LEAST_TEXTS]
    )
    assert report.quality["cosine_worst"] > 0.9
    assert set(manifest_of(report.folder)["exports"]) == {"openvino-int8"}
    assert len(list((report.folder / "openvino").iterdir())) == 2
    exact = Encoder(copy, engine="torch")
    assert cosines(Encoder(report.folder, precision="int8").encode(OTHERS), exact.encode(OTHERS)).min() > 0.9
    assert Encoder(report.folder, precision="float32").encode("fox", storage="int8").dtype == np.int8


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("exports", [], "'exports' is list"),
        ("exports", {"openvino-int8": 3}, "entry of the export 'openvino-int8' is malformed"),
        (
            "exports",
            {"openvino-int8": {"quality": {}, "passed": True, "weight_bits": "8"}},
            "entry of the export 'openvino-int8' is malformed",
        ),
        ("exports", {"openvino-int8": {"quality": {}, "passed": True, "graph": "../graph.xml"}}, "leaves the model"),
        ("exports", {"openvino-int8": {"quality": {}, "passed": True, "graph": "openvino/no.xml"}}, "missing, though"),
        ("ranges", "wide", "'ranges' is str"),
    ],
)
def test_manifests_that_make_no_sense(copy, key, value, message):
    change_manifest(copy, lambda manifest: manifest.update({key: value}))
    with pytest.raises(ModelIntegrityError, match=message):
        Encoder(copy).encode("fox")


@pytest.mark.parametrize("change", [{"low": [0.0]}, {"low": ["a"] * 24}, {"high": None}, {"low": [9.0] * 24}])
def test_ranges_that_make_no_sense(copy, change):
    change_manifest(copy, lambda manifest: manifest["ranges"].update(change))
    with pytest.raises(ModelIntegrityError, match="ranges of the vectors are malformed"):
        Encoder(copy)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (5, "output must be a path, got 5"),
        ("", "output is an empty text"),
        ("a\0b", "output has a NUL character"),
        ("x" * 300, "x: cannot be written: File name too long"),
    ],
)
def test_outputs_that_no_file_can_have(source, tmp_path, monkeypatch, output, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=message):
        export_model(source, output)


def test_calls_that_cannot_work(source, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ConfigurationError, match="needs texts to calibrate on"):
        export_model(source, out, precision="int8")
    with pytest.raises(ConfigurationError, match="precision 'int4' is not one of float32, int8"):
        export_model(source, out, precision="int4")
    for texts in ([], TEXTS[: LEAST_TEXTS - 1], ["fox", " ", ""] * 50):
        with pytest.raises(InputError, match="distinct texts"):
            export_model(source, out, precision="int8", calibrate=texts)
    with pytest.raises(TextError, match="text 120: expected a string"):
        export_model(source, out, precision="int8", calibrate=[*TEXTS, None])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("package", "extra"), [("openvino", "openvino"), ("nncf", "export")])
def test_a_package_that_is_missing_is_named_at_once(source, tmp_path, monkeypatch, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=re.escape(f"'{package}': {install_line('twinvec', extra)}")):
        export_model(source, tmp_path / "out", precision="int8", calibrate=TEXTS)
    assert list(tmp_path.iterdir()) == []


def test_models_that_cannot_be_exported(tiny_cross_encoder, tmp_path):
    with pytest.raises(UnsupportedModelError, match="3 labels"):
        export_model(tiny_cross_encoder("bert", labels=3), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_outputs_that_are_something_else(source, int8, tiny_model, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    other = shutil.copytree(tiny_model("bert", seed=1), tmp_path / "other")
    before = files_of(tmp_path)
    for name in ("file", "notes", "other", "file/below"):
        with pytest.raises(ConfigurationError, match=r"does not hold this model|cannot be written"):
            export_model(source, tmp_path / name)
    assert files_of(tmp_path) == before
    assert files_of(other) == files_of(tiny_model("bert", seed=1))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_an_output_that_cannot_be_written(source, tmp_path):
    (tmp_path / "shut").mkdir(mode=0o500)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        export_model(source, tmp_path / "shut" / "out")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_whose_parent_cannot_be_written(source, tmp_path):
    (tmp_path / "shut" / "out").mkdir(parents=True)
    (tmp_path / "shut").chmod(0o500)
    export_model(source, tmp_path / "shut" / "out")
    assert Encoder(tmp_path / "shut" / "out", precision="float32").engine.name == "openvino, cpu, float32"


def test_an_empty_folder_will_do(source, tmp_path):
    (tmp_path / "out" / ".twinvec.export-killed").mkdir(parents=True)
    export_model(source, tmp_path / "out")
    assert Encoder(tmp_path / "out", precision="float32").engine.name == "openvino, cpu, float32"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    export_model(source, tmp_path / "new")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "out"]


@pytest.mark.parametrize("there", [False, True])
def test_a_mount_will_do(source, int8, tmp_path, monkeypatch, there):
    out = tmp_path / "out"
    shutil.copytree(int8[0], out) if there else out.mkdir()
    replace = os.replace

    def replace_on_one_device(origin, target):
        if out == target:
            raise OSError(errno.EBUSY, "Device or resource busy")
        if (out in origin.parents) != (out in target.parents):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(origin, target)

    monkeypatch.setattr(os, "replace", replace_on_one_device)
    export_model(source, out)
    assert Encoder(out, precision="float32").engine.name == "openvino, cpu, float32"
    assert ("openvino-int8" in manifest_of(out)["exports"]) == there
    assert not any(name.startswith(".") for name in os.listdir(out))
    assert os.listdir(tmp_path) == ["out"]


def test_weights_come_late_and_the_manifest_last(source, tmp_path, monkeypatch):
    moved = []

    def replace(origin, target):
        if target.parent != origin.parent:
            moved.append(target.name)
        shutil.move(origin, target)

    monkeypatch.setattr(os, "replace", replace)
    (tmp_path / "out").mkdir()
    export_model(source, tmp_path / "out")
    assert moved[-1] == MANIFEST
    assert moved[-3:-1] == ["model.safetensors"] * 2


@pytest.mark.parametrize("there", [False, True])
def test_the_model_is_on_the_disk_before_it_is_in_place(source, tmp_path, monkeypatch, there):
    out = tmp_path / "out"
    if there:
        out.mkdir()
    steps = disk_steps(monkeypatch, "replace")
    export_model(source, out)
    moves = [f"{path.name} -> {path.name}" for path in out.rglob("*")] if there else ["model -> out"]
    first = min(steps.index(move) for move in moves if move in steps)
    synced = {Path(step).name for step in steps[:first]}
    assert {path.name for path in out.rglob("*")} <= synced
    assert str(out if there else tmp_path) in steps[first:]


@pytest.mark.parametrize("lock", [".out.lock", "out/.twinvec.lock"])
def test_two_at_once(source, tmp_path, lock):
    home = (tmp_path / lock).parent
    home.mkdir(exist_ok=True)
    with FileLock(tmp_path / lock), pytest.raises(ConfigurationError, match="another process is exporting"):
        export_model(source, tmp_path / "out")
    assert files_of(tmp_path) == [lock]
    assert (tmp_path / "out").exists() == (home != tmp_path)


@pytest.mark.parametrize("there", [False, True])
def test_a_kill_half_way_leaves_what_was_there(source, int8, tmp_path, there):
    out = tmp_path / "out"
    if there:
        shutil.copytree(int8[0], out)
    before = files_of(tmp_path)
    program = (
        "import os, signal, sys, twinvec.export.model as export;"
        "export._move_into_place = lambda made, output: os.kill(os.getpid(), signal.SIGKILL);"
        "export.export_model(sys.argv[1], sys.argv[2])"
    )
    run = subprocess.run([sys.executable, "-c", program, str(source), str(out)], timeout=300, check=False)
    assert run.returncode == -signal.SIGKILL
    hidden = "out/.twinvec." if there else ".out."
    left = [name for name in files_of(tmp_path) if name.startswith(hidden)]
    assert any(name.endswith(".bin") for name in left), "it was not half-way"
    assert [name for name in files_of(tmp_path) if name not in left] == before
    export_model(source, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not any(name.startswith(".") for name in os.listdir(out))
    assert Encoder(out, precision="float32").engine.name == "openvino, cpu, float32"
    assert ("openvino-int8" in manifest_of(out)["exports"]) == there


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_cross_encoders(tiny_cross_encoder, tmp_path, kind):
    source = tiny_cross_encoder(kind)
    pairs = [(query, text) for query in OTHERS[:6] for text in OTHERS[6:20]]
    exact = CrossEncoderReranker(source, engine="torch").score(pairs)
    export_model(source, tmp_path / "out")
    found = CrossEncoderReranker(tmp_path / "out")
    assert found.engine.name == "openvino, cpu, float32"
    np.testing.assert_allclose(found.score(pairs), exact, atol=1e-5)
    change_manifest(tmp_path / "out", lambda manifest: manifest["exports"]["openvino-float32"].update(network="other"))
    with pytest.raises(ModelIntegrityError, match="export the model again"):
        CrossEncoderReranker(tmp_path / "out")
    report = export_model(tmp_path / "out", tmp_path / "out", precision="int8", calibrate=TEXTS)
    assert set(report.quality) == {"correlation", "top10_overlap"}
    found = CrossEncoderReranker(tmp_path / "out", precision="int8")
    assert found.engine.name == "openvino, cpu, int8"
    assert np.corrcoef(found.score(pairs), exact)[0, 1] > 0.98
    assert "ranges" not in {key for key, value in manifest_of(tmp_path / "out").items() if value}
    with pytest.raises(ConfigurationError, match="no int8 export"):
        CrossEncoderReranker(source, precision="int8")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["encoder", "cross-encoder"])
def test_the_command_says_nothing_of_texts_that_are_cut(
    twinvec, tiny_model, tiny_cross_encoder, tmp_path, caplog, kind
):
    source, opened = {
        "encoder": (tiny_model("bert"), Encoder),
        "cross-encoder": (tiny_cross_encoder("bert"), CrossEncoderReranker),
    }[kind]
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(f"{text} {'fox ' * 90}" for text in OTHERS))
    done = twinvec("export", source, "-o", tmp_path / "out", "--precision", "int8", "--calibrate", texts)
    assert done.code == 0, done.err
    assert "and were truncated" not in caplog.text + done.err
    model = opened(tmp_path / "out")
    _ = model.encode("fox " * 90) if kind == "encoder" else model.score([("fox", "fox " * 90)])
    assert "and were truncated" in caplog.text


@pytest.mark.parametrize("texts", ["texts.txt", {"text": "a fox"}])
def test_texts_to_calibrate_on_come_in_a_list(texts):
    with pytest.raises(TextError, match="expected a list of strings"):
        sample_texts(texts)


def test_the_sample(monkeypatch):
    monkeypatch.setattr("twinvec.export.model._SAMPLE", 50)
    texts = [f"text {number}" for number in range(1000)]
    sample = sample_texts(iter(texts))
    assert len(sample) == len(set(sample)) == 50
    assert sample == sample_texts(texts)
    numbers = [int(text.split()[1]) for text in sample]
    assert 350 < np.mean(numbers) < 650
    few = sample_texts(["", " \n", *texts[:40], *texts[:40]])
    assert sorted(few) == sorted(texts[:40])
    assert few != texts[:40]


@pytest.mark.parametrize("form", ["txt", slow("jsonl"), slow("collection")])
def test_the_command(twinvec, source, tmp_path, form):
    out, texts = tmp_path / "out", tmp_path / f"texts.{form}"
    options = ["--calibrate", texts]
    if form == "txt":
        texts.write_text("\n".join(TEXTS))
    else:
        rows = [{"id": str(row), "text" if form == "collection" else "body": text} for row, text in enumerate(TEXTS)]
        texts = texts.with_suffix(".jsonl")
        texts.write_text("\n".join(map(json.dumps, rows)))
        options += ["--field", "body"]
    if form == "collection":
        store = ["--collection", "docs", "--path", tmp_path / "store", "--model", source]
        assert twinvec("ingest", texts, *store).code == 0
        options = ["--calibrate-collection", "docs", "--path", tmp_path / "store"]
    done = twinvec("export", source, "-o", out, *options, "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["folder"], report["precision"], report["passed"]) == (str(out), "float32", True)
    assert Encoder(out).encode("fox", storage="int8").dtype == np.int8


@pytest.mark.slow
def test_the_command_shows_what_it_measured(twinvec, int8, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(OTHERS))
    done = twinvec("export", int8[0], "-o", tmp_path / "out", "--precision", "int8", "--calibrate", texts)
    assert done.code == 0, done.err
    for part in (
        "cosine mean",
        "cosine worst",
        "top10 overlap",
        "20 for calibration, 20 for measurement",
        "used by default",
    ):
        assert part in done.out
    assert ("slower than float32 here" in " ".join(done.out.split())) == (not sums_bytes_exactly())
    assert "Statistics collection" not in done.out + done.err


def test_the_command_names_what_is_wrong(twinvec, source, tmp_path):
    empty, out = tmp_path / "empty.txt", tmp_path / "out"
    empty.write_text("")
    for options, code, message in (
        (["--precision", "int8"], 2, "give --calibrate or --calibrate-collection"),
        (["--dim", "8"], 2, "give --calibrate or --calibrate-collection"),
        (["--calibrate", empty], 1, "0 distinct texts"),
        (["--calibrate", tmp_path / "nowhere.txt"], 1, "cannot be read"),
        (["--calibrate", empty, "--calibrate-collection", "docs"], 2, "not both"),
    ):
        done = twinvec("export", source, "-o", out, *options)
        assert done.code == code
        assert message in " ".join(done.err.replace("│", " ").split())
    assert not out.exists()
