"""What errors of a server say: what is wrong in our words, the remedy, and the server's own sentence once."""

from __future__ import annotations

import json
import socket
import threading
import warnings
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import UnexpectedResponse

from http_servers import serving
from stand_in import StandIn
from twinvec.errors import ConfigurationError, StoreError, StoreLimitError, StoreUnavailableError
from twinvec_qdrant import Collection, IndexSettings, drop_collection, list_collections
from twinvec_qdrant.stores.server.errors import is_temporary, requested_pause, store_error
from words import StateEncoder, WordEncoder


@pytest.fixture
def answering(monkeypatch):
    """``answering(403, "sentence")``: the address of a server that gives every request this answer."""
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._LEAST_SECONDS", 30)  # for one try on a slow machine

    def serve(status: int, body: str, kind: str = "text/plain") -> str:
        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_PUT = do_POST = do_DELETE = answer

            def log_message(self, *args) -> None:
                pass

        return running.enter_context(serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)))

    with ExitStack() as running:
        yield serve


def said(sentence: str) -> str:
    return json.dumps({"status": {"error": sentence}, "time": 0.1})


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, "Must provide an API key or an Authorization bearer token", "set QDRANT_API_KEY"),
        (401, "Invalid API key or JWT", "does not accept the API key"),
        (403, said("Forbidden: Global manage access is required"), "only for reading"),
        (403, "forbidden", "does not permit this"),
        (403, "ExpiredSignature", "has expired"),
        (403, "InvalidSignature", "does not accept the API key"),
        (403, said("Forbidden: Global access is required"), "for single collections"),
        (403, said("Forbidden: Manage access for this operation is required"), "for single collections"),
        (403, said("Forbidden: Only points access is allowed for collection notes"), "payload indexes need a key"),
        (
            400,
            said("Payload error: JSON payload (33600110 bytes) is larger than allowed (limit: 33554432 bytes)."),
            "too large",
        ),
        (400, said("Payload error: JSON payload has exceeded limit (33554432 bytes)."), "too large"),
        (404, "<html><body>404</body></html>", "the answer is not from Qdrant"),
        (200, "<html><body>Welcome</body></html>", "the answer is not from Qdrant"),
        (200, '{"hello": "world"}', "the answer is not from Qdrant"),
        (400, "<html>The plain HTTP request was sent to HTTPS port</html>", "https://"),
        (413, said("Payload too large"), "too large for the server"),
        (500, said("Service internal error: 1 of 2 replicas failed: deactivation timed out"), "no majority"),
        (500, said("Service internal error: some replica failed to apply operation"), "status 500"),
        (
            500,
            said("Service internal error: No space left on device: WAL buffer size exceeds available disk space"),
            "no room",
        ),
        (500, said("Service internal error: Out of memory, free: 512, write"), "no room left"),
        (507, said("Insufficient storage: Disk usage is at 91% of total capacity"), "remove documents"),
        (400, said("Bad request: Resident memory usage is at 81% of total memory, exceeding"), "remove documents"),
    ],
)
def test_an_answer_is_put_into_words(answering, status, body, words):
    url = answering(status, body)
    with pytest.raises(StoreError) as caught:
        list_collections(url=url, wait_seconds=0)
    message = str(caught.value)
    assert message.startswith(url)
    assert words in message
    assert "Unexpected Response" not in message
    assert "Raw response" not in message
    assert "any" not in message.replace("many", "").split()
    sentence = json.loads(body)["status"]["error"] if body.startswith('{"status"') else body
    assert message.count(sentence) == (0 if body.startswith(("<", '{"hello')) else 1)


def test_a_server_that_speaks_tls():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def alert() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x32")  # what a TLS server says to plain HTTP

        thread = threading.Thread(target=alert, daemon=True)
        thread.start()
        with pytest.raises(StoreUnavailableError, match="https://") as caught:
            list_collections(url=f"http://127.0.0.1:{listening.getsockname()[1]}", wait_seconds=60)
        assert "illegal" not in str(caught.value)
        listening.shutdown(socket.SHUT_RDWR)


