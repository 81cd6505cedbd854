"""The workers of an ingest: how many there are, what they do where the server takes less, and what they remove."""

from __future__ import annotations

import json
import os
import time
from collections import deque

import pytest
from qdrant_client import models

from crash.cluster.ray_ingests import committed
from stand_in import STRICT, StandIn
from twinvec.errors import ConfigurationError, InputError, StoreUnavailableError
from twinvec_qdrant import Collection, IngestReport
from twinvec_ray import ingest, read
from twinvec_ray.cluster import plan
from twinvec_ray.helpers import RayHelpers
from twinvec_ray.pool import BUSY, Pool
from unit.ray.test_ingest_command import compared, points
from words import WordEncoder, sentences

pytestmark = [pytest.mark.slow, pytest.mark.timeout(580)]

NEEDS = {"num_cpus": 1}


@pytest.fixture
def pool_of(cluster):
    """``pool_of(work, least, most)``: a pool whose actors do ``work``; it is closed after the test."""
    made = []

    def make(work, least, most, start=os.getpid):
        class Worker:
            def hello(self):
                return start()

            def work(self, item):
                return work(item)

        actor = cluster.remote(Worker)
        made.append(Pool(lambda: actor.options(**NEEDS).remote(), least, most, NEEDS, StoreUnavailableError))
        return made[-1]

    yield make
    for each in made:
        each.close()


def done(pool, items):
    """Items with their results; what is busy is done again, as an ingest does."""
    left = deque(items)
    given = iter(lambda: left.popleft() if left else None, None)
    while left:
        for item, result in pool.results(given, lambda actor, item: actor.work.remote(item)):
            if result is BUSY:
                left.append(item)
            yield item, result


def test_a_range_begins_with_the_least_and_grows_while_there_is_room(cluster, pool_of, tmp_path):
    """With one of two CPUs taken, there is one actor; another one comes once the CPU is free."""

    def work(item):
        (tmp_path / str(os.getpid())).touch()
        while item == "wait for another" and len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        return os.getpid()

    taken = cluster.util.placement_group([{"CPU": 1}])
    cluster.get(taken.ready())
    pool = pool_of(work, 1, 2)
    try:
        assert len({process for _, process in done(pool, range(20))}) == 1
    finally:
        cluster.util.remove_placement_group(taken)
    found = dict(done(pool, ["wait for another", *range(20)]))
    assert len(set(found.values())) == 2


def test_a_number_begins_at_once(pool_of, tmp_path):
    def work(item):
        (tmp_path / str(os.getpid())).touch()
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        return os.getpid()

    assert len({process for _, process in done(pool_of(work, 2, 2), range(4))}) == 2


def test_where_two_are_too_many_one_goes_on_until_two_are_tried_again(pool_of, tmp_path):
    """All calls are refused until the pool has seen a refusal. From then on, only one worker gets calls."""
    known = tmp_path / "known"

    def work(item):
        (tmp_path / str(os.getpid())).touch()
        while len(list(tmp_path.iterdir())) < 2:  # until both are at work
            time.sleep(0.01)
        if not known.exists():
            raise StoreUnavailableError("too busy for two")
        return os.getpid()

    found = []
    for item, result in done(pool_of(work, 2, 2), range(40)):
        known.touch()
        found.append((item, result))
    assert found[0][1] is BUSY
    assert sorted(item for item, result in found if result is not BUSY) == list(range(40))
    given = [process for item, process in found if item >= 4 and process is not BUSY]  # after the first four calls
    assert len(set(given[:4])) == 1
    assert len(set(given)) == 2


def test_who_cannot_start_because_of_the_others_is_left_out_until_later(pool_of, tmp_path):
    refused = tmp_path / "refused"

    def start():
        try:
            refused.touch(exist_ok=False)
        except FileExistsError:
            return
        raise StoreUnavailableError("too busy for two")

    seen = set()
    items = iter(lambda: len(seen), 2)  # there is work until two processes have done some
    pool = pool_of(lambda item: os.getpid(), 2, 2, start)
    for _, process in pool.results(items, lambda actor, item: actor.work.remote(item)):
        seen.add(process)
    assert refused.exists()
    assert pool._slowed == 1
    assert len(seen) == 2


def test_what_one_alone_cannot_do_is_an_error(pool_of, tmp_path):
    """The first four calls, two of each worker, are refused before the calls that one worker alone gets next."""
    tries, begun, back = (tmp_path / name for name in ("tries", "begun", "back"))
    begun.mkdir()
    back.mkdir()

    def work(item):
        with tries.open("a") as file:
            file.write(".")
        (begun / str(os.getpid())).touch()
        while len(list(begun.iterdir())) < 2 or (item >= 4 and len(list(back.iterdir())) < 4):
            time.sleep(0.01)
        raise StoreUnavailableError("the disk is full")

    def lead():
        for item, result in done(pool_of(work, 2, 2), range(40)):
            assert result is BUSY
            (back / str(item)).touch()

    with pytest.raises(StoreUnavailableError, match="the disk is full"):
        lead()
    assert {str(item) for item in range(4)} <= {each.name for each in back.iterdir()}
    assert len(tries.read_text()) <= 8


