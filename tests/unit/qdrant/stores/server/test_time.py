"""The longest silence: tries of a request and the pauses between them end within ``wait_seconds``."""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress

import pytest
from qdrant_client import QdrantClient, models

from stand_in import Fault, StandIn
from twinvec.errors import StoreUnavailableError
from twinvec_qdrant import Collection
from twinvec_qdrant.stores.server import retrying
from twinvec_qdrant.stores.server.retrying import Requests
from words import WordEncoder

GIVEN_UP = 50  # seconds within which a slow machine gives up, too


@pytest.fixture
def tries_without_limits(monkeypatch):
    """Let only ``wait_seconds`` limit a try: without it, the tries here would take longer than ``GIVEN_UP``."""
    monkeypatch.setattr(retrying, "_READ_SECONDS", 600.0)
    monkeypatch.setattr(retrying, "_WRITE_SECONDS", 600.0)


@pytest.fixture
def silent():
    """A server that takes requests and does not answer: its address, and the requests as they come."""
    taken: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    open_connections = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def take(connection: socket.socket) -> None:
            while request := connection.recv(65536):
                taken.put(request)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                open_connections.append(connection)
                threading.Thread(target=take, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", taken
        listening.shutdown(socket.SHUT_RDWR)
        for connection in open_connections:
            connection.close()


@pytest.mark.usefixtures("tries_without_limits")
@pytest.mark.parametrize("own", [True, False])
def test_a_server_that_does_not_answer_is_given_up_within_the_wait(silent, own):
    url, taken = silent
    place = {"url": url} if own else {"client": QdrantClient(url, timeout=60, check_compatibility=False)}
    start = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=r"no answer(?s:.*)--wait"):
        Collection.open("notes", **place, encoder=WordEncoder(max_tokens=16), wait_seconds=2)
    assert time.monotonic() - start < GIVEN_UP
    assert taken.get(timeout=60)


@pytest.mark.usefixtures("tries_without_limits")
@pytest.mark.parametrize("own", [True, False])
def test_an_answer_that_comes_byte_by_byte_is_given_up_within_the_wait(own):
    """Each byte comes in time, and the whole answer would take 100 seconds."""
    over, drips = threading.Event(), []

    def drip(connection: socket.socket) -> None:
        while connection.recv(65536):
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n")
            while not over.wait(0.2):
                connection.sendall(b" ")
                drips.append(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        place = {"url": url} if own else {"client": QdrantClient(url, timeout=60, check_compatibility=False)}
        while len(drips) < 2:  # else the threads were too slow to drip within the wait
            start = time.monotonic()
            with pytest.raises(StoreUnavailableError, match=r"no answer(?s:.*)--wait"):
                Collection.open("notes", **place, encoder=WordEncoder(max_tokens=16), wait_seconds=1)
            assert time.monotonic() - start < GIVEN_UP
        over.set()
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.usefixtures("tries_without_limits")
async def test_an_awaited_search_is_given_up_within_the_wait():
    with (
        StandIn().running() as server,
        Collection.open("notes", url=server.url, encoder=WordEncoder(max_tokens=16), wait_seconds=60) as collection,
    ):
        collection.ingest([("a", "some text")])
        collection._backend.requests.wait_seconds = 2
        server.fault = lambda method, path: Fault.STALLED
        start = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="no answer"):
            await collection.asearch("text")
        assert time.monotonic() - start < GIVEN_UP
        server.fault = lambda method, path: None


def test_reads_have_less_time_than_writes_and_none_has_more_than_is_left(clock):
    client = QdrantClient("http://127.0.0.1:1", check_compatibility=False, timeout=45)
    given: list[tuple[str, float]] = []

    def record(request, send):
        given.append((request.url.path.rpartition("/")[2], request.extensions["timeout"]["read"]))
        raise OSError("enough")

    client.http.client.add_middleware(record)  # it comes before the one of the requests
    for wait in (10, 100, 0.2):
        requests = Requests(client, "notes", "place", wait)
        for call in (
            lambda requests=requests: requests.call(client.get_collection),
            lambda requests=requests: requests.call(client.count),
            lambda requests=requests: requests.call(client.delete, models.PointIdsList(points=[1]), wait=True),
        ):
            with pytest.raises(Exception, match="enough"):
                call()
    assert given == [
        ("notes", 5), ("count", 5), ("delete", 10),
        ("notes", 20), ("count", 20), ("delete", 45),
        ("notes", 1), ("count", 1), ("delete", 1),
    ]  # fmt: skip


