"""The routes of collections: list, describe, create, search; what they find is what ``Collection.search`` finds."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import threading
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError
from qdrant_client.models import StrictModeConfig

from stand_in import StandIn
from twinvec import Encoder
from twinvec_qdrant import Asked, Collection, drop_collection, search_as_asked
from twinvec_qdrant.serving.names import can_be_served
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections import open_collections
from twinvec_serve.errors import Overloaded
from twinvec_serve.routes.collection_forms import NewCollection
from unit.serve.waiting import until

DOCUMENTS = [
    {"id": "tls.md", "text": "A certificate is renewed two weeks before it ends.", "lang": "en", "year": 2024},
    {"id": "pay.md", "text": "Late fees are charged after thirty days.", "lang": "en", "year": 2020},
    {"id": "zert.md", "text": "Ein Zertifikat wird erneuert.", "lang": "de", "year": 2024},
    *({"id": f"n{row}", "text": f"Number {row} of many certificates.", "lang": "en"} for row in range(4)),
]


@pytest.fixture(scope="module")
def served(tiny_model, tmp_path_factory):
    """A client of a running server that has the collection "docs"."""
    model = str(tiny_model("bert"))
    settings = ServeSettings(path=tmp_path_factory.mktemp("store"), models={"tiny": model})
    with TestClient(create_app(settings), base_url="http://127.0.0.1:6380") as client:
        assert client.post("/v1/collections", json={"name": "docs", "chunking": False}).status_code == 201
        report = client.post("/v1/collections/docs/documents", json={"documents": DOCUMENTS}).json()
        assert report["new"] == len(DOCUMENTS)
        yield client


@pytest.fixture(scope="module")
def opened(served):
    """The collection that the server has open: this process may open it too."""
    settings = served.app.state.services.settings
    with Collection.open("docs", settings.path, encoder=Encoder(settings.models["tiny"]), create=False) as found:
        yield found


def hits(served, path="/v1/collections/docs/search", **body):
    answer = served.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["hits"]


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({}, Asked(syntax=False)),
        ({"mode": "dense", "limit": 2}, Asked("dense", limit=2, syntax=False)),
        ({"mode": "sparse"}, Asked("sparse", syntax=False)),
        ({"filter": {"lang": "de"}}, Asked(filter={"lang": "de"}, syntax=False)),
        ({"offset": 2, "limit": 2}, Asked(offset=2, limit=2, syntax=False)),
        ({"group": False}, Asked(chunks=True, syntax=False)),
        ({"rerank": "maxsim"}, Asked(rerank="maxsim", syntax=False)),
        (
            {"words": ["fees"], "answers": "after thirty days"},
            Asked(phrasings={"words": ["fees"], "answers": ["after thirty days"]}, syntax=False),
        ),
        ({"syntax": True}, Asked()),
        ({"passages": "words"}, Asked(passages="words", syntax=False)),
        ({"passages": "states"}, Asked(passages="states", syntax=False)),
    ],
)
def test_a_search_finds_what_the_collection_finds(served, opened, body, asked):
    query = 'certificate -fees "renewed"'
    (expected,) = search_as_asked(opened, [query], asked)
    found = hits(served, query=query, **body)
    assert found == json.loads(json.dumps([each.as_fields() for each in expected.hits]))
    assert found or body.get("syntax")


def test_several_queries_are_answered_in_order(served):
    queries = ["late fees", "a certificate", "nothing of this"]
    answer = served.post("/v1/collections/docs/search", json={"query": queries, "mode": "sparse"}).json()
    assert [each["query"] for each in answer["results"]] == queries
    assert answer["results"][0]["hits"][0]["id"] == "pay.md"
    assert answer["collections"] == ["docs"]
    assert all(each["seconds"] > 0 and each["rerank_seconds"] is None for each in answer["results"])


def test_a_query_that_is_an_id_names_its_document(served):
    answer = served.post("/v1/search", json={"query": ["pay.md", "late fees", "none.md"]}).json()
    assert [each["named"] for each in answer["results"]] == [["pay.md"], [], []]


def test_all_collections_are_searched_and_named(served):
    assert served.post("/v1/collections", json={"name": "more", "chunking": False}).status_code == 201
    documents = [{"id": "other.md", "text": "Another certificate, in another collection."}]
    assert served.post("/v1/collections/more/documents", json=documents).json()["new"] == 1
    found = hits(served, "/v1/search", query="certificate", limit=20)
    assert {each["collection"] for each in found} == {"docs", "more"}
    assert [each["id"] for each in hits(served, "/v1/search", query="certificate", limit=3, offset=2)] == [
        each["id"] for each in found[2:5]
    ]
    listed = {each["name"]: each for each in served.get("/v1/collections").json()["data"]}
    assert listed["docs"]["documents"] == len(DOCUMENTS)
    assert listed["more"] | {"chunks": 1, "documents": 1, "descriptions": {}} == listed["more"]


def test_some_collections_are_searched_by_name(served):
    for name in ("one", "two", "three"):
        assert served.post("/v1/collections", json={"name": name, "chunking": False}).status_code == 201
        document = {"id": f"{name}.md", "text": f"The certificate of {name}."}
        assert served.post(f"/v1/collections/{name}/documents", json=[document]).json()["new"] == 1
    answer = served.post("/v1/search", json={"query": "certificate", "collections": ["two", "one", "two"]}).json()
    assert answer["collections"] == ["two", "one"]
    assert {each["id"]: each["collection"] for each in answer["results"][0]["hits"]} == {
        "one.md": "one",
        "two.md": "two",
    }
    (hit,) = hits(served, "/v1/search", query="certificate", collections=["three"])
    assert (hit["id"], hit["collection"]) == ("three.md", "three")
    assert hits(served, "/v1/search", query="certificate", collections=["one", "two"], limit=1, offset=1)


def counted(served):
    """The tokens and the texts of batches that the metrics have counted."""
    text = served.get("/metrics").text
    names = ("tokens_total", "batch_texts_sum", "batch_tokens_sum")
    return [float(re.search(rf"^twinvec_{name}(?:{{.*}})? (.*)$", text, re.MULTILINE)[1]) for name in names]


def test_queries_of_searches_are_counted_by_the_metrics(served):
    queries = ["when is a certificate renewed", "late fees"]
    served.post("/v1/embeddings", json={"input": "a text"})
    before = counted(served)
    assert served.post("/v1/collections/docs/search", json={"query": queries, "mode": "dense"}).status_code == 200
    settings = served.app.state.services.settings
    tokens = int(Encoder(settings.models["tiny"]).count_tokens(queries).sum())
    assert [now - then for now, then in zip(counted(served), before, strict=True)] == [tokens, 2, tokens]


def test_a_collection_is_described_as_info_does(served, opened):
    info = opened.info()
    del info["location"]  # only for commands: see test_store_place.py
    assert served.get("/v1/collections/docs").json() == json.loads(json.dumps(info))


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", " a", "a\n", "a" * 201, "a b", "ä?#%", ".a", "a" * 200])
def test_the_server_and_the_commands_agree_on_names(name):
    try:
        NewCollection(name=name)
    except ValidationError:
        assert not can_be_served(name)
    else:
        assert can_be_served(name)


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("/v1/collections/none/search", {"query": "a"}, 404, "no collection 'none'; there are: docs"),
        (
            "/v1/collections/docs/search",
            {"query": "a", "rerank": "big"},
            404,
            "unknown reranker 'big'; this server has",
        ),
        ("/v1/collections/docs/search", {"query": "a", "filter": {"year": {"foo": 3}}}, 400, "foo"),
        ("/v1/collections/docs/search", {"query": "a", "limit": 0}, 400, "limit"),
        ("/v1/collections/docs/search", {"query": "a", "limt": 3}, 400, "limt"),
        ("/v1/collections/docs/search", {"query": []}, 400, "query"),
        ("/v1/collections/docs/search", {"query": ""}, 400, "query: is empty; expected words to look for"),
        ("/v1/collections/docs/search", {"query": ["a", " \n"]}, 400, "query: number 2 is empty"),
        ("/v1/search", {"query": " "}, 400, "query: is empty"),
        ("/v1/search", {"query": "a", "collections": ["docs", "non"]}, 404, "no collection 'non'; there are: docs"),
        ("/v1/search", {"query": "a", "collections": [""]}, 404, "no collection ''; there are: docs"),
        ("/v1/search", {"query": "a", "collections": []}, 400, "collections: should have at least 1 item"),
        ("/v1/search", {"query": "a", "collections": "docs"}, 400, "collections: should be a valid list"),
        ("/v1/collections/docs/search", {"query": "a", "collections": ["docs"]}, 400, "collections: is not known"),
        ("/v1/collections/docs/search", {"query": "a" * 2_000_000}, 400, "query"),
        ("/v1/collections/docs/search", {"query": "-a", "syntax": True}, 400, "has only exclusions"),
        ("/v1/collections/docs/search", {"query": "a", "min_relevance": 0.5}, 400, "not calibrated"),
        ("/v1/collections", {"name": "docs"}, 409, "already"),
        ("/v1/collections", {"name": "a/b"}, 400, "name"),
        ("/v1/collections", {"name": ".."}, 400, "name"),
        ("/v1/collections", {"name": "new", "model": "/etc"}, 404, "unknown model '/etc'"),
        ("/v1/collections", {"name": "new", "language": "klingon"}, 400, "klingon"),
        (
            "/v1/collections",
            {"name": "new", "payload_indexes": {"a": 1}},
            400,
            "expected the type of an index, or false",
        ),
        ("/v1/collections", {"name": "new", "chunking": False, "overlap": 3}, 400, "chunking"),
        ("/v1/collections", {"name": "docs", "exists_ok": True, "overlap": 3}, 400, "chunk"),
        ("/v1/collections", {"name": "docs", "exists_ok": True, "language": "german"}, 400, "leave language out"),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(served, path, body, status, told):
    answer = served.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert told in answer.json()["error"]["message"]
    assert "Traceback" not in answer.text


def test_a_collection_that_exists_can_be_taken(served):
    body = {"name": "docs", "exists_ok": True, "keep_model": True, "model": "tiny"}
    assert served.post("/v1/collections", json=body).status_code == 200
    assert served.get("/v1/collections/docs").json()["sources"] == len(DOCUMENTS)


def test_a_model_may_be_named_as_it_is_served(served):
    model = served.app.state.services.settings.models["tiny"]
    assert served.post("/v1/collections", json={"name": "named", "model": model}).status_code == 201


JSON_PATHS = ["/v1/collections/docs/search", "/v1/embeddings", "/v1/collections/docs/documents"]


def refusal(served, path, body):
    """The error of a request whose body, which may not be JSON, is refused."""
    answer = served.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    return answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("{", "line 1 column 2"),
        ('{"query": }', "line 1 column 11"),
        ("query=a", "line 1 column 1"),
        ('{\n "query": "ä}', "line 2 column 11"),
    ],
)
@pytest.mark.parametrize("path", JSON_PATHS)
def test_a_body_that_is_not_json_has_no_parameter(served, path, body, place):
    error = refusal(served, path, body)
    assert error["param"] is None
    assert error["message"].startswith("the body is not JSON: ")
    assert place in error["message"]


@pytest.mark.parametrize("path", JSON_PATHS)
def test_an_empty_body_is_said_to_be_empty(served, path):
    assert re.match("the body is empty( or null)?; send ", refusal(served, path, "")["message"])


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/embeddings", {"input": 5}, "input: expected a text or a list of texts"),
        ("/v1/embeddings", {"input": None}, "input: expected a text or a list of texts"),
        ("/v1/embeddings", {"input": ["a", 5]}, "input.1: should be a valid string"),
        ("/v1/embeddings", {"input": []}, "input: should have at least 1 item, not 0"),
        ("/v1/embeddings", {}, "input: is missing"),
        ("/v1/search", {"query": {}}, "query: expected a text or a list of texts"),
        ("/v1/search", {"query": "a", "words": 1}, "words: expected a text or a list of texts"),
        ("/v1/search", {"query": "a", "limit": "ten"}, "limit: should be a valid integer"),
        ("/v1/search", {"query": "a", "limt": 3}, "limt: is not known; leave it out"),
        ("/v1/search", [], "the body is not a JSON object; send a JSON object"),
        ("/v1/search", None, "the body is empty or null; send a JSON object"),
    ],
)
def test_a_parameter_that_is_wrong_is_named_in_plain_words(served, path, body, told):
    assert refusal(served, path, json.dumps(body))["message"].startswith(told)


@pytest.mark.parametrize("path", ["/v1/search", "/v1/embeddings", "/v2/rerank"])
@pytest.mark.parametrize("headers", [{"Content-Type": "text/plain"}, {}])
def test_a_header_that_hides_the_json_is_told(served, path, headers):
    answer = served.post(path, content=b'{"input": "a text", "query": "a text"}', headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(
        "the body was not read, because the request lacks the header Content-Type"
    )


@pytest.mark.parametrize("path", ["/v1/search", "/v1/embeddings", "/v2/rerank"])
def test_a_body_with_a_number_of_too_many_digits_is_told_so(served, path):
    body = '{"dimensions": ' + "1" * 10_000 + "}"
    error = refusal(served, path, body)
    assert error["message"].endswith("or has a number of too many digits")
    assert error["code"] == "invalid_request"


def test_a_query_parameter_that_is_not_known_is_refused(served):
    path = "/v1/collections/docs/documents?prune=true&dryrun=true"
    answer = served.post(path, json=[{"id": "other", "text": "b"}])
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "dryrun: is not known; leave it out"
    assert answer.json()["error"]["param"] == "dryrun"
    assert served.get("/v1/collections/docs").json()["sources"] == len(DOCUMENTS)
    for method, path in (
        ("GET", "/v1/collections"),
        ("GET", "/v1/collections/docs"),
        ("POST", "/v1/search"),
        ("POST", "/v1/collections/docs/documents/delete"),
    ):
        answer = served.request(method, f"{path}?b=1&a=", json={"query": "a"} if method == "POST" else None)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith("a: is not known; leave it out; b: is not known")
    assert served.post("/v1/embeddings?a=1", json={"input": "a"}).status_code == 200, "others' clients may add some"


async def test_more_searches_than_the_queue_holds_are_turned_away(served):
    collections = served.app.state.services.collections
    most = collections._settings.queue_size
    collections._waiting = most
    try:
        with pytest.raises(Overloaded):
            await collections.search("docs", ["a"], Asked())
    finally:
        collections._waiting = 0


@asynccontextmanager
async def filled(model, folder):
    """The collections of a running server. The collection "docs" exists and is not open yet."""
    with Collection.open("docs", folder, encoder=Encoder(model), chunking=False) as made:
        made.ingest(DOCUMENTS)
    app = create_app(ServeSettings(path=folder, models={"tiny": model}))
    async with app.router.lifespan_context(app):
        yield app.state.services.collections


@pytest.fixture
def held_searches(monkeypatch):
    """The list of queries whose search has begun, and an event. Each search waits until the event is set."""
    begun, free = [], threading.Event()

    def search(opened, queries, asked):
        begun.extend(queries)
        assert free.wait(60)
        return search_as_asked(opened, queries, asked)

    monkeypatch.setattr(open_collections, "search_as_asked", search)
    return begun, free


async def test_the_search_of_a_client_that_went_away_keeps_its_thread(tiny_model, tmp_path, held_searches):
    """The clients of all running searches go away. These searches still run to their end.

    A waiting search runs after them. A waiting search whose client goes away never runs.
    """
    begun, free = held_searches
    async with filled(str(tiny_model("bert")), tmp_path) as collections:
        await collections.open("docs")
        most = open_collections._SEARCHING
        left = [asyncio.create_task(collections.search("docs", ["left"], Asked())) for _ in range(most)]
        await until(lambda: len(begun) == most)
        for each in left:
            each.cancel()
        await asyncio.wait(left)
        waits, gone = (asyncio.create_task(collections.search("docs", [each], Asked())) for each in ("waits", "gone"))
        await until(lambda: len(begun) > most or collections._search_threads._work_queue.qsize() == 2)
        gone.cancel()
        await asyncio.wait([gone])
        assert begun == ["left"] * most
        free.set()
        assert (await waits).answers[0].hits
        assert (await collections.search("docs", ["last"], Asked())).answers[0].hits
    assert begun == [*["left"] * most, "waits", "last"]


def waiting_searches(collections):
    text = collections._metrics.exposition().decode()
    return float(re.search(r"^twinvec_queue_searches (.*)$", text, re.MULTILINE)[1])


async def test_searches_of_many_queries_let_another_search_in_between(tiny_model, tmp_path, held_searches):
    begun, free = held_searches
    most, many = open_collections._SEARCHING, ["certificate", "fee"] * 10
    async with filled(str(tiny_model("bert")), tmp_path) as collections:
        await collections.open("docs")
        large = [asyncio.create_task(collections.search("docs", many, Asked())) for _ in range(most)]
        await until(lambda: len(begun) == most)
        small = asyncio.create_task(collections.search("docs", ["small"], Asked()))
        await until(lambda: waiting_searches(collections) == most + 1)
        free.set()
        assert (await small).answers[0].hits
        assert begun.index("small") <= 2 * most  # in the second turn; the threads of a turn begin in any order
        for each in large:
            assert [answer.query for answer in (await each).answers] == many
        assert waiting_searches(collections) == 0


async def test_a_collection_that_opens_while_its_client_goes_away_stays_open(tiny_model, tmp_path, monkeypatch):
    opens, free, usual = [], threading.Event(), open_collections.open_with_one_of

    def opened(*given):
        opens.append(given)
        assert free.wait(60)
        return usual(*given)

    monkeypatch.setattr(open_collections, "open_with_one_of", opened)
    async with filled(str(tiny_model("bert")), tmp_path) as collections:
        left = asyncio.create_task(collections.search("docs", ["certificate"], Asked()))
        await until(lambda: opens)
        left.cancel()
        await asyncio.wait([left])
        free.set()
        assert (await collections.search("docs", ["certificate"], Asked())).answers[0].hits
        assert len(opens) == 1
    drop_collection("docs", tmp_path, wait_seconds=0)  # the server has left nothing open


def test_a_damaged_collection_is_listed_and_named(tiny_model, tmp_path):
    settings = ServeSettings(path=tmp_path / "store", models={"tiny": str(tiny_model("bert"))})
    with TestClient(create_app(settings), base_url="http://127.0.0.1:6380") as client:
        for name in ("a", "b"):
            client.post("/v1/collections", json={"name": name, "chunking": False})
            client.post(f"/v1/collections/{name}/documents", json=DOCUMENTS[:2])
    (tmp_path / "store" / "b" / "collection.json").write_text("{")
    with TestClient(create_app(settings), base_url="http://127.0.0.1:6380") as client:
        listed = client.get("/v1/collections").json()["data"]
        assert [(each["name"], bool(each.get("error"))) for each in listed] == [("a", False), ("b", True)]
        answer = client.post("/v1/search", json={"query": "certificate"}).json()
        assert {each["collection"] for each in answer["results"][0]["hits"]} == {"a"}
        assert (answer["collections"], list(answer["failed"])) == (["a"], ["b"])


async def test_the_model_of_a_collection_that_is_not_served_is_loaded(tiny_model, tmp_path):
    other = str(tiny_model("bert", normalize=False))
    with Collection.open("docs", tmp_path / "store", encoder=Encoder(other), chunking=False) as made:
        made.ingest(DOCUMENTS)
    app = create_app(ServeSettings(path=tmp_path / "store", models={"tiny": str(tiny_model("bert"))}))
    services = app.state.services
    async with app.router.lifespan_context(app):
        found = await services.collections.search("docs", ["certificate"], Asked())
        assert found.answers[0].hits
        first, second = await asyncio.gather(services.collections.open("docs"), services.collections.open("docs"))
        assert first is second
        assert first.loaded_encoder is not None
        assert first.loaded_encoder.name == other


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_collection_whose_folder_is_removed_or_replaced_is_opened_anew(tiny, tmp_path, is_replaced):
    store, other = tmp_path / "store", tmp_path / "other"
    documents = {"documents": [{"id": "tea", "text": "green tea"}]}
    with Collection.open("notes", other, encoder=Encoder(tiny)) as collection:
        collection.ingest([("ink", "blue ink")])
    app = create_app(ServeSettings(path=store, models={"tiny": str(tiny)}))
    with TestClient(app, base_url="http://127.0.0.1:6380") as client:
        assert client.post("/v1/collections", json={"name": "notes"}).status_code == 201
        assert client.post("/v1/collections/notes/documents", json=documents).json()["new"] == 1
        shutil.rmtree(store / "notes")
        if is_replaced:
            shutil.copytree(other / "notes", store / "notes")
        query = {"query": "a drink", "limit": 1}
        first, second = (client.post("/v1/collections/notes/search", json=query) for _ in range(2))
        assert (first.status_code, first.json()["error"]["code"]) == (503, "store_unavailable")
        assert "removed or replaced; send the request again" in first.json()["error"]["message"]
        if is_replaced:
            assert [hit["id"] for hit in second.json()["results"][0]["hits"]] == ["ink"]
        else:
            assert (second.status_code, second.json()["error"]["code"]) == (404, "collection_not_found")
            assert client.post("/v1/collections", json={"name": "notes"}).status_code == 201
        assert client.post("/v1/collections/notes/documents", json=documents).json()["new"] == 1


def test_a_collection_whose_folder_is_away_for_a_while_is_served_again(tiny, tmp_path):
    store, away = tmp_path / "store", tmp_path / "away"
    query = {"query": "a drink", "limit": 1}
    app = create_app(ServeSettings(path=store, models={"tiny": str(tiny)}))
    with TestClient(app, base_url="http://127.0.0.1:6380") as client:
        assert client.post("/v1/collections", json={"name": "notes"}).status_code == 201
        documents = {"documents": [{"id": "tea", "text": "green tea"}]}
        assert client.post("/v1/collections/notes/documents", json=documents).json()["new"] == 1
        store.rename(away)
        assert client.post("/v1/collections/notes/search", json=query).status_code == 503
        away.rename(store)
        found = client.post("/v1/collections/notes/search", json=query)
        assert [hit["id"] for hit in found.json()["results"][0]["hits"]] == ["tea"], found.text


async def test_several_clients_make_the_same_collection_at_once(tiny, tmp_path):
    app = create_app(ServeSettings(path=tmp_path, models={"tiny": str(tiny)}))
    wanted = {"name": "notes", "exists_ok": True}
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:6380", timeout=60) as client:
            made = await asyncio.gather(*(client.post("/v1/collections", json=wanted) for _ in range(4)))
    assert sorted(each.status_code for each in made) == [200, 200, 200, 201]
    assert {each.json()["name"] for each in made} == {"notes"}


def test_messages_about_tenants_name_no_folder_of_the_server(served, tmp_path_factory):
    shared = {"name": "shared", "tenant_key": "team"}
    assert served.post("/v1/collections", json=shared).status_code == 201
    refused = [
        served.post("/v1/collections/shared/search", json={"query": "a"}),
        served.post("/v1/collections", json={**shared, "tenant_key": "firm", "exists_ok": True}),
    ]
    assert [each.status_code for each in refused] == [400, 400]
    for each in refused:
        assert "tenant" in each.json()["error"]["message"]
        assert str(tmp_path_factory.getbasetemp()) not in each.json()["error"]["message"]
    assert served.delete("/v1/collections/shared").status_code == 200


def test_a_filter_on_a_key_that_a_server_has_not_indexed_is_a_bad_request(tiny_model):
    with StandIn().running() as server:
        server.be_strict(StrictModeConfig(enabled=True, unindexed_filtering_retrieve=False))
        app = create_app(ServeSettings(url=server.url, models={"tiny": str(tiny_model("bert"))}))
        with TestClient(app, base_url="http://127.0.0.1:6380") as asked:
            assert asked.post("/v1/collections", json={"name": "docs", "chunking": False}).status_code == 201
            assert asked.post("/v1/collections/docs/documents", json=[{"id": "a", "text": "tea"}]).json()["new"] == 1
            wanted = {"query": "tea", "filter": {"owner": "ada"}}
            for path in ("/v1/collections/docs/search", "/v1/search"):
                answer = asked.post(path, json=wanted)
                error = answer.json()["error"]
                assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
                assert "'owner' has no index" in error["message"]
            malformed = asked.post(path, json={**wanted, "filter": {"owner": {"like": "ada"}}})
            assert malformed.json()["error"].keys() == error.keys()
            assert malformed.json()["error"]["code"] == error["code"]


@pytest.mark.parametrize(
    ("limits", "filter", "told"),
    [
        (
            {"filter_max_conditions": 4},
            {"not": {"or": [{"lang": "en"}, {"year": {"gte": 2020}}, {"id": "a"}, {"team": "x"}]}},
            "filter_max_conditions.*Reduce the amount of conditions",
        ),
        (
            {"filter_max_conditions": 4, "condition_max_size": 2},
            {"lang": {"not_in": [f"l{row}" for row in range(20)]}},
            "filter_max_conditions.*Reduce the amount of conditions",
        ),
    ],
)
def test_a_filter_beyond_a_limit_of_the_server_is_a_bad_request(tiny_model, limits, filter, told):
    with StandIn().running() as server:
        server.be_strict(StrictModeConfig(enabled=True, **limits))
        app = create_app(ServeSettings(url=server.url, models={"tiny": str(tiny_model("bert"))}))
        with TestClient(app, base_url="http://127.0.0.1:6380") as asked:
            assert asked.post("/v1/collections", json={"name": "docs", "chunking": False}).status_code == 201
            assert asked.post("/v1/collections/docs/documents", json=[{"id": "a", "text": "tea"}]).json()["new"] == 1
            for path in ("/v1/collections/docs/search", "/v1/search"):
                answer = asked.post(path, json={"query": "tea", "filter": filter})
                error = answer.json()["error"]
                assert (answer.status_code, error["code"]) == (400, "invalid_input")
                assert re.search(told, error["message"])


def test_a_collection_that_a_server_has_no_room_for_is_full(tiny_model):
    with StandIn().running() as server:
        server.be_strict(StrictModeConfig(enabled=True, max_points_count=8))
        app = create_app(ServeSettings(url=server.url, models={"tiny": str(tiny_model("bert"))}))
        with TestClient(app, base_url="http://127.0.0.1:6380") as asked:
            assert asked.post("/v1/collections", json={"name": "docs", "chunking": False}).status_code == 201
            answers = [
                asked.post("/v1/collections/docs/documents", json=[{"id": f"{row}", "text": f"tea {row}"}])
                for row in range(64)  # a server counts what it has at every 32nd write
            ]
            error = answers[-1].json()["error"]
            assert (answers[0].status_code, answers[-1].status_code, error["code"]) == (200, 507, "store_full")
            assert "max_points_count" in error["message"]
