"""Settings in a model's files, by hand: vectors are those of sentence-transformers, or the model is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import models
from twinvec import CrossEncoderReranker, Encoder
from twinvec.errors import ModelError, ModelIntegrityError, UnsupportedModelError

TEXTS = [
    "Quick Brown FOX",
    "\u00c9t\u00e9 \u00e0 la plage",
    "\u65e5\u672c\u8a9e and words",
    "word " * 200 + "END Of It",
    "",
]


def edited(folder, changes):
    """Write ``{file: {key: value}}`` into the JSON files of a folder."""
    for name, values in changes.items():
        path = folder / name
        settings = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps({**settings, **values}))
    return folder


def assert_equal(folder):
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu")
    ours = Encoder(folder, engine="torch")
    encoders = {
        "encode": (theirs.encode, ours.encode),
        "query": (theirs.encode_query, ours.encode_query),
        "document": (theirs.encode_document, ours.encode_document),
    }
    for name, (expected, found) in encoders.items():
        np.testing.assert_allclose(found(TEXTS), expected(TEXTS), atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bert", {"tokenizer_config.json": {"do_lower_case": False}}),
        ("bert", {"tokenizer_config.json": {"strip_accents": False}}),
        ("bert", {"tokenizer_config.json": {"tokenize_chinese_chars": False}}),
        ("bert", {"tokenizer_config.json": {"truncation_side": "left"}}),
        ("mpnet", {"tokenizer_config.json": {"do_lower_case": False}}),
        ("distilbert", {"tokenizer_config.json": {"do_lower_case": False, "truncation_side": "left"}}),
        ("roberta", {"tokenizer_config.json": {"add_prefix_space": True}}),
        ("xlm-roberta", {"tokenizer_config.json": {"truncation_side": "left"}}),
        ("bert", {"tokenizer_config.json": {"tokenizer_class": None, "do_lower_case": False}}),
        ("roberta", {"tokenizer_config.json": {"tokenizer_class": None, "add_prefix_space": True}}),
        ("bert", {"tokenizer_config.json": {"tokenizer_class": None, "do_lower_case": False},
                  "config.json": {"tokenizer_class": "MPNetTokenizer"}}),
        ("bert", {"sentence_bert_config.json": {"max_seq_length": 7}}),
        ("bert", {"tokenizer_config.json": {"model_max_length": 7}}),
        ("bert", {"sentence_bert_config.json": {"max_seq_length": 7, "model_args": {"attn_implementation": "eager"}}}),
        ("bert", {"config_sentence_transformers.json": {"prompts": {"query": "", "document": "", "topic": "topic: "},
                                                        "default_prompt_name": "topic"}}),
        ("bert", {"config_sentence_transformers.json": {"prompts": {"query": "a: ", "passage": "p: "}}}),
        ("bert", {"config_sentence_transformers.json": {"prompts": {"topic": "t: "}, "default_prompt_name": "topic"}}),
    ],
)  # fmt: skip
def test_settings_that_are_followed(tiny_model, tmp_path, kind, changes):
    plain = tiny_model(kind, max_tokens=40)
    folder = edited(shutil.copytree(plain, tmp_path / "model"), changes)
    assert_equal(folder)
    assert Encoder(folder).space != Encoder(plain).space


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("sentence_bert_config.json", "query_length", 5),
        ("sentence_bert_config.json", "document_length", 5),
        ("sentence_bert_config.json", "query_expansion", True),
        ("sentence_bert_config.json", "processing_kwargs", {"text": {"padding": "max_length"}}),
        ("sentence_bert_config.json", "config_args", {"hidden_act": "relu"}),
        ("sentence_bert_config.json", "tokenizer_args", {"truncation_side": "left"}),
        ("sentence_bert_config.json", "model_args", ["attn_implementation"]),
        ("sentence_bert_config.json", "transformer_task", "fill-mask"),
        ("sentence_bert_config.json", "module_output_name", "sentence_embedding"),
        ("config.json", "is_decoder", True),
        ("config.json", "position_embedding_type", "relative_key"),
        ("config.json", "quantization_config", {"quant_method": "gptq"}),
        ("adapter_config.json", "peft_type", "LORA"),
    ],
)
def test_settings_that_are_refused(tiny_copy, name, key, value):
    edited(tiny_copy, {name: {key: value}})
    with pytest.raises(UnsupportedModelError, match=name):
        Encoder(tiny_copy)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("sentence_bert_config.json", "processing_kwargs", {"text": {"max_length": 20}}),
        ("sentence_bert_config.json", "processor_kwargs", {"model_max_length": 20}),
        ("config.json", "is_decoder", True),
        ("config.json", "position_embedding_type", "alibi"),
        ("adapter_config.json", "peft_type", "LORA"),
    ],
)
def test_settings_that_are_refused_in_a_cross_encoder(tiny_cross_encoder, tmp_path, name, key, value):
    folder = edited(shutil.copytree(tiny_cross_encoder("bert"), tmp_path / "model"), {name: {key: value}})
    with pytest.raises(UnsupportedModelError, match=name):
        CrossEncoderReranker(folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"position_embedding_type": "alibi"}, "position_embedding_type 'alibi' is not supported; expected 'absolute'"),
        ({"model_type": "new"}, "backbone 'new' is not supported"),
        ({"model_type": None}, "backbone None is not supported"),
    ],
)
def test_a_model_with_code_of_its_own_is_named_as_such(tiny_copy, changes, told):
    """As of jina-embeddings-v2, gte-multilingual-base and jina-reranker-v2."""
    edited(tiny_copy, {"config.json": {**changes, "auto_map": {"AutoModel": "modeling.Model"}}})
    with pytest.raises(UnsupportedModelError, match=rf"{told}.*code of its own \(auto_map\), which twinvec does not"):
        Encoder(tiny_copy)


def test_bert_with_the_tokenizer_of_xlm_roberta(tmp_path):
    """As paraphrase-multilingual-MiniLM-L12-v2. Copies without a class get another tokenizer from transformers."""
    folder = models.give_tokenizer(models.build(tmp_path / "model", "bert"), "xlm-roberta", "XLMRobertaTokenizer")
    assert_equal(folder)
    expected = Encoder(folder)
    models.give_tokenizer(folder, "xlm-roberta", None)
    found = Encoder(folder)
    assert found.space == expected.space
    np.testing.assert_array_equal(found.encode(TEXTS), expected.encode(TEXTS))


def test_a_limit_without_room_for_text_is_refused(tiny_copy):
    edited(tiny_copy, {"sentence_bert_config.json": {"max_seq_length": 2}})
    with pytest.raises(ModelIntegrityError, match=r"sentence_bert_config\.json: max_seq_length is 2"):
        Encoder(tiny_copy)


def test_only_the_weights_that_are_loaded_decide_the_space(tiny_copy):
    before = Encoder(tiny_copy).space
    tensors = load_file(tiny_copy / "model.safetensors")
    save_file(tensors, tiny_copy / "zz_old.safetensors", metadata={"format": "pt"})
    assert Encoder(tiny_copy).space == before
    changed = {name: values * np.float32(1.3) for name, values in tensors.items()}
    save_file(changed, tiny_copy / "model.safetensors", metadata={"format": "pt"})
    assert Encoder(tiny_copy).space != before
    assert_equal(tiny_copy)


def test_a_module_behind_a_link_out_of_the_folder_is_refused(tiny_copy, tmp_path):
    (tiny_copy / "1_Pooling").rename(tmp_path / "elsewhere")
    (tiny_copy / "1_Pooling").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="1_Pooling: is a link that leaves the model's folder"):
        Encoder(tiny_copy)


def test_an_adapter_is_refused_with_a_way_to_merge_it(tmp_path, tiny_model):
    """sentence-transformers saves an adapter without the model's own ``config.json``."""
    from peft import LoraConfig, PeftModel
    from sentence_transformers import SentenceTransformer

    adapted = SentenceTransformer(str(tiny_model("bert")), device="cpu")
    adapted.add_adapter(LoraConfig(target_modules=["query"], init_lora_weights=False))
    adapted.save_pretrained(str(tmp_path / "adapter"))
    with pytest.raises(UnsupportedModelError, match=r"adapter_config\.json: .* merge the adapter .*merge_and_unload"):
        Encoder(tmp_path / "adapter")
    model = SentenceTransformer(str(tiny_model("bert")), device="cpu")
    model[0].auto_model = PeftModel.from_pretrained(model[0].auto_model, tmp_path / "adapter").merge_and_unload()
    model.save_pretrained(str(tmp_path / "merged"))
    texts = ["the quick fox", "a lazy dog"]
    np.testing.assert_allclose(Encoder(tmp_path / "merged").encode(texts), adapted.encode(texts), atol=1e-5)
