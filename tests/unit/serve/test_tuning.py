"""Tuning over HTTP: searches use the choice at once, ingests go on meanwhile, and nothing is half stored."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi.testclient import TestClient

from twinvec.errors import StoreError
from twinvec.evaluation import tuning
from twinvec.retrieval.tuned_search import Setting, saved
from twinvec_qdrant import Collection
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections import work
from unit.serve.processes import serving
from unit.serve.test_maintenance import EVENTS, code, going_on, told, until

ADDRESS = "http://127.0.0.1:6380"
DOCS = "/v1/collections/docs"
TUNE = f"{DOCS}/tune"
KEY, READER = "a-write-key-0123456789", "a-read-key-0123456789"
WORDS = [f"{first}{second}" for first in ("maple", "rowan") for second in "bdfgklmnpr"]
DOCUMENTS = [{"id": f"n{row:03}", "text": f"A note about the {word}."} for row, word in enumerate(WORDS)]
QUERIES = [{"_id": f"q{row}", "text": word, "metadata": {}} for row, word in enumerate(WORDS)]
QRELS = [{"query-id": f"q{row}", "corpus-id": f"n{row:03}", "score": 1} for row in range(len(WORDS))]
JUDGED = {"queries": QUERIES, "qrels": QRELS}
BY_VECTORS = {"query": WORDS, "limit": 1, "mode": "dense"}
SEARCH = {"query": "maplek", "limit": 3}


def judged_by(found):
    """Judgements by which the best setting is dense search: the answer of a query is what this finds."""
    ids = [each["hits"][0]["id"] for each in found.json()["results"]]
    rows = zip(QRELS, ids, strict=True)
    return {"queries": QUERIES, "qrels": [{**each, "corpus-id": answer} for each, answer in rows]}


@asynccontextmanager
async def running(model, store, **settings):
    """A server in this process, with the collection "docs"; yields a client, and its open collections."""
    app = create_app(ServeSettings(path=store, models={"tiny": str(model)}, **settings))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        await fill(client)
        yield client, app.state.services.collections


async def judged(client):
    """The judgements of ``judged_by``."""
    return judged_by(await client.post(f"{DOCS}/search", json=BY_VECTORS))


async def fill(client):
    assert (await client.post("/v1/collections", json={"name": "docs", "chunking": False})).status_code == 201
    assert (await client.post(f"{DOCS}/documents", json=DOCUMENTS)).json()["new"] == len(DOCUMENTS)


async def stages(client):
    """The stages of a search with the collection's own setting."""
    found = (await client.post(f"{DOCS}/search", json=SEARCH)).json()["results"][0]["hits"]
    return list(found[0]["scores"])


@pytest.fixture
def held(monkeypatch):
    """Tuning waits before its end for ``go_on``; ``begun`` is set when it waits."""
    begun, go_on, real = threading.Event(), threading.Event(), work.tune_collection

    def slow(*given, **options):
        found = real(*given, **options)
        begun.set()
        assert go_on.wait(60)
        options["on_progress"](found.queries, found.queries)
        return found

    monkeypatch.setattr(work, "tune_collection", slow)
    yield begun, go_on
    go_on.set()


@pytest.mark.slow
async def test_searches_use_the_choice_at_once(tiny_model, tmp_path):
    async with running(tiny_model("bert"), tmp_path) as (client, _):
        assert await stages(client) == ["dense", "sparse", "fused"]
        events = told((await client.post(TUNE, json=await judged(client), headers=EVENTS)).text)
        assert ("progress", {"step": "measuring", "done": 20, "total": 20, "received": True}) in events
        kind, report = events[-1]
        assert kind == "report"
        assert report["setting"] == {"mode": "dense", "words": 1.0, "mix": 0.0, "candidates": 0, "feedback": 0}
        assert (report["queries"], report["pseudo"], report["measure"]) == (20, False, "ndcg@10")
        assert report["figures"]["dense"] == 100 > report["figures"]["hybrid"]
        assert any("maxsim" in each for each in report["figures"]), "the server's model compares token states"
        described = (await client.get("/openapi.json")).json()["components"]["schemas"]["Tuned"]["properties"]
        assert report.keys() == described.keys()
        assert await stages(client) == ["dense"]
        again = await client.post(TUNE, json={**await judged(client), "measure": "mrr@5"})
        assert (again.status_code, again.json()["measure"]) == (200, "mrr@5")
    with Collection.open("docs", tmp_path) as opened:
        assert saved(opened) == Setting("dense")


