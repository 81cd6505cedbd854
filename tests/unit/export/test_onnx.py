"""ONNX exports: which engine reads them, what is refused, and that FastEmbed and Qdrant's client read them too."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cases import slow
from twinvec import CrossEncoderReranker, Encoder
from twinvec.engines.graph import GraphEngine
from twinvec.engines.onnx import OnnxRunner
from twinvec.engines.runtimes import RUNTIMES
from twinvec.errors import ConfigurationError, EngineError, MissingExtraError, ModelIntegrityError
from twinvec.export.model import export_model
from twinvec.installation import install_line
from twinvec.tokens.tokenizer import TextTokenizer
from words import WORDS, sentences

TEXTS = sentences(80, seed=3, longest=90)
OTHERS = ["", " ", *sentences(20, seed=4, longest=90)]


@pytest.fixture(scope="module")
def source(tiny_model):
    return tiny_model("bert", dense=((24, "Tanh"),), max_tokens=40, prompts={"query": "find: ", "document": "text: "})


@pytest.fixture(scope="module")
def exported(tmp_path_factory, source):
    """A folder with a float32 and an int8 export, and the report of the first; not to be changed."""
    folder = tmp_path_factory.mktemp("exports") / "out"
    report = export_model(source, folder, engine="onnx")
    export_model(source, folder, engine="onnx", precision="int8", calibrate=TEXTS)
    return folder, report


@pytest.fixture
def without(monkeypatch):
    """``without("openvino")``: as if the package were not installed."""
    return lambda package: monkeypatch.setitem(sys.modules, package, None)


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.slow
def test_engines_by_name(exported, source):
    folder, report = exported
    assert (report.engine, report.precision, report.passed) == ("onnx", "float32", True)
    exact = Encoder(source, engine="torch")
    for precision, least in (("float32", 0.99999), ("int8", 0.95)):
        found = Encoder(folder, engine="onnx", precision=precision)
        assert found.engine.name == f"onnx, cpu, {precision}"
        assert found.space == exact.space
        assert cosines(found.encode_query(OTHERS), exact.encode_query(OTHERS)).min() > least
    assert cosines(found.encode(OTHERS), exact.encode(OTHERS)).min() < 1 - 1e-7, "these are the vectors of float32"
    assert found.encode(OTHERS, storage="int8").dtype == np.int8


def test_auto_takes_it_where_openvino_is_not_installed(exported, source, tmp_path, without):
    folder = exported[0]
    export_model(source, shutil.copytree(folder, tmp_path / "both"))
    assert Encoder(tmp_path / "both", precision="float32").engine.name == "openvino, cpu, float32"
    assert Encoder(folder, precision="float32").engine.name == "onnx, cpu, float32"  # nothing to convert
    without("openvino")
    assert Encoder(tmp_path / "both", precision="float32").engine.name == "onnx, cpu, float32"
    assert Encoder(folder, precision="int8").engine.name == "onnx, cpu, int8"
    with pytest.raises(MissingExtraError, match="openvino"):
        Encoder(folder, engine="openvino").encode("fox")
    without("onnxruntime")
    assert Encoder(folder).engine.name == "torch, cpu, float32"
    with pytest.raises(MissingExtraError, match=re.escape(f"'onnxruntime': {install_line('twinvec', 'onnx')}")):
        Encoder(folder, engine="onnx").encode("fox")
    with pytest.raises(MissingExtraError, match="openvino"):
        Encoder(folder, precision="int8").encode("fox")


def test_neither_torch_nor_transformers_is_imported(exported, tmp_path):
    program = (
        "import sys; sys.modules['openvino'] = None;"
        "import twinvec; encoder = twinvec.Encoder(sys.argv[1]); encoder.encode(['a fox', 'a cat']);"
        "hits = [twinvec.Hit(id='1', text='a fox', score=1.0)];"
        "twinvec.MaxSimReranker(encoder).rerank('fox', hits); assert encoder.engine.name.startswith('onnx');"
        "print(sorted({'torch', 'transformers', 'sentence_transformers', 'nncf', 'onnx'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, str(exported[0])]
    environment = os.environ | {"TWINVEC_CACHE": str(tmp_path / "nothing")}
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment)
    assert run.stdout.strip() == "[]"
    assert not (tmp_path / "nothing").exists()


def test_a_plain_model_is_converted_once(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("TWINVEC_CACHE", str(tmp_path))
    folder = tiny_model("bert")
    first = Encoder(folder, engine="onnx").encode(OTHERS)
    [graph] = tmp_path.rglob("*.onnx")
    made = graph.stat().st_mtime_ns
    np.testing.assert_array_equal(Encoder(folder, engine="onnx").encode(OTHERS), first)
    assert graph.stat().st_mtime_ns == made
    graph.write_bytes(graph.read_bytes()[:-9])
    np.testing.assert_array_equal(Encoder(folder, engine="onnx").encode(OTHERS), first)
    assert graph.stat().st_mtime_ns != made


@pytest.mark.slow
def test_cross_encoders(tiny_cross_encoder, tmp_path, capfd):
    source = tiny_cross_encoder("bert")
    pairs = [(query, text) for query in TEXTS[:6] for text in TEXTS[6:20]]
    exact = CrossEncoderReranker(source, engine="torch").score(pairs)
    export_model(source, tmp_path / "out", engine="onnx")
    found = CrossEncoderReranker(tmp_path / "out")
    assert found.engine.name == "onnx, cpu, float32"
    np.testing.assert_allclose(found.score(pairs), exact, atol=1e-5)
    report = export_model(source, tmp_path / "out", engine="onnx", precision="int8", calibrate=TEXTS)
    assert set(report.quality) == {"correlation", "top10_overlap"}
    assert "onnxruntime" not in capfd.readouterr().err
    found = CrossEncoderReranker(tmp_path / "out", precision="int8")
    assert found.engine.name == "onnx, cpu, int8"
    assert np.corrcoef(found.score(pairs), exact)[0, 1] > 0.98


def test_a_folder_of_both_runtimes(exported, source, tmp_path):
    folder = shutil.copytree(exported[0], tmp_path / "both")
    onnx = {path.name: path.read_bytes() for path in (folder / "onnx").iterdir()}
    export_model(source, folder)
    assert {path.name: path.read_bytes() for path in (folder / "onnx").iterdir()} == onnx
    for engine in RUNTIMES:
        assert Encoder(folder, engine=engine, precision="float32").engine.name == f"{engine}, cpu, float32"
    again = export_model(folder, tmp_path / "copy", engine="onnx")
    assert sorted(path.name for path in again.graph.parent.iterdir()) == sorted(onnx)
    assert len(list((tmp_path / "copy" / "openvino").iterdir())) == 2


@pytest.mark.parametrize("runtime", list(RUNTIMES))
def test_single_texts_from_many_threads(source, tmp_path, runtime, monkeypatch):
    folder = export_model(source, tmp_path / "out", engine=runtime).folder
    made = []

    class Counted(RUNTIMES[runtime].runner):
        def __init__(self, path, precision, output, streams, threads):
            made.append((streams, threads))
            super().__init__(path, precision, output, streams, threads)

    monkeypatch.setitem(RUNTIMES, runtime, replace(RUNTIMES[runtime], runner=Counted))
    monkeypatch.setattr("twinvec.engines.graph.available_cores", lambda: 2)
    encoder = Encoder(folder, engine=runtime)
    expected = encoder.encode(OTHERS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(encoder.encode, OTHERS * 10))
    np.testing.assert_allclose(found, np.tile(expected, (10, 1)), atol=1e-5)
    assert sorted(made) == [(1, 2), (2, 1)], "a single text is computed by all cores, and many by one each"


def test_damage_is_named(exported, tmp_path):
    folder = shutil.copytree(exported[0], tmp_path / "copy")
    [graph] = (folder / "onnx").glob("float32-*.onnx")
    data = graph.read_bytes()
    graph.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ModelIntegrityError, match=rf"{graph.name}: changed or damaged"):
        Encoder(folder)
    for path, content in ((tmp_path / "cut.onnx", data[: len(data) // 2]), (tmp_path / "no.onnx", b"<net")):
        path.write_bytes(content)
        with pytest.raises(ModelIntegrityError, match="cannot be read as an ONNX graph"):
            GraphEngine(OnnxRunner, path)
    with pytest.raises(ModelIntegrityError, match="cannot be read as an ONNX graph"):
        GraphEngine(OnnxRunner, tmp_path / "nowhere.onnx")


def test_a_graph_without_vectors_is_refused(tiny_cross_encoder, tmp_path):
    report = export_model(tiny_cross_encoder("bert"), tmp_path / "out", engine="onnx")
    with pytest.raises(ModelIntegrityError, match="has no output 'vectors'"):
        GraphEngine(OnnxRunner, report.graph)


def test_ids_outside_the_vocabulary_are_an_error_of_the_engine(exported, source):
    engine = GraphEngine(OnnxRunner, exported[1].graph)
    batch = TextTokenizer(source, 40).encode(["a fox"]).batch(np.array([0]), 0)
    batch.ids_BT[0, 1] = 10**6
    with pytest.raises(EngineError, match="engine onnx, cpu, float32: "):
        engine.vectors(batch)


def test_what_it_does_not_do(source, tmp_path):
    for options in ({"device": "cuda"}, {"precision": "float16"}):
        with pytest.raises(ConfigurationError, match=r"the onnx engine (computes on|does not compute in)"):
            Encoder(source, engine="onnx", **options).encode("fox")
    with pytest.raises(ConfigurationError, match=r"no int8 export for onnx; .* --engine onnx --precision int8"):
        Encoder(source, engine="onnx", precision="int8").encode("fox")
    with pytest.raises(ConfigurationError, match="engine 'tensorrt' is not one of openvino, onnx"):
        export_model(source, tmp_path / "out", engine="tensorrt")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_package_that_is_missing_is_named(tiny_model, tmp_path, without, package):
    without(package)
    with pytest.raises(MissingExtraError, match=re.escape(f"'{package}': {install_line('twinvec', 'onnx')}")):
        export_model(tiny_model("bert", seed=7), tmp_path / "out", engine="onnx")
    assert list(tmp_path.iterdir()) == []


def test_weights_too_large_for_one_file_are_refused(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec.engines.building.onnx._MOST_BYTES", 1000)
    with pytest.raises(EngineError, match="too many for one ONNX file"):
        export_model(tiny_model("bert", seed=8), tmp_path / "out", engine="onnx")


def test_the_command(twinvec, source, tmp_path):
    done = twinvec("export", source, "-o", tmp_path / "out", "--engine", "onnx")
    assert done.code == 0, done.err
    assert "onnx, float32" in done.out
    assert Encoder(tmp_path / "out", engine="onnx").encode("fox").shape == (24,)


@pytest.fixture(scope="module")
def register():
    """``register(name, report)``: an export as a model of FastEmbed's."""
    pytest.importorskip("fastembed", reason="FastEmbed is not installed: pip install 'twinvec[dev]'")
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    def add(name, report, folder=None):
        folder = folder or report.graph.parent
        TextEmbedding.add_custom_model(
            model=name,
            pooling=PoolingType.DISABLED,
            normalization=False,
            sources=ModelSource(hf=name),
            dim=Encoder(report.folder).dim,
            model_file=report.graph.relative_to(folder).as_posix(),
        )
        return TextEmbedding(name, specific_model_path=str(folder))

    return add


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bert", {"dense": ((24, "Tanh"),), "max_tokens": 40}),
        ("mpnet", {"lower_case": True, "normalize": False}),
        ("roberta", {"include_prompt": False, "prompts": {"query": "find: "}, "pooling": ("cls", "mean")}),
        ("xlm-roberta", {}),
        slow("modernbert", {"pooling": ("lasttoken",)}),
    ],
)
def test_fastembed_gives_the_same_vectors(tiny_model, tmp_path, register, kind, options):
    report = export_model(tiny_model(kind, **options), tmp_path / "out", engine="onnx")
    found = np.stack(list(register(f"test/{kind}", report).embed(OTHERS)))
    expected = Encoder(report.folder, engine="onnx").encode(OTHERS)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
