"""The routes of embeddings: what OpenAI's clients send and read."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator

import numpy as np
import pytest
from fastapi.testclient import TestClient

from twinvec import Encoder
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.direct_route import DirectRoute
from twinvec_serve.routes import embeddings

JSON = {"Content-Type": "application/json"}
TEXTS = ["How do I compare two files?", "", "Größe 日本語 🚀", "the quick brown fox"]


@pytest.fixture(scope="module")
def client(prompted, tiny_model, tmp_path_factory) -> Iterator[TestClient]:
    models = {"small": prompted, "owner/other": str(tiny_model("bert"))}
    settings = ServeSettings(models=models, path=tmp_path_factory.mktemp("store"), max_texts=8, max_text_chars=100)
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.fixture(scope="module")
def small_bodies(prompted, tmp_path_factory) -> Iterator[TestClient]:
    path = tmp_path_factory.mktemp("store")
    with TestClient(create_app(ServeSettings(models={"small": prompted}, path=path, max_body_bytes=1000))) as client:
        yield client


@pytest.fixture(scope="module")
def encoder(prompted) -> Encoder:
    return Encoder(prompted)


def vectors(answer) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["object"] == "list"
    assert [(each["object"], each["index"]) for each in body["data"]] == [
        ("embedding", index) for index in range(len(body["data"]))
    ]
    rows = [each["embedding"] for each in body["data"]]
    if isinstance(rows[0], str):
        return np.array([np.frombuffer(base64.b64decode(row), "<f4") for row in rows])
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize("encoding", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}])
@pytest.mark.parametrize("kind", [None, "document", "query"])
def test_vectors_are_those_of_the_encoder_in_both_formats(client, encoder, encoding, kind) -> None:
    given = {"input": TEXTS, "model": "small"} | encoding | ({} if kind is None else {"input_type": kind})
    found = vectors(client.post("/v1/embeddings", json=given))
    np.testing.assert_allclose(found, encoder.encode(TEXTS, prompt=kind or "document"), rtol=1e-5, atol=1e-6)


def test_both_formats_give_the_same_bits(client) -> None:
    given = {"input": TEXTS, "model": "small"}
    numbers = vectors(client.post("/v1/embeddings", json=given))
    packed = vectors(client.post("/v1/embeddings", json=given | {"encoding_format": "base64"}))
    assert numbers.tobytes() == packed.tobytes()


def test_one_text_is_a_list_of_one_and_the_first_model_is_the_default(client, encoder) -> None:
    answer = client.post("/v1/embeddings", json={"input": TEXTS[0], "user": "somebody", "unknown": {"a": 1}})
    np.testing.assert_allclose(vectors(answer)[0], encoder.encode_document(TEXTS[0]), rtol=1e-5, atol=1e-6)
    tokens = encoder.count_tokens([encoder.document_prompt + TEXTS[0]]).sum()
    assert answer.json()["model"] == "small"
    assert answer.json()["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("dimension", 5, "dimensions"),
        ("Dimensions", 5, "dimensions"),
        ("inputType", "query", "input_type"),
        ("input-type", "query", "input_type"),
        ("encodingFormat", "base64", "encoding_format"),
        ("modle", "owner/other", "model"),
        ("model\ud800", "owner/other", "model"),
    ],
)
def test_a_typo_of_a_name_is_refused(client, name, value, meant) -> None:
    answer = client.post("/v1/embeddings", content=json.dumps({"input": TEXTS, name: value}), headers=JSON)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["message"], error["param"]) == (f"{name}: is not known; did you mean {meant}?", name)
    without = client.post("/v1/embeddings", content=json.dumps({"input": TEXTS, name: None}), headers=JSON)
    assert without.status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        "truncate",
        "truncation",
        "truncate_prompt_tokens",
        "late_chunking",
        "task",
        "normalized",
        "normalize",
        "embedding_type",
        "embedding_types",
        "prompt",
        "prompt_name",
        "priority",
        "add_special_tokens",
        "output_dimension",
        "output_dtype",
        "metadata",
        "timeout",
        "instruction",
        "dims",
        "encoding",
        "input_text",
        "query_input_type",
        "user_id",
        "users",
        "extra_body",
        "request_id",
        "cache",
    ],
)
def test_fields_of_other_services_are_ignored(client, name) -> None:
    assert client.post("/v1/embeddings", json={"input": TEXTS, name: "any"}).status_code == 200


def test_dimensions_truncate(client, tiny_model) -> None:
    given = {"input": TEXTS, "model": "owner/other", "dimensions": 5}
    found = vectors(client.post("/v1/embeddings", json=given))
    expected = Encoder(tiny_model("bert"), dim=5).encode_document(TEXTS)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("tokens", [[3, 4], [[3, 4], [5]]])
def test_token_ids_get_the_name_of_the_setting_that_sends_texts(client, tokens) -> None:
    answer = client.post("/v1/embeddings", json={"input": tokens, "model": "small"})
    assert answer.status_code == 400
    assert "check_embedding_ctx_length=False" in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == "input"


@pytest.mark.parametrize(
    ("change", "status", "param", "word"),
    [
        ({"model": "none"}, 404, "model", "small, owner/other"),
        ({"input": []}, 400, "input", "at least 1 item"),
        ({"input": None}, 400, "input", "list"),
        ({"input": ["a", 3]}, 400, "input.1", "string"),
        ({"input": ["a"] * 9}, 400, "input", "more than the limit of 8"),
        ({"input": ["a", "b" * 101]}, 400, "input", "text 1 has 101 characters"),
        ({"dimensions": 0}, 400, "dimensions", "1"),
        ({"dimensions": 33}, 400, "dimensions", "between 1 and 32"),
        ({"dimensions": 2.5}, 400, "dimensions", "integer"),
        ({"encoding_format": "hex"}, 400, "encoding_format", "base64"),
        ({"input_type": "title"}, 400, "input_type", "query"),
    ],
)
def test_what_is_wrong_is_named(client, change, status, param, word) -> None:
    answer = client.post("/v1/embeddings", json={"input": "a", "model": "small"} | change)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param)
    assert word in error["message"]


@pytest.mark.parametrize("body", [b'{"input": "\\ud800"}', b"{", b"\xff", b"[]", b'"text"', b'{"input": "\\u0000"}'])
def test_rubbish_is_refused_or_embedded(client, body) -> None:
    answer = client.post("/v1/embeddings", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == (200 if b"u0000" in body else 400)


def test_models_are_listed_and_described(client) -> None:
    body = client.get("/v1/models").json()
    assert body["object"] == "list"
    assert [(each["id"], each["type"], each["dimensions"]) for each in body["data"]] == [
        ("small", "embedding", 32),
        ("owner/other", "embedding", 32),
        ("maxsim", "reranking", None),
    ]
    first, _, maxsim = (each["max_tokens"] for each in body["data"])
    assert maxsim == first > 0
    for each in body["data"]:
        assert client.get(f"/v1/models/{each['id']}").json() == each
        assert (each["object"], each["owned_by"]) == ("model", "twinvec")
        assert each["created"] > 1_700_000_000
    answer = client.get("/v1/models/none")
    assert answer.status_code == 404
    assert "small, owner/other, maxsim" in answer.json()["error"]["message"]


def test_every_field_is_described(client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    names = {name for name in schemas if name.startswith(("Embedding", "Rerank", "Ranked", "ServedModel", "Models"))}
    assert len(names) > 10
    for name in names:
        for field, schema in schemas[name]["properties"].items():
            assert schema.get("description", "").endswith("."), f"{name}.{field}"
    assert schemas["EmbeddingsRequest"]["properties"]["input"]["anyOf"][0] == {"type": "string"}


def test_keys_are_asked_for(prompted, tmp_path) -> None:
    settings = ServeSettings(models={"small": prompted}, path=tmp_path, read_keys=("r",))
    with TestClient(create_app(settings)) as client:
        for path in ("/v1/embeddings", "/v1/rerank", "/v2/rerank"):
            assert client.post(path, json={"input": "a", "query": "a", "documents": ["a"]}).status_code == 401
        keyed = {"Authorization": "Bearer r"}
        assert client.post("/v1/embeddings", json={"input": "a"}, headers=keyed).status_code == 200
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers=keyed).status_code == 200


BODIES = [
    (b"{", "application/json"),
    (b"\xff", "application/json"),
    (b"[" * 100_000, "application/json"),
    (b"[]", "application/vnd.twinvec+json; charset=utf-8"),
    (b'{"input": "a", "query": "a", "documents": ["a"]}', "text/plain"),
    (b'{"input": "a", "query": "a", "documents": ["a"]}', ""),
    (b"", "application/json"),
    (b"null", "application/json"),
]


@pytest.mark.parametrize(("body", "kind"), BODIES)
def test_a_body_that_is_no_request_gets_the_same_answer_as_on_other_routes(client, body, kind) -> None:
    headers = {"Content-Type": kind} if kind else {}
    found, expected = (client.post(path, content=body, headers=headers) for path in ("/v1/embeddings", "/v1/rerank"))
    assert (found.status_code, found.json()) == (expected.status_code, expected.json())
    assert found.status_code == 400
    assert found.json()["error"]["message"].startswith("the body ")


def test_a_client_that_goes_away_while_it_sends_gets_the_same_answer_as_on_other_routes(client) -> None:
    def answered(path: str) -> int:
        sent: list[dict] = []

        async def receive() -> dict:
            return {"type": "http.disconnect"}

        async def send(message: dict) -> None:
            sent.append(message)

        headers = [(b"host", b"testserver"), (b"content-type", b"application/json"), (b"content-length", b"10")]
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": headers, "root_path": "", "scheme": "http", "http_version": "1.1"}
        scope |= {"server": ("testserver", 80), "client": ("127.0.0.1", 1)}
        asyncio.run(client.app(scope, receive, send))
        return next(each["status"] for each in sent if each["type"] == "http.response.start")

    assert answered("/v1/embeddings") == answered("/v1/rerank") == 400


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/rerank"])
def test_a_long_body_of_unknown_length_is_refused_on_every_route(small_bodies, path) -> None:
    parts = (b" " * 100 for _ in range(20))
    answer = small_bodies.post(path, content=parts, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_another_method_is_refused(client) -> None:
    answer = client.get("/v1/embeddings")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_a_request_that_may_not_read_gets_no_vectors(client) -> None:
    async def without_rights(scope, receive, send) -> None:
        scope |= {"twinvec.rights": frozenset(), "app": client.app}
        await DirectRoute(route)(scope, receive, send)

    route = next(each for each in embeddings.router.routes if each.path == "/v1/embeddings")
    answer = TestClient(without_rights).post("/v1/embeddings", json={"input": "a"})
    assert answer.status_code == 403
    assert "may not read" in answer.json()["error"]["message"]


def test_the_description_has_the_form_of_the_request(client) -> None:
    embed = client.get("/openapi.json").json()["paths"]["/v1/embeddings"]["post"]
    assert embed["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/EmbeddingsRequest")
    assert embed["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/EmbeddingsAnswer")
