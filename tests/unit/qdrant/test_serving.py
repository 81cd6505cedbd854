"""Who serves a store: what is written into its folder, and how others take it; processes are real, and killed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from holders import with_helpers
from http_servers import serving
from small_disks import on_small_disk, without_rights
from twinvec.errors import CollectionNotFoundError, ConfigurationError, StoreBusyError, StoreUnavailableError
from twinvec_qdrant import Announcement, Collection, drop_collection, restore_collection, serving_process
from twinvec_qdrant.cli.options import CollectionPlace
from twinvec_qdrant.cli.served.connecting import client_of
from twinvec_qdrant.serving.client import ServerClient
from twinvec_qdrant.serving.names import collection_path
from twinvec_qdrant.serving.process import SERVING_FILE
from words import WordEncoder

SERVING = """
    import sys
    from twinvec_qdrant import Announcement
    held = Announcement(sys.argv[1], sys.argv[2])
    print("serving", flush=True)
    sys.stdin.read()
    held.close()
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Let clients wait for an answer where this machine is slow."""
    monkeypatch.setattr("twinvec_qdrant.serving.client._CONNECT_SECONDS", 60.0)


@contextmanager
def announced(path, address="http://127.0.0.1:9"):
    """Start a process that announces that it serves the store; yield the process."""
    program = "\n".join(line.strip() for line in SERVING.splitlines())
    command = [sys.executable, "-c", program, str(path), address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=with_helpers()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"serving\n"
        yield process
        process.kill()


@contextmanager
def answering(instance, status=200):
    """A server that answers /healthz with an instance, and all else with an error; yields its address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            healthy = self.path == "/healthz"
            self.send_response(200 if healthy else status)
            self.end_headers()
            error = {"message": "no such thing", "code": "collection_not_found"}
            self.wfile.write(json.dumps({"instance": instance()} if healthy else {"error": error}).encode())
            self.close_connection = True

        do_POST = do_GET

        def log_message(self, *_):
            pass

    with serving(HTTPServer(("127.0.0.1", 0), Answers)) as address:
        yield address


def test_nobody_serves_a_store_that_nobody_announced(tmp_path):
    assert serving_process(tmp_path) is None
    assert serving_process(tmp_path / "missing") is None


def test_a_process_is_found_until_it_ends_and_not_after_a_kill(tmp_path):
    with announced(tmp_path, "http://127.0.0.1:4321") as process:
        found = serving_process(tmp_path)
        assert found is not None
        assert (found.pid, found.address, found.is_this_process) == (process.pid, "http://127.0.0.1:4321", False)
        assert found.secret not in repr(found) + str(found)
        with pytest.raises(StoreBusyError, match=f"served by process {process.pid} at http://127.0.0.1:4321"):
            Announcement(tmp_path, "http://127.0.0.1:1")
        process.kill()
        process.wait()
        assert json.loads((tmp_path / SERVING_FILE).read_bytes())["pid"] == process.pid  # nobody has cleaned up
        assert serving_process(tmp_path) is None
    held = Announcement(tmp_path, "http://127.0.0.1:1")
    assert serving_process(tmp_path) == held.process
    held.close()
    held.close()
    assert serving_process(tmp_path) is None


def test_only_the_owner_reads_who_serves(tmp_path):
    held = Announcement(tmp_path / "new", "http://127.0.0.1:1")
    assert (tmp_path / "new" / SERVING_FILE).stat().st_mode & 0o077 == 0
    held.close()


def test_a_collection_of_a_served_store_is_not_opened_and_the_error_says_where_it_is(tmp_path):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([("tea", "green tea")])
    with announced(tmp_path, "http://127.0.0.1:4321"):
        for call in (
            lambda: Collection.open("notes", tmp_path, encoder=WordEncoder()),
            lambda: Collection.open("other", tmp_path),
            lambda: drop_collection("notes", tmp_path),
        ):
            with pytest.raises(StoreBusyError, match=r"process \d+ at http://127.0.0.1:4321 .*twinvec search"):
                call()
    with Collection.open("notes", tmp_path, encoder=WordEncoder()) as opened:
        assert opened.count() == 1


