"""A search on a server makes at most two requests, and finds what the embedded store finds.

``test_ended`` has the searches that make one.
"""

from __future__ import annotations

import asyncio
import threading

import pytest
import tenacity
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from cases import few_quick
from stand_in import Fault, StandIn
from twinvec import Document
from twinvec.adapters.coalescing import Coalescer
from twinvec.errors import ConfigurationError, FilterError, StoreError
from twinvec_qdrant import ChunkSettings, ClusterSettings, Collection
from twinvec_qdrant.records.schema import model_id, record_id
from twinvec_qdrant.stores.candidates import Along, Candidates, Search
from twinvec_qdrant.stores.points import Query
from twinvec_qdrant.stores.steps import asked as asked_for
from words import WordEncoder, sentences

TEXTS = sentences(150, seed=3, longest=20)
DOCUMENTS = [Document(f"d{row:03}", text, payload={"third": row % 3}) for row, text in enumerate(TEXTS)]
LONG = [Document(f"long{row}", "\n\n".join(TEXTS[row * 20 : row * 20 + 20])) for row in range(6)]
QUERIES = ["the quick fox", "two men on the moon", "compare files Größe", "384,400", "no such word"]


@pytest.fixture
def asked(server):
    """The requests that the server has got, as (method, action)."""
    requests: list[tuple[str, str]] = []
    server.fault = lambda method, path: requests.append((method, path.partition("?")[0].partition("/notes")[2]))
    return requests


def filled(encoder: WordEncoder, documents=DOCUMENTS, chunking: ChunkSettings | bool = False, **place) -> Collection:
    collection = Collection.open("notes", encoder=encoder, chunking=chunking, wait_seconds=120, **place)
    collection.ingest(documents)
    return collection


def forget(collection: Collection) -> None:
    """Let a handle know nothing of commits, as one that has just been opened."""
    collection._serving._ended.__init__()


def client(server: StandIn) -> QdrantClient:
    return QdrantClient(server.url, timeout=60, check_compatibility=False)


def same(found, expected) -> bool:
    """Whether hits are the same but for rounding, which differs between two runs of one search."""
    assert [(hit.id, hit.text, hit.payload) for hit in found] == [(hit.id, hit.text, hit.payload) for hit in expected]
    for hit, other in zip(found, expected, strict=True):
        assert hit.scores == pytest.approx(other.scores, abs=1e-5)
    return bool(found)


SEARCHES = {
    "dense": {"mode": "dense"},
    "sparse": {"mode": "sparse"},
    "hybrid": {},
    "one": {"limit": 1},
    "filtered": {"filter": {"third": 1}},
    "second page": {"limit": 20, "offset": 20},
    "chunks": {"group": False, "limit": 25},
    "phrasings": {"words": ["moon", "files"], "answers": "two men on the moon"},
}


def test_any_search_of_a_new_handle_makes_two_requests(server, asked, words):
    with filled(words, client=client(server)) as collection:
        vector = words.encode_query(["the fox"])[0]
        calls = {
            **{
                name: lambda options=options: collection.search(QUERIES[0], **options)
                for name, options in SEARCHES.items()
            },
            "many": lambda: collection.search_many(QUERIES),
            "vector": lambda: collection.search_vector(vector, words="fox", filter={"third": [0, 2]}),
            "exact vector": lambda: collection.search_vector(vector, exact=True),
            "diverse": lambda: collection.search_diverse("two men", 5),
            "diverse vector": lambda: collection.search_diverse(vector, 5, candidates=80),
        }
        for name, call in calls.items():
            forget(collection)
            for _ in range(2):
                asked.clear()
                assert call(), name
                assert asked == [("POST", "/points/query/batch"), ("POST", "/points")], name
            asked.clear()
            assert call(), name
            assert len(asked) == (2 if "diverse" in name else 1), name


def test_feedback_makes_two_requests_more(server, asked, tmp_path, words):
    few = DOCUMENTS[:90]
    with filled(words, few, client=client(server)) as there, filled(words, few, path=tmp_path) as here:
        for options in ({"feedback": 3}, {"feedback": 3, "mode": "dense", "limit": 20, "offset": 5}):
            forget(there)
            asked.clear()
            found = there.search(QUERIES[0], **options)
            assert asked == 2 * [("POST", "/points/query/batch"), ("POST", "/points")], options
            assert same(found, here.search(QUERIES[0], **options))


