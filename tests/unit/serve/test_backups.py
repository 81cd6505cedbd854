"""Backups over HTTP: what ``twinvec restore`` takes, made under load, and gone from the server however they end."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import socket
import ssl
import subprocess
import tarfile
import threading
import time
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi.testclient import TestClient

from twinvec import Encoder
from twinvec_qdrant import Asked, Collection, TemporaryBackup, restore_collection, search_as_asked
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections import backups
from unit.serve.processes import serving
from unit.serve.test_safety import certificate
from unit.serve.waiting import pause_until

ADDRESS = "http://127.0.0.1:6380"
BACKUP = "/v1/collections/docs/backup"
DOCUMENTS = [{"id": f"n{row:03}", "text": f"note {row} about certificate {row % 7}"} for row in range(200)]
KEY, READER = "a-write-key-0123456789", "a-read-key-0123456789"


@contextmanager
def client(model, store, **settings):
    """A client of a server that runs in this process, with the collection "docs"."""
    app = create_app(ServeSettings(path=store, models={"tiny": str(model)}, **settings))
    with TestClient(app, base_url=ADDRESS) as asked:
        if "url" not in settings:
            asked.post("/v1/collections", json={"name": "docs", "chunking": False})
            assert asked.post("/v1/collections/docs/documents", json={"documents": DOCUMENTS}).json()["new"] == 200
        yield asked


def left(store: Path) -> list[Path]:
    """The folders for temporary files in a store."""
    return list(store.glob(".twinvec-backup-*"))


def filled(server):
    """Let a server have the collection "docs"."""
    for path, body in (("", {"name": "docs", "chunking": False}), ("/docs/documents", {"documents": DOCUMENTS})):
        httpx.post(f"{server.address}/v1/collections{path}", json=body, timeout=120).raise_for_status()


def test_a_backup_is_restored_with_the_same_documents_and_answers(tiny_model, tmp_path):
    store = tmp_path / "store"
    with client(tiny_model("bert"), store) as asked:
        found = asked.post("/v1/collections/docs/search", json={"query": "certificate 3"}).json()["results"][0]["hits"]
        told = 'twinvec_last_backup_timestamp_seconds{collection="docs"}'
        assert told not in asked.get("/metrics").text
        answer = asked.get(BACKUP)
        assert told in asked.get("/metrics").text
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
        pause_until(lambda: [each.name for each in store.iterdir()] == ["docs"])
        with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
            archive.extractall(tmp_path / "backup", filter="data")
    made = restore_collection(tmp_path / "backup", tmp_path / "elsewhere")
    assert (made.collection, made.points["record"]) == ("docs", 200)
    with Collection.open("docs", tmp_path / "elsewhere", encoder=Encoder(str(tiny_model("bert")))) as opened:
        assert [each.text for each in opened.get([each["id"] for each in DOCUMENTS])] == [
            each["text"] for each in DOCUMENTS
        ]
        (expected,) = search_as_asked(opened, ["certificate 3"], Asked(syntax=False))
        assert found == json.loads(json.dumps([each.as_fields() for each in expected.hits]))
        assert len(found) == 10
        assert opened.verify().sound


def test_errors_come_before_the_archive(tiny_model, tmp_path, monkeypatch):
    store = tmp_path / "store"
    with client(tiny_model("bert"), store) as asked:
        unknown = asked.get("/v1/collections/none/backup")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "collection_not_found")
        assert asked.get(f"{BACKUP}?overwrite=true").status_code == 400
        monkeypatch.setattr(backups, "_AT_ONCE", 0)
        crowded = asked.get(BACKUP)
        assert (crowded.status_code, crowded.headers["retry-after"]) == (429, "1")
        monkeypatch.undo()
        with monkeypatch.context() as patched:
            patched.setattr("twinvec_qdrant.stores.embedded.room.free_room", lambda place: 2**20)
            full = asked.get(BACKUP)
        assert (full.status_code, full.json()["error"]["code"]) == (503, "store_unavailable")
        assert "set the environment variable TMPDIR" in full.json()["error"]["message"]
        assert not left(store)
        assert asked.get(BACKUP).status_code == 200, "those that failed do not count"


def test_a_damaged_collection_is_not_backed_up(tiny_model, tmp_path):
    store = tmp_path / "store"
    with client(tiny_model("bert"), store):
        pass
    next((store / "docs").rglob("version.info")).unlink()
    app = create_app(ServeSettings(path=store, models={"tiny": str(tiny_model("bert"))}))
    with TestClient(app, base_url=ADDRESS) as asked:
        answer = asked.get(BACKUP)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "store_corrupt")
        assert not left(store)


def test_a_qdrant_server_makes_its_own():
    asked = TestClient(create_app(ServeSettings(url="http://127.0.0.1:1")))
    answer = asked.get(BACKUP)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_setting")
    assert "make a snapshot there" in answer.json()["error"]["message"]


def test_a_key_that_reads_backs_nothing_up(tmp_path):
    app = create_app(ServeSettings(path=tmp_path, read_keys=(READER,), write_keys=(KEY,)))
    asked = TestClient(app)
    assert asked.get(BACKUP, headers={"Authorization": f"Bearer {READER}"}).status_code == 403
    assert asked.get(BACKUP, headers={"Authorization": f"Bearer {KEY}"}).status_code == 404


def test_only_folders_whose_process_has_died_are_removed(tiny_model, tmp_path):
    store = tmp_path / "store"
    with client(tiny_model("bert"), store):
        held = TemporaryBackup("docs", store)
    assert TemporaryBackup.remove_abandoned(store) == []
    held._held.close()  # as a kill does it
    assert TemporaryBackup.remove_abandoned(store) == [held.path]
    assert sorted(each.name for each in store.iterdir()) == ["docs"]


async def test_a_stop_waits_for_a_backup_whose_request_was_cancelled(tiny_model, tmp_path, monkeypatch):
    begun, go_on = asyncio.Event(), threading.Event()
    loop, store = asyncio.get_running_loop(), tmp_path / "store"

    def made(*given):
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(60)
        return TemporaryBackup(*given)

    app = create_app(ServeSettings(path=store, models={"tiny": str(tiny_model("bert"))}))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as asked:
        assert (await asked.post("/v1/collections", json={"name": "docs"})).status_code == 201
        monkeypatch.setattr(backups, "TemporaryBackup", made)
        asking = asyncio.create_task(asked.get(BACKUP))
        await begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        loop.call_soon(go_on.set)
    assert [each.name for each in store.iterdir()] == ["docs"]


@pytest.mark.slow
def test_backups_under_ingests_and_searches_are_whole(tiny, tmp_path):
    """The archives go through curl and tar, as the guide has it."""
    over, statuses = threading.Event(), []
    with serving(tmp_path, tiny) as server:
        filled(server)

        def write():
            edition = 0
            while not over.is_set():
                edition += 1
                body = [{"id": each["id"], "text": f"{each['text']} in edition {edition}"} for each in DOCUMENTS]
                answer = httpx.post(f"{server.address}/v1/collections/docs/documents", json=body, timeout=120)
                statuses.append((answer.status_code, answer.json()["failed"]))

        def search():
            while not over.is_set():
                body = {"query": "certificate", "limit": 5}
                answer = httpx.post(f"{server.address}/v1/collections/docs/search", json=body, timeout=120)
                statuses.append((answer.status_code, 5 - len(answer.json()["results"][0]["hits"])))

        threads = [threading.Thread(target=each) for each in (write, search, search)]
        for each in threads:
            each.start()
        try:
            for number in range(3):
                (tmp_path / f"backup{number}").mkdir()
                command = f"curl -sS --fail {server.address}{BACKUP} | tar -x -C backup{number}"
                subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, check=True)
        finally:
            over.set()
            for each in threads:
                each.join()
        assert {*statuses} == {(200, 0)}
        pause_until(lambda: not left(tmp_path / "store"))
        assert server.stop(signal.SIGTERM) == 0
    for number in range(3):
        restore_collection(tmp_path / f"backup{number}", tmp_path / f"restored{number}")
        with Collection.open("docs", tmp_path / f"restored{number}", encoder=Encoder(str(tiny))) as opened:
            assert sorted(opened.find()) == [each["id"] for each in DOCUMENTS]
            assert len(opened.search("certificate", 300, "sparse")) == 200
            assert opened.ingest(DOCUMENTS).failed == 0
            assert opened.verify().sound
            assert opened.count() == 200


@contextmanager
def begun(server):
    """A client that has read the beginning of a backup; yields the rest, unread."""
    with httpx.stream("GET", f"{server.address}{BACKUP}", timeout=120) as answer:
        assert answer.status_code == 200
        pieces = answer.iter_raw()
        first = next(pieces)
        assert first
        yield chain([first], pieces)


@pytest.mark.slow
def test_a_client_that_goes_away_leaves_nothing(tiny, tmp_path):
    store = tmp_path / "store"
    with serving(tmp_path, tiny) as server:
        filled(server)
        before = memory(server)
        for _ in range(6):  # more than may be at once
            with begun(server):
                assert len(left(store)) == 1
            pause_until(lambda: not left(store))
        assert memory(server) < before + 64 * 2**20, "an archive has 180 MB"
        documents = [{"id": "new", "text": "a new one"}]
        there = f"{server.address}/v1/collections/docs/documents"
        with begun(server):
            assert httpx.post(there, json=documents, timeout=120).json()["new"] == 1, "only the copying holds it up"
        listed = httpx.get(f"{server.address}/v1/collections", timeout=120).json()["data"]
        assert [each["name"] for each in listed] == ["docs"]


def memory(server) -> int:
    """The bytes that a server's process has in memory."""
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * 4096


