"""Without torch, transformers and sentence-transformers: encoding, ingesting, searching and exports all work.

The programs run in processes of their own, in which these packages cannot be imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from cases import slow
from congruence.test_vectors import assert_equal
from twinvec import CrossEncoderReranker, Encoder
from twinvec.export.model import export_model
from twinvec.installation import install_line

_MISSING = ("torch", "transformers", "sentence_transformers")
_BEGIN = "import sys\nfor name in sys.argv.pop(1).split(','): sys.modules[name] = None\n"
_END = f"\nassert not {{name for name in {_MISSING!r} if sys.modules.get(name)}}"
TEXTS = ["a fox", "", "the old cat sleeps in the warm sun", "how do I compare two files?"]


@pytest.fixture
def run(tmp_path):
    """``run(program, *arguments, missing=...)`` runs a program without these packages, and returns the process."""

    def start(program, *arguments, missing=(), cache=tmp_path / "cache", code=0):
        names = ",".join((*_MISSING, *missing))
        command = [sys.executable, "-c", _BEGIN + program + _END, names, *map(str, arguments)]
        environment = os.environ | {"TWINVEC_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path, check=False
        )
        assert done.returncode == code, done.stderr
        return done

    return start


ENCODE = """
import json, numpy as np
from twinvec import CrossEncoderReranker, Encoder, Hit, MaxSimReranker
model, cross_encoder, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
encoder = Encoder(model)
states = encoder.encode_tokens(texts)
hits = MaxSimReranker(encoder).rerank("fox", [Hit(id=str(row), text=text, score=0.0) for row, text in enumerate(texts)])
print(json.dumps({
    "engine": encoder.engine.name, "space": encoder.space, "vectors": encoder.encode(texts).tolist(),
    "states": [each.tolist() for each in states], "hits": [hit.id for hit in hits],
    "scores": CrossEncoderReranker(cross_encoder).score([("fox", text) for text in texts]).tolist(),
}))
"""


@pytest.mark.parametrize(("runtime", "missing"), [("openvino", ()), slow("onnx", ("openvino",))])
def test_encoding_is_that_of_torch(run, tiny_model, tiny_cross_encoder, runtime, missing):
    folder, cross_encoder = tiny_model("bert"), tiny_cross_encoder("bert")
    found = json.loads(run(ENCODE, folder, cross_encoder, json.dumps(TEXTS), missing=missing).stdout)
    exact = Encoder(folder, engine="torch")
    assert (found["engine"], found["space"]) == (f"{runtime}, cpu, float32", exact.space)
    assert_equal(np.array(found["vectors"], dtype=np.float32), exact.encode(TEXTS))
    for mine, theirs in zip(found["states"], exact.encode_tokens(TEXTS), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    pairs = [("fox", text) for text in TEXTS]
    np.testing.assert_allclose(
        found["scores"], CrossEncoderReranker(cross_encoder, engine="torch").score(pairs), atol=1e-5
    )
    assert sorted(found["hits"]) == ["0", "1", "2", "3"]


COLLECTION = """
from twinvec import Encoder, MaxSimReranker, RetrieveRerank
from twinvec_qdrant import Collection
encoder = Encoder(sys.argv[1])
with Collection.open("notes", "store", encoder=encoder) as notes:
    print(notes.ingest([("fox.md", "The quick brown fox jumps."), ("moon.md", "Two men walked on the moon.")]).new)
    print(*sorted(hit.id for hit in RetrieveRerank(notes, MaxSimReranker(encoder)).search("moon", limit=2)))
    print(notes.search("moon", limit=1, mode="sparse")[0].id)
"""


def test_a_collection_is_filled_and_searched(run, tiny_model):
    assert run(COLLECTION, tiny_model("bert")).stdout.split() == ["2", "fox.md", "moon.md", "moon.md"]


def test_an_export_is_made_and_loaded(run, tiny_model, tmp_path):
    program = """
from twinvec import Encoder
from twinvec.export.model import export_model
export_model(sys.argv[1], "made")
for folder in ("made", sys.argv[2]):
    print(Encoder(folder).engine.name, Encoder(folder).encode("fox").shape)
