"""Clients see no folder of the server's machine and no address of its Qdrant server; the log does."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from twinvec import Encoder
from twinvec.errors import StoreError
from twinvec_qdrant import Collection, Root, serving_process
from twinvec_qdrant.stores.server.store import connect
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections.store_place import StorePlace

ADDRESS = "http://127.0.0.1:6380"


def call(client, tool, **arguments):
    """The answer of an agents' tool, as text."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return client.post("/mcp", json=asked, headers={"Accept": "application/json, text/event-stream"}).text


def test_answers_name_the_collection_and_not_its_folder(tiny, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    settings = ServeSettings(path=Path("store"), models={"tiny": str(tiny)})
    with TestClient(create_app(settings), base_url=ADDRESS) as client:
        for name in ("café", "whole"):
            assert client.post("/v1/collections", json={"name": name}).status_code == 201
        again = client.post("/v1/collections/whole/migrate", json={"model": "tiny"})
        assert again.status_code == 400
        assert again.json()["error"]["message"].startswith("collection 'whole': has the model")
    (tmp_path / "store/caf%C3%A9/collection.json").write_text("{")
    caplog.clear()
    with TestClient(create_app(settings), base_url=ADDRESS) as client:
        answers = [
            client.post("/v1/collections/café/search", json={"query": "tea"}),
            client.get("/v1/collections/café"),
            client.get("/v1/collections"),
            client.post("/v1/search", json={"query": "tea"}),
        ]
        shown = [each.text for each in answers] + [
            call(client, "list_collections"),
            call(client, "search", queries=["tea"]),
        ]
    assert answers[0].json()["error"]["code"] == "store_corrupt"
    for each in shown:
        assert "café/collection.json: " in each, each
    assert all(str(tmp_path) not in each for each in shown)
    assert f"{tmp_path}/store/caf%C3%A9/collection.json: " in caplog.text


def test_a_collection_whose_model_cannot_be_loaded(tiny, tmp_path, caplog):
    shutil.copytree(tiny, tmp_path / "moved")
    for name, model in (("lost", tmp_path / "moved"), ("fine", tiny)):
        with Collection.open(name, tmp_path / "store", encoder=Encoder(model)) as collection:
            collection.ingest([("tea", "green tea")])
    shutil.rmtree(tmp_path / "moved")
    settings = ServeSettings(path=tmp_path / "store", models={"other": "default"})
    with TestClient(create_app(settings), base_url=ADDRESS, raise_server_exceptions=False) as client:
        answer = client.post("/v1/collections/lost/search", json={"query": "tea"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_failed")
        several = client.post("/v1/search", json={"query": "tea"}).json()
        assert [each["collection"] for each in several["results"][0]["hits"]] == ["fine"]
        shown = [answer.json()["error"]["message"], several["failed"]["lost"], call(client, "search", queries=["tea"])]
    for each in shown:
        assert "a model cannot be loaded; the server's log says why" in each, each
        assert str(tmp_path) not in each, each
    assert f"no folder '{tmp_path / 'moved'}'" in caplog.text


@pytest.mark.parametrize("way", ["get", "post"])
def test_only_commands_get_the_locations_of_a_collection_and_its_sources(tiny, tmp_path, way):
    store, notes = tmp_path / "store", tmp_path / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text("green tea")
    settings = ServeSettings(path=store, models={"tiny": str(tiny)}, address=ADDRESS)
    with Collection.open("notes", store, encoder=Encoder(tiny)) as collection:
        collection.ingest(Root(notes))
    with TestClient(create_app(settings), base_url=ADDRESS) as client:

        def info(**headers):
            if way == "get":
                return client.get("/v1/collections/notes", headers=headers).json()
            return client.post("/v1/collections", json={"name": "notes", "exists_ok": True}, headers=headers).json()

        assert str(tmp_path) not in str({**info(), "model": ""})
        assert [each["name"] for each in info()["roots"]] == ["notes"]
        secret = {"Twinvec-Store": serving_process(store).secret}
        assert info(**secret)["location"] == str(store / "notes")
        assert [each["location"] for each in info(**secret)["roots"]] == [str(notes)]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/srv/data/a%20b: is open", "collection 'a b': is open"),
        ("/srv/data/notes/lock: cannot be read", "notes/lock: cannot be read"),
        ("/srv/data: cannot be written", "the store: cannot be written"),
        ("/srv/data2/notes and /mnt/srv/data are others", "/srv/data2/notes and /mnt/srv/data are others"),
        ("/srv/data.bak: exists, unlike /srv/data.", "/srv/data.bak: exists, unlike the store."),
        ("/srv/data.bak/notes: is open", "/srv/data.bak/notes: is open"),
        ("/srv/data/notes.bak: is open", "collection 'notes.bak': is open"),
    ],
)
def test_folders_in_messages(message, shown):
    error = StoreError(message)
    StorePlace(Path("/srv/data"), None).hide(error)
    assert str(error) == shown


@pytest.mark.parametrize(
    "url",
    [
        "http://qdrant:6333/",
        "http://qdrant",
        "http://Qdrant:6333",
        "http://user:secret@127.0.0.1:6333",
        "http://[::1]",
        "https://qdrant.example.org/prefix/",
        "https://user:p%40ss@qdrant.example.org/prefix",
    ],
)
def test_the_address_of_a_qdrant_server_in_messages(url):
    """The client's form of the address, which errors name, has no password, and always a port."""
    with closing(connect("notes", url, None, 1.0)) as store:
        address = store.location.partition(", ")[0]
    error = StoreError(f"{address}, collection 'notes': no answer; {address}: no answer")
    StorePlace(None, url).hide(error)
    assert str(error) == "collection 'notes': no answer; the store: no answer"


@pytest.mark.parametrize("other", ["http://qdrant.example.org:6333", "http://qdrant-2:6333", "http://qdrant:63333"])
def test_other_addresses_in_messages_stay(other):
    for url in ("http://qdrant:6333", "http://qdrant"):
        if not other.startswith(f"{url}:"):
            error = StoreError(f"{other}: no answer")
            StorePlace(None, url).hide(error)
            assert str(error) == f"{other}: no answer"