def test_a_server_that_does_not_speak_tls(answering):
    url = answering(200, "").replace("http://", "https://")
    with pytest.raises(StoreUnavailableError, match="http://"):
        list_collections(url=url, wait_seconds=60)


def test_an_old_server_is_named_before_anything_is_made():
    with StandIn().running() as server:
        server.version = "1.12.4"
        with pytest.raises(StoreError, match=r"1\.12, and twinvec needs 1\.17"):
            Collection.open("notes", url=server.url, encoder=WordEncoder(max_tokens=16))
        assert list_collections(url=server.url) == []


def test_an_old_server_is_named_before_anything_is_written():
    """A snapshot may be restored on an older server, which would ignore the condition of a commit."""
    with StandIn().running() as server:
        place = {"url": server.url, "encoder": WordEncoder(max_tokens=16), "wait_seconds": 60}
        with Collection.open("notes", **place) as opened:
            opened.ingest([("a", "some text")])
        server.version = "1.16.3"
        with Collection.open("notes", **place) as opened:
            assert [hit.id for hit in opened.search("text")] == ["a"]
            with pytest.raises(StoreError, match=r"1\.16, and twinvec needs 1\.17"):
                opened.ingest([("b", "other text")])
            with pytest.raises(StoreError, match=r"1\.16, and twinvec needs 1\.17"):
                opened.delete(["a"])
            assert opened.find() == ["a"]


def test_a_quantisation_that_an_old_server_does_not_know_is_named():
    with StandIn().running() as server:
        server.version = "1.17.1"
        place = {"url": server.url, "encoder": WordEncoder(max_tokens=16), "wait_seconds": 60}
        with pytest.raises(StoreError, match=r'1\.17, and "turbo" quantisation needs 1\.18'):
            Collection.open("notes", **place, index=IndexSettings("turbo"))
        assert list_collections(url=server.url) == []
        with Collection.open("notes", **place) as opened:
            with pytest.raises(StoreError, match=r'"turbo" quantisation needs 1\.18'):
                opened.reindex(IndexSettings("turbo"))
            server.version = "1.18.0"
            opened.reindex(IndexSettings("turbo"))


def test_a_migration_on_an_old_server_names_the_version_it_needs():
    with (
        StandIn().running() as server,
        Collection.open("notes", url=server.url, encoder=StateEncoder(max_tokens=16)) as opened,
    ):
        opened.ingest([("a", "some text")])
        server.version = "1.17.1"
        with pytest.raises(StoreError, match=r"1\.17, and a migration needs 1\.18"):
            opened.migrate(StateEncoder(seed=1, max_tokens=16))


def test_listing_names_no_collection_and_a_collection_has_a_name(answering):
    url = answering(403, "forbidden")
    with pytest.raises(StoreError) as caught:
        list_collections(url=url, wait_seconds=0)
    assert "collection '" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="non-empty"):
        drop_collection("", url=url)


def test_no_warning_of_the_client_reaches_anyone(monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "secret")
    with StandIn().running() as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        with Collection.open(
            "notes", url=server.url, encoder=WordEncoder(max_tokens=16), wait_seconds=60
        ) as collection:
            collection.ingest([("a", "some text")])
        list_collections(url=server.url)


async def test_no_warning_comes_from_the_client_beside_an_async_one(monkeypatch):
    asked = []
    monkeypatch.setattr("qdrant_client.qdrant_remote.get_server_version", lambda *given: asked.append(1) or "0.1.0")
    with StandIn().running() as server:
        theirs = AsyncQdrantClient(server.url, timeout=60, check_compatibility=False)
        theirs.init_options["check_compatibility"] = True  # theirs may have asked; ours need not ask again
        with Collection.open(
            "notes", async_client=theirs, encoder=WordEncoder(max_tokens=16), wait_seconds=60
        ) as notes:
            notes.ingest([("a", "some text")])
            assert [hit.id for hit in await notes.asearch("text")] == ["a"]
        await theirs.close()
    assert asked == []


