"""A server that refuses, stalls, is busy and drops connections: what it acknowledged is there, and the rest comes."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
import tenacity
from qdrant_client import QdrantClient

from cases import slow
from stand_in import Fault, StandIn, drawn_faults
from twinvec.arrays import unit
from twinvec.errors import ConfigurationError, StoreError, StoreUnavailableError
from twinvec_qdrant import Collection, IndexSettings
from twinvec_qdrant.stores.base import OWN_FIELDS
from twinvec_qdrant.stores.server.values import client_quantization
from words import StateEncoder, WordEncoder

NOTES = {f"n{row:02}": f"note {row}\n\n" + "word " * (9 * (row % 3 + 1)) for row in range(40)}
LATER = {**{name: text.replace("note", "newer note") for name, text in list(NOTES.items())[::3]}, "late": "a late note"}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._GROWING", tenacity.wait_none())
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._LEAST_SECONDS", 30)  # for one try on a slow machine
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 10)
    monkeypatch.setattr("twinvec_qdrant.maintenance.migration._PAGE", 20)
    with StandIn().running() as running:
        yield running


def opened(
    server: StandIn, wait_seconds: float = 120, encoder: WordEncoder | None = None, timeout: int = 30, **options
) -> Collection:
    client = QdrantClient(server.url, timeout=timeout, check_compatibility=False)
    encoder = encoder or WordEncoder(max_tokens=16)
    return Collection.open("notes", client=client, encoder=encoder, wait_seconds=wait_seconds, **options)


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_every_fault_at_any_request_is_survived(server, seed):
    rng = Random(seed)
    kinds = [Fault.REFUSED, Fault.DROPPED, Fault.BUSY, Fault.LIMITED]
    drawn = drawn_faults(kinds, rng)

    def fault(method: str, path: str) -> Fault | None:
        if Fault.STALLED not in server.met and rng.random() < 0.03:
            return Fault.STALLED
        return next(drawn) if rng.random() < 0.25 else None

    server.fault = fault
    with opened(server, timeout=1) as collection:
        first = collection.ingest(NOTES.items())
        assert (first.new, first.failed) == (len(NOTES), 0)
        second = collection.ingest({**NOTES, **LATER}.items())
        assert (second.new, second.updated, second.failed) == (1, 14, 0)
        third = collection.ingest({**NOTES, **LATER}.items(), prune=True)
        assert third.unchanged == len(NOTES) + 1
        check(collection, {**NOTES, **LATER})
    assert set(server.met) >= set(kinds)
    assert len(server.met) > 20


def goes_away(server: StandIn, kind: Fault, after: int) -> None:
    """From a later request on, the server only has faults."""
    requests = count()
    server.fault = lambda method, path: kind if next(requests) >= after else None


@pytest.mark.parametrize("kind", [Fault.REFUSED, Fault.DROPPED, Fault.BUSY])
@pytest.mark.parametrize("after", [slow(3), slow(11), 25])
def test_a_server_that_goes_away_ends_the_ingest_and_the_next_completes_it(server, kind, after):
    with opened(server, wait_seconds=0.2) as collection:
        goes_away(server, kind, after)
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


def test_a_collection_whose_maker_died_gets_its_payload_indexes_all_the_same(server):
    server.fault = lambda method, path: Fault.REFUSED if "/index" in path else None
    with pytest.raises(StoreUnavailableError):
        opened(server, wait_seconds=0.1, tenant_key="team")
    server.fault = lambda method, path: None
    with opened(server) as collection:
        assert server.fields == set()
        collection.ingest([{"id": "vpn", "text": "the way in", "team": "it"}])
    assert server.fields == {*OWN_FIELDS, "metadata.team"}


@pytest.mark.slow
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


def models() -> tuple[StateEncoder, StateEncoder]:
    """The model before a migration, and the one after it."""
    return StateEncoder(max_tokens=16), StateEncoder(seed=1, dim=48, states_dim=16, max_tokens=16)


def check_model(collection: Collection, encoder: StateEncoder) -> None:
    """Every chunk is found with the score that the model gives it."""
    hits = collection.search("note 7", 500, "dense", group=False)
    assert len(hits) == collection.count() > len(NOTES)
    cosines = unit(encoder.encode_document([hit.text for hit in hits])) @ unit(encoder.encode_query(["note 7"]))[0]
    assert [hit.score for hit in hits] == pytest.approx(list(cosines), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_migration_survives_every_fault(server, seed):
    old, new = models()
    rng = Random(seed)
    kinds = [Fault.REFUSED, Fault.DROPPED, Fault.BUSY, Fault.LIMITED]
    drawn = drawn_faults(kinds, rng)
    repeated = set()

    def fault(method: str, path: str) -> Fault | None:
        if "/vectors/" in path and (method, path) not in repeated:  # room for vectors is made, and not acknowledged
            repeated.add((method, path))
            return Fault.DROPPED
        return next(drawn) if rng.random() < 0.25 else None

    with opened(server, encoder=old, late_interaction=True) as collection:
        collection.ingest(NOTES.items())
        server.fault = fault
        report = collection.migrate(new)
        assert (report.switched, report.encoded) == (True, collection.count())
    with opened(server, encoder=new) as collection:
        check(collection, NOTES)
        check_model(collection, new)
        assert collection.drop_others() == [old.name]
        check_model(collection, new)
        assert collection.verify().sound
    assert sorted(method for method, _ in repeated) == ["DELETE", "DELETE", "PUT", "PUT"]
    assert set(server.met) >= set(kinds)


def test_a_migration_makes_room_for_vectors_once(server):
    """A second request would make a server optimize again, and its filters find no vectors meanwhile."""
    old, new = models()
    with opened(server, encoder=old, late_interaction=True) as collection:
        collection.ingest(NOTES.items())
        server.asked.clear()
        assert collection.migrate(new).encoded == collection.count()
    changed = [path.partition("?")[0].rpartition("/")[2] for method, path in server.asked if "/vectors/" in path]
    assert changed == ["dense-words-1-48-states", "dense-words-1-48"]
    described = [path for method, path in server.asked if method == "PATCH"]
    assert len(described) == 4, "the next model, the place of its states, the switch, the calibration"


@pytest.mark.parametrize("late_interaction", [False, True])
def test_a_migration_waits_until_a_server_has_made_room(server, monkeypatch, late_interaction):
    """Qdrant 1.18.3 answers before all segments have room for the vector; one that it is optimizing gets it later."""
    old, new = models()
    with opened(server, wait_seconds=0.2, encoder=old, late_interaction=late_interaction) as collection:
        collection.ingest(NOTES.items())
        late = server.actions.late
        monkeypatch.setattr("stand_in.actions.LATE", 1_000_000)
        for _ in range(2):
            with pytest.raises(StoreError, match=r"a vector is missing .*dense-words-1-48"):
                collection.migrate(new)
            check_model(collection, old)
        late.clear()
        assert collection.migrate(new).encoded == collection.count()
        check_model(collection, new)


def test_chunks_are_encoded_once_by_a_server_whose_filters_find_no_vectors(server, monkeypatch):
    """As Qdrant 1.18.3 does for a vector that was added to the collection, while it optimizes."""
    old, new = models()
    respond = server.respond

    def hidden(method, path, body):
        if "/scroll" in path:
            conditions = [each for each in body["filter"]["must"] if "has_vector" not in str(each)]
            body = body | {"filter": {"must": conditions}}
        return respond(method, path, body)

    with opened(server, encoder=old, late_interaction=True) as collection:
        collection.ingest(NOTES.items())
        monkeypatch.setattr(server, "respond", hidden)
        assert collection.migrate(new).encoded == collection.count()
        assert collection.verify().sound
        with pytest.raises(ConfigurationError, match="has the model"):
            collection.migrate(new)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "after"),  # requests 6 and 10 make room for states and vectors; those from 16 on fill it
    [
        (Fault.DROPPED, 6),
        (Fault.DROPPED, 10),
        (Fault.BUSY, 11),
        (Fault.REFUSED, 13),
        (Fault.DROPPED, 19),
        (Fault.BUSY, 33),
    ],
)
def test_a_server_that_goes_away_ends_the_migration_and_the_next_completes_it(server, kind, after):
    old, new = models()
    with opened(server, wait_seconds=0.2, encoder=old, late_interaction=True) as collection:
        collection.ingest(NOTES.items())
        goes_away(server, kind, after)
        with pytest.raises(StoreUnavailableError):
            collection.migrate(new)
        server.fault = lambda method, path: None
        check_model(collection, old)
        assert collection.migrate(new).switched
    with opened(server, encoder=new) as collection:
        check(collection, NOTES)
        check_model(collection, new)


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
