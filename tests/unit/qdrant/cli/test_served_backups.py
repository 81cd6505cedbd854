"""``twinvec backup`` and ``twinvec drop`` ask the process that has the store, and leave no half backup."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("twinvec_serve")

import models
from http_servers import serving as answering
from twinvec.cli import main
from twinvec_qdrant import Collection, TemporaryBackup, backup_collection, restore_collection, serving_process
from twinvec_qdrant.settings import NEWEST_READING
from unit.qdrant.cli.test_served_store import KEY, READER, twinvec
from unit.qdrant.test_serving import announced
from unit.serve.processes import serving
from unit.serve.waiting import pause_until
from words import WordEncoder

NOTES = {f"n{row:02}": f"note {row}" for row in range(20)}


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "store"
    with Collection.open("notes", folder, encoder=WordEncoder(), chunking=False) as collection:
        collection.ingest(NOTES.items())
    return folder


@contextmanager
def sending(store, pieces, status=200, *, whole=True):
    """Serve the store, and answer each request with ``pieces``. If not ``whole``, the connection is cut at the end."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.path == "/healthz":
                self.send([json.dumps({"instance": serving_process(store).instance}).encode()], 200)
            else:
                self.send(pieces, status)

        do_DELETE = do_GET

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send(pieces, status)

        def send(self, pieces, status):
            self.send_response(status)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for each in pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(each), each))
            if whole or self.path == "/healthz":
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection = True

        def log_message(self, *_):
            pass

    with answering(HTTPServer(("127.0.0.1", 0), Answers)) as address, announced(store, address):
        yield


@pytest.fixture
def run(store, tmp_path, capsys):
    """Run a command in this process: return its exit code, output and errors."""

    def run(command, *arguments):
        code = 0
        try:
            main([command, *map(str, arguments), "--collection", "notes", "--path", str(store)])
        except SystemExit as end:
            code = end.code or 0
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def pieces(store):
    """Return the archive of a backup of the collection "notes", in pieces."""
    made = TemporaryBackup("notes", store)
    try:
        return list(made.packed())
    finally:
        made.remove()


def test_an_archive_becomes_a_backup(store, run, pieces, tmp_path):
    target = tmp_path / "backups" / "monday"
    with sending(store, pieces):
        code, output, _ = run("backup", target, "--json")
        made = json.loads(output)
        assert (code, made["backup"], made["points"]["record"]) == (0, str(target), 20)
        assert sum(each.stat().st_blocks for each in target.rglob("*")) * 512 < 2**23, "holes stay holes"
        refused, _, errors = run("backup", target)
        assert (refused, "exists; name another folder" in errors) == (1, True)
        assert run("backup", target, "--overwrite")[:2] == (0, f"{target}: 20 documents of notes, 20 chunks\n")
        for place in (store / "tuesday", store / "notes" / "deep", tmp_path / "store"):
            code, _, errors = run("backup", place, "--overwrite")
            assert code == 1, place
        assert sorted(each.name for each in store.iterdir()) == ["notes", "serving.json"]
    assert [each.name for each in target.parent.iterdir()] == ["monday"]
    restore_collection(target, tmp_path / "elsewhere")
    with Collection.open("notes", tmp_path / "elsewhere", encoder=WordEncoder()) as opened:
        assert {each.id: each.text for each in opened.get(sorted(NOTES))} == NOTES


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut"])
@pytest.mark.parametrize("part", [0, 1, 50, 200])
def test_a_part_of_an_archive_leaves_the_older_backup(store, run, pieces, tmp_path, part, whole):
    """The connection is cut in the middle of the answer, or the answer ends too early."""
    assert len(pieces) > 210
    with sending(store, pieces[:part], whole=whole):
        code, _, errors = run("backup", tmp_path / "backup")
        assert code == 1
        reasons = ("cannot be unpacked", "missing or changed") if whole else ("the connection failed",)
        assert any(each in errors for each in reasons), errors
        assert "Traceback" not in errors
        assert [each.name for each in tmp_path.iterdir()] == ["store"]
    first = backup_collection("notes", tmp_path / "backup", store)
    with sending(store, pieces[:part], whole=whole):
        assert run("backup", tmp_path / "backup", "--overwrite")[0] == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "store"]
    assert restore_collection(tmp_path / "backup", tmp_path / "elsewhere") == first


