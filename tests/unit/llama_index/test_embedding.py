"""TwinvecEmbedding: the vectors of HuggingFaceEmbedding, instructions by side, caches kept apart, awaited together."""

from __future__ import annotations

import asyncio
import pickle
import shutil
import threading

import numpy as np
import pytest
from llama_index.core.embeddings.utils import resolve_embed_model
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import TextNode
from llama_index.core.storage.kvstore import SimpleKVStore
from sentence_transformers import SentenceTransformer

from handbook import MIXED
from llama_index.embeddings.twinvec import TwinvecEmbedding
from twinvec import Encoder
from twinvec.errors import ConfigurationError, ModelNotFoundError, SpaceMismatchError, TextError


@pytest.fixture(scope="module")
def embedding(encoder: Encoder) -> TwinvecEmbedding:
    return TwinvecEmbedding(encoder=encoder)


def test_vectors_are_those_of_sentence_transformers_as_python_floats(reference, embedding) -> None:
    rows = embedding.get_text_embedding_batch(MIXED)
    assert {type(value) for row in rows for value in row} == {float}
    np.testing.assert_allclose(rows, reference.encode(MIXED), atol=2e-6)
    np.testing.assert_allclose(embedding.get_text_embedding(MIXED[0]), rows[0], atol=2e-6)
    np.testing.assert_allclose(embedding.get_query_embedding(MIXED[0]), rows[0], atol=2e-6)
    np.testing.assert_allclose(
        embedding.get_agg_embedding_from_queries(MIXED[:2]), np.mean(rows[:2], axis=0), atol=2e-6
    )


@pytest.mark.parametrize(
    ("arguments", "query", "text"),
    [
        ({}, "find: ", "passage: "),
        ({"query_instruction": "q: "}, "q: ", "passage: "),
        ({"query_instruction": "", "text_instruction": "t: "}, "", "t: "),
    ],
)
def test_each_side_gets_its_instruction_and_length_1(prompted, arguments, query, text) -> None:
    reference = SentenceTransformer(prompted, device="cpu")
    ours = TwinvecEmbedding(prompted, **arguments)
    expected = reference.encode("a text", prompt=query, normalize_embeddings=True)
    np.testing.assert_allclose(ours.get_query_embedding("a text"), expected, atol=1e-5)
    expected = reference.encode("a text", prompt=text, normalize_embeddings=True)
    np.testing.assert_allclose(ours.get_text_embedding("a text"), expected, atol=1e-5)


def test_arguments_of_hugging_face_embedding_mean_the_same(prompted, tmp_path) -> None:
    reference = SentenceTransformer(prompted, device="cpu")
    reference.max_seq_length = 12
    ours = TwinvecEmbedding(
        model_name=prompted,
        max_length=12,
        query_instruction="",
        text_instruction="",
        normalize=False,
        embed_batch_size=2,
        cache_folder=str(tmp_path),
        trust_remote_code=False,
        device="cpu",
        backend="torch",
        show_progress_bar=False,
        target_devices=["cpu"],
        token="hf_x",
        local_files_only=True,
    )
    texts = ["a few words", "word " * 50]
    np.testing.assert_allclose(ours.get_text_embedding_batch(texts), reference.encode(texts, prompt=""), atol=1e-5)
    assert ours.max_length == 12


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"trust_remote_code": True}, "trust_remote_code"),
        ({"parallel_process": True}, "parallel_process"),
        ({"tokenizer_kwargs": {"padding_side": "left"}}, "tokenizer_kwargs"),
        ({"prompts": {"query": ""}}, "query_instruction"),
        ({"nonsense": 1}, "nonsense"),
        ({"revision": "main"}, "revision"),
        ({"engine": "abacus"}, "abacus"),
        ({"dimensions": 0}, "dim"),
        ({"dimensions": 8, "truncate_dim": 16}, "given twice"),
        ({"precision": "float32", "model_kwargs": {"dtype": "float16"}}, "given twice"),
    ],
)
def test_what_cannot_be_honoured_is_named(arguments, named) -> None:
    with pytest.raises(ConfigurationError, match=named):
        TwinvecEmbedding(**arguments)


