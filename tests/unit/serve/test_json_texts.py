"""JSON bodies: parsed off the event loop, in steps, and with the same results and errors."""

from __future__ import annotations

import json
import threading

import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from twinvec.errors import DocumentError
from twinvec.retrieval.documents import parse_json
from twinvec_serve import ServeSettings, create_app, json_texts
from twinvec_serve.collections.reading import ndjson_pages, plain_line
from twinvec_serve.json_texts import SteppedDecoder, decoder_for, parsed_body

MANY = b"[" + b",".join([b"[]"] * 30_000) + b"]"


def padded(text: bytes) -> bytes:
    """Return a JSON text that is long enough for a thread."""
    return text + b" " * (json_texts.SMALL_BYTES + 1)


@pytest.mark.parametrize(
    "text",
    [b'{"a": [1, 2.5, "x", [null, true, {"b": []}]]}', b"[[], [[]]]", b'"text"', b"[", b"[1,]", b'["\xff"]', b"[1] 2"],
)
async def test_the_stepped_decoder_reads_what_pythons_reads(text):
    outcomes = []
    for decoder in (json.JSONDecoder, SteppedDecoder):
        try:
            outcomes.append(json.loads(text, cls=decoder))
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_too_many_lists_are_refused(monkeypatch):
    assert decoder_for(MANY) is SteppedDecoder
    assert decoder_for(b'["a"]') is json.JSONDecoder
    assert decoder_for(b"[" + b"1," * 200_000 + b"1]") is SteppedDecoder, "a flat list holds up other threads too"
    assert len(parse_json(MANY, decoder=SteppedDecoder)) == 30_000
    monkeypatch.setattr(json_texts, "MOST_LISTS", 30_000)
    with pytest.raises(DocumentError, match="too large: it has more than 30,000 lists; send it in parts"):
        parse_json(MANY, decoder=SteppedDecoder)


async def test_a_large_body_is_parsed_in_a_thread(monkeypatch):
    threads = []

    def noting(value):
        threads.append(threading.get_ident())
        return value

    monkeypatch.setattr(json_texts, "itself", noting)
    for body in (b'{"a": 1}', padded(b'{"a": 1}'), padded(b'{"a": ' + MANY + b"}")):
        assert list(await parsed_body(body)) == ["a"]
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_a_long_line_is_parsed_in_a_thread(monkeypatch):
    threads = []

    def noting(value, number):
        threads.append(threading.get_ident())
        return plain_line(value, number)

    async def body():
        yield padded(b'{"id": "a", "text": "tea"}') * 2 + b"\n"
        yield b'{"id": "b", "text": "tea"}\n'

    pages = [page async for page in ndjson_pages(body(), 10_000_000, noting)]
    assert [type(each).__name__ for page in pages for each in page] == ["Failure", "dict"]
    pages = [page async for page in ndjson_pages(padded_lines(), 10_000_000, noting)]
    assert [each["id"] for page in pages for each in page] == ["a"]
    assert threads[0] == threading.get_ident() != threads[1]


async def padded_lines():
    yield padded(padded(b'{"id": "a", "text": "tea"}'))


async def test_bodies_with_too_much_are_refused(monkeypatch):
    fields = {f"field {number}": 1 for number in range(5000)}
    with pytest.raises(HTTPException, match="the body has 5,000 fields, and the limit is 1,000"):
        await parsed_body(json.dumps(fields).encode())
    monkeypatch.setattr(json_texts, "MOST_LISTS", 3)
    with pytest.raises(HTTPException, match="the body is too large: it has more than 3 lists"):
        await parsed_body(padded(MANY))
    assert await parsed_body(padded(b'{"input": ["a", "b", "c"]}')) == {"input": ["a", "b", "c"]}
    with pytest.raises(HTTPException, match="the body has a list of 4 items, and the limit is 3; send it in parts"):
        await parsed_body(padded(b'{"input": ["a", "b", "c", "d"]}'))


@pytest.fixture(scope="module")
def client(tiny_model, tmp_path_factory):
    settings = ServeSettings(models={"tiny": str(tiny_model("bert"))}, path=tmp_path_factory.mktemp("store"))
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "field", "given"),
    [
        ("/v1/embeddings", "input", {}),
        ("/v1/rerank", "documents", {"query": "a"}),
        ("/v1/search", "query", {}),
        ("/v1/collections/docs/documents/get", "ids", {}),
    ],
)
def test_of_many_wrong_items_the_first_is_named(client, path, field, given):
    answer = client.post(path, json={**given, field: ["a", *[[]] * 30_000]})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message.startswith(f"{field}.1")
    assert f"{field}.2" not in message
