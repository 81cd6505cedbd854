"""Every file of a model folder is damaged in many ways: each time a TwinvecError names the folder and the file.

A damage may also leave a model that works, such as another limit of tokens, or a file that no engine needs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from twinvec import CrossEncoderReranker, Encoder
from twinvec.engines.loaded_model import load_cross_encoder, load_encoder
from twinvec.errors import ModelError, ModelNotFoundError, TwinvecError
from twinvec.models.cross_encoder_spec import read_classifier
from twinvec.models.encoder_spec import read_spec
from twinvec.models.finding import find_model

OTHER_JSON = ("[]", "{}", '"text"', "3", "null", "true", "[1, 2]", '{"a": 1}')
VALUES = (None, True, 3, -1, 0, 10**9, 1.5, "x", "", [], [1], {}, {"a": 1})
UNUSED = {"README.md", "special_tokens_map.json"}


def damaged(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Whole-file damages; None deletes the file."""
    yield "empty", b""
    yield "cut", data[: len(data) // 2]
    yield "binary", b"\x00\xff\xfe"
    yield from ((content, content.encode()) for content in OTHER_JSON)
    yield "deleted", None


def changed(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Each value of a JSON file, replaced by values of all types."""
    content = json.loads(data)
    if isinstance(content, dict):
        for key in content:
            yield from ((f"{key}={value!r}", json.dumps({**content, key: value}).encode()) for value in VALUES)
    for row, entry in enumerate(content if isinstance(content, list) else ()):
        for key in entry:
            for value in VALUES:
                rows = [*content[:row], {**entry, key: value}, *content[row + 1 :]]
                yield f"{row}.{key}={value!r}", json.dumps(rows).encode()


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check(folder: Path, path: Path, damages, use, *, names_file: bool) -> int:
    """Use the folder after each damage; return how often it was refused."""
    data, refused = path.read_bytes(), 0
    for name, content in damages:
        path.unlink() if content is None else path.write_bytes(content)
        where = f"{path.name}, {name}"
        try:
            use(folder)
            said = None
        except TwinvecError as error:
            said = str(error)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        if said is not None:
            refused += 1
            assert str(folder) in said, f"{where}: {said}"
            assert path.name in said or not names_file, f"{where}: {said}"
        path.write_bytes(data)
    return refused


def load(folder: Path) -> None:
    """Read all that an encoder or a cross-encoder knows of its model, without an engine."""
    found = find_model(folder)
    if (folder / "1_Pooling").is_dir():
        load_encoder(found, read_spec(folder))
    else:
        load_cross_encoder(found, read_classifier(folder))


@pytest.fixture
def folders(tiny_model, tiny_cross_encoder, tmp_path):
    """Copies of an encoder and of a cross-encoder, to be damaged."""
    encoder = tiny_model("bert", dense=((16, "Tanh"),), prompts={"query": "find: "})
    made = [shutil.copytree(encoder, tmp_path / "encoder")]
    return [*made, shutil.copytree(tiny_cross_encoder("bert"), tmp_path / "cross-encoder")]


def test_whole_files(folders):
    for folder in folders:
        refused = {
            path.relative_to(folder): check(folder, path, damaged(path.read_bytes()), load, names_file=True)
            for path in files(folder)
        }
        assert min(times for path, times in refused.items() if path.name not in UNUSED) > 2, refused


@pytest.mark.slow
def test_whole_files_up_to_the_vectors(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("TWINVEC_CACHE", str(tmp_path / "cache"))

    def use(folder: Path, engine: str) -> None:
        if (folder / "1_Pooling").is_dir():
            Encoder(folder, engine=engine).encode(["a fox", "x"])
        else:
            CrossEncoderReranker(folder, engine=engine).score([("a", "b")])

    for engine in ("torch", "openvino"):
        for folder in folders:
            for path in files(folder):
                check(folder, path, damaged(path.read_bytes()), partial(use, engine=engine), names_file=True)


@pytest.mark.slow
def test_values_of_other_types(folders):
    for folder in folders:
        for path in files(folder):
            if path.suffix == ".json" and path.name != "tokenizer.json":
                check(folder, path, changed(path.read_bytes()), load, names_file=False)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("tokenizer_config.json", "do_lower_case", None),
        ("tokenizer_config.json", "strip_accents", "yes"),
        ("config.json", "model_type", ["bert"]),
        ("config.json", "max_position_embeddings", -1),
        ("config_sentence_transformers.json", "default_prompt_name", ["query"]),
    ],
)
def test_values_that_were_errors_of_python(tiny_copy, name, key, value):
    content = json.loads((tiny_copy / name).read_text())
    (tiny_copy / name).write_text(json.dumps(content | {key: value}))
    with pytest.raises(ModelError, match=rf"{name}: .*{key if key != 'model_type' else 'backbone'}") as raised:
        Encoder(tiny_copy)
    assert str(tiny_copy) in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": "four"},
        {"global_attn_every_n_layers": 0},
        {"layer_types": 5},
        {"rope_parameters": 5},
        {"rope_parameters": {"full_attention": {}}},
        {"global_rope_theta": None},
    ],
)
def test_malformed_attention_of_modernbert(tiny_model, tmp_path, changes):
    folder = shutil.copytree(tiny_model("modernbert"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text()) | {"layer_types": None, "rope_parameters": None}
    (folder / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ModelError, match=r"config\.json: the settings of attention are malformed: ") as raised:
        Encoder(folder)
    assert str(folder) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("config.json", "architectures", 3),
        ("config.json", "id2label", True),
        ("config_sentence_transformers.json", "activation_fn", ["torch.nn.Sigmoid"]),
        ("config_sentence_transformers.json", "prompts", "find"),
    ],
)
def test_values_of_a_cross_encoder(tiny_cross_encoder, tmp_path, name, key, value):
    folder = shutil.copytree(tiny_cross_encoder("bert"), tmp_path / "model")
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(content | {key: value}))
    with pytest.raises(ModelError, match=rf"{name}: .*{key.removesuffix('_fn')}"):
        CrossEncoderReranker(folder)


def test_an_activation_of_an_older_layout(tiny_cross_encoder, tmp_path):
    folder = shutil.copytree(tiny_cross_encoder("bert"), tmp_path / "model")
    (folder / "config_sentence_transformers.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    pairs = [("a fox", "the old cat")]
    plain = CrossEncoderReranker(folder, engine="torch").score(pairs)
    named = config | {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}
    (folder / "config.json").write_text(json.dumps(named))
    logits = CrossEncoderReranker(folder, engine="torch").score(pairs)
    np.testing.assert_allclose(plain, 1 / (1 + np.exp(-logits)), atol=1e-6)


@pytest.mark.parametrize("error", [RuntimeError("no route"), OSError("cut"), ValueError("odd")])
def test_whatever_the_hubs_client_raises(monkeypatch, error):
    def download(*given, **named):
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    for use in (Encoder, CrossEncoderReranker):
        with pytest.raises(ModelNotFoundError, match=f"cannot get org/name at {'a' * 40} from the hub.*{error}"):
            use(f"org/name@{'a' * 40}")