def test_a_strict_server_is_asked_twice_too(server, asked, words):
    limits = {"max_query_limit": 100, "search_allow_exact": False, "filter_max_conditions": 10}
    server.be_strict(models.StrictModeConfig(enabled=True, unindexed_filtering_retrieve=False, **limits))
    with filled(words, client=client(server)) as collection:
        for options in ({}, {"mode": "dense"}, {"mode": "sparse"}, {"limit": 30, "group": False}):
            forget(collection)
            asked.clear()
            assert collection.search(QUERIES[0], **options)
            assert asked == [("POST", "/points/query/batch"), ("POST", "/points")], options


def test_chunks_of_equal_scores_are_not_lost_between_two_pages(server, words, monkeypatch):
    """Points of equal scores have no order on a server: here it is another one on every later page."""
    answered = server.actions._client.query_batch_points

    def reordered(name, requests, **options):
        wholes = answered(name, [each.model_copy(update={"offset": None, "limit": 1000}) for each in requests])
        for request, whole in zip(requests, wholes, strict=True):
            start, turn = request.offset or 0, -1 if request.offset else 1
            whole.points.sort(key=lambda point: (-round(point.score, 5), turn * int(point.id[:8], 16)))
            whole.points[:] = whole.points[start : start + request.limit]
        return wholes

    monkeypatch.setattr(server.actions._client, "query_batch_points", reordered)
    server.be_strict(models.StrictModeConfig(enabled=True, max_query_limit=10))
    pairs = [Document(f"{row}{side}", text) for row, text in enumerate(sorted(set(TEXTS))[:40]) for side in "ab"]
    with filled(words, [Document("first", QUERIES[1]), *pairs], client=client(server)) as collection:
        for mode in ("dense", "hybrid"):
            found = collection.search(QUERIES[1], 100, mode, group=False)
            assert len({hit.id for hit in found}) == len(found) == 81, mode


def test_grouped_searches_make_two_requests(server, asked):
    with filled(WordEncoder(max_tokens=16), LONG, ChunkSettings(), client=client(server)) as collection:
        assert collection.count() > 50
        for options in ({}, {"mode": "dense"}, {"group": False}):
            forget(collection)
            asked.clear()
            assert collection.search(QUERIES[1], 4, **options)
            assert len(asked) == 2, options


@pytest.mark.parametrize("name", few_quick(SEARCHES, ["hybrid", "filtered", "phrasings"]))
def test_a_server_finds_what_the_embedded_store_finds(server, tmp_path, words, name):
    few = DOCUMENTS[:90]  # all are candidates: where candidates are cut, those of equal scores may differ
    with filled(words, few, client=client(server)) as there, filled(words, few, path=tmp_path) as here:
        for query in QUERIES:
            ours, theirs = (each.search(query, **SEARCHES[name]) for each in (here, there))
            assert [hit.id for hit in theirs] == [hit.id for hit in ours]
            for mine, other in zip(ours, theirs, strict=True):
                assert other.scores == pytest.approx(mine.scores, abs=1e-5)
                assert (other.text, other.payload) == (mine.text, mine.payload)


def test_both_stores_score_the_candidates_of_each_stage_by_the_other(server, tmp_path, words):
    with filled(words, client=client(server)) as there, filled(words, path=tmp_path) as here:
        for text in QUERIES[:4]:
            stages = {
                "dense": Query(words.encode_query([text])[0], 30, fields=("source",)),
                "sparse": Query(there._catalog.weights.queries([text])[0], 30, fields=("source",)),
            }
            ours, theirs = (
                each._backend.run(each._backend.candidates([Search(stages)], model_id())) for each in (here, there)
            )
            assert ours.more == theirs.more
            for stage in stages:
                mine, other = (
                    {key: each.score for key, each in found.found[0][stage].items()} for found in (ours, theirs)
                )
                both = mine.keys() & other.keys()
                assert len(both) >= 0.9 * len(mine), "the others are equal to the last ones"
                assert {key: other[key] for key in both} == pytest.approx({key: mine[key] for key in both}, abs=1e-5)
            dense, sparse = theirs.found[0]["dense"], theirs.found[0]["sparse"]
            assert dense.keys() >= sparse.keys()
            assert len(dense) > 30
            assert all("source" in each.payload for each in [*dense.values(), *sparse.values()])


