"""A server with every limit of strict mode on: each operation gives what it gives on one without limits."""

from __future__ import annotations

import math
import os
from random import Random

import pytest
from pydantic_core import to_json
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

from cases import few_quick
from stand_in import STRICT, StandIn
from twinvec.errors import StoreFullError, StoreLimitError, StoreUnavailableError
from twinvec_qdrant import Collection, IndexSettings, drop_collection, list_collections
from twinvec_qdrant.stores.server.backend import ServerBackend
from words import StateEncoder

NOTES = [
    {"id": f"n{row:02}", "text": f"note {row} " + "word " * (row % 7 + 1), "team": f"t{row % 3}", "size": row}
    for row in range(34)
]
LATER = [{**note, "text": "newer " + note["text"]} for note in NOTES[::3]]

WAIT = 20.0


def encoder(seed: int = 0) -> StateEncoder:
    return StateEncoder(seed=seed, max_tokens=16)


def opened(server: StandIn | None, name: str = "notes", wait_seconds: float = WAIT, **options) -> Collection:
    client = (
        QdrantClient(":memory:") if server is None else QdrantClient(server.url, timeout=60, check_compatibility=False)
    )
    options = {"encoder": encoder(), "index": IndexSettings("int8", ef=128), "late_interaction": True, **options}
    return Collection.open(name, client=client, wait_seconds=wait_seconds, **options)


@pytest.fixture
def both(strict):
    """A collection on the strict server, and the same one on a server without limits, both filled."""
    with StandIn().running() as lenient, opened(strict) as limited, opened(lenient) as free:
        for each in (limited, free):
            assert each.ingest(NOTES).new == len(NOTES)
        yield limited, free


def hits(found):
    """The hits in their order. A real server puts equal hits in any order, and chooses some of those at the end."""
    if not os.environ.get("QDRANT_URL"):
        return [(hit.id, pytest.approx(hit.score, abs=1e-4), hit.text) for hit in found]
    cut = found[-1].score + 1e-3 if len(found) < len(NOTES) else -math.inf
    scores = [pytest.approx(hit.score, abs=1e-4) for hit in found]
    return scores, {hit.id: (score, hit.text) for hit, score in zip(found, scores, strict=True) if hit.score > cut}


def changed(collection: Collection):
    report = collection.ingest(list({note["id"]: note for note in NOTES[:20] + LATER}.values()), prune=True)
    return report.updated, report.unchanged, report.deleted, sorted(collection.find())


def pushed(collection: Collection):
    return collection.push(client=QdrantClient(":memory:")).copied


def migrated(collection: Collection):
    report = collection.migrate(encoder(seed=1))
    return report.switched, report.encoded, collection.info()["migrated_from"] is not None


def noted(collection: Collection):
    notes = collection.notes("memory")
    notes.put({f"k{row}": {"row": row} for row in range(25)})
    notes.delete(["k3", "k4"])
    return sorted(notes.find())


OPERATIONS = {
    "count": lambda each: each.count(),
    "find": lambda each: sorted(each.find()),
    "find by a filter": lambda each: sorted(each.find({"team": "t1", "size": {"gte": 4}})),
    "find by many values": lambda each: sorted(each.find({"id": [f"n{row:02}" for row in range(3, 30)]})),
    "get": lambda each: [document.text for document in each.get([note["id"] for note in NOTES])],
    "dense": lambda each: hits(each.search("note 7 word", 15, "dense")),
    "sparse": lambda each: hits(each.search("note 7 word", 15, "sparse")),
    "hybrid": lambda each: hits(each.search("note 7 word", 15)),
    "all": lambda each: hits(each.search("note 7 word", 500, "dense", group=False)),
    "filtered": lambda each: hits(each.search("note 7 word", 15, filter={"team": ["t1", "t2"], "size": {"lt": 20}})),
    "many": lambda each: [hits(found) for found in each.search_many([f"note {row}" for row in range(12)], 5)],
    "vector": lambda each: hits(each.search_vector(each.encoder.encode_query(["note 3"])[0], 12, words="note 3")),
    "diverse": lambda each: hits(each.search_diverse("note 3", 8, candidates=25)),
    "maxsim": lambda each: hits(each.maxsim().rerank("note 3", each.search("note 3", 25), 10)),
    "change": changed,
    "delete": lambda each: (each.delete([note["id"] for note in NOTES[::2]]), sorted(each.find()), each.verify().sound),
    "verify": lambda each: each.verify(repair=True),
    "info": lambda each: {key: each.info()[key] for key in ("points", "sources", "index", "late_interaction")},
    "push": pushed,
    "migrate": migrated,
    "drop others": lambda each: (each.migrate(encoder(seed=1)).switched, each.drop_others()),
    "reindex": lambda each: each.reindex(IndexSettings("int8", m=8, ef=128)).chunks,
    "notes": noted,
}


