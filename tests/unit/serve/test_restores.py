"""Restoring over HTTP: a collection appears as a whole or not at all, and nothing is left of what was refused."""

from __future__ import annotations

import asyncio
import io
import json
import random
import signal
import subprocess
import tarfile
import threading
from contextlib import closing

import httpx
import pytest
from fastapi.testclient import TestClient
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, VectorParams

from twinvec import Encoder
from twinvec.errors import InputError
from twinvec_qdrant import Collection, ReceivedBackup, TemporaryBackup, list_collections
from twinvec_qdrant.stores.embedded.folder import CollectionFolder
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections import backups
from unit.serve.processes import serving
from unit.serve.test_backups import BACKUP, DOCUMENTS, KEY, READER, client, filled, left
from unit.serve.test_maintenance import EVENTS, code, going_on, told
from unit.serve.waiting import pause_until

COPY = "/v1/collections/copy"
RESTORE = f"{COPY}/restore"
TAR = {"Content-Type": "application/x-tar"}
SEARCH = {"query": "certificate 3", "limit": 5}


@pytest.fixture(scope="module")
def archive(tiny_model, tmp_path_factory):
    """The archive of a backup of the collection "docs"."""
    store = tmp_path_factory.mktemp("archive") / "store"
    with client(tiny_model("bert"), store) as asked:
        return asked.get(BACKUP).content


@pytest.fixture
def asked(tiny_model, tmp_path):
    """A client of a server without collections."""
    app = create_app(ServeSettings(path=tmp_path / "store", models={"tiny": str(tiny_model("bert"))}))
    with TestClient(app, base_url="http://127.0.0.1:6380") as asked:
        yield asked


def hits(asked, path):
    """What a search finds."""
    found = asked.post(f"{path}/search", json=SEARCH).json()["results"][0]["hits"]
    return [(each["id"], each["text"], each["scores"]) for each in found]