def test_a_missing_model_is_named(encoder, tmp_path) -> None:
    with pytest.raises(ModelNotFoundError, match="nowhere"):
        TwinvecEmbedding(str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match="not both"):
        TwinvecEmbedding("default", encoder=encoder)
    with pytest.raises(
        ConfigurationError, match="an encoder is given; leave these out, and set them when you open the encoder: dim"
    ):
        TwinvecEmbedding(encoder=encoder, truncate_dim=8)


def test_settings_go_to_a_dict_and_back(prompted) -> None:
    ours = TwinvecEmbedding(prompted, query_instruction="q: ", dimensions=16, max_length=20, embed_batch_size=7)
    data = ours.to_dict()
    again = TwinvecEmbedding.from_dict(data)
    assert again.to_dict() == data
    assert again.get_query_embedding("a text") == ours.get_query_embedding("a text")
    assert TwinvecEmbedding.from_json(ours.to_json()).to_dict() == data


def test_arguments_that_are_passed_on_go_to_a_dict_and_back(prompted) -> None:
    ours = TwinvecEmbedding(prompted, truncate_dim=16, model_kwargs={"torch_dtype": "float32"}, token="hf_secret")
    data = ours.to_dict()
    assert (data["dimensions"], data["precision"]) == (16, "float32")
    assert "secret" not in str(data)
    assert len(TwinvecEmbedding.from_dict(data).get_query_embedding("a text")) == 16


def test_what_hugging_face_embedding_saved_is_read(prompted) -> None:
    """The keys of ``HuggingFaceEmbedding.to_dict()``, release 0.8."""
    data = {
        "model_name": prompted,
        "embed_batch_size": 3,
        "num_workers": None,
        "embeddings_cache": None,
        "max_length": 16,
        "normalize": True,
        "query_instruction": "q: ",
        "text_instruction": None,
        "cache_folder": None,
        "show_progress_bar": False,
        "class_name": "HuggingFaceEmbedding",
    }
    reference = SentenceTransformer(prompted, device="cpu")
    ours = TwinvecEmbedding.from_dict(data)
    expected = reference.encode("a text", prompt="q: ", normalize_embeddings=True)
    np.testing.assert_allclose(ours.get_query_embedding("a text"), expected, atol=1e-5)
    assert (ours.max_length, ours.embed_batch_size) == (16, 3)


@pytest.mark.parametrize("name", ["bge-small-en-v1.5", "bge-large-zh", "bge-m3", "bge-en-icl"])
def test_instructions_of_bge_are_those_of_hugging_face_embedding(tiny_model, tmp_path, monkeypatch, name) -> None:
    shutil.copytree(tiny_model("bert"), tmp_path / "BAAI" / name)
    monkeypatch.chdir(tmp_path)
    known = {
        "bge-small-en-v1.5": "Represent this question for searching relevant passages: ",
        "bge-large-zh": "为这个句子生成表示以用于检索相关文章：",
    }
    assert (TwinvecEmbedding(f"BAAI/{name}").query_instruction or "") == known.get(name, "")


def test_a_model_that_changed_since_is_refused(prompted, tiny_model) -> None:
    data = TwinvecEmbedding(prompted).to_dict() | {"model_name": str(tiny_model("bert", seed=1))}
    with pytest.raises(SpaceMismatchError, match="space"):
        TwinvecEmbedding.from_dict(data)


def test_pickles_give_the_same_vectors(embedding) -> None:
    again = pickle.loads(pickle.dumps(embedding))
    assert again.get_query_embedding("a text") == embedding.get_query_embedding("a text")
    assert asyncio.run(again.aget_query_embedding("a text")) == embedding.get_query_embedding("a text")


def test_it_is_an_embed_model_and_a_transformation(embedding) -> None:
    assert resolve_embed_model(embedding) is embedding
    (node,) = IngestionPipeline(transformations=[embedding]).run(nodes=[TextNode(text="a text")])
    np.testing.assert_allclose(node.embedding, embedding.get_text_embedding("a text"), atol=2e-6)