async def test_without_judged_queries_passages_of_documents_decide(tiny_model, tmp_path):
    async with running(tiny_model("bert"), tmp_path) as (client, _):
        short = await client.post(TUNE, json={})
        assert code(short) == (400, "invalid_input")
        assert "long enough (340 characters)" in short.json()["error"]["message"]
        long = [{"id": f"l{row}", "text": f"Sentence about topic {row}. " * 25} for row in range(12)]
        await client.post(f"{DOCS}/documents", json=long)
        answer = await client.post(TUNE, json={})
        assert (answer.status_code, answer.json()["pseudo"], answer.json()["queries"]) == (200, True, 12)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({**JUDGED, "measure": "foo@10"}, "measure"),
        ({**JUDGED, "measure": "ndcg@1000"}, "measure"),
        ({**JUDGED, "split": "dev"}, "split"),
        ({"queries": QUERIES[:9], "qrels": QRELS[:9]}, "9 judged queries; choosing a setting needs at least 10"),
        ({"queries": QUERIES}, "qrels is empty"),
        ({"qrels": QRELS}, "no queries"),
        ({"queries": QUERIES[1:], "qrels": QRELS}, "the judged query 'q0' is not among the queries"),
        ({"queries": [*QUERIES, QUERIES[0]], "qrels": QRELS}, "an id is used twice"),
        ({"queries": QUERIES, "qrels": [{**each, "score": 0} for each in QRELS]}, "no judgement is above 0"),
        ({"queries": QUERIES, "qrels": [{**each, "corpus-id": "?"} for each in QRELS]}, "holds none of the 1 relevant"),
    ],
)
async def test_what_cannot_be_measured_is_refused_and_changes_nothing(tiny_model, tmp_path, body, wrong):
    async with running(tiny_model("bert"), tmp_path) as (client, _):
        answer = await client.post(TUNE, json=body)
        assert answer.status_code == 400
        assert wrong in answer.json()["error"]["message"]
        assert await stages(client) == ["dense", "sparse", "fused"]


def test_a_key_that_reads_does_not_tune(tmp_path):
    asked = TestClient(create_app(ServeSettings(path=tmp_path, read_keys=(READER,), write_keys=(KEY,))))
    assert asked.post(TUNE, json=JUDGED, headers={"Authorization": f"Bearer {READER}"}).status_code == 403
    assert asked.post(TUNE, json=JUDGED, headers={"Authorization": f"Bearer {KEY}"}).status_code == 404


async def begun_request(client, begun):
    """A request to tune whose tuning has begun."""
    request = asyncio.create_task(client.post(TUNE, json=await judged(client)))
    await until(begun.is_set)
    return request


def is_closed(opened):
    """Whether each further use of the collection fails."""
    try:
        opened.count()
    except StoreError:
        return True
    return False


@pytest.mark.slow
async def test_searches_and_ingests_go_on_meanwhile_and_other_such_work_waits(tiny_model, tmp_path, held):
    begun, go_on = held
    async with running(tiny_model("bert"), tmp_path) as (client, _):
        request = await begun_request(client, begun)
        assert await stages(client) == ["dense", "sparse", "fused"]
        assert (await client.post(f"{DOCS}/documents", json=[{"id": "new", "text": "new"}])).json()["new"] == 1
        for path, body in ((TUNE, JUDGED), (f"{DOCS}/migrate", {"model": "tiny"})):
            refused = await client.post(path, json=body)
            assert code(refused) == (409, "tuning_under_way")
            expected = "'docs' is being tuned (measuring: 20 of 20 queries); wait for its end"
            assert refused.json()["error"]["message"] == expected
        go_on.set()
        assert (await request).status_code == 200
        assert await stages(client) == ["dense"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["drop", "stop"])