LIMITED = {
    "batches of four": (1, {"search_max_batchsize": 4}, 2),
    "batches of three": (1, {"search_max_batchsize": 3}, 2),
    "batches of two": (1, {"search_max_batchsize": 2}, 3),
    "shards": (4, {}, 2),
    "shards and few results": (4, {"max_query_limit": 100}, 2),
    "shards without exact search": (4, {"search_allow_exact": False}, 2),
    "shards, few results, and no exact search": (4, {"max_query_limit": 100, "search_allow_exact": False}, 3),
    "small filters and batches": (1, {"search_max_batchsize": 3, "condition_max_size": 40}, 3),
}


@pytest.mark.parametrize("name", few_quick(LIMITED, ["batches of two", "shards, few results, and no exact search"]))
def test_limits_of_a_server_cost_at_most_one_more_request(server, asked, words, name):
    """The server reports so many shards; the stand-in keeps all in one."""
    shards, limits, most = LIMITED[name]
    with filled(words, client=client(server), cluster=ClusterSettings(shards=shards)) as collection:
        free = [collection.search(query) for query in QUERIES]
        server.be_strict(models.StrictModeConfig(enabled=True, **limits), "notes")
        collection.count()
        collection.info()
        for query, expected in zip(QUERIES, free, strict=True):
            forget(collection)
            asked.clear()
            found = collection.search(query)
            assert [(hit.id, hit.text) for hit in found] == [(hit.id, hit.text) for hit in expected]
            for hit, other in zip(found, expected, strict=True):
                assert hit.scores == pytest.approx(other.scores, abs=1e-5)
            assert 2 <= len(asked) <= most, asked
        for mode in ("dense", "sparse"):
            forget(collection)
            asked.clear()
            assert len(collection.search(QUERIES[0], 3, mode)) == 3
            assert len(asked) == 2, "one stage needs little"


def test_missing_scores_are_asked_for_by_id_together_with_what_is_read(server, asked, words):
    with filled(words, client=client(server)) as collection:
        whole = candidates_of(collection)
        server.be_strict(models.StrictModeConfig(enabled=True, search_max_batchsize=3), "notes")
        collection.info()
        asked.clear()
        cut = candidates_of(collection, Along(lambda found: [record_id("d001"), record_id("gone")], "dense"))
        assert [path for _, path in asked] == ["/points/query/batch"] * 2
        assert cut.read.keys() == {record_id("d001"), record_id("gone")}
        assert cut.read[record_id("d001")].payload["source"] == "d001"
        assert cut.read[record_id("gone")] is None
        for stage, scores in whole.found[0].items():
            assert {key: each.score for key, each in cut.found[0][stage].items()} == pytest.approx(
                {key: each.score for key, each in scores.items()}, abs=1e-5
            )
            assert all("source" in each.payload for each in cut.found[0][stage].values())


def test_scores_are_asked_for_without_points_if_none_are_to_be_read(server, asked, words):
    """A server refuses a search for no points at all."""
    with filled(words, client=client(server)) as collection:
        whole = candidates_of(collection)
        server.be_strict(models.StrictModeConfig(enabled=True, search_max_batchsize=3), "notes")
        collection.info()
        asked.clear()
        cut = candidates_of(collection, Along(lambda found: [], None))
        assert [path for _, path in asked] == ["/points/query/batch"] * 2
        assert not cut.read
        assert {stage: scores.keys() for stage, scores in cut.found[0].items()} == {
            stage: scores.keys() for stage, scores in whole.found[0].items()
        }


def candidates_of(collection: Collection, along: Along | None = None) -> Candidates:
    """The candidates of one search by both stages."""
    stages = {
        "dense": Query(collection.encoder.encode_query(["two men fox"])[0], 30, fields=("source",)),
        "sparse": Query(collection._catalog.weights.queries(["two men fox"])[0], 30, fields=("source",)),
    }
    backend = collection._backend
    return backend.run(backend.candidates([Search(stages)], model_id(), along))


