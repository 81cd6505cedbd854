"""What talks to servers: addresses, keys that stay secret, and servers that do not answer."""

from __future__ import annotations

import logging
import socket
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient

from http_servers import serving
from twinvec.errors import CollectionNotFoundError, ConfigurationError, StoreError, StoreUnavailableError
from twinvec_qdrant import Collection
from twinvec_qdrant.stores.server.store import connect, connect_as

SECRET = "s3cret-key"


@pytest.fixture
def server():
    """A server that gives the answers it is told to, one a request: (status, headers, body)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("api-key")))
            status, headers, body = answers.pop(0)
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args) -> None:
            pass

    answers: list[tuple[int, dict, bytes]] = []
    asked: list[tuple[str, str | None]] = []
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield address, answers, asked


ABSENT = (200, {}, b'{"result": {"exists": false}, "status": "ok", "time": 0.1}')
BUSY = (503, {}, b"{}")
LIMITED = (429, {"retry-after": "0"}, b"{}")


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({}, "http://localhost:6333"),
        ({"host": "qdrant"}, "http://qdrant:6333"),
        ({"host": "qdrant", "https": True}, "https://qdrant:6333"),
        ({"url": "localhost:7333"}, "http://localhost:7333"),
        ({"url": "http://qdrant/behind/a/proxy/"}, "http://qdrant:6333/behind/a/proxy"),
        ({"url": "http://me:secret@[::1]:6333"}, "http://[::1]:6333"),
    ],
)
def test_errors_name_the_address_of_the_client(options, address):
    store = connect_as(AsyncQdrantClient(check_compatibility=False, **options), "notes", 1)
    assert store.location == f"{address}, collection 'notes'"
    if "://" in options.get("url", ""):
        assert connect("notes", options["url"], None, 1).open().place == store.open().place


def test_two_servers_behind_one_proxy_are_two_places():
    places = [connect("notes", f"http://localhost/{name}", None, 1).open().place for name in ("one", "two")]
    assert len(set(places)) == 2


def test_a_busy_server_is_asked_again(server, caplog):
    url, answers, asked = server
    answers += [BUSY, LIMITED, BUSY, ABSENT]
    assert connect("notes", url, SECRET, 30).peek() is None
    assert asked == [("/collections/notes/exists", SECRET)] * 4
    assert len(caplog.records) == 1
    assert url in caplog.text


def test_a_server_that_stays_busy_is_given_up(server, clock):
    url, answers, asked = server
    answers += [BUSY] * 200
    with pytest.raises(StoreUnavailableError, match=url) as caught:
        connect("notes", url, None, 60).peek()
    assert "pause" not in str(caught.value), "it names none"
    assert 1 < len(asked) == len(clock.pauses) + 1
    assert clock.now - 1000 < 60


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("named", ["3600", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_the_pause_that_a_server_names_is_kept_to(server, status, named):
    url, answers, asked = server
    answers += [(status, {"retry-after": named}, b"{}"), ABSENT]
    with pytest.raises(
        StoreUnavailableError, match=rf"{url}(?s:.*)asks for a pause of [\d,]+ s: raise wait_seconds .*--wait"
    ):
        connect("notes", url, None, 30).peek()
    assert len(asked) == 1, "an hour is more than the caller waits"


@pytest.mark.parametrize("named", ["Thu, 01 Jan 1970 00:00:00 GMT", "soon", "", "-1"])
def test_a_pause_that_is_over_or_says_nothing_does_not_stop_anything(server, named):
    url, answers, asked = server
    answers += [(503, {"retry-after": named}, b"{}"), ABSENT]
    assert connect("notes", url, None, 30).peek() is None
    assert len(asked) == 2


def test_a_server_that_names_no_pause_is_not_hammered(server, monkeypatch, clock):
    url, answers, asked = server
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._GROWING", lambda state: 7.0)
    answers += [LIMITED] * 6  # 429, and a pause of 0
    with pytest.raises(StoreUnavailableError, match=url):
        connect("notes", url, None, 30).peek()
    assert clock.pauses == [7.0] * 4 + [1.0]
    assert len(asked) == 6


def test_what_will_not_pass_is_not_repeated(server):
    url, answers, asked = server
    answers.append((403, {}, b'{"status": {"error": "Forbidden"}}'))
    with pytest.raises(StoreError, match="Forbidden"):
        connect("notes", url, SECRET, 30).peek()
    assert len(asked) == 1


def test_a_server_that_does_not_answer_is_named(caplog, clock):
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with caplog.at_level(logging.INFO), pytest.raises(StoreUnavailableError, match=url) as caught:
            Collection.open("notes", url=url, api_key=SECRET, wait_seconds=60)
    assert clock.pauses
    assert SECRET not in str(caught.value) + repr(caught.value.__cause__) + caplog.text
    assert [record.name for record in caplog.records if record.levelno >= logging.WARNING] == [
        "twinvec_qdrant.stores.server.retrying"
    ]


@pytest.mark.parametrize("url", ["", "localhost:6333", "ftp://x", "http://", "http://x:abc", "http://x:99999", 7])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ConfigurationError, match="http://host:port"):
        Collection.open("notes", url=url)


@pytest.mark.parametrize("url", ["http://qdrant.example.org:6333", "http://user:s3cret-key@qdrant.example.org"])
def test_a_key_is_not_sent_unencrypted_to_another_host(url, monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", SECRET)
    with pytest.raises(ConfigurationError, match="unencrypted") as caught:
        Collection.open("notes", url=url)
    assert SECRET not in str(caught.value)


def test_a_key_may_lie_in_a_file(server, monkeypatch, tmp_path):
    url, answers, asked = server
    answers += [ABSENT, (200, {}, b'{"result": {"collections": []}, "status": "ok", "time": 0.1}')]
    (tmp_path / "key").write_text(f"\ufeff{SECRET}\n")  # as Windows writes it
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    monkeypatch.setenv("QDRANT_API_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(CollectionNotFoundError):
        Collection.open("notes", url=url, create=False)
    assert [key for _, key in asked] == [SECRET] * 2
    (tmp_path / "key").write_bytes(b"s3cret-key\xff")
    for wrong in ("key", SECRET):
        monkeypatch.setenv("QDRANT_API_KEY_FILE", str(tmp_path / wrong))
        with pytest.raises(ConfigurationError, match="QDRANT_API_KEY_FILE") as caught:
            Collection.open("notes", url=url)
        assert SECRET not in str(caught.value)


def test_what_stands_around_a_key_is_not_sent(server, monkeypatch):
    url, answers, asked = server
    answers += [ABSENT, (200, {}, b'{"result": {"collections": []}, "status": "ok", "time": 0.1}')]
    monkeypatch.setenv("QDRANT_API_KEY", f" {SECRET}\n")
    with pytest.raises(CollectionNotFoundError):
        Collection.open("notes", url=url, create=False)
    assert {key for _, key in asked} == {SECRET}


@pytest.mark.parametrize("key", [f"{SECRET}\nx", f"{SECRET}\0", f"{SECRET}é", f"{SECRET}\ud800", SECRET.encode()])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(key, caplog):
    with pytest.raises(ConfigurationError, match="API key") as caught:
        Collection.open("notes", url="https://qdrant.example.org", api_key=key)
    assert SECRET not in str(caught.value) + caplog.text
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_key_of_the_callers_client_is_not_shown_either(server, caplog):
    client = QdrantClient(server[0], api_key=f"{SECRET}\n", check_compatibility=False)
    with pytest.raises(StoreUnavailableError) as caught:
        Collection.open("notes", client=client, wait_seconds=600)
    assert SECRET not in "".join(traceback.format_exception(caught.value)) + caplog.text
    assert not caplog.records, "it is not tried again"


def test_a_key_for_this_machine_passes_no_proxy(server, monkeypatch):
    url, answers, asked = server
    answers.append(ABSENT)
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for name in ("http_proxy", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert connect("notes", url, SECRET, 60).peek() is None
        proxy.settimeout(0)
        with pytest.raises(BlockingIOError):
            proxy.accept()
    assert asked == [("/collections/notes/exists", SECRET)]


def test_a_key_may_go_to_this_machine_and_is_shown_nowhere():
    for url in ("http://localhost:6333", "http://127.0.0.1:6333", "http://[::1]:6333", "https://qdrant.example.org"):
        store = connect("notes", url, SECRET, 1)
        assert SECRET not in repr(store) + store.location + repr(vars(store))
        store.close()
