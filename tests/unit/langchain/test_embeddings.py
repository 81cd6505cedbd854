"""TwinvecEmbeddings: the vectors of HuggingFaceEmbeddings, prompts by side, awaited without blocking."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading

import numpy as np
import pytest
from pydantic import ValidationError
from sentence_transformers import SentenceTransformer

from handbook import MIXED
from langchain_twinvec import TwinvecEmbeddings
from twinvec import Encoder
from twinvec.errors import ModelNotFoundError, TextError


@pytest.fixture(scope="module")
def embeddings(encoder: Encoder) -> TwinvecEmbeddings:
    return TwinvecEmbeddings(encoder=encoder)


def test_vectors_are_those_of_sentence_transformers_as_python_floats(reference, embeddings) -> None:
    rows = embeddings.embed_documents(MIXED)
    assert {type(value) for row in rows for value in row} == {float}
    np.testing.assert_allclose(rows, reference.encode(MIXED), atol=2e-6)
    np.testing.assert_allclose(embeddings.embed_query(MIXED[0]), rows[0], atol=2e-6)


@pytest.mark.parametrize("name", ["default", "sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"])
def test_the_default_model_is_found_under_its_usual_names(name, embeddings) -> None:
    assert TwinvecEmbeddings(model_name=name).encoder.space == embeddings.encoder.space


def test_each_side_gets_the_models_own_prompt(prompted) -> None:
    reference = SentenceTransformer(prompted, device="cpu")
    ours = TwinvecEmbeddings(model=prompted)
    np.testing.assert_allclose(ours.embed_query("a text"), reference.encode_query("a text"), atol=1e-5)
    np.testing.assert_allclose(ours.embed_documents(["a text"])[0], reference.encode_document("a text"), atol=1e-5)
    assert not np.allclose(ours.embed_query("a text"), ours.embed_documents(["a text"])[0])


@pytest.mark.parametrize(
    ("fields", "query", "document"),
    [
        ({"query_prompt": "q: ", "document_prompt": ""}, "q: ", ""),
        ({"document_prompt": "d: "}, "find: ", "d: "),
        ({"encode_kwargs": {"prompt": "x: "}}, "x: ", "x: "),
        ({"encode_kwargs": {"prompt_name": "cluster"}}, "group: ", "group: "),
        ({"model_kwargs": {"default_prompt_name": "cluster"}}, "group: ", "group: "),
        (
            {"encode_kwargs": {"batch_size": 2}, "query_encode_kwargs": {"prompt_name": "cluster"}},
            "group: ",
            "passage: ",
        ),
        ({"model_kwargs": {"prompts": {"query": "n: ", "document": "m: "}}}, "n: ", "m: "),
    ],
)
def test_prompts_are_taken_from_the_fields_of_either_class(prompted, fields, query, document) -> None:
    reference = SentenceTransformer(prompted, device="cpu")
    ours = TwinvecEmbeddings(model_name=prompted, **fields)
    np.testing.assert_allclose(ours.embed_query("a text"), reference.encode("a text", prompt=query), atol=1e-5)
    expected = reference.encode("a text", prompt=document)
    np.testing.assert_allclose(ours.embed_documents(["a text"])[0], expected, atol=1e-5)


def test_fields_of_hugging_face_embeddings_mean_the_same(prompted, tmp_path) -> None:
    reference = SentenceTransformer(prompted, device="cpu", truncate_dim=16)
    ours = TwinvecEmbeddings(
        model_name=prompted,
        cache_folder=str(tmp_path),
        model_kwargs={"device": "cpu", "trust_remote_code": False, "token": "hf_x", "local_files_only": True},
        encode_kwargs={
            "normalize_embeddings": True,
            "batch_size": 8,
            "prompt": "",
            "truncate_dim": 16,
            "device": "cpu",
            "convert_to_numpy": True,
        },
        multi_process=False,
        show_progress=False,
    )
    np.testing.assert_allclose(
        ours.embed_documents(MIXED), reference.encode(MIXED, prompt="", normalize_embeddings=True), atol=1e-5
    )


def test_each_side_is_normalised_as_its_own_arguments_say(prompted) -> None:
    reference = SentenceTransformer(prompted, device="cpu")
    ours = TwinvecEmbeddings(
        model_name=prompted,
        encode_kwargs={"normalize_embeddings": True, "prompt": ""},
        query_encode_kwargs={"prompt_name": "query"},
    )
    expected = reference.encode("a text", prompt="", normalize_embeddings=True)
    np.testing.assert_allclose(ours.embed_documents(["a text"])[0], expected, atol=1e-5)
    np.testing.assert_allclose(ours.embed_query("a text"), reference.encode_query("a text"), atol=1e-5)
    assert np.linalg.norm(ours.embed_query("a text")) > 1.5


def test_a_token_is_shown_nowhere(prompted) -> None:
    secret = {"token": "hf_secret"}
    assert "secret" not in repr(TwinvecEmbeddings(model_name=prompted, model_kwargs=secret))
    for fault in ({"encode_kwargs": {"truncate_dim": 0}}, {"modell": 1}, {"model_kwargs": {**secret, "nonsense": 1}}):
        with pytest.raises(ValidationError) as failed:
            TwinvecEmbeddings(model_name=prompted, **{"model_kwargs": secret, **fault})
        assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model_kwargs": {"trust_remote_code": True}}, "trust_remote_code"),
        ({"model_kwargs": {"tokenizer_kwargs": {"padding_side": "left"}}}, "tokenizer_kwargs"),
        (
            {"encode_kwargs": {"truncate_dim": 8}, "query_encode_kwargs": {"prompt": ""}},
            "truncate_dim must be the same",
        ),
        ({"encode_kwargs": {"device": "cpu"}, "query_encode_kwargs": {"device": "cuda"}}, "device must be the same"),
        ({"encode_kwargs": {"output_value": "token_embeddings"}}, "output_value"),
        ({"encode_kwargs": {"prompt_name": "missing"}}, "missing"),
        ({"multi_process": True}, "multi_process"),
        ({"engine": "abacus"}, "abacus"),
        ({"dimensions": 0}, "dim"),
        ({"modell": "default"}, "modell"),
    ],
)
def test_what_cannot_be_honoured_is_named(fields, named) -> None:
    with pytest.raises(ValidationError, match=named):
        TwinvecEmbeddings(**fields)


def test_an_open_encoder_and_settings_for_another_exclude_each_other(encoder) -> None:
    with pytest.raises(ValidationError, match="dim"):
        TwinvecEmbeddings(encoder=encoder, dimensions=8)
    with pytest.raises(ValidationError, match="model"):
        TwinvecEmbeddings(encoder=encoder, model="default")


def test_a_missing_model_is_named(tmp_path) -> None:
    with pytest.raises(ModelNotFoundError, match="nowhere"):
        TwinvecEmbeddings(model=str(tmp_path / "nowhere"))


async def test_awaited_vectors_are_the_same(embeddings) -> None:
    assert await embeddings.aembed_documents(MIXED) == embeddings.embed_documents(MIXED)
    np.testing.assert_allclose(await embeddings.aembed_query("a"), embeddings.embed_query("a"), atol=2e-6)
    assert await embeddings.aembed_documents([]) == embeddings.embed_documents([]) == []


async def test_queries_that_wait_together_are_encoded_together_and_off_the_loop(encoder, monkeypatch) -> None:
    calls = []

    def encode_query(texts):
        calls.append((len(texts), threading.get_ident()))
        return Encoder.encode_query(encoder, texts)

    monkeypatch.setattr(encoder, "encode_query", encode_query)
    embeddings = TwinvecEmbeddings(encoder=encoder)
    rows = await asyncio.gather(*(embeddings.aembed_query(f"question {i}") for i in range(50)))
    assert [count for count, _ in calls] == [50]
    assert calls[0][1] != threading.get_ident()
    np.testing.assert_allclose(rows[7], Encoder.encode_query(encoder, "question 7"), atol=2e-6)


async def test_a_bad_text_is_named_and_hurts_no_other(embeddings) -> None:
    good, bad = await asyncio.gather(
        embeddings.aembed_query("fine"), embeddings.aembed_query("\ud800"), return_exceptions=True
    )
    assert len(good) == 384
    assert isinstance(bad, TextError)
    with pytest.raises(TextError, match="text 1"):
        embeddings.embed_documents(["fine", None])
    with pytest.raises(TextError, match="list of strings"):
        embeddings.embed_documents("one text")


def test_copies_and_pickles_give_the_same_vectors(embeddings) -> None:
    expected = embeddings.embed_query("a text")
    for other in (pickle.loads(pickle.dumps(embeddings)), copy.deepcopy(embeddings), embeddings.model_copy()):
        assert other.embed_query("a text") == expected
        assert asyncio.run(other.aembed_query("a text")) == expected


def test_the_fields_have_a_schema() -> None:
    schema = TwinvecEmbeddings.model_json_schema()
    assert {"model", "query_prompt", "model_kwargs"} <= set(schema["properties"])
    assert "encoder" not in schema["properties"]


def test_settings_are_read_back_from_their_own_dump(prompted) -> None:
    ours = TwinvecEmbeddings(model=prompted, query_prompt="q: ", dimensions=16, normalize=True)
    again = TwinvecEmbeddings(**ours.model_dump())
    assert again.embed_query("a text") == ours.embed_query("a text")
    assert len(again.embed_query("a text")) == 16


def test_the_fields_describe_a_given_encoder(prompted) -> None:
    ours = TwinvecEmbeddings(encoder=Encoder(prompted, dim=16, max_tokens=8, prompts={"query": "q: "}), normalize=True)
    assert ours.model_name == prompted
    again = TwinvecEmbeddings(**ours.model_dump())
    for text in MIXED:
        assert again.embed_query(text) == ours.embed_query(text)
    assert again.embed_documents(MIXED) == ours.embed_documents(MIXED)
    assert again.encoder.space == ours.encoder.space


def test_no_token_is_shown_or_saved(encoder) -> None:
    embeddings = TwinvecEmbeddings(model_kwargs={"token": "hf_secret", "device": "cpu"})
    for shown in (repr(embeddings), str(embeddings.model_dump()), embeddings.model_dump_json()):
        assert "hf_secret" not in shown
    assert embeddings.model_dump()["model_kwargs"] == {"device": "cpu"}