async def test_awaited_vectors_are_the_same(embedding) -> None:
    expected = embedding.get_text_embedding_batch(MIXED)
    np.testing.assert_allclose(await embedding.aget_text_embedding_batch(MIXED), expected, atol=2e-6)
    np.testing.assert_allclose(await embedding.aget_text_embedding(MIXED[0]), expected[0], atol=2e-6)
    np.testing.assert_allclose(await embedding.aget_query_embedding(MIXED[0]), expected[0], atol=2e-6)


async def test_awaited_calls_are_batched_and_off_the_loop(encoder, monkeypatch) -> None:
    calls: list[tuple[str, int, int]] = []

    def watched(side: str):
        original = getattr(Encoder, f"encode_{side}")

        def encode(texts, **options):
            calls.append((side, len(texts), threading.get_ident()))
            return original(encoder, texts, **options)

        monkeypatch.setattr(encoder, f"encode_{side}", encode)

    watched("query")
    watched("document")
    embedding = TwinvecEmbedding(encoder=encoder)
    rows = await asyncio.gather(*(embedding.aget_query_embedding(f"question {i}") for i in range(50)))
    np.testing.assert_allclose(rows[7], Encoder.encode_query(encoder, "question 7"), atol=2e-6)
    await embedding.aget_text_embedding_batch([f"text {i}" for i in range(30)])
    assert [(side, count) for side, count, _ in calls] == [("query", 50), ("document", 30)]
    assert threading.get_ident() not in [thread for *_, thread in calls]


async def test_a_bad_text_is_named_and_hurts_no_other(embedding) -> None:
    good, bad = await asyncio.gather(
        embedding.aget_query_embedding("fine"), embedding.aget_query_embedding("\ud800"), return_exceptions=True
    )
    assert len(good) == 384
    assert isinstance(bad, TextError)
    with pytest.raises(TextError, match="text 1"):
        embedding.get_text_embedding_batch(["fine", "\ud800"])


async def test_one_cache_serves_several_models_and_both_sides(prompted, tiny_model) -> None:
    cache = SimpleKVStore()
    other = str(tiny_model("bert", seed=1))
    plain = [TwinvecEmbedding(prompted), TwinvecEmbedding(other), TwinvecEmbedding(prompted, normalize=False)]
    cached = [
        TwinvecEmbedding(prompted, embeddings_cache=cache),
        TwinvecEmbedding(other, embeddings_cache=cache),
        TwinvecEmbedding(prompted, normalize=False, embeddings_cache=cache),
    ]
    for _ in range(2):
        for bare, with_cache in zip(plain, cached, strict=True):
            query, text = bare.get_query_embedding("a text"), bare.get_text_embedding("a text")
            assert with_cache.get_query_embedding("a text") == query
            assert with_cache.get_text_embedding("a text") == text
            assert with_cache.get_text_embedding_batch(["a text"]) == [text]
            assert await with_cache.aget_query_embedding("a text") == query
            assert await with_cache.aget_text_embedding_batch(["a text"]) == [text]
    assert len(cache.get_all(collection="embeddings")) == 6


def test_what_is_cached_is_not_computed_again(encoder, monkeypatch) -> None:
    cached = TwinvecEmbedding(encoder=encoder, embeddings_cache=SimpleKVStore())
    first = cached.get_text_embedding_batch(["one", "two"])
    monkeypatch.setattr(encoder, "encode_document", None)
    assert cached.get_text_embedding_batch(["two", "one"]) == first[::-1]


def test_instrumentation_hears_of_every_call(embedding, heard) -> None:
    embedding.get_query_embedding("a question")
    embedding.get_text_embedding_batch(["one", "two"])
    names = [event.class_name() for event in heard]
    assert names == ["EmbeddingStartEvent", "EmbeddingEndEvent"] * 2
    assert heard[0].model_dict["model_name"] == embedding.model_name
    assert heard[3].chunks == ["one", "two"]