def test_fastembed_cuts_where_the_encoder_does(encoder, tmp_path, register, there):
    if there:
        export_model("default", tmp_path / "out")
    report = export_model("default", tmp_path / "out", engine="onnx")
    assert Encoder(report.folder).space == encoder.space
    texts = [*OTHERS, " ".join(WORDS * 15)]  # the last is longer than the encoder reads, but not than the tokenizer may
    assert 256 < encoder.count_tokens(texts[-1:]) < 512
    for folder in (report.graph.parent, report.folder):
        found = np.stack(list(register(f"test/{folder.name}/{there}", report, folder).embed(texts)))
        np.testing.assert_allclose(found, encoder.encode(texts), atol=2e-5)


def test_a_folder_keeps_its_own_limit(source, tmp_path):
    folder = shutil.copytree(source, tmp_path / "out")
    (folder / "sentence_bert_config.json").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": 30}))
    space = Encoder(folder).space
    export_model(source, folder, engine="onnx")
    assert (Encoder(folder).space, Encoder(folder).max_tokens) == (space, 30)
    for home in (folder, folder / "onnx"):
        assert json.loads((home / "tokenizer_config.json").read_text())["model_max_length"] == 30


def test_the_inference_of_qdrants_client(exported, register):
    from qdrant_client import QdrantClient, models

    folder, report = exported
    register("test/qdrant", report)
    where = {"specific_model_path": str(report.graph.parent)}

    def document(text):
        return models.Document(text=text, model="test/qdrant", options=where)

    client = QdrantClient(":memory:")
    settings = models.VectorParams(size=24, distance=models.Distance.COSINE)
    client.create_collection("docs", vectors_config=settings)
    points = [models.PointStruct(id=row, vector=document(text)) for row, text in enumerate(TEXTS)]
    client.upsert("docs", points)
    answer = client.query_points("docs", query=document(OTHERS[5]), limit=len(TEXTS)).points
    encoder = Encoder(folder, engine="onnx", precision="float32")
    scores = cosines(encoder.encode(TEXTS), encoder.encode(OTHERS[5])[None])
    assert [point.id for point in answer[:5]] == np.argsort(-scores)[:5].tolist()
    np.testing.assert_allclose([point.score for point in answer], np.sort(scores)[::-1], atol=1e-5)