class RpcError(grpc.RpcError):
    """What a gRPC client raises."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._said = code, details

    def code(self) -> grpc.StatusCode:
        return self._said[0]

    def details(self) -> str:
        return self._said[1]


@pytest.mark.parametrize(
    ("code", "status", "sentence"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, 401, "Invalid API key or JWT"),
        (grpc.StatusCode.PERMISSION_DENIED, 403, "Forbidden: Global manage access is required"),
        (grpc.StatusCode.INVALID_ARGUMENT, 400, 'Limit exceeded 150 > 100 for "upsert limit". Help: Reduce'),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            429,
            "Write rate limit exceeded, request larger than rate limiter capacity",
        ),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 429, "Read rate limit exceeded: 4 tokens"),
        (grpc.StatusCode.INTERNAL, 500, "some replica failed to apply operation"),
        (grpc.StatusCode.UNAVAILABLE, 503, "1 of 2 shards are unavailable"),
        (grpc.StatusCode.NOT_FOUND, 404, "Not found: Collection `notes` doesn't exist!"),
        (grpc.StatusCode.FAILED_PRECONDITION, 500, "Pre-condition failure: No target shard 3 found for update"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 507, "Insufficient storage: Disk usage is at 91% of total capacity"),
        (grpc.StatusCode.UNIMPLEMENTED, 405, "Qdrant is running in standalone mode"),
    ],
)
def test_errors_of_grpc_are_those_of_rest(code, status, sentence):
    over_grpc = RpcError(code, sentence)
    over_rest = UnexpectedResponse(status, "", said(sentence).encode(), {})
    errors = [store_error(each, "place", "request") for each in (over_grpc, over_rest)]
    assert str(errors[0]) == str(errors[1])
    assert type(errors[0]) is type(errors[1])
    assert is_temporary(over_grpc) == is_temporary(over_rest)
    assert sentence in str(errors[0])


@pytest.mark.parametrize(
    "sentence",
    [
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:6334: Connection refused",
        "Stream removed (recvmsg:Connection reset by peer (104))",
        "Socket closed",
    ],
)
def test_a_connection_that_grpc_lacks_is_no_answer_of_the_server(sentence):
    error = RpcError(grpc.StatusCode.UNAVAILABLE, sentence)
    assert str(store_error(error, "place", "request")) == f"place: no answer: {sentence}"
    assert is_temporary(error)


def test_ports_of_the_other_interface_are_named():
    with StandIn().running() as running, running.over_grpc() as port:
        with pytest.raises(StoreUnavailableError, match=r"or gRPC: .* REST port \(Qdrant: 6333\)"):
            list_collections(url=f"http://127.0.0.1:{port}", wait_seconds=60)
        rest_port = int(running.url.rpartition(":")[2])
        with pytest.raises(StoreUnavailableError, match=r"gRPC port \(Qdrant: 6334\)"):
            list_collections(url=running.url, grpc=True, grpc_port=rest_port, wait_seconds=60)


def test_a_pause_that_grpc_names_in_words_only_is_kept_to():
    said = "Read rate limit exceeded: Operation requires 4 tokens but only 0.0 were available. Retry after 60s"
    assert requested_pause(RpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, said)) == 60


def test_what_a_limit_refuses_is_named_by_the_limit():
    refused = UnexpectedResponse(400, "", said('Bad request: Limit exceeded 150 > 100 for "upsert limit"').encode(), {})
    error = store_error(refused, "place", "upsert")
    assert isinstance(error, StoreLimitError)
    assert "upsert_max_batchsize" in str(error)
    assert is_temporary(ResourceExhaustedResponse("Write rate limit exceeded: Retry after 60s", 60))
