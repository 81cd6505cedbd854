"""A handle that knows which commits have ended searches a server by one request, and shows nothing uncommitted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from httpx import Limits, create_ssl_context
from pydantic_core import from_json, to_json
from qdrant_client import QdrantClient, models

from cases import few_quick, slow
from deaths import STEPS
from stand_in import StandIn
from twinvec import Document
from twinvec.errors import StoreLimitError
from twinvec_qdrant import ChunkSettings, ClusterSettings, Collection, IndexSettings
from twinvec_qdrant.records import intents
from twinvec_qdrant.records.commits import Draft
from twinvec_qdrant.records.schema import CHUNKS, chunk_id, digest
from twinvec_qdrant.search import ended
from twinvec_qdrant.search.ended import EndedCommits
from twinvec_qdrant.search.fetching import Fetched
from twinvec_qdrant.stores.points import Point
from words import WordEncoder, sentences

ENCODER = WordEncoder(max_tokens=16)
TEXTS = sentences(150, seed=3, longest=20)
DOCUMENTS = [Document(f"d{row:03}", text, payload={"third": row % 3}) for row, text in enumerate(TEXTS)]
LONG = {f"long{row}": "\n\n".join(TEXTS[row * 10 : row * 10 + 10]) for row in range(15)}
# a client's own settings read all certificates for each client, and make a connection for each request to this machine
QUICK = {"verify": create_ssl_context(), "limits": Limits(max_keepalive_connections=8)}
QUERIES = ["the quick fox", "two men on the moon", "compare files Größe", "384,400", "moon"]
BEFORE = {
    "same": "tea with mint",
    "changed": "old bread\n\n" + "rye " * 20,
    "gone": "rain and bread",
    "emptied": "snow and rye",
}
AFTER = {"same": "tea with mint", "changed": "new bread\n\n" + "rye " * 20, "added": "a harbour, bread", "emptied": ""}
QUERY = "old new bread rye"


@pytest.fixture
def hoping(monkeypatch):
    """Every search asks for payloads at once: what it shows must not depend on this guess."""
    monkeypatch.setattr(
        Fetched, "expects_no_records", property(lambda self: self._ended is not None and self._vector is None)
    )


def opened(server: StandIn, **options) -> Collection:
    client = QdrantClient(server.url, timeout=60, check_compatibility=False, **QUICK)
    options = {"encoder": ENCODER, "wait_seconds": 120, **options}  # no request is repeated because of a slow machine
    return Collection.open("notes", client=client, **options)


def forget(collection: Collection) -> None:
    """Let a handle know nothing of commits, as one that has just been opened."""
    collection._serving._ended.__init__()


def warmed(collection: Collection, **options) -> Collection:
    """A handle that has searched as often as it needs to."""
    forget(collection)
    for _ in range(2):
        collection.search(QUERY, 50, **options)
    return collection


def requests(server: StandIn, search: Callable[[], object]) -> int:
    """The requests of one search."""
    before = len(server.asked)
    search()
    return len(server.asked) - before


class Shown(list):
    """Hits, which are equal but for rounding: that differs between two runs of one search."""

    def __eq__(self, other):
        near = [(*each[:2], pytest.approx(each[2], abs=1e-5), each[3]) for each in other]
        return list.__eq__(self, near)

    __hash__ = None


def near(found: list, expected: list) -> bool:
    """Whether hits are the same but for the order of almost equal scores, which are means of many others."""
    scores = [[hit[2]["fused"] for hit in hits] for hits in (found, expected)]
    last = min(scores[1], default=0.0) + 1e-4
    sure = [{hit[0]: hit for hit in hits if hit[2]["fused"] > last} for hits in (found, expected)]
    return scores[0] == pytest.approx(scores[1], abs=1e-4) and all(
        Shown([hit]) == [sure[1].get(key, hit)] for key, hit in sure[0].items()
    )


def shown(collection: Collection, mode: str = "dense", query: str = QUERY, **options) -> list:
    """What a search shows, and by which scores."""
    options = {"limit": 50, "group": False, **options}
    found = collection.search(query, mode=mode, **options)
    return Shown((hit.id, hit.text, hit.scores, hit.payload) for hit in found)


SEARCHES = {
    "dense": {"mode": "dense"},
    "sparse": {"mode": "sparse"},
    "hybrid": {"mode": "hybrid"},
    "filtered": {"mode": "dense", "filter": {"third": 1}},
    "one": {"mode": "dense", "limit": 1},
    "all candidates": {"mode": "dense", "limit": 100},
    "second page": {"mode": "dense", "limit": 20, "offset": 20},
}


@pytest.mark.parametrize("name", few_quick(SEARCHES, ["dense", "hybrid", "filtered"]))
def test_the_third_search_of_a_handle_makes_one_request(server, name):
    with opened(server, chunking=False) as collection:
        collection.ingest(DOCUMENTS)
        collection.search(QUERIES[0], mode="sparse")  # reads the vocabulary
        forget(collection)
        made = [requests(server, lambda: collection.search(QUERIES[0], **SEARCHES[name])) for _ in range(4)]
        assert made == [2, 2, 1, 1]


def test_searches_of_other_kinds_keep_their_two_requests(server):
    with opened(server, chunking=False) as collection:
        collection.ingest(DOCUMENTS)
        warmed(collection)
        assert requests(server, lambda: collection.search_diverse(QUERIES[0], 5)) == 2
        assert requests(server, lambda: collection.search(QUERIES[0], mode="dense", feedback=3)) == 4
        assert requests(server, lambda: collection.search('"moon"', mode="dense", syntax=True)) == 2
        assert requests(server, lambda: collection.search_many(QUERIES, mode="dense")) == 1


def test_documents_of_many_chunks_need_one_request_too(server):
    with opened(server, chunking=ChunkSettings()) as collection:
        collection.ingest(LONG.items())
        warmed(collection, mode="dense")
        for query in QUERIES:
            assert requests(server, lambda query=query: collection.search(query, 5, mode="dense")) == 1
        assert requests(server, lambda: collection.search(QUERIES[0], 15, mode="dense")) <= 2


@pytest.mark.parametrize("mode", [slow("dense"), slow("sparse"), "hybrid"])
@pytest.mark.parametrize("group", [slow(False), True], ids=["chunks", "documents"])
def test_one_request_finds_what_two_find(server, mode, group):
    equal = {f"copy{row:02}": TEXTS[7] for row in range(40)}  # more of one score than are asked for at first
    with opened(server, chunking=ChunkSettings()) as writer:
        writer.ingest([*list(LONG.items())[::2], *DOCUMENTS[::2], *equal.items()])
    with opened(server) as collection, opened(server) as cold:
        warmed(collection, mode=mode)
        made = []
        for query in [*QUERIES, TEXTS[7]]:
            for page in ({"limit": 1}, {"limit": 10}, {"limit": 7, "offset": 7}, {"limit": 30}, {"limit": 100}):
                options = {"mode": mode, "query": query, "group": group, **page}
                forget(cold)
                before = len(server.asked)
                expected = shown(cold, **options)
                between = len(server.asked)
                assert (near if mode == "hybrid" else Shown.__eq__)(shown(collection, **options), expected), options
                made.append(len(server.asked) - between)
                assert made[-1] <= between - before, "many of one score, or of one document, may need a second request"
        assert made.count(1) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "hopes"),
    [
        pytest.param(False, False, id="before-guessing"),
        pytest.param(True, True, id="after-hoping"),
        pytest.param(False, True, id="before-hoping"),
        pytest.param(True, False, id="after-guessing"),
    ],
)
def test_a_warm_handle_shows_what_the_records_list_wherever_a_writer_stops(server, late, hopes, request, monkeypatch):
    if hopes:
        request.getfixturevalue("hoping")
    with opened(server) as writer, opened(server) as warm, opened(server) as cold:
        writer.ingest(BEFORE.items())
        warmed(warm, mode="dense")
        assert requests(server, lambda: shown(warm)) == 1
        steps = []

        def look(step: str) -> None:
            for mode in ("dense", "sparse", "hybrid"):
                forget(cold)
                expected = shown(cold, mode)
                for _ in range(3):  # it may learn from each
                    assert shown(warm, mode) == expected, (len(steps), step)
            steps.append(step)

        with monkeypatch.context() as patched:
            stop_at_every_step(writer, look, late=late, monkeypatch=patched)
            writer.ingest(AFTER.items(), prune=True)
        assert len(steps) > 8
        assert {text for _, text, *_ in shown(warm)} >= {"new bread", AFTER["added"]}
        assert requests(server, lambda: shown(warm)) == 1


def stop_at_every_step(writer: Collection, look: Callable[[str], None], *, late: bool, monkeypatch) -> None:
    """Look before or after every step that a writer takes."""

    def stopping(name, method):
        def call(*args, **options):
            if not late:
                look(name)
            method(*args, **options)
            if late:
                look(name)

        return call

    for name in STEPS:
        monkeypatch.setattr(writer._backend, name, stopping(name, getattr(writer._backend, name)))


def between_the_parts(server: StandIn, work: Callable[[], None], monkeypatch) -> None:
    """Let the server find the candidates of its next batch first, then wait for the work, and then look for intents."""
    respond = server.respond

    def one_after_the_other(method, path, body):
        if not path.partition("?")[0].endswith("/query/batch"):
            return respond(method, path, body)
        searches = body["searches"]
        last = [
            row for row, each in enumerate(searches) if not each.get("query") and each["limit"] == 1 and not is_id(each)
        ]
        assert len(last) == 1
        found = answers([each for row, each in enumerate(searches) if row not in last], path)
        monkeypatch.setattr(server, "respond", respond)
        work()
        found[last[0] : last[0]] = answers([searches[last[0]]], path)
        return 200, to_json({"result": found}), None

    def answers(searches, path):
        return from_json(respond("POST", path, {"searches": searches})[1])["result"]

    monkeypatch.setattr(server, "respond", one_after_the_other)


def is_id(request: dict) -> bool:
    return any("has_id" in condition for condition in request["filter"]["must"])


def test_a_version_that_is_given_up_between_the_parts_of_a_request_is_not_shown(server, hoping, monkeypatch):
    text = "old bread of a draft"
    own = {"kind": "chunk", "source": "draft", "heading": "", "metadata": {}, "position": 0, "text": text}
    with opened(server) as writer, opened(server) as warm:
        writer.ingest(BEFORE.items())
        draft = Draft("draft", "of the draft")
        payload = {**own, "revision": draft.revision, "content": digest(text)}
        vector = ENCODER.encode_document([text])[0]
        warmed(warm, mode="dense")
        writer._catalog.stage(draft, [Point(chunk_id("draft", 0, "content"), payload, vector)])
        expected = shown(warm)
        assert [text for _, text, *_ in expected if text not in str(BEFORE)] == []
        with opened(server) as same:
            between_the_parts(server, lambda: same._catalog.discard(draft), monkeypatch)
            assert shown(warm) == expected
        writer._catalog.leave([draft])
        assert shown(warm) == expected
        assert requests(server, lambda: shown(warm)) == 1


@pytest.mark.parametrize("searches", [0, slow(1), slow(2)])
def test_a_commit_between_the_parts_of_a_request_mixes_no_versions(server, hoping, searches, monkeypatch):
    """The writer stops at each of its steps in turn, and goes on while the server answers a request."""
    with opened(server) as collection, opened(server) as warm:
        for step in count():
            collection.ingest(BEFORE.items(), prune=True)
            warmed(warm, mode="dense")
            reached, go, taken = threading.Event(), threading.Event(), []

            def stop(name, taken=taken, step=step, reached=reached, go=go):
                taken.append(name)
                if len(taken) == step + 1:
                    reached.set()
                    go.wait(60)

            with opened(server) as writer, monkeypatch.context() as patched:
                stop_at_every_step(writer, stop, late=True, monkeypatch=patched)
                thread = threading.Thread(target=writer.ingest, args=[AFTER.items()], kwargs={"prune": True})
                thread.start()
                while thread.is_alive() and not reached.wait(0.01):
                    pass
                for _ in range(searches):
                    check_versions(shown(warm))
                between_the_parts(server, partial(finish, thread, go), patched)
                check_versions(shown(warm))
            assert {text for _, text, *_ in shown(warm)} >= {"new bread", AFTER["added"]}
            if len(taken) <= step:
                break
        assert step > 8


def finish(thread: threading.Thread, go: threading.Event) -> None:
    go.set()
    thread.join()


def check_versions(hits: list) -> None:
    """Of every document, one version alone is shown."""
    for name in {*BEFORE, *AFTER}:
        texts = {text for _, text, _, payload in hits if payload["source"] == name}
        assert any(all(text in version for text in texts) for version in (BEFORE.get(name, ""), AFTER.get(name, "")))


def test_what_a_killed_writer_has_left_is_hidden_until_the_next_one_has_removed_it(server, monkeypatch):
    with opened(server) as writer, opened(server) as warm:
        writer.ingest(BEFORE.items())
        expected = shown(warmed(warm, mode="dense"))
        with monkeypatch.context() as patched:
            patched.setattr(writer._backend, "commit", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                writer.ingest({"killed": "old bread, too"}.items())
        assert writer._catalog.leftovers().sources == {"killed"}
        for _ in range(3):
            assert shown(warm) == expected
            assert requests(server, lambda: shown(warm)) == 2
        writer.ingest(BEFORE.items())
        assert [requests(server, lambda: shown(warm)) for _ in range(3)][1:] == [1, 1]
        assert shown(warm) == expected


def test_what_a_killed_removal_has_left_is_hidden_too(server, hoping, monkeypatch):
    with opened(server) as writer, opened(server) as warm:
        writer.ingest(BEFORE.items())
        warmed(warm, mode="dense")
        assert BEFORE["gone"] in {text for _, text, *_ in shown(warm)}
        die_between_record_and_chunks(writer, monkeypatch)
        assert writer._catalog.leftovers().sources == {"gone"}
        for _ in range(3):
            assert BEFORE["gone"] not in {text for _, text, *_ in shown(warm)}
        writer.ingest({"other": "snow"}.items())
        for _ in range(3):
            assert BEFORE["gone"] not in {text for _, text, *_ in shown(warm)}


def die_between_record_and_chunks(writer: Collection, monkeypatch) -> None:
    """Remove a document, and be killed when its record is gone."""
    delete, calls = writer._backend.delete, []

    def dies(*args):
        if calls:
            raise ZeroDivisionError
        calls.append(args)
        delete(*args)

    with monkeypatch.context() as patched:
        patched.setattr(writer._backend, "delete", dies)
        with pytest.raises(ZeroDivisionError):
            writer.delete(["gone"])
    assert any(each.payload["source"] == "gone" for each in writer._backend.scroll([CHUNKS], ["source"]))


def test_chunks_without_a_revision_are_never_trusted(server, hoping):
    """No version of twinvec has written such."""
    text = "old bread of others"
    own = {"kind": "chunk", "source": "others", "heading": "", "metadata": {}, "position": 0, "text": text}
    with opened(server) as collection:
        collection.ingest(BEFORE.items())
        vector = ENCODER.encode_document([text])[0]
        collection._backend.upsert([Point(chunk_id("others", 0, "content"), own, vector)])
        for _ in range(4):
            assert text not in {text for _, text, *_ in shown(collection)}


async def test_awaited_searches_and_those_over_grpc_make_one_request_too(server):
    with (
        opened(server, chunking=False) as blocking,
        server.over_grpc() as port,
        Collection.open("notes", url=server.url, encoder=ENCODER, wait_seconds=120) as awaited,
        Collection.open("notes", url=server.url, grpc_port=port, encoder=ENCODER, wait_seconds=120) as quick,
    ):
        blocking.ingest(DOCUMENTS)
        expected = [hit.id for hit in blocking.search(QUERIES[0], mode="dense")]
        for collection, made in ((awaited, 1), (quick, None)):
            for _ in range(3):
                server.asked.clear()
                found = await collection.asearch(QUERIES[0], mode="dense")
                assert [hit.id for hit in found] == expected
            assert made is None or len(server.asked) == made
        asked = count_batches(quick, server)
        assert asked == 1


def count_batches(collection: Collection, server: StandIn) -> int:
    """The requests of one search of a collection, whatever carries them."""
    sent, run = [], collection._backend.run
    collection._backend.run = lambda steps: run(noted(steps, sent))
    assert collection.search(QUERIES[0], mode="dense")
    del collection._backend.run
    return sum(hasattr(each, "method") for each in sent)


def noted(steps, sent: list):
    result = None
    try:
        while True:
            step = steps.send(result)
            sent.append(step)
            result = yield step
    except StopIteration as end:
        return end.value


LIMITED = {
    "copies": (ClusterSettings(replication_factor=2), {}),
    "few points": (None, {"max_points_count": 10_000}),
    "few bytes": (None, {"max_collection_payload_size_bytes": 10**9}),
    "few compared": (None, {"search_max_hnsw_ef": 64}),
    "small batches": (None, {"search_max_batchsize": 2}),
}


@pytest.mark.parametrize("name", few_quick(LIMITED, ["copies", "few bytes"]))
def test_where_intents_tell_too_little_there_are_two_requests(server, name):
    cluster, limits = LIMITED[name]
    if limits:
        server.be_strict(models.StrictModeConfig(enabled=True, **limits))
    with opened(server, chunking=False, cluster=cluster) as collection:
        collection.ingest(DOCUMENTS)
        collection.search(QUERIES[0], mode="dense")
        assert {requests(server, lambda: collection.search(QUERIES[0], mode="dense")) for _ in range(4)} == {2}


def test_a_strict_server_gets_one_request_too(server):
    limits = {"max_query_limit": 100, "search_max_batchsize": 3, "read_rate_limit": 6000, "search_allow_exact": False}
    server.be_strict(models.StrictModeConfig(enabled=True, unindexed_filtering_retrieve=False, **limits))
    with opened(server, chunking=False) as collection:
        collection.ingest(DOCUMENTS)
        made = [requests(server, lambda: collection.search(QUERIES[0], mode="dense")) for _ in range(4)]
        assert made == [2, 2, 1, 1]


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_few_candidates_are_compared_as_well_as_many(server, monkeypatch, quantization):
    index = IndexSettings(quantization=quantization, ef_construct=50)
    with opened(server, chunking=False, index=index) as collection:
        collection.ingest(DOCUMENTS)
        warmed(collection, mode="dense")
        respond, sent = server.respond, []

        def noted(method, path, body):
            sent.extend(body.get("searches", ()))
            return respond(method, path, body)

        monkeypatch.setattr(server, "respond", noted)
        assert requests(server, lambda: collection.search(QUERIES[0], mode="dense")) == 1
        (own,) = (each for each in sent if each.get("query"))
        assert (own["limit"], own["params"]["hnsw_ef"]) == (15, 100)
        if quantization != "none":
            compared = own["limit"] * own["params"]["quantization"]["oversampling"]
            assert compared == pytest.approx(100 * index.oversampling_factor)


def write_often(writer: Collection, intent: str) -> None:
    """Write an intent 33 times: a server compares its points with the limit only at every 32nd write."""
    for _ in range(33):
        writer._catalog._intents.write(intent, ["gone"], [])


def test_removal_from_a_full_server_needs_no_intent_and_limits_mean_two_requests(server, hoping, monkeypatch):
    """What is left of it after a kill has no intent, so that only records hide it."""
    with opened(server) as writer, opened(server) as warm:
        writer.ingest(BEFORE.items())
        points = sum(1 for _ in writer._backend.scroll([]))
        server.be_strict(models.StrictModeConfig(enabled=True, max_points_count=points), "notes")
        warm.info()
        warmed(warm, mode="dense")
        intent = intents.new_intent()
        with pytest.raises(StoreLimitError):
            write_often(writer, intent)
        writer._catalog._intents.remove([intent])
        die_between_record_and_chunks(writer, monkeypatch)
        for _ in range(3):
            assert BEFORE["gone"] not in {text for _, text, *_ in shown(warm)}


def test_a_revision_has_ended_if_a_later_request_finds_no_intent():
    known = EndedCommits()
    first = known.now()
    meanwhile = known.now()
    known.learn(first, ["a"], no_intents=True)
    assert not known.had_ended("a", known.now()), "the request was sent before the revision was met"
    known.learn(meanwhile, ["b"], no_intents=True)
    assert not known.had_ended("a", known.now()), "this one too"
    known.learn(known.now(), [], no_intents=False)
    assert not known.had_ended("a", known.now())
    before = known.now()
    known.learn(known.now(), [], no_intents=True)
    assert not known.had_ended("a", before), "that is not known at the beginning of this search"
    assert known.had_ended("a", known.now())
    assert not known.had_ended("c", known.now())


def test_few_revisions_are_kept(monkeypatch):
    monkeypatch.setattr(ended, "_MOST", 100)
    known = EndedCommits()
    known.learn(known.now(), [f"r{row}" for row in range(101)], no_intents=True)
    known.learn(known.now(), [], no_intents=True)
    now = known.now()
    assert [known.had_ended(f"r{row}", now) for row in (0, 49, 50, 100)] == [False, False, True, True]


def test_a_handle_expects_two_requests_while_it_knows_little():
    known = EndedCommits()
    assert not known.now().expects_no_records
    for _ in range(2):
        known.learn(known.now(), ["a", "b"], no_intents=True)
    assert known.now().expects_no_records
    known.learn(known.now(), ["a", "c", "d"], no_intents=True)
    assert not known.now().expects_no_records, "most of what it met is new"
    known.learn(known.now(), ["a"], no_intents=True)
    known.learn(known.now(), [], no_intents=True)
    assert known.now().expects_no_records, "an answer without chunks says nothing"
    known.learn(known.now(), ["a"], no_intents=False)
    assert not known.now().expects_no_records, "a writer is at work"