def test_the_last_try_ends_with_the_wait(clock):
    client = QdrantClient("http://127.0.0.1:1", check_compatibility=False)
    given: list[float] = []

    def slow(collection_name: str) -> None:
        from twinvec_qdrant.stores.server.clients import _seconds

        given.append(_seconds.get())
        clock.now += 4
        raise _busy()

    slow.__name__ = "get_collection"
    with pytest.raises(StoreUnavailableError):
        Requests(client, "notes", "place", 10).call(slow)
    begun = 1000.0
    assert len(given) >= 2
    assert clock.now - begun <= 10 + 4
    assert given[-1] <= 10 - 4


def test_a_server_that_is_down_is_asked_until_the_end_of_the_wait(clock):
    client = QdrantClient("http://127.0.0.1:1", check_compatibility=False)
    asked: list[float] = []

    def count(collection_name: str) -> None:
        asked.append(clock.now)
        raise _busy()

    for _ in range(50):  # the pauses are random
        begun = clock.now
        with pytest.raises(StoreUnavailableError):
            Requests(client, "notes", "place", 10).call(count)
        assert 9 <= asked[-1] - begun < 10


def _busy() -> Exception:
    from qdrant_client.http.exceptions import UnexpectedResponse

    return UnexpectedResponse(503, "", b"{}", {})


def test_a_write_that_the_server_has_not_applied_in_time_is_repeated(clock):
    client = QdrantClient("http://127.0.0.1:1", check_compatibility=False)
    states = [models.UpdateStatus.WAIT_TIMEOUT, models.UpdateStatus.WAIT_TIMEOUT, models.UpdateStatus.COMPLETED]

    def upsert(collection_name: str) -> models.UpdateResult:
        return models.UpdateResult(status=states.pop(0), operation_id=1)

    assert Requests(client, "notes", "place", 60).call(upsert).status is models.UpdateStatus.COMPLETED
    assert states == []


@pytest.mark.parametrize("wait", [5, 20])
def test_a_server_that_limits_the_pace_is_never_waited_for_longer_than_the_wait(clock, wait):
    with StandIn(clock).running() as server:
        server.be_strict(models.StrictModeConfig(enabled=True, read_rate_limit=120, write_rate_limit=60))
        client = QdrantClient(server.url, timeout=60, check_compatibility=False)
        with Collection.open("notes", client=client, encoder=WordEncoder(max_tokens=16), wait_seconds=wait) as opened:
            notes = [(f"n{row}", f"note {row} " + "word " * 20) for row in range(60)]
            assert opened.ingest(notes).new == 60
            assert opened.verify().sound
        assert clock.pauses
        assert max(clock.pauses) <= wait
        assert clock.now - 1000 > 60, "more than a minute's budget was used"


def test_a_short_pause_that_the_server_names_is_kept_where_the_full_one_does_not_fit(clock):
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

    client = QdrantClient("http://127.0.0.1:1", check_compatibility=False)
    for refill, pauses in ((3.0, [1.0]), (2.0, [2.0])):
        answers = [ResourceExhaustedResponse("too many", retry_after_s=1), None]

        def count(collection_name: str, answers=answers) -> int:
            if (error := answers.pop(0)) is not None:
                raise error
            return 7

        clock.pauses.clear()
        assert Requests(client, "notes", "place", 3).call(count, refill_seconds=refill) == 7
        assert clock.pauses == pauses


def test_the_try_after_a_pause_that_the_server_names_may_take_as_long_as_the_first(clock):
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

    from twinvec_qdrant.stores.server.clients import _seconds

    client = QdrantClient("http://127.0.0.1:1", check_compatibility=False)
    given: list[float] = []

    def upsert(collection_name: str) -> models.UpdateResult:
        given.append(_seconds.get())
        if len(given) == 1:
            raise ResourceExhaustedResponse("too many", retry_after_s=18)
        return models.UpdateResult(status=models.UpdateStatus.COMPLETED, operation_id=1)

    Requests(client, "notes", "place", 20).call(upsert, refill_seconds=19)
    assert clock.pauses == [19]
    assert given == [20, 20]


def test_faults_among_the_answers_do_not_lengthen_the_wait(clock):
    with StandIn(clock).running() as server:
        client = QdrantClient(server.url, timeout=60, check_compatibility=False)
        opened = Collection.open("notes", client=client, encoder=WordEncoder(max_tokens=16), wait_seconds=10)
        server.fault = lambda method, path: Fault.BUSY
        begun = clock.now
        with pytest.raises(StoreUnavailableError):
            opened.count()
        assert clock.now - begun <= 10