def test_limits_that_come_between_two_searches_are_met(server, words):
    with filled(words, client=client(server)) as collection:
        expected = collection.search(QUERIES[0])
        for limits in ({"search_max_batchsize": 2}, {"max_query_limit": 20}, {"search_allow_exact": False}):
            server.be_strict(models.StrictModeConfig(enabled=True, **limits), "notes")
            assert [hit.id for hit in collection.search(QUERIES[0])] == [hit.id for hit in expected], limits
            points = collection._backend.run(collection._backend.points([record_id("d001")]))
            assert points.keys() == {record_id("d001")}


def test_chunks_that_no_record_lists_make_way_for_others(server, asked, words):
    with filled(words, client=client(server)) as collection:
        before = collection.search("the quick fox", 10)
        gone = [hit.id for hit in before[:3]]
        collection._backend.delete([record_id(source) for source in gone])
        asked.clear()
        after = collection.search("the quick fox", 10)
        assert [hit.id for hit in after][:7] == [hit.id for hit in before[3:]]
        assert len(after) == 10
        assert len(asked) == 2, "a few more than needed are read at once"


async def test_awaited_searches_find_what_blocking_ones_find(server, asked, words):
    blocking = filled(words, client=client(server))
    vector = words.encode_query(["the fox"])[0]
    with blocking, Collection.open("notes", url=server.url, encoder=words, wait_seconds=120) as collection:
        await collection.asearch(QUERIES[0])  # the first search also reads the vocabulary
        for each in (collection, blocking):
            forget(each)
        asked.clear()
        assert same(await collection.asearch(QUERIES[0]), blocking.search(QUERIES[0]))
        assert len(asked) == 4
        many = await collection.asearch_many(QUERIES[:3], 3)
        assert all(map(same, many, blocking.search_many(QUERIES[:3], 3)))
        assert same(await collection.asearch_vector(vector, words="moon"), blocking.search_vector(vector, words="moon"))
        assert same(await collection.asearch_diverse("two men", 4), blocking.search_diverse("two men", 4))
        assert await collection.asearch("") == []
        assert await collection.aget(["d003", "gone"]) == blocking.get(["d003", "gone"]) != []
        with pytest.raises(ConfigurationError, match="limit"):
            await collection.asearch("fox", limit=0)


@pytest.mark.slow
async def test_many_awaited_searches_share_the_encoder(server, words, monkeypatch):
    """The first encoding goes on until all other searches wait for theirs."""
    encode, call, sizes, asked, all_wait = words.encode_query, Coalescer.__call__, [], [], threading.Event()

    async def noted(self, texts):
        asked.append(texts)
        if len(asked) == 24:
            asyncio.get_running_loop().call_soon(all_wait.set)
        return await call(self, texts)

    def slowly(texts):
        sizes.append(len(texts))
        assert all_wait.wait(60)
        return encode(texts)

    filled(words, client=client(server)).close()
    with Collection.open("notes", url=server.url, encoder=words, wait_seconds=60) as collection:
        expected = [collection.search(query, 3) for query in QUERIES[:4]]
        monkeypatch.setattr(Coalescer, "__call__", noted)
        monkeypatch.setattr(words, "encode_query", slowly)
        found = await asyncio.gather(*(collection.asearch(query, 3) for query in QUERIES[:4] * 6))
        assert all(map(same, found, expected * 6))
        assert sum(sizes) == 24
        assert len(sizes) <= 2, "what waits together is encoded together"


@pytest.mark.slow
async def test_many_awaited_searches_get_their_own_answers(server, words):
    filled(words, client=client(server)).close()
    with Collection.open("notes", url=server.url, encoder=words, wait_seconds=60) as collection:
        expected = [collection.search(query, 3) for query in QUERIES[:4]]
        wrong = collection.asearch("fox", 3, filter={"a..b": 3})
        searches = [collection.asearch(query, 3) for query in QUERIES[:4] * 30]
        found = await asyncio.gather(*searches, wrong, return_exceptions=True)
        assert isinstance(found.pop(), FilterError)
        assert all(map(same, found, expected * 30))
        one = asyncio.create_task(collection.asearch(QUERIES[0], 3))
        others = [asyncio.create_task(collection.asearch(query, 3)) for query in QUERIES[:4] * 10]
        await asyncio.sleep(0)
        for task in others[::2]:
            task.cancel()
        assert same(await one, expected[0])
        left = await asyncio.gather(*others, return_exceptions=True)
        assert all(same(hits, expected[row % 4]) for row, hits in enumerate(left) if row % 2)
        assert all(isinstance(hits, asyncio.CancelledError) for hits in left[::2])