def packed(*members, content=b""):
    """An archive of members of these descriptions."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for each in members:
            each.size = len(content) if each.isreg() else 0
            archive.addfile(each, io.BytesIO(content) if each.isreg() else None)
    return target.getvalue()


def member(name, kind=tarfile.REGTYPE, link="", **pax):
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.pax_headers = kind, link, pax
    return found


def repacked(archive, change):
    """The archive with each member and its content changed."""
    target = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as source, tarfile.open(fileobj=target, mode="w") as written:
        for each in source:
            content = source.extractfile(each).read() if each.isreg() else b""
            each, content = change(each, content)
            if each is not None:
                each.size = len(content)
                written.addfile(each, io.BytesIO(content))
    return target.getvalue()


def test_a_restored_collection_is_the_same_under_another_name(tiny_model, tmp_path, archive):
    store = tmp_path / "store"
    with client(tiny_model("bert"), store) as asked:
        answer = asked.post(RESTORE, content=archive, headers=TAR)
        assert (answer.status_code, answer.json()["collection"]) == (200, "docs")
        assert answer.json()["points"]["record"] == 200
        assert hits(asked, COPY) == hits(asked, "/v1/collections/docs")
        assert len(hits(asked, COPY)) == 5
        listed = asked.get("/v1/collections").json()["data"]
        assert [(each["name"], each["documents"]) for each in listed] == [("copy", 200), ("docs", 200)]
        assert sorted(each.name for each in store.iterdir()) == ["copy", "docs"]
        events = told(asked.post("/v1/collections/more/restore", content=archive, headers=TAR | EVENTS).text)
        assert events[-1] == ("report", answer.json())
        described = asked.get("/openapi.json").json()["components"]["schemas"]["Restored"]["properties"]
        assert answer.json().keys() == described.keys()
        assert asked.post(f"{COPY}/documents", json=DOCUMENTS).json()["unchanged"] == 200
        assert asked.get(f"{COPY}/verify").json()["incomplete"] == []
        assert sorted(each.name for each in (store / "copy").iterdir() if each.name != "turns") == sorted(
            each.name for each in (store / "docs").iterdir() if each.name != "turns"
        )


def test_what_is_refused_changes_nothing(tiny_model, tmp_path, archive, monkeypatch):
    store = tmp_path / "store"
    with client(tiny_model("bert"), store) as asked:
        taken = asked.post("/v1/collections/docs/restore", content=archive, headers=TAR)
        assert code(taken) == (409, "collection_exists")
        assert "there is a collection 'docs' already; drop it first" in taken.json()["error"]["message"]
        assert code(asked.post("/v1/collections/%20a/restore", content=archive, headers=TAR)) == (
            400,
            "invalid_setting",
        )
        assert code(asked.post(RESTORE, content=b"x", headers={"Content-Type": "application/zip"}))[0] == 415
        assert code(asked.post(f"{RESTORE}?overwrite=true", content=archive, headers=TAR))[0] == 400
        with monkeypatch.context() as patched:
            patched.setattr(backups, "_AT_ONCE", 0)
            assert code(asked.post(RESTORE, content=archive, headers=TAR)) == (429, "overloaded")
        with monkeypatch.context() as patched:
            patched.setattr("twinvec_qdrant.stores.embedded.room.free_room", lambda place: 2**20)
            full = asked.post(RESTORE, content=archive, headers=TAR)
        assert code(full) == (503, "store_unavailable")
        assert "to restore the backup" in full.json()["error"]["message"]
        assert sorted(each.name for each in store.iterdir()) == ["docs"]
        assert hits(asked, "/v1/collections/docs")
        assert asked.post(RESTORE, content=archive, headers=TAR).status_code == 200, "those that failed do not count"


def test_a_folder_of_local_mode_gets_no_collection(asked, tmp_path, archive):
    vectors = VectorParams(size=4, distance=Distance.DOT)
    with closing(QdrantClient(path=str(tmp_path / "store"))) as local:
        local.create_collection("other", vectors_config=vectors)
    refused = asked.post(RESTORE, content=archive, headers=TAR)
    assert code(refused) == (400, "invalid_input")
    assert "cannot hold a new collection" in refused.json()["error"]["message"]
    assert sorted(each.name for each in (tmp_path / "store").iterdir() if each.name[0] != ".") == [
        "collection",
        "meta.json",
    ]


def test_a_body_over_the_limit_leaves_nothing(tiny_model, tmp_path, archive):
    settings = ServeSettings(
        path=tmp_path / "store", models={"tiny": str(tiny_model("bert"))}, max_ingest_bytes=2**20, max_body_bytes=2**19
    )
    with TestClient(create_app(settings), base_url="http://127.0.0.1:6380") as asked:

        def pieces():
            for start in range(0, len(archive), 2**16):
                yield archive[start : start + 2**16]

        for content in (archive, pieces()):
            answer = asked.post(RESTORE, content=content, headers=TAR)
            assert code(answer) == (413, "body_too_large")
            assert "--max-ingest-mb" in answer.json()["error"]["message"]
            assert "parts" not in answer.json()["error"]["message"]
        assert list((tmp_path / "store").iterdir()) == []


@pytest.mark.parametrize("part", [0, 1, 511, 512, 0.1, 0.5, 0.9, 0.999])
def test_a_part_of_an_archive_leaves_nothing(asked, tmp_path, archive, part):
    size = part if part in (0, 1, 511, 512) else int(len(archive) * part)
    answer = asked.post(RESTORE, content=archive[:size], headers=TAR)
    if answer.status_code == 200:  # only zeros at the end are missing
        assert not any(archive[size:])
        assert len(hits(asked, COPY)) == 5
        return
    assert answer.status_code == 400, answer.text
    assert str(tmp_path) not in answer.json()["error"]["message"]
    assert not (tmp_path / "store").exists() or list((tmp_path / "store").iterdir()) == []
    assert asked.get("/v1/collections").json() == {"data": []}


@pytest.mark.parametrize(
    "bad",
    [
        member("../escaped"),
        member("shard/../../escaped"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.LNKTYPE, "backup.json"),
        member("pipe", tarfile.FIFOTYPE),
        member("device", tarfile.CHRTYPE),
        member("holes", tarfile.GNUTYPE_SPARSE),
        member("holes", **{"GNU.sparse.major": "0", "GNU.sparse.minor": "0", "GNU.sparse.size": "9" * 18}),
        member("long", comment="x" * 2**17),
        member("NUL", path="no\0name"),
        member("number", **{"GNU.sparse.size": "x"}),
        member("time", mtime="1e300"),
        member("file/in a file"),
    ],
    ids=lambda each: f"{each.name} {each.type.decode()}",
)
def test_members_that_are_no_part_of_a_backup_are_refused(asked, tmp_path, archive, bad):
    answer = asked.post(RESTORE, content=packed(member("file"), bad, content=b"x") + archive, headers=TAR)
    assert code(answer) == (400, "invalid_input")
    assert "cannot be unpacked" in answer.json()["error"]["message"]
    assert list((tmp_path / "store").iterdir()) == []
    assert not [each for each in tmp_path.rglob("*") if "escaped" in each.name]


@pytest.mark.slow
def test_only_the_files_of_a_backup_become_a_collection(asked, tmp_path, archive):
    def nothing_but(**contents):
        return packed(member("backup.json"), content=json.dumps(contents).encode())

    def damaged(each, content):
        return each, content.replace(b"note", b"nota") if "payload" in each.name else content

    def described(each, content):
        return each, content.replace(b"docs", b"dogs") + b" " if each.name == "collection.json" else content

    def without(name):
        return lambda each, content: (None if each.name.endswith(name) else each, content)

    changed = [repacked(archive, change) for change in (damaged, described, without("version.info"))]
    also = packed(member("shard/also"), content=b"x")[:1024] + archive
    wrong = {
        "it has no backup.json": packed(member("a"), content=b"x"),
        "made by a later version": nothing_but(format=2),
        "checksums.json is missing or changed": nothing_but(
            format=1, collection="docs", time="2026-01-01T00:00:00+00:00", points={}
        ),
        "shard/also": None,
    }
    for content in (*changed, also, repacked(archive, without("checksums.json"))):
        answer = asked.post(RESTORE, content=content, headers=TAR)
        assert code(answer) == (400, "invalid_input")
        assert "the archive: " in answer.json()["error"]["message"]
        assert "missing or changed" in answer.json()["error"]["message"]
    for message, content in wrong.items():
        if content is not None:
            answer = asked.post(RESTORE, content=content, headers=TAR)
            assert code(answer) == (400, "invalid_input")
            assert message in answer.json()["error"]["message"]
            assert str(tmp_path) not in answer.json()["error"]["message"]
    assert list((tmp_path / "store").iterdir()) == []
    beside = packed(member("turns"), content=b"x")[:1024] + archive  # next to the files of a backup, and is dropped
    assert asked.post(RESTORE, content=beside, headers=TAR).status_code == 200
    assert not (tmp_path / "store" / "copy" / "turns").is_file()


def test_a_qdrant_server_restores_its_own_and_a_key_that_reads_restores_nothing(tmp_path):
    asked = TestClient(create_app(ServeSettings(path=tmp_path, read_keys=(READER,), write_keys=(KEY,))))
    assert asked.post(RESTORE, content=b"", headers=TAR | {"Authorization": f"Bearer {READER}"}).status_code == 403
    with_url = TestClient(create_app(ServeSettings(url="http://127.0.0.1:1")))
    assert code(with_url.post(RESTORE, content=b"", headers=TAR)) == (400, "invalid_setting")


async def test_one_of_two_gets_the_name(tiny_model, tmp_path, archive):
    app = create_app(ServeSettings(path=tmp_path / "store", models={"tiny": str(tiny_model("bert"))}))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:6380") as asked,
    ):
        sent = [asked.post(RESTORE, content=archive, headers=TAR) for _ in range(2)]
        made = asked.post("/v1/collections", json={"name": "other"})
        first, second, other = await asyncio.gather(*sent, made)
        assert sorted([code(first), code(second)], key=str) == [(200, None), (409, "collection_exists")]
        assert other.status_code == 201
        assert (await asked.get(COPY)).json()["sources"] == 200
    assert sorted(each.name for each in (tmp_path / "store").iterdir()) == ["copy", "other"]


def test_a_kill_before_the_last_rename_leaves_a_collection_that_is_listed(tiny_model, tmp_path, archive, monkeypatch):
    def killed(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CollectionFolder, "put_restored_in_place", killed)
        received = ReceivedBackup(iter([archive]), tmp_path)
        with pytest.raises(KeyboardInterrupt):
            received.restore("copy")
    received.remove()
    assert [each.name for each in list_collections(tmp_path)] == ["copy"]
    with Collection.open("copy", tmp_path, encoder=Encoder(str(tiny_model("bert")))) as opened:
        assert opened.verify().sound
        assert len(opened.find()) == 200
    again = ReceivedBackup(iter([archive]), tmp_path)
    again.remove()
    with pytest.raises(InputError):
        ReceivedBackup(iter([archive[:10_000]]), tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["copy"]


def halves(archive, go_on):
    """The first half of an archive; the rest when ``go_on`` is set. A long piece would be copied for each part sent."""
    pieces = [archive[start : start + 2**20] for start in range(0, len(archive), 2**20)]
    yield from pieces[: len(pieces) // 2]
    assert go_on.wait(120)
    yield from pieces[len(pieces) // 2 :]


@pytest.mark.slow
def test_searches_go_on_and_a_client_that_goes_away_leaves_nothing(tiny, tmp_path):
    store = tmp_path / "store"
    with serving(tmp_path, tiny) as server:
        filled(server)
        archive = httpx.get(f"{server.address}{BACKUP}", timeout=120).content
        pause_until(lambda: not left(store))
        with going_on(server.address, ("/v1/collections/docs/search", SEARCH)) as seen:
            command = ["curl", "-sS", "-T", "-", "-X", "POST", "-H", "Content-Type: application/x-tar"]
            with subprocess.Popen([*command, f"{server.address}{RESTORE}"], stdin=subprocess.PIPE) as asking:
                asking.stdin.write(archive[: len(archive) // 2])
                asking.stdin.flush()
                pause_until(lambda: left(store))
                asking.kill()
                asking.stdin = None
            pause_until(lambda: not left(store))
            done = subprocess.run(
                [*command, f"{server.address}{RESTORE}"], input=archive, stdout=subprocess.PIPE, check=True
            )
            assert json.loads(done.stdout)["points"]["record"] == 200
        assert {*seen} == {("/v1/collections/docs/search", 200), ("/v1/collections/docs/search", 5)}
        assert sorted(each.name for each in store.iterdir() if each.is_dir()) == ["copy", "docs"]


@pytest.mark.slow
def test_after_a_kill_the_collection_is_whole_or_not_there(tiny, tmp_path):
    store, seed = tmp_path / "store", random.Random(0)
    with serving(tmp_path, tiny) as server:
        filled(server)
        archive = httpx.get(f"{server.address}{BACKUP}", timeout=120).content
    whole = 0
    for number in range(12):
        with serving(tmp_path, tiny) as server:
            names = [each["name"] for each in httpx.get(f"{server.address}/v1/collections", timeout=60).json()["data"]]
            assert not left(store)
            if "copy" in names:
                whole += 1
                info = httpx.get(f"{server.address}{COPY}", timeout=60).json()
                assert (info["sources"], info["points"]) == (200, 200)
                assert httpx.get(f"{server.address}{COPY}/verify", timeout=60).json()["incomplete"] == []
                assert httpx.delete(f"{server.address}{COPY}", timeout=60).status_code == 200
            go_on, killed = threading.Event(), threading.Event()

            def send(address=server.address, go_on=go_on, killed=killed):
                try:
                    httpx.post(f"{address}{RESTORE}", content=halves(archive, go_on), headers=TAR, timeout=120)
                except httpx.HTTPError:
                    assert killed.is_set()

            sending = threading.Thread(target=send)
            sending.start()
            pause_until(lambda: left(store))
            moment = ("half", "when it appears", "at any time", "when it is answered")[number % 4]
            if moment != "half":
                go_on.set()
            if moment == "when it appears":
                pause_until(lambda: (store / "copy" / "restored").exists() or (store / "copy" / "shard").exists())
            elif moment == "at any time":
                assert not killed.wait(seed.uniform(0, 2))
            elif moment == "when it is answered":
                sending.join()
            killed.set()
            server.stop(signal.SIGKILL)
            go_on.set()
            sending.join()
    assert 5 <= whole <= 8


@pytest.mark.slow
def test_a_stop_ends_a_restore_that_is_still_sent(tiny, tmp_path):
    with serving(tmp_path, tiny, "--stop-seconds", "1", errors=subprocess.PIPE) as server:
        filled(server)
        archive = httpx.get(f"{server.address}{BACKUP}", timeout=120).content
        go_on, answers = threading.Event(), []

        def send():
            sent = halves(archive, go_on)
            try:
                answers.append(
                    httpx.post(f"{server.address}{RESTORE}", content=sent, headers=TAR, timeout=120).status_code
                )
            except httpx.HTTPError:
                answers.append(503)

        sending = threading.Thread(target=send)
        sending.start()
        pause_until(lambda: left(tmp_path / "store"))
        assert server.stop(signal.SIGTERM) == 0
        go_on.set()
        sending.join()
        assert answers == [503]
        assert "Traceback" not in server.process.stderr.read()
    assert sorted(each.name for each in (tmp_path / "store").iterdir() if each.is_dir()) == ["docs"]


def test_temporary_backups_and_received_ones_are_removed_alike(tiny_model, tmp_path, archive):
    received = ReceivedBackup(iter([archive]), tmp_path)
    assert TemporaryBackup.remove_abandoned(tmp_path) == []
    received._held.close()  # as a kill does it
    assert TemporaryBackup.remove_abandoned(tmp_path) == [received.path]
