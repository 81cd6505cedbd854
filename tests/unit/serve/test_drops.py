"""Collections dropped over HTTP: after the ingests, under searches, and with a name that can be used again."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi.testclient import TestClient

import models
from stand_in import StandIn
from twinvec import Encoder
from twinvec_qdrant import Collection, TemporaryBackup, drop_collection
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections import backups, open_collections
from unit.serve.processes import serving
from unit.serve.waiting import until

ADDRESS = "http://127.0.0.1:6380"
DOCS = "/v1/collections/docs"
NEW = {"name": "docs", "chunking": False}
DOCUMENTS = [{"id": f"n{row:03}", "text": f"note {row} about certificate {row % 7}"} for row in range(50)]
KEY, READER = "a-write-key-0123456789", "a-read-key-0123456789"


def codes(*answers):
    return [(each.status_code, each.json().get("error", {}).get("code")) for each in answers]


def fill(asked):
    """Make the collection "docs"."""
    assert asked.post("/v1/collections", json=NEW).status_code == 201
    report = asked.post(f"{DOCS}/documents", json=DOCUMENTS).json()
    assert report["new"] + report["unchanged"] == len(DOCUMENTS)  # others may have sent some before


USES = (
    lambda asked: asked.get(DOCS),
    lambda asked: asked.get(f"{DOCS}/verify"),
    lambda asked: asked.get(f"{DOCS}/backup"),
    lambda asked: asked.post(f"{DOCS}/search", json={"query": "certificate"}),
    lambda asked: asked.post(f"{DOCS}/documents", json=DOCUMENTS),
    lambda asked: asked.get(f"{DOCS}/documents/n001"),
    lambda asked: asked.post(f"{DOCS}/documents/get", json={"ids": ["n001"]}),
    lambda asked: asked.post(f"{DOCS}/documents/delete", json={"ids": ["n001"]}),
    lambda asked: asked.delete(DOCS),
)
"""Everything that a client may do with the collection."""


def use(asked):
    return [each(asked) for each in USES]


def test_a_dropped_collection_is_gone_and_its_name_is_free(tiny_model, tmp_path):
    app = create_app(ServeSettings(path=tmp_path, models={"tiny": str(tiny_model("bert"))}))
    with TestClient(app, base_url=ADDRESS) as asked:
        for _ in range(2):
            fill(asked)
            dropped = asked.delete(DOCS)
            assert (dropped.status_code, dropped.json()) == (200, {"dropped": "docs"})
            assert list(tmp_path.iterdir()) == []
            assert codes(*use(asked)) == [(404, "collection_not_found")] * 9
            assert asked.get("/v1/collections").json() == {"data": []}
        message = asked.delete(DOCS).json()["error"]["message"]
        assert message == "no collection 'docs'; there are: none"
        fill(asked)
        assert {each.status_code for each in use(asked)} == {200}


def test_a_key_that_reads_drops_nothing(tmp_path):
    asked = TestClient(create_app(ServeSettings(path=tmp_path, read_keys=(READER,), write_keys=(KEY,))))
    assert asked.delete(DOCS, headers={"Authorization": f"Bearer {READER}"}).status_code == 403
    assert asked.delete(DOCS, headers={"Authorization": f"Bearer {KEY}"}).status_code == 404


def test_a_damaged_collection_can_be_dropped(tiny_model, tmp_path):
    settings = ServeSettings(path=tmp_path, models={"tiny": str(tiny_model("bert"))})
    with TestClient(create_app(settings), base_url=ADDRESS) as asked:
        fill(asked)
    next((tmp_path / "docs").rglob("version.info")).unlink()
    with TestClient(create_app(settings), base_url=ADDRESS) as asked:
        assert codes(asked.get(DOCS), asked.delete(DOCS), asked.delete(DOCS)) == [
            (502, "store_corrupt"),
            (200, None),
            (404, "collection_not_found"),
        ]


def test_in_a_qdrant_server_only_collections_of_twinvec_are_dropped(tiny_model):
    from qdrant_client import QdrantClient
    from qdrant_client.models import Distance, VectorParams

    with StandIn().running() as server:
        client = QdrantClient(server.url, timeout=60, check_compatibility=False)
        client.create_collection("theirs", VectorParams(size=4, distance=Distance.COSINE))
        app = create_app(ServeSettings(url=server.url, models={"tiny": str(tiny_model("bert"))}))
        with TestClient(app, base_url=ADDRESS) as asked:
            fill(asked)
            assert client.collection_exists("docs")
            server.asked.clear()
            assert codes(asked.delete(DOCS)) == [(200, None)]
            paths = {path.partition("?")[0] for _, path in server.asked}
            assert "/collections/docs" in paths
            assert not paths & {"/collections", "/collections/theirs"}
            assert codes(asked.delete(DOCS)) == [(404, "collection_not_found")]
            assert codes(asked.delete("/v1/collections/theirs")) == [(400, "invalid_setting")]
        assert [each.name for each in client.get_collections().collections] == ["theirs"]
        client.close()


def test_a_collection_that_another_program_drops_from_a_server_is_gone_and_its_name_is_free(tiny_model, tmp_path):
    """The other program then creates a collection of the same name with another model of the same size."""
    new = Encoder(models.build(tmp_path / "new", "bert", seed=1))
    text = DOCUMENTS[3]["text"]
    nearest = {"query": text, "mode": "dense", "limit": 1}

    def cosine(answer):
        (hit,) = answer.json()["results"][0]["hits"]
        return hit["text"], hit["scores"]["dense"]

    with StandIn().running() as server:
        settings = ServeSettings(url=server.url, models={"tiny": str(tiny_model("bert")), "new": new.name})
        with TestClient(create_app(settings), base_url=ADDRESS) as asked:
            for each in USES[:2] + USES[3:]:  # a collection on a server has no backups
                fill(asked)
                drop_collection("docs", url=server.url)
                assert codes(each(asked), each(asked)) == [(404, "collection_not_found")] * 2
            fill(asked)
            drop_collection("docs", url=server.url)
            fill(asked)
            assert cosine(asked.post(f"{DOCS}/search", json=nearest)) == (text, pytest.approx(1))
            for _ in range(2):
                drop_collection("docs", url=server.url)
                with Collection.open("docs", url=server.url, encoder=new, chunking=False) as made:
                    made.ingest(DOCUMENTS)
                    assert cosine(asked.post(f"{DOCS}/search", json=nearest)) == (text, pytest.approx(1))
                    late = {"id": "late", "text": "a late note"}
                    assert asked.post(f"{DOCS}/documents", json=[late]).json()["new"] == 1
                    assert made.search("a late note", 1, "dense")[0].scores["dense"] == pytest.approx(1)


@asynccontextmanager
async def running(model, folder):
    """A server in this process, with the collection "docs"; yields a client, and its open collections."""
    app = create_app(ServeSettings(path=folder, models={"tiny": str(model)}))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        await client.post("/v1/collections", json=NEW)
        assert (await client.post(f"{DOCS}/documents", json=DOCUMENTS)).json()["new"] == len(DOCUMENTS)
        yield client, app.state.services.collections


async def test_a_drop_waits_for_the_ingests_before_it_and_those_after_it_find_none(tiny_model, tmp_path):
    go_on = asyncio.Event()

    async def lines():
        yield b'{"id": "first", "text": "the first one"}\n'
        await go_on.wait()
        yield b'{"id": "last", "text": "the last one"}\n'

    async with running(tiny_model("bert"), tmp_path) as (client, collections):
        kind, events = {"Content-Type": "application/x-ndjson"}, {"Accept": "text/event-stream"}
        waiting = collections.ingests._waiting
        under_way = asyncio.create_task(client.post(f"{DOCS}/documents", content=lines(), headers=kind))
        await until(lambda: waiting["docs"] == 1)
        drop = asyncio.create_task(client.delete(DOCS))
        await until(lambda: waiting["docs"] == 2)
        after = [
            asyncio.create_task(client.post(f"{DOCS}/documents", json=DOCUMENTS)),
            asyncio.create_task(client.post(f"{DOCS}/documents/delete", json={"ids": ["n001"]})),
            asyncio.create_task(client.get(f"{DOCS}/verify")),
            asyncio.create_task(client.delete(DOCS)),
        ]
        told = asyncio.create_task(client.post(f"{DOCS}/documents", json=DOCUMENTS, headers=events))
        await until(lambda: waiting["docs"] == 7)
        assert (await client.post(f"{DOCS}/search", json={"query": "certificate"})).status_code == 200
        assert not drop.done()
        go_on.set()
        report = (await under_way).json()
        assert (report["new"], report["failed"]) == (2, 0)
        assert codes(await drop) == [(200, None)]
        assert codes(*[await each for each in after]) == [(404, "collection_not_found")] * 4
        *_, last = (await told).text.strip().split("\r\n\r\n")
        assert json.loads(last.partition("data: ")[2])["error"]["code"] == "collection_not_found"
        assert waiting["docs"] == 0


async def test_calls_that_are_under_way_find_no_collection(tiny_model, tmp_path, monkeypatch):
    """They have the collection open, and go on only when it is gone."""
    begun, go_on, usual = [], threading.Event(), open_collections.search_as_asked

    def search(opened, queries, asked):
        begun.append(queries)
        assert go_on.wait(60)
        return usual(opened, queries, asked)

    monkeypatch.setattr(open_collections, "search_as_asked", search)
    async with running(tiny_model("bert"), tmp_path) as (client, collections):
        await client.post("/v1/collections", json={**NEW, "name": "others"})
        opened = collections._open["docs"]
        one = asyncio.create_task(client.post(f"{DOCS}/search", json={"query": "certificate"}))
        several = asyncio.create_task(client.post("/v1/search", json={"query": "certificate"}))
        await until(lambda: len(begun) == 2)
        assert codes(await client.delete(DOCS)) == [(200, None)]
        go_on.set()
        assert codes(await one) == [(404, "collection_not_found")]
        found = (await several).json()
        assert (found["collections"], list(found["failed"])) == (["others"], ["docs"])
        with pytest.raises(open_collections.CollectionNotFoundError, match="was dropped"):
            await collections.call(opened, Collection.info)


async def test_a_drop_waits_for_a_backup_that_is_made(tiny_model, tmp_path, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def made(*given):
        begun.set()
        assert go_on.wait(60)
        return TemporaryBackup(*given)

    async with running(tiny_model("bert"), tmp_path) as (client, collections):
        monkeypatch.setattr(backups, "TemporaryBackup", made)
        backup = asyncio.create_task(client.get(f"{DOCS}/backup"))
        await until(begun.is_set)
        drop = asyncio.create_task(client.delete(DOCS))
        await until(lambda: collections.ingests.writes_to("docs"))
        assert (await client.post(f"{DOCS}/search", json={"query": "certificate"})).status_code == 200
        assert not drop.done()
        go_on.set()
        assert (await backup).status_code == 200
        assert codes(await drop) == [(200, None)]
        await until(lambda: not list(tmp_path.iterdir()))


@pytest.mark.slow
def test_drops_under_searches_and_ingests_make_no_request_fail(tiny, tmp_path):
    """A collection is made, filled and dropped again and again, while others use it."""
    over, seen = threading.Event(), []
    uses = [
        ("POST", f"{DOCS}/search", {"query": "certificate", "limit": 3}),
        ("POST", f"{DOCS}/search", {"query": ["note", "certificate"], "rerank": "maxsim"}),
        ("POST", "/v1/search", {"query": "certificate"}),
        ("GET", "/v1/collections", None),
        ("GET", DOCS, None),
        ("POST", f"{DOCS}/documents", {"documents": DOCUMENTS[:5]}),
        ("POST", f"{DOCS}/documents/delete", {"filter": {"id": "n001"}}),
        ("GET", f"{DOCS}/documents/n001", None),
        ("GET", f"{DOCS}/verify", None),
    ]
    with serving(tmp_path, tiny, errors=subprocess.PIPE) as server:

        def go_on(method, path, body):
            with httpx.Client(base_url=server.address, timeout=120) as client:
                while not over.is_set():
                    answer = client.request(method, path, json=body)
                    told = answer.json().get("error", {}).get("code") if answer.status_code != 200 else None
                    seen.append((path, answer.status_code, told))

        threads = [threading.Thread(target=go_on, args=each) for each in uses]
        with httpx.Client(base_url=server.address, timeout=120) as asked:
            fill(asked)
            for each in threads:
                each.start()
            try:
                for _ in range(8):
                    drops = codes(asked.delete(DOCS), asked.delete(DOCS))
                    assert drops == [(200, None), (404, "collection_not_found")]
                    fill(asked)
            finally:
                over.set()
                for each in threads:
                    each.join()
        assert server.stop(signal.SIGTERM) == 0
        assert "Traceback" not in server.process.stderr.read()
    others = {(status, code) for _, status, code in seen} - {(200, None), (404, "collection_not_found")}
    assert others <= {(404, "document_not_found")}
    assert {path for path, status, _ in seen if status == 200} == {path for _, path, _ in uses}
    assert any(status == 404 for path, status, _ in seen if path.endswith("/search"))


def test_the_server_forgets_the_names_of_requests_that_have_ended(prompted, tmp_path):
    with TestClient(create_app(ServeSettings(models={"small": prompted}, path=tmp_path))) as asked:
        fill(asked)
        for number in range(3):
            assert codes(asked.delete(f"/v1/collections/missing-{number}")) == [(404, "collection_not_found")]
        ingests = asked.app.state.services.collections.ingests
        assert (dict(ingests._turns), dict(ingests._waiting)) == ({}, {})