def test_a_backup_is_not_restored_into_a_served_store(tmp_path):
    from twinvec_qdrant import backup_collection

    with Collection.open("notes", tmp_path / "store", encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([("tea", "green tea")])
    backup_collection("notes", tmp_path / "backup", tmp_path / "store")
    with announced(tmp_path / "store"), pytest.raises(StoreBusyError, match="served by"):
        restore_collection(tmp_path / "backup", tmp_path / "store", overwrite=True)


def test_the_process_that_serves_a_store_opens_its_collections(tmp_path):
    held = Announcement(tmp_path, "http://127.0.0.1:1")
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        assert opened.count() == 0
    held.close()


def test_a_client_refuses_an_address_where_nobody_or_somebody_else_answers(tmp_path):
    with announced(tmp_path):
        silent = serving_process(tmp_path)
        with pytest.raises(StoreBusyError, match="does not answer"):
            ServerClient(silent, 1.0)
    with answering(lambda: "another") as address, announced(tmp_path, address):
        other = serving_process(tmp_path)
        with pytest.raises(StoreBusyError, match="another process answers"):
            ServerClient(other, 1.0)


@pytest.mark.parametrize(("status", "content"), [(200, b"OK"), (200, b"[]"), (200, b"\xff"), (404, b"no such page")])
def test_another_program_at_the_address_is_told_apart(tmp_path, status, content):
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with serving(HTTPServer(("127.0.0.1", 0), Answers)) as address, announced(tmp_path, address):
        expected = "another process answers" if status == 200 else f"^{address} answers with status 404$"
        with pytest.raises((StoreBusyError, ConfigurationError), match=expected):
            ServerClient(serving_process(tmp_path), 1.0)


def test_a_command_waits_for_the_end_of_a_process_that_is_stopping(tmp_path, monkeypatch):
    with announced(tmp_path) as process:  # which refuses connections, like a server that closes its collections
        with pytest.raises(StoreBusyError, match=r"the connection was refused; if that process is stopping.*--wait"):
            client_of(CollectionPlace("notes", tmp_path, None, wait=0))
        pauses = []

        def end(seconds):
            pauses.append(seconds)
            process.kill()
            process.wait()

        monkeypatch.setattr(time, "sleep", end)
        assert client_of(CollectionPlace("notes", tmp_path, None, wait=60)) is None
        assert len(pauses) == 1


@pytest.mark.parametrize("command", [["info"], ["get", "tea"], ["search", "tea"], ["ingest", "notes.txt"]])
def test_a_command_asks_a_process_that_takes_the_store_before_the_command_opens_it(
    command, twinvec, tmp_path, monkeypatch
):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([("tea", "green tea")])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("black tea")
    found = CollectionPlace.served_by
    with ExitStack() as running:

        def look(place):
            seen = found(place)
            if seen is None:
                address = running.enter_context(answering(lambda: found(place).instance, 404))
                running.enter_context(announced(tmp_path, address))
            return seen

        monkeypatch.setattr(CollectionPlace, "served_by", look)
        done = twinvec(*command, "--collection", "notes", "--path", tmp_path)
    assert (done.code, done.err) == (1, "twinvec: no such thing\n"), "the answer of the process"


def test_a_server_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.serving.client._CONNECT_SECONDS", 0.2)
    hung = socket.create_server(("127.0.0.1", 0))  # its connections are accepted by the kernel alone
    with hung, announced(tmp_path, f"http://127.0.0.1:{hung.getsockname()[1]}"):
        process = serving_process(tmp_path)
        with pytest.raises(StoreBusyError, match="does not answer: timed out"):
            ServerClient(process, 1.0)


def test_a_server_that_speaks_no_tls_is_told_by_the_error_of_tls(tmp_path):
    with (
        answering(lambda: "plain") as address,
        announced(tmp_path, address.replace("http:", "https:")),
        pytest.raises(StoreBusyError, match=r"does not answer: .*SSL"),
    ):
        ServerClient(serving_process(tmp_path), 1.0)


def test_errors_of_the_server_are_those_of_the_library(tmp_path, monkeypatch):
    found = {}
    with answering(lambda: found["process"].instance, 404) as address, announced(tmp_path, address):
        found["process"] = serving_process(tmp_path)
        with (
            ServerClient(found["process"], 1.0) as client,
            pytest.raises(CollectionNotFoundError, match="no such thing"),
        ):
            client.get(collection_path("a b"))


def test_a_key_does_not_travel_to_another_host_without_encryption(tmp_path, monkeypatch):
    monkeypatch.setenv("TWINVEC_API_KEY", "a-key-of-sixteen-characters")
    found = {}
    with answering(lambda: found["process"].instance) as address, announced(tmp_path, address):
        found["process"] = serving_process(tmp_path)
        with ServerClient(found["process"], 1.0) as client:
            client._host = "192.0.2.1"
            with pytest.raises(ConfigurationError, match="without encryption") as error:
                client.get("/v1/collections")
            assert "a-key" not in str(error.value)
            client._host = "127.0.0.2"  # another address of this machine
            assert client._authorized()["Authorization"].endswith("a-key-of-sixteen-characters")


@contextmanager
def conversing(tmp_path, answer=None):
    """A server of one connection, which stays open: ``answer(connection, requests)`` deals with each POST.

    It yields the process that the store's folder names.
    """
    found = {}

    def serve(listener):
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as requests:
            while line := requests.readline():
                if line.startswith(b"GET"):
                    content = json.dumps({"instance": found["process"].instance}).encode()
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))
                elif line.startswith(b"POST"):
                    answer(connection, requests)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        with announced(tmp_path, f"http://127.0.0.1:{listener.getsockname()[1]}"):
            found["process"] = serving_process(tmp_path)
            yield found["process"]
            server.join(60)
            assert not server.is_alive()


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_answers_are_waited_for_longer_than_the_connection(tmp_path):
    with conversing(tmp_path) as process, ServerClient(process, 1.0) as client:
        assert client._connection.timeout == client._connection.sock.gettimeout() == 600


