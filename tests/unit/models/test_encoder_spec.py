"""Folders in the sentence-transformers format, old and new; everything outside the closed lists is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import models
from twinvec import Encoder
from twinvec.errors import ModelIntegrityError, TwinvecError, UnsupportedModelError
from twinvec.models.encoder_spec import Dense, Normalize, read_spec
from twinvec.models.integrity import RUN_FILE


def change(path, **values):
    """Change entries of a JSON object; ``None`` takes one away."""
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def modules(folder):
    return json.loads((folder / "modules.json").read_text())


def refuse(folder, match):
    with pytest.raises(TwinvecError, match=match) as caught:
        Encoder(folder)
    return caught.type


def test_what_a_folder_says(tiny_model):
    folder = tiny_model("bert", dense=((16, "Tanh"),), prompts={"query": "find: "}, truncate_dim=10, max_tokens=20)
    spec = read_spec(folder)
    assert spec.folder == folder
    assert spec.config["model_type"] == "bert"
    assert (spec.max_tokens, spec.positions) == (20, models.POSITIONS)
    assert (spec.full_dim, spec.truncate_dim, spec.dim) == (16, 10, 10)
    assert spec.pooling == ("mean",)
    assert spec.prompts == {"query": "find: ", "document": ""}
    assert spec.default_prompt is None
    assert spec.include_prompt
    assert not spec.lower_case
    assert spec.head == (Dense(folder / "2_Dense", 32, 16, True, "Tanh"), Normalize())
    assert spec.normalizes


@pytest.mark.parametrize("kind", models.BACKBONES)
def test_positions_of_every_backbone(tiny_model, kind):
    assert read_spec(tiny_model(kind)).positions == models.LONGEST[kind]


@pytest.mark.parametrize(
    ("kind", "old"),
    [
        ("Transformer", "sentence_transformers.models.Transformer"),
        ("Pooling", "sentence_transformers.models.Pooling"),
        ("Dense", "sentence_transformers.models.Dense"),
        ("Normalize", "sentence_transformers.models.Normalize"),
    ],
)
def test_module_names_of_old(tiny_copy, kind, old):
    before = read_spec(tiny_copy)
    entries = [entry | {"type": old} if entry["type"].endswith(kind) else entry for entry in modules(tiny_copy)]
    assert entries != modules(tiny_copy)
    (tiny_copy / "modules.json").write_text(json.dumps(entries))
    assert read_spec(tiny_copy) == before


def test_a_backbone_in_a_folder_of_its_own(tiny_copy):
    """The layout of the first versions: the Transformer too has a numbered folder."""
    before = Encoder(tiny_copy)
    vector = before.encode("the old cat")
    home = tiny_copy / "0_Transformer"
    home.mkdir()
    for path in list(tiny_copy.iterdir()):
        if path.is_file() and path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(home / path.name)
    entries = modules(tiny_copy)
    entries[0]["path"] = "0_Transformer"
    (tiny_copy / "modules.json").write_text(json.dumps(entries))
    after = Encoder(tiny_copy)
    assert after.space == before.space
    np.testing.assert_array_equal(after.encode("the old cat"), vector)


def test_pooling_of_old(tiny_copy):
    path = tiny_copy / "1_Pooling" / "config.json"
    flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}
    path.write_text(json.dumps({"word_embedding_dimension": 32, **flags}))
    change(tiny_copy / "2_Dense" / "config.json", in_features=64)
    assert read_spec(tiny_copy).pooling == ("cls", "mean")


def test_a_limit_that_means_none(tiny_copy):
    (tiny_copy / "sentence_bert_config.json").unlink()
    change(tiny_copy / "tokenizer_config.json", model_max_length=1e30)
    assert read_spec(tiny_copy).max_tokens == models.POSITIONS


def test_a_limit_above_the_positions(tiny_copy):
    change(tiny_copy / "sentence_bert_config.json", max_seq_length=5000)
    assert read_spec(tiny_copy).max_tokens == models.POSITIONS


@pytest.mark.parametrize(
    "wanted",
    [
        "sentence_transformers.models.WordEmbeddings",
        "sentence_transformers.models.Transformer2",
        "my_code.Pooling",
        "os.system",
        "",
        None,
    ],
)
def test_module_classes_outside_the_list(tiny_copy, wanted):
    entries = modules(tiny_copy)
    entries[1]["type"] = wanted
    (tiny_copy / "modules.json").write_text(json.dumps(entries))
    assert refuse(tiny_copy, r"modules\.json: module class .* is not supported") is UnsupportedModelError


@pytest.mark.parametrize("path", ["../other", "/etc", "1_Pooling/../../other", "C:\\model", "a\0b", 3])
def test_module_paths_outside_the_folder(tiny_copy, path):
    entries = modules(tiny_copy)
    entries[1]["path"] = path
    (tiny_copy / "modules.json").write_text(json.dumps(entries))
    assert (
        refuse(tiny_copy, r"modules\.json: (the path .* leaves the model's folder|expected a relative path)")
        is ModelIntegrityError
    )


def test_modules_in_another_order(tiny_copy):
    entries = modules(tiny_copy)
    for order in (entries[1:], [entries[0], *entries[2:]], [*entries, entries[1]], [entries[1], entries[0]]):
        (tiny_copy / "modules.json").write_text(json.dumps(order))
        assert refuse(tiny_copy, r"modules\.json") is UnsupportedModelError


@pytest.mark.parametrize("content", ["[]", "{}", "[3]", '["Transformer"]'])
def test_modules_of_another_shape(tiny_copy, content):
    (tiny_copy / "modules.json").write_text(content)
    assert refuse(tiny_copy, r"modules\.json: expected a list of modules") is ModelIntegrityError


def test_an_incomplete_copy_without_the_list_of_modules(tiny_copy):
    (tiny_copy / "modules.json").unlink()
    assert (
        refuse(tiny_copy, r"modules\.json: missing, though .* 1_Pooling; copy the model again") is ModelIntegrityError
    )
    (tiny_copy / RUN_FILE).write_text("{}")
    assert refuse(tiny_copy, r"modules\.json: missing, because the training run") is ModelIntegrityError
    (tiny_copy / RUN_FILE).unlink()
    for module in list(tiny_copy.glob("[0-9]_*")):
        shutil.rmtree(module)
    assert read_spec(tiny_copy).pooling == ("mean",)  # a bare backbone


@pytest.mark.parametrize("kind", ["t5", "gpt2", "", None])
def test_other_backbones(tiny_copy, kind):
    change(tiny_copy / "config.json", model_type=kind)
    assert refuse(tiny_copy, r"config\.json: (backbone|missing)") in (UnsupportedModelError, ModelIntegrityError)


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("config.json", {"hidden_size": "wide"}, "hidden_size is 'wide', expected a whole number"),
        ("config.json", {"hidden_size": None}, "hidden_size is None, expected a whole number"),
        ("config.json", {"max_position_embeddings": "66"}, "max_position_embeddings is '66'"),
        ("sentence_bert_config.json", {"max_seq_length": -1}, "max_seq_length is -1, expected a number of at least 1"),
        ("sentence_bert_config.json", {"max_seq_length": "long"}, "max_seq_length is 'long'"),
        ("config_sentence_transformers.json", {"truncate_dim": 0}, "truncate_dim is 0"),
        ("config_sentence_transformers.json", {"prompts": ["find: "]}, "prompts are"),
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}, "prompts are"),
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "pooling 'median' is not supported"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", 3]}, "pooling .* is not supported"),
        ("1_Pooling/config.json", {"pooling_mode": []}, "pooling .* is not supported"),
        ("2_Dense/config.json", {"activation_function": "os.system"}, "activation 'os.system' is not supported"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.Softmax"}, "is not supported"),
        ("2_Dense/config.json", {"in_features": 31}, "in_features is 31, but its input has 32 values"),
        ("2_Dense/config.json", {"in_features": None}, "in_features is None"),
        ("2_Dense/config.json", {"out_features": "16"}, "out_features is '16'"),
        ("2_Dense/config.json", {"use_residual": True}, "use_residual is not supported"),
        ("2_Dense/config.json", {"module_input_name": "token_embeddings"}, "only the sentence vector is supported"),
    ],
)
def test_settings_that_are_refused(tiny_copy, file, values, message):
    change(tiny_copy / file, **values)
    with pytest.raises((ModelIntegrityError, UnsupportedModelError), match=message) as caught:
        Encoder(tiny_copy)
    assert str(tiny_copy / file) in str(caught.value)


def test_a_prompt_that_is_not_there_is_no_default(tiny_copy):
    change(tiny_copy / "config_sentence_transformers.json", default_prompt_name="topic", prompts={})
    assert read_spec(tiny_copy).default_prompt is None


def test_code_beside_the_model_is_never_run(tiny_copy, tmp_path):
    (tiny_copy / "modeling.py").write_text(f"open({str(tmp_path / 'exploded')!r}, 'w')")
    change(tiny_copy / "config.json", auto_map={"AutoModel": "modeling.Model", "AutoConfig": "modeling.Config"})
    assert np.isfinite(Encoder(tiny_copy).encode("fox")).all()
    assert not (tmp_path / "exploded").exists()


def test_a_cross_encoder_is_named_with_its_place(tiny_cross_encoder):
    told = r"sentence_bert_config\.json: the model is a cross-encoder, .* CrossEncoderReranker or .* --rerank FOLDER'"
    assert refuse(tiny_cross_encoder("bert"), told) is UnsupportedModelError


def test_a_plain_classifier_is_an_encoder_with_a_warning(tmp_path, caplog):
    """It may be a backbone to train, and collections of it exist. With pooling it is an embedding model."""
    plain = models.save_backbone(tmp_path / "plain", "bert", labels=1)
    for _ in range(2):
        assert np.isfinite(Encoder(plain).encode("fox")).all()
    told = [each.getMessage() for each in caplog.records if "is a classifier or a cross-encoder" in each.getMessage()]
    assert len(told) == 1
    assert str(plain) in told[0]
    assert "CrossEncoderReranker" in told[0]


def test_a_model_with_pooling_may_call_itself_a_classifier(tiny_copy, caplog):
    change(tiny_copy / "config.json", architectures=["BertForSequenceClassification"])
    Encoder(tiny_copy)
    assert not caplog.records