@pytest.mark.parametrize(
    "name", few_quick(OPERATIONS, ["find by many values", "hybrid", "all", "many", "change", "delete", "migrate"])
)
def test_every_operation_keeps_to_the_limits_and_gives_what_it_gives_without(both, clock, name):
    limited, free = both
    assert OPERATIONS[name](limited) == OPERATIONS[name](free)
    assert clock.pauses, "the budgets were used up"
    assert max(clock.pauses) <= WAIT


async def test_awaited_searches_keep_to_the_limits():
    within = {name: value for name, value in STRICT.model_dump(exclude_none=True).items() if "rate" not in name}
    with StandIn().running() as server, StandIn().running() as lenient, opened(lenient) as free:
        server.be_strict(models.StrictModeConfig(**within))
        with Collection.open("notes", url=server.url, encoder=encoder()) as limited:
            for each in (limited, free):
                each.ingest(NOTES)
            for mode in ("dense", "sparse", "hybrid"):
                assert hits(await limited.asearch("note 7 word", 25, mode)) == hits(
                    free.search("note 7 word", 25, mode)
                )


def test_what_managed_clusters_switch_on_costs_no_request():
    with StandIn().running() as server:
        managed = {"unindexed_filtering_retrieve": False, "unindexed_filtering_update": False}
        server.be_strict(models.StrictModeConfig(enabled=True, max_payload_index_count=100, **managed))
        with opened(server) as collection:
            collection.ingest(NOTES)
            server.asked.clear()
            assert len(collection.search("note 7 word", 5, filter={"team": "t1"})) == 5
            assert len(server.asked) == 2
            assert changed(collection)[:3] == (12, 13, 9)


def test_a_push_to_a_strict_server(strict, clock):
    with opened(None) as here:
        here.ingest(NOTES)
        client = QdrantClient(strict.url, timeout=60, check_compatibility=False)
        assert here.push(client=client, wait_seconds=WAIT).copied == len(NOTES)
    with opened(strict) as there:
        assert sorted(there.find()) == [note["id"] for note in NOTES]
        assert there.verify().sound
    assert [each.name for each in list_collections(client=client)] == ["notes"]
    drop_collection("notes", client=client)
    assert list_collections(client=client) == []
    assert max(clock.pauses) <= WAIT


def test_limits_that_come_later_are_met(strict, clock):
    strict.be_strict(models.StrictModeConfig())
    with opened(strict) as collection:
        collection.ingest(NOTES)
        strict.be_strict(STRICT, "notes")
        assert changed(collection)[:3] == (12, 13, 9)
        assert len(collection.find()) == 25


def test_exact_search_where_the_server_forbids_it(both):
    limited, _ = both
    with pytest.raises(StoreLimitError, match="search_allow_exact"):
        limited.search_vector(limited.encoder.encode_query(["note 3"])[0], exact=True)
    with pytest.raises(StoreLimitError, match="search_allow_exact"):
        limited.search("note 3", exact=True)
    assert limited.reindex().recall is None


def test_a_filter_without_an_index_names_the_key_and_what_adds_it(both):
    limited, _ = both
    with pytest.raises(
        StoreLimitError,
        match=r"'colour'(?s:.*)keyword; check the spelling of the key, or index it: "
        r"collection\.reindex\(payload_indexes={'colour': 'keyword'}\) (?s:.*)"
        r"together with the indexes that you requested before",
    ):
        limited.search("note", filter={"colour": "red"})


