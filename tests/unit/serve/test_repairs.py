"""Repairs over HTTP: the collection is closed meanwhile, which other requests are told, and a kill harms nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi.testclient import TestClient

from twinvec_qdrant import Collection
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections.open_collections import OpenCollections
from unit.qdrant.cli.test_served_store import twinvec
from unit.serve.processes import serving
from unit.serve.test_maintenance import EVENTS, code, told, until

ADDRESS = "http://127.0.0.1:6380"
DOCS = "/v1/collections/docs"
REPAIR = f"{DOCS}/repair"
DOCUMENTS = [{"id": f"n{row:03}", "text": f"note {row} about certificate {row % 7}"} for row in range(50)]
SEARCH = {"query": "certificate 3"}
KEY, READER = "a-write-key-0123456789", "a-read-key-0123456789"


@asynccontextmanager
async def running(settings):
    """A server in this process; yields a client."""
    app = create_app(settings)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        yield client, app.state.services.collections


async def fill(client):
    assert (await client.post("/v1/collections", json={"name": "docs", "chunking": False})).status_code == 201
    assert (await client.post(f"{DOCS}/documents", json=DOCUMENTS)).json()["new"] == 50


@pytest.fixture
def settings(tiny_model, tmp_path):
    return ServeSettings(path=tmp_path / "store", models={"tiny": str(tiny_model("bert"))})


@pytest.fixture
def held(monkeypatch):
    """A repair waits before it opens the collection, until ``go_on`` is set; ``begun`` is set when it waits."""
    begun, go_on, real = threading.Event(), threading.Event(), OpenCollections._repaired

    def slow(*given):
        begun.set()
        assert go_on.wait(60)
        return real(*given)

    monkeypatch.setattr(OpenCollections, "_repaired", slow)
    yield begun, go_on
    go_on.set()


def damage(store):
    """Damage a file of the collection, which nobody has open."""
    next((store / "docs").rglob("version.info")).unlink()


async def test_a_sound_collection_is_as_it_was(settings):
    async with running(settings) as (client, _):
        await fill(client)
        before = (await client.post(f"{DOCS}/search", json=SEARCH)).json()["results"][0]["hits"]
        answer = await client.post(REPAIR)
        assert answer.json() == {
            "sources": 50,
            "chunks": 50,
            "incomplete": [],
            "forgotten": [],
            "stray": 0,
            "repaired": True,
        }
        assert told((await client.post(REPAIR, headers=EVENTS)).text)[-1] == ("report", answer.json())
        assert (await client.post(f"{DOCS}/search", json=SEARCH)).json()["results"][0]["hits"] == before
        assert code(await client.post("/v1/collections/none/repair")) == (404, "collection_not_found")


@pytest.mark.slow
async def test_a_damaged_collection_is_repaired_and_its_documents_are_ingested_again(settings, tmp_path):
    async with running(settings) as (client, _):
        await fill(client)
    damage(tmp_path / "store")
    async with running(settings) as (client, _):
        assert code(await client.post(f"{DOCS}/search", json=SEARCH)) == (502, "store_corrupt")
        report = (await client.post(REPAIR)).json()
        assert report["repaired"]
        assert len(report["damaged"]) == 1
        described = (await client.get("/openapi.json")).json()["components"]["schemas"]["Repaired"]["properties"]
        assert report.keys() == described.keys()
        again = (await client.post(f"{DOCS}/documents", json=DOCUMENTS)).json()
        assert again["failed"] == 0
        assert len((await client.post(f"{DOCS}/search", json=SEARCH)).json()["results"][0]["hits"]) == 10
    with Collection.open("docs", tmp_path / "store") as opened:
        assert opened.verify().sound
        assert len(opened.find()) == 50


async def test_other_requests_are_told_to_come_again(settings, held):
    begun, go_on = held
    async with running(settings) as (client, collections):
        await fill(client)
        await client.post("/v1/collections", json={"name": "other"})
        opened = await collections.open("docs")
        repair = asyncio.create_task(client.post(REPAIR))
        await until(begun.is_set)
        for answer in (
            await client.post(f"{DOCS}/search", json=SEARCH),
            await client.get(DOCS),
            await client.post(f"{DOCS}/documents", json=DOCUMENTS),
            await client.get(f"{DOCS}/documents/n001"),
            await client.get(f"{DOCS}/backup"),
            await client.get(f"{DOCS}/verify"),
            await client.post(f"{DOCS}/migrate", json={"model": "tiny"}),
            await client.post(f"{DOCS}/tune", json={}),
        ):
            assert (code(answer), answer.headers["retry-after"]) == ((503, "store_busy"), "1")
            message = answer.json()["error"]["message"]
            assert message == "the collection 'docs' is being repaired; send the request again later"
        listed = {each["name"]: each for each in (await client.get("/v1/collections")).json()["data"]}
        assert "is being repaired" in listed["docs"]["error"]
        found = (await client.post("/v1/search", json=SEARCH)).json()
        assert (found["collections"], list(found["failed"])) == (["other"], ["docs"])
        with pytest.raises(Exception, match="is being repaired"):  # a call that had the collection before the repair
            await collections.call(opened, Collection.info)
        dropped = asyncio.create_task(client.delete(DOCS))
        again = asyncio.create_task(client.post(REPAIR))
        go_on.set()
        assert (await repair).status_code == 200
        assert (await dropped).json() == {"dropped": "docs"}
        assert code(await again)[0] in (200, 404)


async def test_a_migration_comes_first(settings, tmp_path):
    import models

    other = models.build(tmp_path / "other", "bert", truncate_dim=16, seed=1)
    both = settings.model_copy(update={"models": {**settings.models, "new": str(other)}})
    async with running(both) as (client, collections):
        await fill(client)
        request = asyncio.create_task(client.post(f"{DOCS}/migrate", json={"model": "new", "rate": 1}))
        await until(lambda: collections.ingests.background_work("docs"))
        assert code(await client.post(REPAIR)) == (409, "migration_under_way")
        await client.post(f"{DOCS}/migrate", json={"drop_others": True})
        await request
        assert (await client.post(REPAIR)).status_code == 200


def test_a_key_that_reads_repairs_nothing(tmp_path):
    asked = TestClient(create_app(ServeSettings(path=tmp_path, read_keys=(READER,), write_keys=(KEY,))))
    assert asked.post(REPAIR, headers={"Authorization": f"Bearer {READER}"}).status_code == 403
    assert asked.post(REPAIR, headers={"Authorization": f"Bearer {KEY}"}).status_code == 404


@pytest.mark.slow
async def test_a_collection_of_a_qdrant_server_is_repaired_too(settings):
    from stand_in import StandIn

    with StandIn().running() as qdrant:
        async with running(settings.model_copy(update={"path": None, "url": qdrant.url})) as (client, _):
            await fill(client)
            assert (await client.post(REPAIR)).json()["repaired"]
            assert (await client.post(f"{DOCS}/search", json=SEARCH)).status_code == 200


@pytest.mark.slow
def test_searches_get_503_and_a_killed_repair_is_done_again(tiny, tmp_path):
    """The command repairs; other clients search all the time, and see no other error."""
    store, place = tmp_path / "store", ("-c", "docs", "--path", "store")
    many = [{"id": f"n{row}", "text": f"note {row} about certificate {row % 7}"} for row in range(2000)]
    (tmp_path / "notes.jsonl").write_text("\n".join(map(json.dumps, many)))
    with serving(tmp_path, tiny) as server:
        assert twinvec(tmp_path, "ingest", "notes.jsonl", *place, "--no-chunking").returncode == 0
        assert server.stop(signal.SIGTERM) == 0
    damage(store)
    over, seen = threading.Event(), set()

    def search(address):
        with httpx.Client(base_url=address, timeout=120) as client:
            while not over.is_set():
                answer = client.post(f"{DOCS}/search", json=SEARCH)
                retry = answer.headers.get("retry-after")
                seen.add((answer.status_code, answer.json().get("error", {}).get("code"), retry))

    with serving(tmp_path, tiny) as server:
        done = threading.Thread(target=twinvec, args=(tmp_path, "verify", *place, "--repair"))
        done.start()
        busy = (503, "store_busy", "1")
        with httpx.Client(base_url=server.address, timeout=120) as client:
            until_busy = (code(client.post(f"{DOCS}/search", json=SEARCH)) == busy[:2] for _ in range(100_000))
            assert any(until_busy)
        server.stop(signal.SIGKILL)
        done.join()
    with serving(tmp_path, tiny) as server:
        threads = [threading.Thread(target=search, args=(server.address,)) for _ in range(2)]
        for each in threads:
            each.start()
        try:
            repaired = twinvec(tmp_path, "verify", *place, "--repair", "--json")
            again = twinvec(tmp_path, "ingest", "notes.jsonl", *place)
        finally:
            over.set()
            for each in threads:
                each.join()
        assert json.loads(repaired.stdout)["repaired"], repaired.stderr
        assert again.returncode == 0, again.stderr
        # The killed repair has mended the file or not: searches before the second one tell.
        assert {busy, (200, None, None)} <= seen <= {(502, "store_corrupt", None), busy, (200, None, None)}
        assert json.loads(twinvec(tmp_path, "verify", *place, "--json").stdout)["sources"] == 2000
        assert server.stop(signal.SIGTERM) == 0
    with Collection.open("docs", store) as opened:
        assert opened.verify().sound
