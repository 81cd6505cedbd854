"""Migrations and rebuilds of indexes over HTTP: beside searches and ingests, ended by drops, and after kills."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from typing import get_type_hints

import httpx
import pytest
from fastapi.testclient import TestClient

import models
from twinvec.models import find_model
from twinvec_qdrant import Collection
from twinvec_qdrant.cli.maintenance import migrate_command
from twinvec_qdrant.settings import LEAST_RATE
from twinvec_serve import ServeSettings, create_app
from unit.serve.processes import serving
from unit.serve.waiting import until

ADDRESS = "http://127.0.0.1:6380"
DOCS = "/v1/collections/docs"
MIGRATE, REINDEX = f"{DOCS}/migrate", f"{DOCS}/reindex"
EVENTS = {"Accept": "text/event-stream"}
DOCUMENTS = [{"id": f"n{row:03}", "text": f"note {row} about certificate {row % 7}"} for row in range(50)]
KEY, READER = "a-write-key-0123456789", "a-read-key-0123456789"
SLOWLY = {"model": "new", "rate": 1}
"""A migration that takes 50 seconds."""


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    """Another tiny model than ``tiny_model("bert")``."""
    return models.build(tmp_path_factory.mktemp("models") / "new", "bert", truncate_dim=16, seed=1)


@pytest.fixture
def settings(tiny_model, new, tmp_path):
    """The settings of a server with two models, "old" and "new"."""
    return ServeSettings(path=tmp_path / "store", models={"old": str(tiny_model("bert")), "new": str(new)})


@asynccontextmanager
async def running(settings):
    """A server in this process, with the collection "docs"; yields a client, and its open collections."""
    app = create_app(settings)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        await fill(client)
        yield client, app.state.services.collections


async def fill(client, name="docs"):
    assert (await client.post("/v1/collections", json={"name": name, "chunking": False})).status_code == 201
    report = (await client.post(f"/v1/collections/{name}/documents", json=DOCUMENTS)).json()
    assert report["new"] == len(DOCUMENTS)


@asynccontextmanager
async def migrating(client, collections, body=SLOWLY, encoded=1):
    """A migration that is under way and has encoded so many chunks; yields the request."""
    request = asyncio.create_task(client.post(MIGRATE, json=body))
    await until(
        lambda: (
            (work := collections.ingests.background_work("docs"))
            and work.step == "migrating"
            and work.finished >= encoded
        )
    )
    yield request


def code(answer):
    return answer.status_code, answer.json().get("error", {}).get("code")


def told(text):
    """The events of an answer: their names and data."""
    blocks = [dict(line.split(": ", 1) for line in each.splitlines()) for each in text.strip().split("\r\n\r\n")]
    return [(each["event"], json.loads(each["data"])) for each in blocks if "event" in each]


async def test_a_migration_switches_and_its_way_back_ends(settings, new):
    async with running(settings) as (client, _):
        answer = await client.post(MIGRATE, json={"model": "new"}, headers=EVENTS)
        events = told(answer.text)
        assert {"step": "migrating", "done": 50, "total": 50, "received": True} in [each for _, each in events]
        report = {"model": str(new), "encoded": 50, "truncated": 0, "switched": True}
        assert events[-1] == ("report", report)
        info = (await client.get(DOCS)).json()
        assert (info["model"], info["dim"], info["migrating_to"]) == (str(new), 16, None)
        hits = (await client.post(f"{DOCS}/search", json={"query": "note 7", "mode": "dense"})).json()
        assert len(hits["results"][0]["hits"]) == 10
        back = await client.post(MIGRATE, json={"model": settings.models["old"]})
        assert (back.status_code, back.json()["encoded"]) == (200, 0)
        assert (await client.post(MIGRATE, json={"drop_others": True})).json() == {"dropped": [str(new)]}
        assert (await client.post(MIGRATE, json={"drop_others": True})).json() == {"dropped": []}
        assert code(await client.post(MIGRATE, json={"model": "old"})) == (400, "invalid_setting")
    with Collection.open("docs", settings.path) as opened:
        assert opened.info()["model"] == settings.models["old"]
        assert opened.verify().sound


async def test_a_model_that_is_not_served_and_wrong_bodies_change_nothing(settings, tmp_path):
    other = models.build(tmp_path / "other", "bert", seed=2)
    async with running(settings) as (client, _):
        for model in (str(other), "other", "", "../new"):
            refused = await client.post(MIGRATE, json={"model": model})
            assert code(refused) == (404, "model_not_found")
            assert refused.json()["error"]["message"] == f"unknown model {model!r}; this server has old, new"
        for body in (
            {},
            {"model": "new", "drop_others": True},
            {"model": "new", "rate": LEAST_RATE * 0.99},
            {"path": "a"},
        ):
            assert code(await client.post(MIGRATE, json=body)) == (400, "invalid_request"), body
        assert code(await client.post("/v1/collections/none/migrate", json={"model": "new"})) == (
            404,
            "collection_not_found",
        )
        assert (await client.get(DOCS)).json()["migrating_to"] is None


def test_a_key_that_reads_neither_migrates_nor_reindexes(settings):
    guarded = settings.model_copy(update={"read_keys": (READER,), "write_keys": (KEY,)})
    asked = TestClient(create_app(ServeSettings(**guarded.model_dump())))
    for path, body in ((MIGRATE, {"model": "new"}), (REINDEX, {})):
        assert code(asked.post(path, json=body, headers={"Authorization": f"Bearer {READER}"}))[0] == 403
        assert code(asked.post(path, json=body))[0] == 401


async def test_the_answers_have_the_fields_that_are_described(settings):
    async with running(settings) as (client, _):
        described = (await client.get("/openapi.json")).json()["components"]["schemas"]
        for path, body, name in (
            (MIGRATE, {"model": "new"}, "Migrated"),
            (MIGRATE, {"drop_others": True}, "OthersDropped"),
            (REINDEX, {}, "Reindexed"),
        ):
            answer = (await client.post(path, json=body)).json()
            assert answer.keys() == described[name]["properties"].keys(), name


@pytest.mark.slow
async def test_the_smallest_rate_of_the_command_is_that_of_the_server_and_its_pauses_end_early(settings, new):
    """A drop, and the end of the server, end migrations that would pause for 100 seconds."""
    (option,) = get_type_hints(migrate_command, include_extras=True)["rate"].__metadata__
    assert option.min == LEAST_RATE
    began = time.monotonic()
    body = {"model": "new", "rate": LEAST_RATE}
    async with running(settings) as (client, collections):
        async with migrating(client, collections, body) as request:
            assert (await client.delete(DOCS)).json() == {"dropped": "docs"}
            assert code(await request) == (404, "collection_not_found")
        await fill(client)
        async with migrating(client, collections, body) as request:
            assert (await client.post(MIGRATE, json={"drop_others": True})).json() == {"dropped": [str(new)]}
            assert code(await request) == (409, "migration_given_up")
        async with migrating(client, collections, body) as request:
            collections.stop_in(0)
            assert code(await request) == (503, "server_stopped")
    assert time.monotonic() - began < 50


async def test_one_migration_at_a_time_beside_searches_and_ingests(settings):
    async with running(settings) as (client, collections), migrating(client, collections) as request:
        for body in (SLOWLY, {"model": "old"}):
            second = await client.post(MIGRATE, json=body)
            assert code(second) == (409, "migration_under_way")
            message = second.json()["error"]["message"]
            assert message.startswith("a migration of 'docs' to 'new' is under way (migrating: ")
            assert "of 50 chunks); wait for its end, or give it up" in message
        added = await client.post(f"{DOCS}/documents", json=[{"id": "late", "text": "a late note"}])
        assert added.json()["new"] == 1
        assert (await client.post(f"{DOCS}/search", json={"query": "late note"})).status_code == 200
        assert (await client.get(DOCS)).json()["chunks_to_migrate"] > 0
        assert not request.done()
        assert (await client.post(MIGRATE, json={"drop_others": True})).status_code == 200
        given_up = await request
        assert code(given_up) == (409, "migration_given_up")
        assert given_up.json()["error"]["message"] == "the migration of 'docs' to 'new' was given up (drop_others)"
        assert (await client.get(DOCS)).json()["migrating_to"] is None
        again = await client.post(MIGRATE, json={"model": "new"})
        assert (again.status_code, again.json()["encoded"]) == (200, 51)


async def test_only_two_collections_are_migrated_at_once(settings):
    async with running(settings) as (client, collections):
        for name in ("more", "third"):
            await fill(client, name)
        paths = [f"/v1/collections/{name}/migrate" for name in ("docs", "more", "third")]
        under_way = [asyncio.create_task(client.post(path, json=SLOWLY)) for path in paths[:2]]
        await until(lambda: collections.ingests.background_work("docs") and collections.ingests.background_work("more"))
        refused = await client.post(paths[2], json=SLOWLY)
        assert (code(refused), refused.headers["retry-after"]) == ((429, "too_many_migrations"), "10")
        assert refused.json()["error"]["message"].startswith(
            "at most 2 collections are migrated or tuned at a time, and 'docs' and 'more' are under way; try again"
        )
        for path, request in zip(paths, under_way, strict=False):
            await client.post(path, json={"drop_others": True})  # before it has begun to encode
            assert code(await request) == (409, "migration_given_up")
            assert (await client.get(path.removesuffix("/migrate"))).json()["migrating_to"] is None
        assert (await client.post(paths[2], json={"model": "new"})).status_code == 200


async def test_a_migration_goes_on_without_its_client(settings, new):
    async with running(settings) as (client, collections):
        async with migrating(client, collections, {"model": "new", "rate": 25}) as request:
            request.cancel()
            assert (await client.get(DOCS)).json()["migrating_to"] == str(new)
        await until(lambda: collections.ingests.background_work("docs") is None)
        assert (await client.get(DOCS)).json()["model"] == str(new)


async def test_a_drop_ends_a_migration_and_the_name_is_free(settings, tmp_path):
    async with running(settings) as (client, collections):
        async with migrating(client, collections) as request:
            assert (await client.delete(DOCS)).json() == {"dropped": "docs"}
            assert code(await request) == (404, "collection_not_found")
        assert not (tmp_path / "store" / "docs").exists()
        await fill(client)
        assert (await client.post(MIGRATE, json={"model": "new"})).json()["encoded"] == 50


async def test_the_end_of_the_server_ends_a_migration_and_the_next_one_goes_on(settings):
    async with running(settings) as (client, collections), migrating(client, collections, encoded=2) as request:
        collections.stop_in(0)  # the first chunk is stored
        answer = await request
        assert code(answer) == (503, "server_stopped")
    async with serving_again(settings) as client:
        encoded = 50 - (await client.get(DOCS)).json()["chunks_to_migrate"]
        assert encoded > 0
        assert (await client.post(MIGRATE, json={"model": "new"})).json()["encoded"] == 50 - encoded


@asynccontextmanager
async def serving_again(settings):
    app = create_app(settings)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        yield client


async def test_a_rebuild_of_the_indexes_takes_its_turn_and_has_new_settings(settings):
    go_on = asyncio.Event()

    async def lines():
        yield b'{"id": "first", "text": "the first one", "team": "hr"}\n'
        await go_on.wait()

    async with running(settings) as (client, collections):
        ndjson = {"Content-Type": "application/x-ndjson"}
        ingest = asyncio.create_task(client.post(f"{DOCS}/documents", content=lines(), headers=ndjson))
        await until(lambda: collections.ingests.writes_to("docs"))
        body = {"quantization": "int8", "payload_indexes": {"team": "keyword"}}
        rebuild = asyncio.create_task(client.post(REINDEX, json=body, headers=EVENTS))
        await until(lambda: collections.ingests._waiting["docs"] == 2)
        assert (await client.post(f"{DOCS}/search", json={"query": "note"})).status_code == 200
        go_on.set()
        assert (await ingest).json()["new"] == 1
        *_, (kind, report) = told((await rebuild).text)
        assert (kind, report["chunks"], report["indexed"]) == ("report", 51, 51)
        assert report["settings"].startswith("int8 quantisation")
        assert report["payload_indexes"] == {"team": "keyword"}
        cutting = await client.post(REINDEX, json={"pages": True, "surroundings": 8})
        assert code(cutting) == (400, "invalid_setting")  # documents are not cut
        info = (await client.get(DOCS)).json()
        assert info["index"]["quantization"] == "int8"
        refused = await client.post(REINDEX, json={"payload_indexes": {"team": "what"}})
        assert code(refused) == (400, "invalid_setting")


async def test_a_collection_of_a_qdrant_server_is_migrated_and_reindexed_too(settings, new):
    from stand_in import StandIn

    with StandIn().running() as qdrant:
        async with running(settings.model_copy(update={"path": None, "url": qdrant.url})) as (client, collections):
            async with migrating(client, collections, encoded=2) as request:
                assert code(await client.post(MIGRATE, json={"model": "new"})) == (409, "migration_under_way")
                assert (await client.delete(DOCS)).json() == {"dropped": "docs"}
                assert code(await request) == (404, "collection_not_found")
            await fill(client)
            assert (await client.post(MIGRATE, json={"model": "new"})).json()["encoded"] == 50
            assert (await client.post(REINDEX, json={})).json()["chunks"] == 50
            assert (await client.get(DOCS)).json()["model"] == str(new)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """The default model with vectors of 128 dimensions."""
    folder = tmp_path_factory.mktemp("models") / "short"
    shutil.copytree(find_model("default").path, folder)
    described = folder / "config_sentence_transformers.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"truncate_dim": 128}))
    return folder


NOTES = [
    {"id": f"n{row}", "text": f"Note {row}: certificate {row % 7} is renewed in week {row}."} for row in range(400)
]


@contextmanager
def going_on(address, *uses):
    """Ask for ``uses`` again and again meanwhile; yields the statuses of the answers."""
    over, seen = threading.Event(), []

    def ask(path, body):
        with httpx.Client(base_url=address, timeout=120) as client:
            while not over.is_set():
                try:
                    answer = client.post(path, json=body)
                    seen.append((path, answer.status_code))
                    if path.endswith("/search") and answer.status_code == 200:
                        seen.append((path, len(answer.json()["results"][0]["hits"])))
                except httpx.HTTPError as error:
                    if not over.is_set():
                        seen.append((path, repr(error)))
                    return

    threads = [threading.Thread(target=ask, args=each) for each in uses]
    for each in threads:
        each.start()
    try:
        yield seen
    finally:
        over.set()
        for each in threads:
            each.join()


@pytest.mark.slow
def test_no_search_fails_through_a_kill_two_migrations_and_the_end_of_the_old_vectors(short, tmp_path):
    """The real default model, in a real process, and the same model with other dimensions."""
    options = ("--model", "default")
    searches = [
        (f"{DOCS}/search", {"query": "When is certificate 3 renewed?", "mode": mode}) for mode in ("dense", "hybrid")
    ]
    with serving(tmp_path, short, *options) as server, httpx.Client(base_url=server.address, timeout=300) as client:
        client.post("/v1/collections", json={"name": "docs", "model": "default"}).raise_for_status()
        assert client.post(f"{DOCS}/documents", json=NOTES).json()["new"] == 400
        with going_on(server.address, *searches) as seen:
            body = {"model": "tiny", "rate": 100}
            with client.stream("POST", MIGRATE, json=body, headers=EVENTS) as events:
                for line in events.iter_lines():
                    now = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                    if now.get("step") == "migrating" and now["done"] > 100:  # the first 100 are stored
                        break
        assert {what for _, what in seen} == {200, 10}
        assert client.get(DOCS).json()["model"] == "default"
        server.stop(signal.SIGKILL)
    errors = {"errors": subprocess.PIPE}
    with (
        serving(tmp_path, short, *options, **errors) as server,
        httpx.Client(base_url=server.address, timeout=300) as client,
    ):
        info = client.get(DOCS).json()
        assert info["migrating_to"] == str(short)
        assert 0 < info["chunks_to_migrate"] < 400
        more = (f"{DOCS}/documents", [{"id": "more", "text": "One more note."}])
        with going_on(server.address, *searches, more) as seen:
            with client.stream("POST", MIGRATE, json={"model": "tiny", "rate": 100}, headers=EVENTS) as events:
                for line in events.iter_lines():
                    if line.startswith("data"):
                        break  # and the client goes away
            while (second := client.post(MIGRATE, json={"model": "tiny"})).status_code == 409:
                assert second.json()["error"]["code"] == "migration_under_way"
            assert code(second) == (400, "invalid_setting")  # it has the model now
            info = client.get(DOCS).json()
            assert (info["model"], info["dim"]) == (str(short), 128)
            assert client.post(MIGRATE, json={"drop_others": True}).json() == {"dropped": ["default"]}
            assert client.post(REINDEX, json={"quantization": "int8"}).json()["chunks"] == 401
            assert client.get(f"{DOCS}/verify").json()["stray"] == 0
        assert {what for _, what in seen} == {200, 10}
        assert {path for path, _ in seen} == {searches[0][0], more[0]}
        hits = client.post(f"{DOCS}/search", json={"query": NOTES[33]["text"], "mode": "dense"}).json()
        assert hits["results"][0]["hits"][0]["id"].startswith("n33")
        assert server.stop(signal.SIGTERM) == 0
        assert "Traceback" not in server.process.stderr.read()