def test_a_node_that_has_not_heard_of_an_index_is_asked_again(strict, monkeypatch):
    """In a cluster, an index is made on one node, and the others hear of it a moment later."""
    strict.be_strict(models.StrictModeConfig(enabled=True, unindexed_filtering_retrieve=False))
    with opened(strict) as collection:
        collection.ingest(NOTES[:5])
        respond, late = strict.respond, []

        def lagging(method: str, path: str, body: dict) -> tuple[int, bytes, int | None]:
            if path.partition("?")[0].endswith(("/scroll", "/query/batch")) and not late:
                late.append(path)
                said = 'Index required but not found for "kind" of one of the following types: [keyword]'
                return (
                    400,
                    to_json({"status": {"error": f"Bad request: {said}. Help: Create an index for this key."}}),
                    None,
                )
            return respond(method, path, body)

        monkeypatch.setattr(strict, "respond", lagging)
        assert sorted(collection.find()) == [note["id"] for note in NOTES[:5]]
        late.clear()
        assert len(collection.search("note", 5)) == 5
        assert late


def test_a_filter_of_too_many_conditions_names_the_limit(both, strict):
    limited, _ = both
    strict.be_strict(models.StrictModeConfig(filter_max_conditions=2), "notes")
    with pytest.raises(StoreLimitError, match="filter_max_conditions") as caught:
        limited.find({"size": {"gte": 1}, "team": "t1"})
    assert not isinstance(caught.value, StoreFullError)


def fill(collection: Collection, given: set[str]) -> None:
    """Ingest copies of the notes until the server refuses them: a server counts what it has at every 32nd write."""
    for part in range(32):
        notes = [{**each, "id": each["id"] + "+" * part} for each in NOTES]
        given.update(each["id"] for each in notes)
        collection.ingest(notes)


@pytest.mark.parametrize(
    ("limit", "named"),
    [({"max_points_count": 30}, "max_points_count"), ({"max_collection_vector_size_bytes": 4000}, "vectors")],
)
def test_a_full_collection_says_so_and_keeps_what_was_committed(strict, limit, named):
    strict.be_strict(models.StrictModeConfig(enabled=True, **limit))
    with opened(strict) as collection:
        collection.ingest(NOTES[:5])
        given: set[str] = set()
        with pytest.raises(StoreFullError, match=f"full(?s:.*){named}") as caught:
            fill(collection, given)
        assert "committed before the error" in caught.value.__notes__[-1]
        kept = len(collection.find())
        assert 5 <= kept < len(given)
        assert hits(collection.search("note", 50))[0]
        assert collection.delete([NOTES[0]["id"]]) == 1
        assert collection.verify().sources == kept - 1


@pytest.mark.parametrize("over_grpc", [False, True])
def test_documents_of_a_full_server_can_be_deleted(strict, over_grpc):
    """A node whose disk is full (server 1.19) refuses the intent of a deletion, too."""
    strict.be_strict(models.StrictModeConfig())
    with strict.over_grpc() as port:
        place = {"url": strict.url, "grpc": over_grpc, "grpc_port": port, "wait_seconds": WAIT}
        with Collection.open("notes", **place, encoder=encoder()) as collection:
            collection.ingest(NOTES[:5])
            strict.actions.is_full = True
            with pytest.raises(StoreFullError, match=r"no room left(?s:.*)remove documents"):
                collection.ingest(NOTES)
            assert collection.delete([NOTES[0]["id"], NOTES[1]["id"]]) == 2
            strict.actions.is_full = False
            assert sorted(collection.find()) == [note["id"] for note in NOTES[2:5]]
            assert collection.verify().sound


def test_a_collection_whose_server_limits_the_memory_is_searched_with_its_records(strict):
    strict.be_strict(models.StrictModeConfig(enabled=True, max_resident_memory_percent=90))
    with opened(strict) as collection:
        assert not collection._backend.watches(), "a full server refuses intents, which would be watched"
    strict.be_strict(models.StrictModeConfig())
    with opened(strict, "free") as collection:
        collection.count()
        assert collection._backend.watches()


def test_a_request_that_costs_more_than_the_budget_is_not_repeated(strict, clock):
    strict.be_strict(models.StrictModeConfig(enabled=True, read_rate_limit=1))
    with pytest.raises(StoreLimitError, match="read_rate_limit"):
        opened(strict, wait_seconds=300).ingest(NOTES)
    assert len(clock.pauses) < 5


def test_a_budget_that_comes_back_too_slowly_ends_within_the_wait(strict, clock):
    strict.be_strict(models.StrictModeConfig(enabled=True, write_rate_limit=5))
    with pytest.raises(StoreUnavailableError, match="--wait"):
        opened(strict, wait_seconds=10).ingest(NOTES)
    assert max(clock.pauses, default=0) <= 10


