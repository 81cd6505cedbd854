"""An ingest on a Ray cluster of two nodes, of which a worker, a node, or the driver is killed: nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from stand_in import StandIn
from twinvec.errors import EngineError
from twinvec_qdrant import Collection, IngestReport
from twinvec_qdrant.stores.conditions import field_is
from twinvec_ray.cluster import connected, plan
from twinvec_ray.helpers import RayHelpers
from twinvec_ray.ingesting import ingest
from words import WordEncoder, sentences

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

DOCUMENTS = 500
TESTS = Path(__file__).parents[1]
_DRIVER = """
import sys; sys.path.insert(0, {tests!r})
from crash.test_ray_kills import corpus, encoder
from twinvec_ray import ingest
ingest(corpus(), "driver", url={url!r}, address={address!r}, encoder=encoder())
"""


def encoder() -> WordEncoder:
    return WordEncoder(max_tokens=16)


def corpus(version: int = 0) -> list[dict[str, str]]:
    texts = sentences(DOCUMENTS, seed=version, longest=24)
    return [{"id": f"d{row}", "text": text} for row, text in enumerate(texts)]


@pytest.fixture(scope="module")
def server():
    with StandIn().running() as running:
        yield running


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*filter(None, sys.path)]))
    size = {"object_store_memory": 100 * 1024 * 1024, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **size})
    started.add_node(num_cpus=2, **size)
    started.wait_for_nodes()
    yield started
    ray.shutdown()
    started.shutdown()


def opened(server, name: str) -> Collection:
    return Collection.open(name, url=server.url, encoder=encoder(), wait_seconds=60)


def committed(server, name: str) -> int:
    """The number of documents that are committed by now."""
    with opened(server, name) as collection:
        return collection._backend.count([field_is("kind", "record")])


def check(server, name: str) -> None:
    """The collection holds every document once, whole, with the ids of a single process."""
    with opened(server, name) as collection, opened(server, f"{name}-alone") as alone:
        alone.ingest(corpus())
        found, wanted = points(collection), points(alone)
        assert len(wanted) > DOCUMENTS
        assert wanted.keys() - found.keys() == set(), "lost"
        assert found.keys() - wanted.keys() == set(), "phantoms"
        assert found == wanted
        assert max(Counter(each for each in found.values() if each[0] == "chunk").values()) == 1, "duplicates"
        assert collection.verify().sound


def points(collection: Collection) -> dict[str, tuple[Any, ...]]:
    kinds = ("chunk", "record", "intent")
    return {
        point.id: tuple(point.payload.get(key) for key in ("kind", "source", "position", "text", "version"))
        for kind in kinds
        for point in collection._backend.scroll([field_is("kind", kind)])
    }


def when(condition, action) -> threading.Thread:
    """Begin to wait for a condition, and act then."""

    def wait() -> None:
        end = time.monotonic() + 200
        while not condition() and time.monotonic() < end:
            time.sleep(0.2)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def led(server, name: str, documents, helpers) -> IngestReport:
    with opened(server, name) as collection:
        return collection.ingest(documents, helpers=helpers)


def test_a_worker_is_killed(cluster, server):
    killed = []

    def at_work() -> list[int]:
        members = [] if helpers._writing is None else helpers._writing._members
        return [each.hello.process for each in members if each.hello is not None]

    def kill() -> None:
        killed.append(at_work()[0])
        os.kill(killed[0], signal.SIGKILL)

    with connected(cluster.address):
        with RayHelpers(plan(2), {"name": "worker", "url": server.url, "wait_seconds": 60}) as helpers:
            thread = when(lambda: at_work() and committed(server, "worker") > DOCUMENTS // 5, kill)
            report = led(server, "worker", corpus(), helpers)
            thread.join()
            assert len(killed) == 1
            # a worker that dies with nothing left to do is not missed
            assert {each.process for each in helpers.ended()} <= set(killed)
        assert (report.new, report.updated, report.unchanged, report.failed) == (DOCUMENTS, 0, 0, 0)
        assert committed(server, "worker") == DOCUMENTS
        check(server, "worker")
        again = ingest(corpus(), "worker", url=server.url, encoder=encoder())
        assert again == replace(IngestReport(), unchanged=DOCUMENTS)


def test_a_node_is_killed(cluster, server):
    (node,) = cluster.worker_nodes
    with connected(cluster.address):
        with RayHelpers(plan(2), {"name": "node", "url": server.url, "wait_seconds": 60}) as helpers:
            kill = partial(cluster.remove_node, node, allow_graceful=False)
            thread = when(lambda: committed(server, "node") > DOCUMENTS // 5, kill)
            report = led(server, "node", corpus(), helpers)
            thread.join()
        assert (report.new, report.updated, report.unchanged, report.failed) == (DOCUMENTS, 0, 0, 0)
        check(server, "node")


def test_the_driver_is_killed(cluster, server):
    script = _DRIVER.format(tests=str(TESTS), url=server.url, address=cluster.address)
    driver = subprocess.Popen([sys.executable, "-c", script])
    when(lambda: committed(server, "driver") > DOCUMENTS // 5, driver.kill).join()
    assert driver.wait(60) == -signal.SIGKILL
    report = ingest(corpus(), "driver", url=server.url, address=cluster.address, encoder=encoder())
    assert report.new + report.unchanged == DOCUMENTS
    assert report.unchanged > DOCUMENTS // 5
    assert (report.updated, report.failed) == (0, 0)
    check(server, "driver")


def test_a_worker_that_cannot_start_says_why(cluster, server):
    class Broken(WordEncoder):
        def __reduce__(self):
            return _broken, ()

    with connected(cluster.address), pytest.raises(EngineError, match="this machine has no such model"):
        ingest(corpus()[:3], "broken", url=server.url, encoder=Broken(max_tokens=16))


def _broken() -> None:
    raise RuntimeError("this machine has no such model")
