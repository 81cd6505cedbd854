"""A server that refuses, stalls, is busy and drops connections: what it acknowledged is there, and the rest comes."""

from __future__ import annotations

from random import Random

import pytest
import tenacity
from qdrant_client import QdrantClient

from qdrant_stand_in import Fault, StandIn
from twinvec.errors import StoreUnavailableError
from twinvec_qdrant import Collection, IndexSettings
from twinvec_qdrant.backends.client_values import client_quantization
from words import WordEncoder

NOTES = {f"n{row:02}": f"note {row}\n\n" + "word " * (9 * (row % 3 + 1)) for row in range(40)}
LATER = {**{name: text.replace("note", "newer note") for name, text in list(NOTES.items())[::3]}, "late": "a late note"}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.backends.retrying._GROWING", tenacity.wait_none())
    monkeypatch.setattr("twinvec_qdrant.work.BATCH_CHUNKS", 10)
    with StandIn().running() as running:
        yield running


def opened(server: StandIn, wait_seconds: float = 120) -> Collection:
    client = QdrantClient(server.url, timeout=1, check_compatibility=False)
    return Collection.open("notes", client=client, encoder=WordEncoder(max_tokens=16), wait_seconds=wait_seconds)


def check(collection: Collection, expected: dict[str, str]) -> None:
    """Every document is there, whole, once, and nothing else."""
    assert {each.id: each.text.split() for each in collection.get(sorted(expected))} == {
        name: text.split() for name, text in expected.items()
    }
    assert sorted(collection.find()) == sorted(expected)
    assert collection.verify().sound
    assert collection.search("note 7", 1)[0].id in expected


def test_without_faults_the_stand_in_does_what_a_store_does(server):
    with opened(server) as collection:
        assert collection.ingest(NOTES.items()).new == len(NOTES)
        check(collection, NOTES)
        assert server.met == []


@pytest.mark.parametrize("seed", range(3))
def test_every_fault_at_any_request_is_survived(server, seed):
    rng = Random(seed)
    kinds = [Fault.REFUSED, Fault.DROPPED, Fault.BUSY, Fault.LIMITED]

    def fault(method: str, path: str) -> Fault | None:
        if Fault.STALLED not in server.met and rng.random() < 0.03:
            return Fault.STALLED
        return rng.choice(kinds) if rng.random() < 0.25 else None

    server.fault = fault
    with opened(server) as collection:
        first = collection.ingest(NOTES.items())
        assert (first.new, first.failed) == (len(NOTES), 0)
        second = collection.ingest({**NOTES, **LATER}.items())
        assert (second.new, second.updated, second.failed) == (1, 14, 0)
        third = collection.ingest({**NOTES, **LATER}.items(), prune=True)
        assert third.unchanged == len(NOTES) + 1
        check(collection, {**NOTES, **LATER})
    assert set(server.met) >= set(kinds)
    assert len(server.met) > 20


@pytest.mark.parametrize("kind", [Fault.REFUSED, Fault.DROPPED, Fault.BUSY])
@pytest.mark.parametrize("after", [3, 11, 25])
def test_a_server_that_goes_away_ends_the_ingest_and_the_next_completes_it(server, kind, after):
    with opened(server, wait_seconds=0.2) as collection:
        left = [after]

        def fault(method: str, path: str) -> Fault | None:
            left[0] -= 1
            return kind if left[0] < 0 else None

        server.fault = fault
        with pytest.raises(StoreUnavailableError) as caught:
            collection.ingest(NOTES.items())
        assert "committed before the error" in caught.value.__notes__[-1]
        acknowledged = int(caught.value.__notes__[-1].split(" new")[0].rsplit(" ", 1)[1])
        server.fault = lambda method, path: None
        assert len(collection.find()) >= acknowledged
        report = collection.ingest(NOTES.items())
        assert report.new + report.unchanged == len(NOTES)
        assert report.unchanged >= acknowledged
        check(collection, NOTES)


def test_the_index_waits_for_the_first_ingest_and_is_made_up_for(server):
    left = [20]

    def fault(method: str, path: str) -> Fault | None:
        left[0] -= 1
        return Fault.BUSY if left[0] < 0 else None

    with opened(server, wait_seconds=0.1) as collection:
        server.fault = fault
        with pytest.raises(StoreUnavailableError):
            collection.ingest(NOTES.items())
        server.fault = lambda method, path: None
        assert server.graphs[-1] == 0
        collection.ingest(NOTES.items())
        assert server.graphs[-1] == 16
        updates = len(server.graphs)
        collection.ingest({**NOTES, **LATER}.items())
        assert 0 not in server.graphs[updates:], "searches of a filled collection keep their index"


def test_another_index_of_a_server(server):
    with opened(server) as collection:
        collection.ingest(NOTES.items())
        for settings in (IndexSettings("int8", m=32), IndexSettings("turbo"), IndexSettings("binary"), IndexSettings()):
            collection.reindex(settings)
            assert server.graphs[-1] == settings.m
            stored = collection._backend._client.get_collection("notes").config
            assert stored.params.vectors["dense"].quantization_config == client_quantization(settings)
            assert collection.info()["index"] == settings.as_dict()
            assert collection.search("note 7", 1, "dense")[0].id == "n07"


def test_a_push_to_a_server_with_faults(server, tmp_path):
    rng = Random(7)
    with Collection.open("notes", tmp_path, encoder=WordEncoder(max_tokens=16)) as here:
        here.ingest(NOTES.items())
        server.fault = lambda method, path: rng.choice(list(Fault)[:2]) if rng.random() < 0.3 else None
        client = QdrantClient(server.url, timeout=5, check_compatibility=False)
        assert here.push(client=client, wait_seconds=60).copied == len(NOTES)
    server.fault = lambda method, path: None
    with opened(server) as there:
        check(there, NOTES)