async def test_a_drop_and_a_stop_end_it(tiny_model, tmp_path, held, end):
    begun, go_on = held
    async with running(tiny_model("bert"), tmp_path) as (client, collections):
        request = await begun_request(client, begun)
        opened = await collections.open("docs")
        if end == "drop":
            dropped = asyncio.create_task(client.delete(DOCS))
        else:
            collections.stop_in(0)
        await until(lambda: is_closed(opened))
        go_on.set()
        expected = {"drop": (404, "collection_not_found"), "stop": (503, "server_stopped")}
        assert code(await request) == expected[end]
        if end == "drop":
            assert (await dropped).json() == {"dropped": "docs"}


@pytest.mark.slow
async def test_it_goes_on_without_its_client(tiny_model, tmp_path, held):
    begun, go_on = held
    async with running(tiny_model("bert"), tmp_path) as (client, collections):
        request = await begun_request(client, begun)
        request.cancel()
        go_on.set()
        await until(lambda: collections.ingests.background_work("docs") is None)
        assert await stages(client) == ["dense"]


async def test_a_server_without_the_packages_says_so(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ir_measures", None)
    async with running(tiny_model("bert"), tmp_path) as (client, _):
        answer = await client.post(TUNE, json=JUDGED)
        assert code(answer) == (501, "not_installed")
        assert "pip install" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_searches_go_on_while_a_process_tunes_and_a_kill_leaves_the_old_setting(tiny, tmp_path):
    uses = [(f"{DOCS}/search", {"query": "maplek", "limit": 5})] * 2

    def tuned(server, times=1):
        """The events of a tuning on the queries, each repeated ``times`` times."""
        body = judged_by(httpx.post(f"{server.address}{DOCS}/search", json=BY_VECTORS, timeout=120))
        for name, key in (("queries", "_id"), ("qrels", "query-id")):
            body[name] = [{**each, key: f"{each[key]}-{time}"} for time in range(times) for each in body[name]]
        return httpx.stream("POST", f"{server.address}{TUNE}", json=body, headers=EVENTS, timeout=120)

    with serving(tmp_path, tiny) as server:
        with httpx.Client(base_url=server.address, timeout=120) as client:
            client.post("/v1/collections", json={"name": "docs", "chunking": False}).raise_for_status()
            client.post(f"{DOCS}/documents", json=DOCUMENTS).raise_for_status()
        with tuned(server, 100) as answer:
            first = next(line for line in answer.iter_lines() if '"measuring"' in line)
            server.stop(signal.SIGKILL)
        assert json.loads(first.removeprefix("data: "))["done"] < 2_000
    with Collection.open("docs", tmp_path / "store") as opened:
        assert saved(opened) is None
    with serving(tmp_path, tiny) as server:
        with going_on(server.address, *uses) as seen, tuned(server) as answer:
            *_, last = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if "data: " in line]
            assert last["setting"]["mode"] == "dense"
        assert {*seen} == {(f"{DOCS}/search", 200), (f"{DOCS}/search", 5)}
        server.stop(signal.SIGKILL)  # the choice was acknowledged
    with Collection.open("docs", tmp_path / "store") as opened:
        assert saved(opened) == Setting("dense")


def test_hits_of_a_few_queries_are_in_memory_and_the_choice_is_the_same(monkeypatch):
    """However many queries there are; a part may have no relevant document among its judgements."""
    from twinvec.evaluation.beir import BeirSet
    from unit.evaluation.test_tuning import DATA, Ranks

    grades = {query: {name: int(row >= 4) for name in each} for row, (query, each) in enumerate(DATA.qrels.items())}
    data = BeirSet("made", DATA.documents, DATA.queries, grades)
    ranks = Ranks(dense=list(range(1, 31)), sparse=list(range(30, 0, -1)), hybrid=[3] * 30)
    whole = tuning.measure_settings(ranks, data, None, "ndcg@10")
    monkeypatch.setattr(tuning, "_AT_ONCE", 4)
    done = []
    parts = tuning.measure_settings(ranks, data, None, "ndcg@10", on_progress=lambda *each: done.append(each))
    assert {each: values.tolist() for each, values in parts.items()} == {
        each: values.tolist() for each, values in whole.items()
    }
    assert (done[0], done[-1]) == ((4, 30), (30, 30))
