"""gRPC in the place of REST: the same answers, the same limits, the same errors."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
import tenacity
from qdrant_client import QdrantClient

from stand_in import STRICT, Clock, Fault, StandIn, drawn_faults
from twinvec.errors import ConfigurationError, StoreLimitError, StoreUnavailableError
from twinvec_qdrant import Collection, IndexSettings, drop_collection, list_collections
from words import StateEncoder

NOTES = [
    {"id": f"n{row:02}", "text": f"note {row} " + "word " * (row % 7 + 1), "team": f"t{row % 3}", "ratio": row / 4}
    for row in range(30)
]


def encoder(seed: int = 0) -> StateEncoder:
    return StateEncoder(seed=seed, dim=32, max_tokens=16)


@pytest.fixture
def server():
    """A server, and the arguments that reach it over gRPC; whatever comes over REST is an error."""
    with StandIn().running() as running, running.over_grpc() as port:
        yield running, {"url": running.url, "grpc": True, "grpc_port": port}


def hits(found):
    return [(hit.id, pytest.approx(hit.score, abs=1e-4), hit.payload) for hit in found]


def everything(place: dict) -> list:
    """What the methods of a collection return."""
    with Collection.open(
        "notes", **place, encoder=encoder(), index=IndexSettings("int8"), late_interaction=True
    ) as each:
        report = each.ingest(NOTES)
        later = each.ingest([{**note, "text": "newer " + note["text"]} for note in NOTES[:9]], prune=True)
        each.notes("memory").put({"k": {"row": 1, "part": 0.5, "list": [1, "a", None]}})
        found = [
            report,
            later,
            *(hits(each.search("note 7 word", 12, mode)) for mode in ("dense", "sparse", "hybrid")),
            hits(each.search("note 7", 12, filter={"team": ["t1", "t2"], "ratio": {"gte": 0.5}})),
            hits(each.maxsim().rerank("note 3", each.search("note 3", 9), 9)),
            [document.payload for document in each.get([f"n{row:02}" for row in range(9)])],
            each.delete(["n01"]),
            sorted(each.find()),
            list(each.notes("memory").find()),
            each.verify(),
            {key: value for key, value in each.info().items() if key not in ("location", "indexed")},
            each.migrate(encoder(seed=1)).switched,
            each.drop_others(),
        ]
    with Collection.open("notes", **place, encoder=encoder(seed=1)) as each:
        found.append(hits(each.search("note 5", 5, "dense")))
    return found


@pytest.mark.slow
def test_everything_over_grpc_is_what_it_is_over_rest(server):
    running, place = server
    over_grpc = everything(place)
    assert [entry.name for entry in list_collections(**place)] == ["notes"]
    drop_collection("notes", **place)
    assert list_collections(url=running.url) == []
    assert over_grpc == everything({"url": running.url})


def test_a_client_of_the_callers_may_speak_grpc(server):
    running, place = server
    client = QdrantClient(
        running.url, prefer_grpc=True, grpc_port=place["grpc_port"], timeout=60, check_compatibility=False
    )
    with Collection.open("notes", client=client, encoder=encoder()) as collection:
        assert collection.ingest(NOTES).new == len(NOTES)
        assert collection.verify().sound


@pytest.mark.parametrize("seed", range(2))
def test_faults_of_every_kind_are_survived(server, monkeypatch, seed):
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._GROWING", tenacity.wait_none())
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 3)
    running, place = server
    rng = Random(seed)
    kinds = [Fault.REFUSED, Fault.DROPPED, Fault.STALLED, Fault.BUSY, Fault.LIMITED]
    drawn = drawn_faults(kinds, rng)
    running.fault = lambda method, path: next(drawn) if rng.random() < 0.3 else None
    with Collection.open("notes", **place, encoder=encoder(), wait_seconds=60) as collection:
        assert collection.ingest(NOTES).new == len(NOTES)
        running.fault = lambda method, path: None
        assert collection.verify().sound
        assert sorted(collection.find()) == [note["id"] for note in NOTES]
    assert set(running.met) == set(kinds)


def test_limits_are_kept_to(monkeypatch):
    clock = Clock.for_requests(monkeypatch)
    with StandIn(clock).running() as running, running.over_grpc() as port:
        running.be_strict(STRICT)
        place = {"url": running.url, "grpc": True, "grpc_port": port, "wait_seconds": 20}
        with Collection.open("notes", **place, encoder=encoder()) as collection:
            assert collection.ingest(NOTES).new == len(NOTES)
            assert len(collection.search("note", 25)) == 25
            assert collection.delete(["n01", "n02"]) == 2
            with pytest.raises(StoreLimitError, match=r"'owner'(?s:.*)keyword"):
                collection.find({"owner": "ada"})
        assert clock.pauses, "the budgets were used up"
        assert max(clock.pauses) <= 20


def test_commands_take_the_port(twinvec, server, tiny_model, tmp_path):
    running, place = server
    (tmp_path / "tea.txt").write_text("Green tea is brewed at 80 degrees.")
    there = ("--collection", "notes", "--url", running.url, "--grpc-port", place["grpc_port"], "--json")
    assert twinvec("ingest", tmp_path / "tea.txt", *there, "--model", tiny_model("bert")).code == 0
    assert '"tea.txt"' in twinvec("search", "tea", *there).out
    copy = ("--to-url", running.url, "--to-grpc-port", place["grpc_port"], "--to-collection", "copy")
    assert '"copied": 1' in twinvec("push", *there, *copy).out
    assert twinvec("collections", *there[2:]).out.count('"name"') == 2
    assert twinvec("drop", *there, "--yes").code == 0
    assert twinvec("info", "--collection", "notes", "--grpc-port", 6334).code == 2


def test_commands_of_the_core_take_the_port(twinvec, server, tiny_model, tmp_path):
    running, place = server
    model = tiny_model("bert")
    (tmp_path / "tea.txt").write_text("Green tea is brewed at 80 degrees.")
    there = ("--url", running.url, "--grpc-port", place["grpc_port"])
    assert twinvec("ingest", tmp_path / "tea.txt", "--collection", "notes", *there, "--model", model).code == 0
    judged = tmp_path / "judged"
    (judged / "qrels").mkdir(parents=True)
    (judged / "queries.jsonl").write_text('{"_id": "q", "text": "tea"}')
    (judged / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ttea.txt\t1\n")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"anchor": "a drink", "positive": "milk"}')
    commands = [
        ("evaluate", "--collection", "notes", "--ir", judged),
        ("mine", pairs, "-o", tmp_path / "rows.jsonl", "--collection", "notes"),
        ("export", model, "-o", tmp_path / "fast", "--calibrate-collection", "notes", "--engine", "onnx"),
    ]
    for command in commands:
        closed = twinvec(*command, "--url", running.url, "--grpc-port", 1, "--wait", 0.2)
        assert (closed.code, "127.0.0.1:1" in closed.err) == (1, True), closed.err
        assert "--grpc-port needs --url" in " ".join(twinvec(*command, "--grpc-port", 6334).err.split()), command
    for command in commands[:2]:
        assert twinvec(*command, *there).code == 0, command
    assert twinvec(*commands[1][:4], "--grpc-port", 6334).code == 2, "without a collection"


async def test_awaited_searches_over_grpc_in_one_event_loop_after_another(server):
    _, place = server
    with Collection.open("notes", **place, encoder=encoder()) as collection:
        collection.ingest(NOTES)
        found = hits(collection.search("note 7 word", 5))
        assert hits(await collection.asearch("note 7 word", 5)) == found
        again = await asyncio.to_thread(lambda: asyncio.run(collection.asearch("note 7 word", 5)))
        assert hits(again) == found


def test_a_server_without_grpc_is_named():
    with StandIn().running() as running, pytest.raises(StoreUnavailableError, match=running.url):
        list_collections(url=running.url, grpc=True, grpc_port=1, wait_seconds=0.2)


@pytest.mark.parametrize(
    "place", [{"path": "."}, {"client": QdrantClient(":memory:")}, {"url": "http://x", "grpc_port": 0}]
)
def test_grpc_goes_with_an_address_and_a_port(place):
    with pytest.raises(ConfigurationError, match="grpc"):
        Collection.open("notes", **place, grpc=True)