"""
    folder = export_model(tiny_model("bert"), tmp_path / "out", engine="onnx").folder
    lines = run(program, tiny_model("bert"), folder).stdout.splitlines()
    assert lines == ["openvino, cpu, float32 (32,)", "onnx, cpu, float32 (32,)"]


@pytest.mark.parametrize(
    ("kind", "options", "missing", "message"),
    [
        ("bert", "engine='torch'", (), "the torch engine needs the package 'transformers': {torch}"),
        ("bert", "device='cuda'", (), "computing on 'cuda' needs the package 'transformers': {torch}"),
        ("bert", "precision='float16'", (), "computing in float16 needs the package 'transformers': {torch}"),
        ("modernbert", "", (), "(backbone 'modernbert') needs the package 'transformers': {torch}"),
        (
            "bert",
            "",
            ("openvino", "onnxruntime"),
            "no engine is installed; encoding needs the package 'openvino': {o}",
        ),
    ],
)
def test_what_needs_another_package_says_so_with_a_line_to_paste(run, tiny_model, kind, options, missing, message):
    program = f"""
from twinvec import Encoder, TwinvecError
try:
    Encoder(sys.argv[1], {options}).encode("fox")
except TwinvecError as error:
    print(type(error).__name__, error)
"""
    shown = run(program, tiny_model(kind), missing=missing).stdout
    assert shown.startswith("MissingExtraError ")
    lines = {"torch": install_line("twinvec", "torch"), "o": install_line("twinvec", "openvino")}
    assert shown.strip().endswith(message.format(**lines))


def test_the_module_of_objectives_is_no_attribute_and_its_import_says_what_to_install(run):
    program = """
import twinvec.training
from twinvec.errors import MissingExtraError
print(hasattr(twinvec.training, "objectives"), hasattr(twinvec.training, "settings"))
for use in ("twinvec.training.objectives", "from twinvec.training import objectives"):
    try:
        exec(use)
    except (AttributeError, MissingExtraError) as error:
        print(type(error).__name__, error)
"""
    needs = f"training needs the package 'torch': {install_line('twinvec', 'train')}"
    assert run(program).stdout.splitlines() == [
        "False True",
        f"AttributeError module 'twinvec.training' has no attribute 'objectives': {needs}",
        f"MissingExtraError {needs}",
    ]


@pytest.mark.parametrize(
    "call",
    [
        "correlation.spearman([1, 2, 3], [1, 3, 2])",
        "correlation.pearson([1, 2, 3], [1, 3, 2])",
        "evaluation.sts.evaluate_sts(None, evaluation.sts.StsSet('s', ['a', 'b'], ['c', 'd'], [1.0, 2.0]))",
        "evaluation.sts.compare_sts(None, None)",
    ],
)
def test_a_correlation_without_scipy_says_what_to_install(run, call):
    program = f"""
import twinvec.evaluation.sts
from twinvec import correlation, evaluation
from twinvec.errors import MissingExtraError
try:
    {call}
except MissingExtraError as error:
    print(error)
"""
    expected = f"evaluation needs the package 'scipy': {install_line('twinvec', 'eval')}\n"
    assert run(program, missing=("scipy",)).stdout == expected


def test_a_name_that_no_device_has_is_refused(run, tiny_model):
    program = """
from twinvec import Encoder, TwinvecError
try:
    Encoder(sys.argv[1], device="foo")
except TwinvecError as error:
    print(type(error).__name__, error)
"""
    expected = "ConfigurationError device 'foo' cannot be used: expected a name such as cpu, cuda, cuda:1 or mps\n"
    assert run(program, tiny_model("bert")).stdout == expected


@pytest.mark.slow
def test_the_commands_on_a_folder_of_files(run, tmp_path, encoder):
    """The default model's graph is made in an empty cache."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "leave.md").write_text("# Leave\n\nHolidays are requested two weeks ahead.")
    (tmp_path / "docs" / "vpn.txt").write_text("The VPN client is in the portal.")
    program = """
from twinvec.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert not stop.code
"""
    report = json.loads(run(program, "ingest", "docs", "--collection", "docs", "--json").stdout)
    assert report["new"] == 2
    arguments = ("search", "time off", "--collection", "docs", "--rerank", "maxsim", "--json")
    assert json.loads(run(program, *arguments).stdout)["hits"][0]["id"] == "leave.md"
    run(program, "encode", "docs/vpn.txt", "-o", "vectors.npy", "--json")
    assert_equal(np.load(tmp_path / "vectors.npy"), encoder.encode(["The VPN client is in the portal."]))