def stalled(server) -> socket.socket:
    """A client that asks for a backup, and reads no more than the beginning of the answer."""
    address = urlsplit(server.address)
    client = socket.create_connection((address.hostname, address.port), timeout=120)
    if address.scheme == "https":
        client = ssl._create_unverified_context().wrap_socket(client)
    client.sendall(f"GET {BACKUP} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
    assert client.recv(15).startswith(b"HTTP/1.1 200")
    return client


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_clients_that_stop_to_read_do_not_block_the_backups_of_others(tiny, tmp_path, scheme):
    shorter, options = "import twinvec_serve.safety.silent_readers as limits; limits.IDLE_SECONDS = 1.0", []
    if scheme == "https":
        certificate(tmp_path)
        options = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"]
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path, tiny, *options, errors=subprocess.PIPE, before=shorter))
        asked = stack.enter_context(httpx.Client(base_url=server.address, verify=False, timeout=120))
        for path, body in (("", {"name": "docs", "chunking": False}), ("/docs/documents", {"documents": DOCUMENTS})):
            asked.post(f"/v1/collections{path}", json=body).raise_for_status()
        for _ in range(4):
            stack.enter_context(stalled(server))

        def read_slowly() -> tuple[int, int]:
            """Read a backup for longer than a client may be silent; give its status and size."""
            with asked.stream("GET", BACKUP) as answer:
                size = 0
                for number, piece in enumerate(answer.iter_raw(2**20)):
                    size += len(piece)
                    if number < 20:
                        time.sleep(0.2)
                return answer.status_code, size

        found: list[tuple[int, int]] = []
        assert "twinvec_last_backup_timestamp_seconds{" not in asked.get("/metrics").text
        pause_until(lambda: found.append(read_slowly()) or found[-1][0] == 200, 60)
        assert "twinvec_last_backup_timestamp_seconds{" in asked.get("/metrics").text
        assert found[-1][1] > 100 * 2**20, "the archive is whole"
        pause_until(lambda: not left(tmp_path / "store"))
        assert server.stop(signal.SIGTERM) == 0
        log = server.process.stderr.read()
    assert log.count("read nothing of an answer for 1 s") == 4
    assert "Traceback" not in log