def test_a_damaged_archive_leaves_nothing(store, run, pieces, tmp_path):
    place = max(range(len(pieces)), key=lambda each: pieces[each].count(b"note"))
    pieces[place] = pieces[place].replace(b"note", b"nota")
    with sending(store, pieces):
        code, _, errors = run("backup", tmp_path / "backup")
        assert (code, "missing or changed" in errors) == (1, True)
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("command", [("backup", "copy"), ("drop", "--yes")])
def test_a_process_of_an_older_version_is_named(store, run, status, command):
    code = {404: "not_found", 405: "method_not_allowed"}[status]
    error = {"error": {"message": "there is no such path; /docs lists the paths of this server", "code": code}}
    with sending(store, [json.dumps(error).encode()], status):
        ended, _, errors = run(*command)
    assert ended == 1
    assert "is of an older version of twinvec and cannot do this" in errors
    assert "stop that process and run the same command again" in errors


def test_a_search_of_an_older_version_is_shown(store, run):
    """The answer has the fields of November 2026."""
    hit = {"id": "n07", "text": "note 7", "score": 0.5, "scores": {"dense": 0.5}, "payload": {"source": "n07"}}
    result = {"query": "seven", "seconds": 0.1, "rerank_seconds": None, "hits": [hit]}
    answer = {"collections": ["notes"], "roots": {"notes": []}, "results": [result]}
    with sending(store, [json.dumps(answer).encode()]):
        code, output, _ = run("search", "seven")
    assert (code, "note 7" in output) == (0, True)


def test_new_fields_of_a_later_version_are_ignored(store, run):
    answer = {"sources": 20, "chunks": 20, "incomplete": [], "forgotten": [], "stray": 0, "of_a_later_version": 1}
    with sending(store, [json.dumps(answer).encode()]):
        code, output, _ = run("verify")
    assert (code, "documents with missing chunks  0" in output) == (0, True)


