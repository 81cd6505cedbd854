"""What applications pass on to sentence-transformers: taken under our names, let pass, or refused by name."""

from __future__ import annotations

import inspect

import pytest
import torch
from sentence_transformers import SentenceTransformer

from twinvec.adapters.sentence_transformers import encode_options, loading_options
from twinvec.errors import ConfigurationError


def test_what_means_the_same_gets_our_name() -> None:
    given = {
        "device": "cpu",
        "revision": "main",
        "token": "hf_x",
        "local_files_only": True,
        "truncate_dim": 16,
        "prompts": {"query": "q: "},
        "default_prompt_name": None,
        "backend": "torch",
        "trust_remote_code": False,
        "similarity_fn_name": "dot",
        "tokenizer_kwargs": {},
        "model_kwargs": {"torch_dtype": torch.bfloat16, "attn_implementation": "eager"},
    }
    assert loading_options(given) == {
        "device": "cpu",
        "revision": "main",
        "token": "hf_x",
        "local_files_only": True,
        "dim": 16,
        "prompts": {"query": "q: "},
        "engine": "torch",
        "precision": "bfloat16",
    }
    assert loading_options({}) == {}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"trust_remote_code": True}, "kwargs: trust_remote_code: code"),
        ({"processor_kwargs": {"padding_side": "left"}}, "kwargs: processor_kwargs"),
        ({"config_kwargs": {"a": 1}}, "kwargs: config_kwargs"),
        ({"nonsense": 1}, "kwargs: nonsense"),
        ({"model_kwargs": {"dtype": "float64"}}, "kwargs: model_kwargs: dtype 'float64'"),
        ({"model_kwargs": {"quantization_config": {}}}, "kwargs: model_kwargs: quantization_config"),
    ],
)
def test_what_would_be_lost_is_refused_by_name(arguments, named) -> None:
    with pytest.raises(ConfigurationError, match=named):
        loading_options(arguments, "kwargs: ")


def test_of_the_arguments_of_encode_those_remain_that_decide_something() -> None:
    given = {"batch_size": 8, "convert_to_numpy": True, "precision": "float32", "pool": None, "prompt_name": None}
    assert encode_options({**given, "normalize_embeddings": True, "prompt": ""}) == {
        "normalize_embeddings": True,
        "prompt": "",
    }
    for fault in ({"precision": "int8"}, {"output_value": "token_embeddings"}, {"pool": {}}, {"task": "code"}):
        with pytest.raises(ConfigurationError, match=next(iter(fault))):
            encode_options(fault)


def test_every_argument_of_sentence_transformers_is_judged_by_its_name() -> None:
    """A new one there is noticed here."""
    loading = set(inspect.signature(SentenceTransformer).parameters) - {"model_name_or_path", "modules", "cache_folder"}
    for name in loading - {"use_auth_token"}:
        loading_options({name: None})
    encoding = set(inspect.signature(SentenceTransformer.encode).parameters) - {"self", "inputs", "kwargs"}
    defaults = {"precision": "float32", "output_value": "sentence_embedding"}
    for name in encoding:
        encode_options({name: defaults.get(name)})
