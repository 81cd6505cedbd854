"""Wrong types at the core's entry points: twinvec raises its own error, which names the argument."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from twinvec import Encoder, MaxSimReranker, MemoryIndex, RetrieveRerank
from twinvec.errors import TwinvecError
from twinvec.similarity import cluster, medoids, most_similar_pairs, semantic_search

NO_LIST = [5, None, b"bytes", np.array(3), np.array("a"), Path("a")]
NO_STRING = [5, b"bytes", [1], {}, np.array(3), np.array([1.0, 2.0]), Path("a"), "\ud800"]
VECTORS = np.eye(4, dtype=np.float32)


@pytest.fixture(scope="module")
def encoder(tiny_model):
    return Encoder(tiny_model("bert"))


@pytest.fixture(scope="module")
def index(encoder):
    return MemoryIndex(encoder, [("a", "green tea"), ("b", "rain")])


def refused(said: str, function, *arguments, **options):
    with pytest.raises(TwinvecError, match=re.escape(said)):
        function(*arguments, **options)


@pytest.mark.parametrize("value", NO_LIST, ids=repr)
def test_what_is_no_list_of_texts(encoder, index, value):
    for method in (encoder.encode, encoder.encode_tokens, encoder.count_tokens, encoder.token_spans):
        refused("texts: expected a list of strings", method, value)
    refused("queries: expected a list of strings", index.search_many, value)
    refused("queries: expected a list of strings", MaxSimReranker(encoder).rerank_many, value, [])
    refused("queries: expected a list of strings", RetrieveRerank(index, MaxSimReranker(encoder)).search_many, value)
    refused("expected an iterable of documents", index.add, value)
    refused("hits: expected a list of hits", index.with_passages, "tea", value)
    refused("lists of hits", MaxSimReranker(encoder).rerank_many, ["tea"], value)
    refused("weights must be two numbers", index.search, "tea", weights=value)
    if value is not None:
        refused("devices must be a list", Encoder, encoder.name, devices=value)


@pytest.mark.parametrize("value", NO_STRING, ids=repr)
def test_what_is_no_string(encoder, index, value):
    refused("prompt", encoder.encode, ["a"], prompt=value)
    refused("default_prompt", Encoder, encoder.name, default_prompt=value)
    refused("prompt", Encoder, encoder.name, prompts={"query": value})
    refused("device", Encoder, encoder.name, device=value)
    refused("engine", Encoder, encoder.name, engine=value)
    refused("query: ", index.with_passages, value, [])
    refused("mode", index.search, "tea", mode=value)


def test_prompts_with_names_that_nothing_can_store(encoder):
    refused("the name of a prompt has a lone surrogate", Encoder, encoder.name, prompts={"\ud800": "a"})


@pytest.mark.parametrize("value", ["x", None, [1], np.array([1.0, 2.0])], ids=repr)
def test_what_is_no_number(encoder, value):
    refused("mix must be a number", MaxSimReranker, encoder, mix=value)
    if value is not None:
        refused("threshold must be a number", most_similar_pairs, VECTORS, threshold=value)


def test_what_is_no_vector_no_label_no_function_and_no_encoder(encoder):
    for value in ("x", {}, object(), [["a"]]):
        refused("vectors: expected an array of numbers", cluster, value, clusters=2)
        refused("queries: expected an array of numbers", semantic_search, value, VECTORS)
    for codes in (np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.int8)):
        for function in (medoids, most_similar_pairs, cluster):
            options = {"labels": [0] * 4} if function is medoids else {}
            refused(f"vectors: expected float vectors, got {codes.dtype}", function, codes, **options)
        refused("queries: expected float vectors", semantic_search, codes, VECTORS)
        refused("corpus: expected float vectors", semantic_search, VECTORS, codes)
    assert medoids([[1, 0], [0, 1]], [0, 1]) == {0: 0, 1: 1}, "whole numbers are vectors, too"
    for value in (5, "x", [1], np.array(3), np.zeros(4)):
        refused("labels: expected 4 whole numbers", medoids, VECTORS, value)
    assert medoids(VECTORS, [0, 0, 1, 1]).keys() == {0, 1}
    refused("on_batch: expected a function", encoder.encode, ["a"], on_batch=5)
    for value in (5, None, "default", Encoder):
        refused("encoder: expected an encoder", MemoryIndex, value, [("a", "tea")])


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("max_seq_length", "max_tokens"),
        ("truncate_dim", "dim"),
        ("default_prompt_name", "default_prompt"),
        ("dim", "dim"),
        ("max_tokens", "max_tokens"),
        ("device", "device"),
        ("prompts", "prompts"),
    ],
)
def test_an_attribute_of_an_encoder_that_an_argument_decides_is_refused_with_the_argument(encoder, name, argument):
    before = encoder.encode("green tea")
    refused(
        f"{name} of an encoder does not change: make another encoder, Encoder(..., {argument}=8)",
        setattr,
        encoder,
        name,
        8,
    )
    assert np.array_equal(encoder.encode("green tea"), before)