def test_files_are_not_sent_that_were_read_by_older_rules(store, run, tmp_path):
    (tmp_path / "tea.md").write_text("green tea")
    with sending(store, [json.dumps({"reading": NEWEST_READING + 1, "sources": 20, "points": 20}).encode()]):
        code, _, errors = run("ingest", tmp_path / "tea.md")
    assert code == 1
    assert f"the collection 'notes' has the reading version {NEWEST_READING + 1}" in errors
    assert "install the version of the process that serves the store" in errors


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model with its graph, so that a server of it starts without torch."""
    return models.export(tmp_path_factory.mktemp("models"))


PLACE = ("-c", "notes", "--path", "store")


def filled(folder, **environment):
    rows = [{"id": name, "text": text} for name, text in NOTES.items()]
    (folder / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = twinvec(folder, "ingest", "notes.jsonl", *PLACE, **environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_served_collection_is_backed_up_and_dropped(tiny, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(f"read {READER}\nwrite {KEY}\n")
    may_write = {"TWINVEC_API_KEY": KEY}
    with serving(tmp_path, tiny, "--api-key-file", str(keys)) as server:
        filled(tmp_path, **may_write)
        for command in (("backup", "copy"), ("drop", "--yes")):
            refused = twinvec(tmp_path, *command, *PLACE, TWINVEC_READ_API_KEY=READER)
            assert refused.returncode == 1
            assert "the key may not write; use a write key" in refused.stderr
        assert not (tmp_path / "copy").exists()
        done = twinvec(tmp_path, "backup", "copy", *PLACE, "--json", **may_write)
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert (made["backup"], made["collection"], made["points"]["record"]) == ("copy", "notes", 20)
        unanswered = twinvec(tmp_path, "drop", *PLACE, **may_write)
        assert unanswered.returncode == 1
        assert "Delete the collection 'notes' and all its contents?" in unanswered.stdout + unanswered.stderr
        dropped = twinvec(tmp_path, "drop", *PLACE, "--yes", "--json", **may_write)
        assert (dropped.returncode, json.loads(dropped.stdout)) == (0, {"dropped": "notes"})
        for command in (("backup", "other"), ("drop", "--yes")):
            missing = twinvec(tmp_path, *command, *PLACE, **may_write)
            assert (missing.returncode, missing.stdout) == (1, "")
            assert "no collection 'notes'; there are: none" in missing.stderr
        assert not (tmp_path / "other").exists()
        filled(tmp_path, **may_write)  # under the name of the one that was dropped
        refused = twinvec(tmp_path, "restore", "copy", "--path", "store", TWINVEC_READ_API_KEY=READER)
        assert "the key may not write; use a write key" in refused.stderr
        restored = twinvec(tmp_path, "restore", "copy", "-c", "older", "--path", "store", "--json", **may_write)
        about = {name: value for name, value in made.items() if name != "backup"}
        assert json.loads(restored.stdout) == {"restored": "older", **about}, restored.stderr
        for options in ((), ("-c", "older"), ("-c", "older", "--overwrite")):
            taken = twinvec(tmp_path, "restore", "copy", "--path", "store", *options, **may_write)
            assert (taken.returncode, taken.stdout) == (1, "")
            assert "already; drop it first, or choose another name" in taken.stderr
        absent = twinvec(tmp_path, "restore", "store", "--path", "store", **may_write)
        assert "not a backup" in absent.stderr
        next((tmp_path / "copy").rglob("version.info")).unlink()
        damaged = twinvec(tmp_path, "restore", "copy", "-c", "damaged", "--path", "store", **may_write)
        assert damaged.returncode == 1
        assert "the archive: " in damaged.stderr
        assert "missing or changed; use another backup" in damaged.stderr
        assert sorted(each.name for each in (tmp_path / "store").iterdir() if each.is_dir()) == ["notes", "older"]
        assert server.stop(signal.SIGTERM) == 0
    searched = [
        twinvec(tmp_path, "search", "note 7", "-c", name, "--path", "store", "--json") for name in ("notes", "older")
    ]
    found = [[(hit["id"], hit["score"]) for hit in json.loads(each.stdout)["hits"]] for each in searched]
    assert found[0] == found[1]
    assert len(found[0]) == 10


@contextmanager
def stopped_half_way(folder):
    """Yield a process of ``twinvec backup`` that is stopped while it unpacks the archive."""
    command = [sys.executable, "-m", "twinvec", "backup", "copy", *PLACE]
    with subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        partial = folder / ".copy.twinvec-new"
        pause_until(lambda: (partial / "shard").exists() or process.poll() is not None)
        process.send_signal(signal.SIGSTOP)
        assert partial.exists()
        yield process


@pytest.mark.slow
def test_a_command_whose_server_is_killed_leaves_nothing(tiny, tmp_path):
    with serving(tmp_path, tiny) as server:
        filled(tmp_path)
        with stopped_half_way(tmp_path) as process:
            server.stop(signal.SIGKILL)
            process.send_signal(signal.SIGCONT)
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        assert f"process {server.process.pid} at {server.address}" in errors
        assert "the connection failed" in errors
    assert sorted(each.name for each in tmp_path.iterdir()) == ["notes.jsonl", "store"]
    with serving(tmp_path, tiny):
        assert sorted(each.name for each in (tmp_path / "store").iterdir()) == ["notes", "serving.json"]
        assert twinvec(tmp_path, "backup", "copy", *PLACE).returncode == 0


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_what_the_next_one_replaces(tiny, tmp_path):
    with serving(tmp_path, tiny):
        filled(tmp_path)
        with stopped_half_way(tmp_path) as process:
            process.kill()
        assert not (tmp_path / "copy").exists()
        pause_until(lambda: not list((tmp_path / "store").glob(".twinvec-backup-*")))
        assert twinvec(tmp_path, "backup", "copy", *PLACE).returncode == 0
        assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "notes.jsonl", "store"]


@contextmanager
def stopped_while_it_sends(command, store):
    """Yield a process of ``twinvec restore`` that is stopped while it sends the backup to the server.

    A process that has sent everything before it could be stopped is followed by another one.
    """

    def arriving() -> bool:
        return any(store.glob(".twinvec-backup-*/backup/shard"))

    for _ in range(20):
        with subprocess.Popen(command, cwd=store.parent, text=True, stderr=subprocess.PIPE) as process:
            pause_until(lambda: arriving() or process.poll() is not None)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            if arriving():
                yield process
                return
            process.send_signal(signal.SIGCONT)
            assert process.communicate(timeout=120)[1] == ""
        assert twinvec(store.parent, "drop", "-c", "older", "--path", "store", "--yes").returncode == 0
    raise AssertionError("the command was always faster")


@pytest.mark.slow
def test_a_command_whose_server_is_killed_restores_nothing(tiny, tmp_path):
    """The server is killed while the command sends the backup; with the next server, the command restores all of it."""
    command = [sys.executable, "-m", "twinvec", "restore", "copy", "-c", "older", "--path", "store"]
    store = tmp_path / "store"
    with serving(tmp_path, tiny) as server:
        filled(tmp_path)
        assert twinvec(tmp_path, "backup", "copy", *PLACE).returncode == 0
        with stopped_while_it_sends(command, store) as process:
            server.stop(signal.SIGKILL)
            process.send_signal(signal.SIGCONT)
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "the connection failed" in errors
    with serving(tmp_path, tiny):
        assert sorted(each.name for each in store.iterdir()) == ["notes", "serving.json"]
        done = twinvec(tmp_path, *command[3:])
        assert (done.returncode, done.stderr) == (0, "")
        assert "restored older as of" in done.stdout
        assert json.loads(twinvec(tmp_path, "info", "-c", "older", "--path", "store", "--json").stdout)["sources"] == 20