@pytest.fixture
def limited():
    """A server with limits, and the writes that it has refused. Each refusal sets its clock forward by a minute."""
    refused = []
    server = StandIn(lambda: 60.0 * len(refused))
    limits = {"write_rate_limit": 150, "read_rate_limit": None, "upsert_max_batchsize": 5}
    server.be_strict(STRICT.model_copy(update=limits))
    respond = server.respond

    def noted(method, path, body):
        status, answer, pause = respond(method, path, body)
        if status == 429:
            refused.append(path)
        return status, answer, pause

    server.respond = noted
    with server.running():
        yield server, refused


def documents(count, seed=0):
    texts = sentences(count, seed=seed, longest=20)
    return [{"id": f"d{row}", "text": text, "part": row % 3} for row, text in enumerate(texts)]


def encoder():
    return WordEncoder(max_tokens=16)


def ingested(server, name, given, **options):
    """What one process reports."""
    with Collection.open(name, url=server.url, encoder=encoder()) as collection:
        return collection.ingest(given, **options)


def same(found, wanted):
    """Compare points; the vocabulary keeps the words of changed documents until it is counted anew."""
    assert found.keys() == wanted.keys()
    for key, point in wanted.items():
        assert {**compared(found[key].payload), "words": None} == {**compared(point.payload), "words": None}
        assert found[key].vector.keys() == point.vector.keys()


def test_a_server_that_limits_the_rate_of_writes_gets_the_same_collection(cluster, limited):
    server, refused = limited
    given = documents(120)
    report = ingest(given, "spread", url=server.url, encoder=encoder(), num_workers=2)
    assert refused, "no limit was met"
    assert (report.new, report.failed) == (120, 0)
    server.be_strict(models.StrictModeConfig(enabled=False), "spread")
    server.be_strict(models.StrictModeConfig(enabled=False))
    assert ingested(server, "alone", given).new == 120
    same(points(server, "spread"), points(server, "alone"))
    assert ingested(server, "spread", given) == IngestReport(unchanged=120)


def test_workers_that_wait_in_vain_give_back_what_they_have_not_written(cluster):
    """After the first commit, the server refuses all writes but intents, until the pool has slowed down.

    The server asks for a pause that is longer than ``wait_seconds``, so the workers give up at once. In the end, the
    intents of those that have given up are gone, too.
    """
    given, refused = documents(220), []
    with StandIn().running() as server:
        assert ingested(server, "alone", given).new == 220
        place = {"name": "spread", "url": server.url, "wait_seconds": 60.0}
        respond = server.respond
        with RayHelpers(plan(2), place) as helpers:

            def busy(method, path, body):
                writes = path.startswith("/collections/spread/points") and (method == "PUT" or "/batch" in path)
                refusable = writes and '"intent"' not in json.dumps(body)
                if refusable and committed(server, "spread") > 0 and not helpers._writing._slowed:
                    refused.append(path)
                    return 503, b'{"status": {"error": "too busy for two"}}', 3600
                return respond(method, path, body)

            server.respond = busy
            with Collection.open("spread", url=server.url, encoder=encoder()) as collection:
                report = collection.ingest(given, helpers=helpers)
            assert helpers._writing._slowed == 1
            server.respond = respond
        assert refused
        assert (report.new, report.failed) == (220, 0)
        same(points(server, "spread"), points(server, "alone"))
        assert ingested(server, "spread", given) == IngestReport(unchanged=220)


def test_prune_removes_what_one_process_removes(cluster):
    first, later = documents(90), documents(90, seed=1)[:50]
    with StandIn().running() as server:
        for name in ("spread", "alone"):
            ingested(server, name, first, source="first")
            ingested(server, name, [{"id": "kept", "text": "of another source"}], source="second")
        options = {"source": "first", "prune": True}
        report = ingest(later, "spread", url=server.url, encoder=encoder(), num_workers=(1, 2), **options)
        wanted = ingested(server, "alone", later, **options)
        assert (report.deleted, report.updated, report.new) == (wanted.deleted, wanted.updated, wanted.new)
        assert report.deleted == 40
        same(points(server, "spread"), points(server, "alone"))
        assert ingested(server, "spread", later, **options) == IngestReport(unchanged=50)


class UnevenEncoder(WordEncoder):
    """Gives vectors of another size where a text has the word "uneven"."""

    def encode_document(self, texts):
        vectors = super().encode_document(texts)
        return vectors[:, 1:] if any("uneven" in text for text in texts) else vectors


def test_an_encoder_that_gives_vectors_of_two_sizes_fails_one_document(cluster, tmp_path):
    texts = [*sentences(5, seed=0), "an uneven text"]
    found = [{"id": f"d{row}", "text": text} for row, text in enumerate(texts)]
    report = ingest(found, "notes", tmp_path, encoder=UnevenEncoder(max_tokens=16), num_workers=1)
    assert (report.new, report.failed) == (5, 1)
    ((source, reason),) = report.failures
    assert source == "d5"
    assert "vectors of shape" in reason


def test_a_line_of_a_dataset_that_is_not_json_is_named_without_a_traceback(cluster, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "text": "fine"}\n{"id": "b", "text":\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"^\S+bad\.jsonl:2: not JSON: [^\n]+\ncommitted before the error: 0 new"):
        ingest(read(tmp_path / "bad.jsonl"), "notes", tmp_path / "store", encoder=encoder(), num_workers=1)


def test_a_range_is_refused_where_the_cluster_lacks_the_least(cluster):
    with pytest.raises(ConfigurationError, match="3 workers of 1 threads need 3 CPUs"):
        ingest([], "none", url="http://127.0.0.1:1", num_workers=(3, 5), encoder=encoder())