async def test_of_merged_requests_each_gets_its_own_error(server, words):
    filled(words, client=client(server)).close()
    with Collection.open("notes", url=server.url, encoder=words, wait_seconds=60) as collection:
        good = collection._backend.points([record_id("d001"), record_id("d002")])
        bad = asked_for("retrieve", [object()], with_payload=True, with_vectors=False)
        waiting = [collection._backend.run_awaiting(each) for each in [*(few(20, collection)), bad, good]]
        *_, refused, there = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(refused, StoreError)
        assert there.keys() == {record_id("d001"), record_id("d002")}


def few(count: int, collection: Collection) -> list:
    """Steps that keep requests under way."""
    return [collection._backend.points([record_id(f"d{row:03}")]) for row in range(count)]


@pytest.mark.slow
def test_two_event_loops_one_after_the_other(server, words):
    filled(words, client=client(server)).close()
    theirs = AsyncQdrantClient(url=server.url, timeout=60, check_compatibility=False)
    for place in ({"url": server.url}, {"url": server.url, "async_client": theirs}, {"async_client": theirs}):
        with Collection.open("notes", encoder=words, **place) as collection:
            found = [asyncio.run(collection.asearch(QUERIES[0])) for _ in range(2)]
            assert all(map(same, found, [collection.search(QUERIES[0])] * 2))
    asyncio.run(theirs.close())


async def test_a_client_of_the_caller_is_used_and_stays_open(server, words):
    filled(words, client=client(server)).close()
    theirs = AsyncQdrantClient(url=server.url, timeout=60, check_compatibility=False)
    sent, query = [], theirs.query_batch_points
    theirs.query_batch_points = lambda *args, **options: sent.append(1) or query(*args, **options)
    with Collection.open("notes", encoder=words, async_client=theirs, wait_seconds=120) as collection:
        assert len(await collection.asearch(QUERIES[0])) == 10
    assert sent == [1]
    assert await theirs.collection_exists("notes")
    await theirs.close()


async def test_an_async_client_that_cannot_serve_is_refused(tmp_path, words):
    local = AsyncQdrantClient(":memory:")
    with pytest.raises(ConfigurationError, match="in local mode"):
        Collection.open("notes", encoder=words, async_client=local)
    with pytest.raises(ConfigurationError, match="async_client is for a server"):
        Collection.open("notes", tmp_path, encoder=words, async_client=local)


async def test_a_client_of_the_other_kind_is_refused(words):
    with pytest.raises(ConfigurationError, match=r"^client: expected QdrantClient, got AsyncQdrantClient$"):
        Collection.open("notes", encoder=words, client=AsyncQdrantClient(":memory:"))
    local = QdrantClient(":memory:")
    with pytest.raises(ConfigurationError, match=r"^async_client: expected AsyncQdrantClient, got QdrantClient$"):
        Collection.open("notes", encoder=words, client=local, async_client=local)


async def test_awaited_requests_are_retried_and_their_errors_ours(server, words, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._GROWING", tenacity.wait_none())
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._LEAST_SECONDS", 30)  # for one try on a slow machine
    filled(words, client=client(server)).close()
    faults = [Fault.BUSY, Fault.LIMITED, Fault.REFUSED]
    with Collection.open("notes", url=server.url, encoder=words, wait_seconds=30) as collection:
        server.fault = lambda method, path: faults.pop() if faults else None
        assert len(await collection.asearch(QUERIES[0])) == 10
        assert not faults
    with Collection.open("notes", url=server.url, encoder=words, wait_seconds=0) as collection:
        server.fault = lambda method, path: Fault.REFUSED
        with pytest.raises(StoreError, match="collection 'notes'"):
            await collection.asearch(QUERIES[0])
