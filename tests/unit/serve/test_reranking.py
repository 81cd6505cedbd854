"""The routes of reranking: what Cohere's and Jina's clients send and read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from twinvec import CrossEncoderReranker
from twinvec_serve import ServeSettings, create_app

QUERY = "two files"
TEXTS = ["How do I compare two files?", "", "the quick brown fox", "two men walked on the moon"]
PATHS = ("/v1/rerank", "/v2/rerank")
AS_JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def client(tiny_model, tiny_cross_encoder, tmp_path_factory) -> Iterator[TestClient]:
    settings = ServeSettings(
        models={"small": str(tiny_model("bert"))},
        rerankers={"owner/cross": str(tiny_cross_encoder("bert"))},
        path=tmp_path_factory.mktemp("store"),
        max_texts=8,
        max_text_chars=100,
    )
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.fixture(scope="module")
def expected(tiny_cross_encoder) -> list[float]:
    return CrossEncoderReranker(tiny_cross_encoder("bert")).score([(QUERY, text) for text in TEXTS]).tolist()


def results(answer) -> list[tuple[int, float]]:
    assert answer.status_code == 200, answer.text
    return [(each["index"], each["relevance_score"]) for each in answer.json()["results"]]


@pytest.mark.parametrize("path", PATHS)
def test_documents_come_in_the_order_of_their_relevance(client, path, expected) -> None:
    answer = client.post(path, json={"model": "owner/cross", "query": QUERY, "documents": TEXTS, "unknown": 1})
    found = results(answer)
    assert [index for index, _ in found] == sorted(range(4), key=lambda index: -expected[index])
    assert [score for _, score in found] == pytest.approx(sorted(expected, reverse=True), rel=1e-5)
    body = answer.json()
    assert (body["model"], body["object"]) == ("owner/cross", "list")
    assert body["meta"]["api_version"]["version"] == path[2]
    assert body["usage"]["total_tokens"] > 0
    assert "document" not in body["results"][0]
    assert answer.headers["twinvec-truncated"] == "0"
    long = {"model": "owner/cross", "query": QUERY, "documents": ["a", "1,2;" * 25]}
    assert client.post(path, json=long).headers["twinvec-truncated"] == "1"


OTHERS = {
    "max_chunks_per_doc": 10,
    "max_tokens_per_doc": 4096,
    "priority": 1,
    "truncation": True,
    "truncate": "END",
    "truncate_prompt_tokens": 512,
    "max_query_length": 512,
    "overlap_tokens": 80,
    "raw_scores": False,
    "return_text": True,
    "return_embeddings": False,
    "return_input": True,
    "instruction": "find files",
    "score_threshold": 0.1,
    "user": "me",
    "client_name": "me",
    "topk": None,
    "mode": "fast",
    "model_id": "other",
    "query_id": "q1",
    "document": "a",
    "documents_format": "text",
}


@pytest.mark.parametrize("path", PATHS)
def test_fields_of_other_services_are_ignored(client, path) -> None:
    given = {"query": QUERY, "documents": TEXTS}
    assert results(client.post(path, json=given | OTHERS)) == results(client.post(path, json=given))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("top_m", "top_n"),
        ("top_k", "top_n"),
        ("topN", "top_n"),
        ("top", "top_n"),
        ("return_document", "return_documents"),
        ("returnDocuments", "return_documents"),
        ("rank_field", "rank_fields"),
        ("modle", "model"),
        ("models", "model"),
    ],
)
def test_a_typo_is_refused_and_its_field_named(client, path, name, meant) -> None:
    answer = client.post(path, json={"query": QUERY, "documents": TEXTS, name: 1})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["message"], error["param"]) == (f"{name}: is not known; did you mean {meant}?", name)


def test_a_typo_of_a_field_that_is_missing_is_refused(client) -> None:
    for name, meant in (("document", "documents"), ("querry", "query")):
        given = {"query": QUERY, "documents": TEXTS, name: TEXTS}
        del given[meant]
        answer = client.post("/v1/rerank", json=given)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
    both = client.post("/v1/rerank", json={"query": QUERY, "documents": TEXTS, "top_n": 1, "top_k": 3})
    assert len(results(both)) == 1


def test_the_default_is_the_cross_encoder_and_maxsim_is_there_too(client) -> None:
    given = {"query": QUERY, "documents": TEXTS}
    assert client.post("/v1/rerank", json=given).json()["model"] == "owner/cross"
    found = results(client.post("/v1/rerank", json=given | {"model": "maxsim"}))
    assert sorted(index for index, _ in found) == [0, 1, 2, 3]
    assert all(0 <= score <= 1 for _, score in found)


def test_top_n_and_documents_are_returned_when_asked_for(client) -> None:
    given = {"query": QUERY, "documents": [*TEXTS[:2], {"text": TEXTS[2], "id": 7}, TEXTS[3]]}
    whole = results(client.post("/v1/rerank", json=given))
    answer = client.post("/v1/rerank", json=given | {"top_n": 3, "return_documents": True})
    assert results(answer) == whole[:3]
    for each in answer.json()["results"]:
        assert each["document"]["text"] == TEXTS[each["index"]]
        assert each["document"].get("id") == (7 if each["index"] == 2 else None)
    assert results(client.post("/v1/rerank", json=given | {"top_n": 100})) == whole


def test_objects_are_compared_by_the_fields_asked_for(client) -> None:
    documents = [{"title": "two", "body": "files", "text": "moon"}, {"title": "the quick", "body": "brown fox"}]
    by_fields = {"query": QUERY, "documents": documents, "rank_fields": ["title", "body"]}
    as_texts = {"query": QUERY, "documents": ["two\nfiles", "the quick\nbrown fox"]}
    assert results(client.post("/v2/rerank", json=by_fields)) == results(client.post("/v2/rerank", json=as_texts))
    answer = client.post("/v2/rerank", json={"query": QUERY, "documents": documents})
    assert answer.status_code == 400
    assert "document 1 is an object without texts in 'text'" in answer.json()["error"]["message"]


def test_documents_come_back_as_they_were_sent(client) -> None:
    documents = [{"text": "the real body", "title": "two files", "note": None, "tags": [None, {"a": None}]}, "a text"]
    given = {"query": QUERY, "documents": documents, "rank_fields": ["title"], "return_documents": True}
    answer = client.post("/v1/rerank", json=given).json()
    assert {each["index"]: each["document"] for each in answer["results"]} == {0: documents[0], 1: {"text": "a text"}}
    untitled = [{"title": "two", "body": "files"}]
    answer = client.post("/v2/rerank", json=given | {"documents": untitled}).json()
    assert answer["results"][0]["document"] == untitled[0]


@pytest.mark.parametrize("note", ['"\\ud800"', '{"\\ud800": 1}', "[" * 300 + "]" * 300], ids=["value", "key", "deep"])
def test_a_document_that_no_answer_can_hold_is_named(client, note) -> None:
    documents = f'["a text", {{"text": "a", "note": {note}}}]'
    body = f'{{"query": "x", "documents": {documents}, "return_documents": %s}}'
    answer = client.post("/v1/rerank", content=body % "true", headers=AS_JSON)
    assert answer.status_code == 400
    assert "document 1 cannot be returned" in answer.json()["error"]["message"]
    assert len(results(client.post("/v1/rerank", content=body % "false", headers=AS_JSON))) == 2


@pytest.mark.parametrize(
    ("change", "status", "param", "word"),
    [
        ({"model": "small"}, 404, "model", "owner/cross, maxsim"),
        ({"documents": []}, 400, "documents", "at least 1"),
        ({"documents": ["a"] * 9}, 400, "documents", "more than the limit of 8"),
        ({"documents": ["a", "b" * 101]}, 400, "documents", "text 1"),
        ({"query": "b" * 101}, 400, "query", "text 0"),
        ({"query": None}, 400, "query", "string"),
        ({"query": ""}, 400, "query", "is empty"),
        ({"query": " \n"}, 400, "query", "is empty"),
        ({"top_n": 0}, 400, "top_n", "1"),
        ({"documents": [{"text": 3}]}, 400, "documents", "document 0"),
        ({"documents": ["a", 3]}, 400, "documents.1", "documents.1: expected a text or an object"),
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_what_is_wrong_is_named(client, path, change, status, param, word) -> None:
    answer = client.post(path, json={"query": QUERY, "documents": TEXTS} | change)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param)
    assert word in error["message"]