@pytest.fixture
def any_order(strict, monkeypatch):
    """A strict server that returns hits of one score in another order at every request, as a server may."""
    random, client = Random(0), strict.actions._client
    search = client.query_batch_points

    def shuffled(name, requests):
        for each in requests:
            (whole,) = search(name, [each.model_copy(update={"offset": None, "limit": 1000})])
            points = sorted(whole.points, key=lambda point: (-round(point.score, 5), random.random()))
            start = each.offset or 0
            yield whole.model_copy(update={"points": points[start : start + each.limit]})

    monkeypatch.setattr(client, "query_batch_points", lambda name, requests: list(shuffled(name, requests)))
    return strict


@pytest.mark.parametrize("mode", ["dense", "sparse", "hybrid"])
@pytest.mark.parametrize("limits", [{}, {"condition_max_size": 5, "filter_max_conditions": 40}])
def test_all_hits_of_one_score_are_found_if_they_do_not_fit_on_a_page(any_order, mode, limits):
    any_order.be_strict(models.StrictModeConfig(enabled=True, max_query_limit=10, **limits))
    same = [{"id": f"s{row:02}", "text": "word 7"} for row in range(27)]
    with opened(any_order, late_interaction=False) as collection:
        collection.ingest([*same, *({"id": f"o{row}", "text": f"other {row} things"} for row in range(20))])
        any_order.asked.clear()
        found = collection.search("word 7", 27, mode, group=False)
        assert (len({hit.id for hit in found}), {hit.text for hit in found}) == (27, {"word 7"})
        searches = [path for _, path in any_order.asked if "/points/query/batch" in path]
        assert len(searches) <= 3  # the pages, what is missing between them, and the texts of hits


def test_a_server_charges_the_first_write_of_a_collection_twice(strict, clock):
    """A server rejects the first operation of a new clock, and does it again."""
    strict.be_strict(models.StrictModeConfig(enabled=True, write_rate_limit=10))
    client = QdrantClient(strict.url, timeout=60, check_compatibility=False)
    client.create_collection("new", models.VectorParams(size=2, distance=models.Distance.COSINE))
    points = [models.PointStruct(id=row, vector=[1.0, row]) for row in range(6)]
    with pytest.raises(ResourceExhaustedResponse):
        client.upsert("new", points)
    assert client.count("new").count == 0
    clock.sleep(12)
    client.upsert("new", points)
    assert client.count("new").count == 6


@pytest.mark.parametrize("most", [5, 40])
def test_a_first_write_that_costs_twice_a_whole_budget_succeeds_within_the_wait(strict, clock, most):
    strict.be_strict(models.StrictModeConfig(enabled=True, write_rate_limit=most))
    client = QdrantClient(strict.url, timeout=60, check_compatibility=False)
    with opened(None) as here:
        here.ingest(NOTES)
        assert here.push(client=client, wait_seconds=61).copied == len(NOTES)
    with opened(strict) as there:
        assert sorted(there.find()) == [note["id"] for note in NOTES]
        assert there.verify().sound
    assert 0 < max(clock.pauses) <= 61


@pytest.mark.parametrize("work", ["ingest", "find"])
def test_a_collection_whose_creator_was_killed_gets_its_indexes(strict, monkeypatch, work):
    monkeypatch.setattr(ServerBackend, "index_fields", lambda *_: None)
    opened(strict).close()
    with opened(strict) as collection:
        assert not collection._backend._info().payload_schema
        operations = {
            "ingest": lambda: collection.ingest(NOTES[:3]).new == 3,
            "find": lambda: collection.find() == [],
        }
        assert operations[work]()
        assert collection._backend._info().payload_schema


def test_an_older_collection_is_indexed_at_its_first_write(strict):
    with opened(strict) as collection:
        collection.ingest(NOTES[:5])
    client = QdrantClient(strict.url, timeout=60, check_compatibility=False)
    for field in ("revision", "content", "namespace"):
        client.delete_payload_index("notes", field)
    with opened(strict) as collection:
        collection.delete(["n00"])
    assert {"revision", "content", "namespace"} <= client.get_collection("notes").payload_schema.keys()