@pytest.mark.slow
def test_a_client_that_goes_away_while_the_files_are_copied_leaves_nothing(tiny, tmp_path):
    store = tmp_path / "store"
    with serving(tmp_path, tiny) as server:
        filled(server)
        command = ["curl", "-sS", f"{server.address}{BACKUP}", "-o", "/dev/null"]
        with subprocess.Popen(command) as asking:
            pause_until(lambda: left(store))
            asking.kill()
        pause_until(lambda: not left(store))
        assert httpx.get(f"{server.address}{BACKUP}", timeout=120).status_code == 200


@pytest.mark.slow
def test_a_start_removes_what_a_killed_server_has_left(tiny, tmp_path):
    store = tmp_path / "store"
    with serving(tmp_path, tiny) as server:
        filled(server)
        with begun(server) as pieces:
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
            with pytest.raises(httpx.HTTPError):
                b"".join(pieces)
    assert len(left(store)) == 1
    with serving(tmp_path, tiny, errors=subprocess.PIPE) as server:
        assert not left(store)
        assert server.stop(signal.SIGTERM) == 0
        assert "removed a backup that a killed server has left" in server.process.stderr.read()


@pytest.mark.slow
def test_a_server_that_stops_cuts_a_backup_off_that_nobody_reads(tiny, tmp_path):
    store = tmp_path / "store"
    with serving(tmp_path, tiny, "--stop-seconds", "1", errors=subprocess.PIPE) as server:
        filled(server)
        with begun(server) as pieces:
            assert server.stop(signal.SIGTERM) == 0
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                b"".join(pieces)
        errors = server.process.stderr.read()
    assert "was cut off, because the server stops" in errors
    assert "Traceback" not in errors
    assert sorted(each.name for each in store.iterdir() if each.is_dir()) == ["docs"]


@pytest.mark.slow
def test_a_backup_that_is_read_is_finished_before_the_server_stops(tiny, tmp_path):
    with serving(tmp_path, tiny) as server:
        filled(server)
        with begun(server) as pieces:
            server.process.send_signal(signal.SIGTERM)
            content = b"".join(pieces)
        assert server.process.wait(120) == 0
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert json.load(archive.extractfile("backup.json"))["collection"] == "docs"