def test_a_client_ends_while_a_thread_of_it_waits_for_events(tmp_path):
    """The server begins an answer and falls silent; a command that is interrupted then shall not wait for it."""
    begun, errors = threading.Event(), []

    def answer(connection, requests):
        connection.sendall(HEAD + chunk(b'event: progress\ndata: {"done": 0}\n\n'))

    def stream(client):
        try:
            client.stream("/events", [], lambda *_: begun.set())
        except StoreUnavailableError as error:
            errors.append(error)

    with conversing(tmp_path, answer) as process:
        client = ServerClient(process, 1.0)
        reader = threading.Thread(target=stream, args=(client,), daemon=True)
        reader.start()
        assert begun.wait(60)
        ended = threading.Thread(target=client.__exit__, daemon=True)
        ended.start()
        ended.join(60)
        assert not ended.is_alive(), "the client waits for an event"
        reader.join(60)
        assert len(errors) == 1


def test_a_client_that_reads_for_long_answers_pings(tmp_path):
    """The second line is ready only when the server has got a blank one; none comes after the end of the body."""
    bodies, reads, shown = [], threading.Event(), threading.Event()
    ping, report = b": ping\r\n\r\n", b"event: report\r\ndata: {}\r\n\r\n"

    def answer(connection, requests):
        while requests.readline().strip():
            pass
        while size := int(requests.readline(), 16):
            bodies.append(requests.read(size))
            requests.readline()
            if bodies[-1] == b"\n":
                shown.set()
            elif not shown.is_set():
                assert reads.wait(60)
                connection.sendall(HEAD + chunk(ping))
        connection.sendall(chunk(ping) + chunk(report) + chunk(b""))
        bodies.append(requests.readline() + requests.read())

    def lines():
        yield {"id": "first"}
        reads.set()
        assert shown.wait(60)
        yield {"id": "second"}

    with conversing(tmp_path, answer) as process, ServerClient(process, 1.0) as client:
        client.stream("/documents", lines(), lambda *_: None)
    documents = [each for each in bodies if each.startswith(b"{")]
    assert [json.loads(each)["id"] for each in documents] == ["first", "second"]
    assert bodies[-1] == b"\r\n"


@pytest.mark.parametrize("name", ["a/b", "..", "."])
def test_a_name_that_is_no_part_of_a_path_is_refused(name):
    with pytest.raises(ConfigurationError, match="cannot be reached over HTTP"):
        collection_path(name)


def test_a_name_with_a_lone_surrogate_is_refused():
    with pytest.raises(ConfigurationError, match="the name of a collection has a lone surrogate at character 1"):
        collection_path("a\udcff")


UNANNOUNCED = """
    warnings = Warnings()
    held = Announcement(place, "http://127.0.0.1:1")
    assert len(warnings.told) == 1 and "other commands do not find this server" in warnings.told[0], warnings.told
    assert serving_process(place) is None
    opened(place).close()  # a command takes turns with the server
    held.close()
    held.close()
"""


@pytest.mark.slow
def test_a_store_on_a_full_disk_is_served_unannounced(tmp_path):
    program = """
        from twinvec_qdrant import Announcement, serving_process
        opened(place).close()
        fill(place)
    """
    on_small_disk(textwrap.dedent(program) + textwrap.dedent(UNANNOUNCED), tmp_path, "size=64m")


def test_a_read_only_store_is_served_unannounced_and_a_place_without_collections_is_not(tmp_path):
    Collection.open("notes", tmp_path / "store", encoder=WordEncoder(), chunking=False).close()
    (tmp_path / "none").mkdir()
    for path in (tmp_path / "none", tmp_path / "store", *(tmp_path / "store").rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    program = """
        from twinvec_qdrant import Announcement, serving_process
        assert "cannot be written" in refusal(lambda: Announcement(none, "http://127.0.0.1:1"))
    """
    program = textwrap.dedent(program) + textwrap.dedent(UNANNOUNCED)
    without_rights(program, place=tmp_path / "store", none=tmp_path / "none")


def test_a_busy_store_says_if_the_note_is_readable_by_another_user_only(tmp_path):
    program = """
        from twinvec.errors import StoreBusyError
        from twinvec_qdrant.stores.embedded.turns import Turns

        store = Path(place)
        (store / "notes" / "turns").mkdir(parents=True)
        note = store / "serving.json"

        def refusal():
            try:
                Turns(store / "notes").write(0.1)
            except StoreBusyError as error:
                return str(error)

        first = Turns(store / "notes")
        first.write(0.1)
        advice = f"; if it is twinvec serve, run the command as its user, who alone may read {note}"
        assert advice not in refusal()
        for content, told in (("", False), ("{}", True)):
            note.write_text(content)
            note.chmod(0)
            assert (advice in refusal()) is told, refusal()
            note.chmod(0o600)
            assert advice not in refusal()
    """
    without_rights(program, place=tmp_path)
