"""Ingests on a Ray cluster of two nodes into a stand-in for a server, and kills in the middle of them.

A kill never races with the end of an ingest: the server holds every write from a chosen one on, until the kill is done.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json
from ray.cluster_utils import Cluster

import ray_clusters
from stand_in import Fault, StandIn
from twinvec_qdrant import Collection, IngestReport
from twinvec_ray.cluster import connected, plan
from twinvec_ray.helpers import RayHelpers
from words import WordEncoder, sentences

Documents = list[dict[str, str]]
Points = dict[str, tuple[dict[str, Any], list[float]]]

SECONDS = ray_clusters.SECONDS
_WAIT_SECONDS = SECONDS  # a write is held until both workers have started
_CPUS = (1, 2)  # of the head, and of the node that may be killed
_TESTS = Path(__file__).parents[2]
_DRIVER = """
import sys; sys.path.insert(0, {tests!r})
from crash.cluster.ray_ingests import corpus, encoder
from twinvec_ray import ingest
ingest(corpus({count}, {version}), {name!r}, url={url!r}, address={address!r}, encoder=encoder())
"""


def encoder() -> WordEncoder:
    return WordEncoder(max_tokens=16)


def corpus(count: int, version: int = 0) -> Documents:
    """Short documents, some of two chunks; a later version changes two of three.

    At least 200 that are new or changed are three parts of an ingest, so that two workers, which take at most two at a
    time, are both at work.
    """
    texts, first = (sentences(count, seed=seed, longest=20) for seed in (version, 0))
    return [{"id": f"d{row}", "text": texts[row] if row % 3 else first[row]} for row in range(count)]


@contextmanager
def two_nodes() -> Iterator[Cluster]:
    """Start a cluster of two nodes, and connect this process to it, for the block."""
    started = ray_clusters.start_cluster(*_CPUS)
    try:
        with connected(started.address):
            yield started
    finally:
        ray_clusters.end_cluster(started)


def add_lost_node(cluster: Cluster) -> None:
    """Replace a node that was killed."""
    if not cluster.worker_nodes:
        ray_clusters.add_node(cluster, _CPUS[1])


def opened(server: StandIn, name: str) -> Collection:
    return Collection.open(name, url=server.url, encoder=encoder(), wait_seconds=_WAIT_SECONDS)


def committed(server: StandIn, name: str) -> int:
    """The number of documents that are committed by now, also while writes are held."""
    condition = {"key": "kind", "match": {"value": "record"}}
    return int(_asked(server, name, "count", {"filter": {"must": [condition]}, "exact": True})["count"])


def points(server: StandIn, name: str) -> Points:
    """The payload and all numbers of the vectors of each point, by id.

    Left out are the revision of a document, which counts its writers too, and the words of the vocabulary, which keeps
    those of changed documents until it is counted anew.
    """
    asked = {"limit": 1_000_000, "with_payload": True, "with_vector": True}
    return {
        each["id"]: ({**each["payload"], "revision": None, "words": None}, _numbers(each["vector"]))
        for each in _asked(server, name, "scroll", asked)["points"]
    }


def _asked(server: StandIn, name: str, action: str, body: dict[str, Any]) -> Any:
    status, answer, _ = server.respond("POST", f"/collections/{name}/points/{action}", body)
    assert status == 200, answer
    return from_json(answer)["result"]


def _numbers(vectors: dict[str, Any]) -> list[float]:
    found: list[float] = []
    for _, each in sorted(vectors.items()):
        found += [*each["indices"], *each["values"]] if isinstance(each, dict) else each
    return found


def ingested_alone(server: StandIn, name: str, *versions: Documents) -> tuple[IngestReport, Points]:
    """What a single process makes that nobody kills: its last report, and the points."""
    with opened(server, name) as alone:
        reports = [alone.ingest(documents) for documents in versions]
    return reports[-1], points(server, name)


def check(server: StandIn, name: str, wanted: Points, documents: int) -> None:
    """The collection holds every document once, whole, with the points of a single process."""
    found = points(server, name)
    assert len(wanted) > 2 * documents
    assert [wanted[each][0] for each in wanted.keys() - found.keys()] == [], "lost"
    assert [found[each][0] for each in found.keys() - wanted.keys()] == [], "phantoms"
    for each, (payload, vectors) in wanted.items():
        assert found[each][0] == payload, f"{found[each][0]} is not {payload}"
        assert np.allclose(found[each][1], vectors, atol=1e-5)  # a reused vector is normalised twice
    chunks = Counter((each["source"], each["position"]) for each, _ in found.values() if each["kind"] == "chunk")
    assert max(chunks.values()) == 1, "duplicates"
    with opened(server, name) as collection:
        assert collection.verify().sound


def check_report(report: IngestReport, wanted: IngestReport) -> None:
    """An ingest with helpers counts as a single process does, which may encode a text once for several chunks."""
    assert replace(report, encoded=wanted.encoded) == wanted
    assert 0 < report.encoded <= report.chunks


class Hold:
    """Holds the writes to a collection from one on, until a kill is done; a ``StandIn.fault``.

    Args:
        name: The collection.
        after: Number of writes that are let through.
        lost: Whether the held writes meet a closed connection afterwards; default: they are done, if late.
    """

    def __init__(self, name: str, after: int, *, lost: bool = False) -> None:
        self._prefix = f"/collections/{name}/points"
        self._after = after
        self._lost = lost
        self._writes = 0
        self._turn = threading.Lock()
        self._reached, self._released = threading.Event(), threading.Event()
        self.ready: Callable[[], bool | None] = lambda: True
        """Whether the victim is at work, until when writes wait; None while the writes do not count yet."""

    def __call__(self, method: str, path: str) -> Fault | None:
        route = path.partition("?")[0]
        if not route.startswith(self._prefix) or not _writes(method, route.removeprefix(self._prefix)):
            return None
        while (ready := self.ready()) is False and not self._released.is_set():
            time.sleep(0.05)
        with self._turn:
            self._writes += bool(ready)
            if self._writes <= self._after or self._released.is_set():
                return None
        self._reached.set()
        assert self._released.wait(SECONDS)
        return Fault.REFUSED if self._lost else None

    def wait(self) -> bool:
        """Wait until a write is held; False where none will be."""
        return self._reached.wait(SECONDS) and not self._released.is_set()

    def release(self) -> None:
        """Let the writes go on, and hold none from now on."""
        self._released.set()
        self._reached.set()


def _writes(method: str, action: str) -> bool:
    return method == "PUT" or action in ("/batch", "/delete", "/payload")


@contextmanager
def killing(server: StandIn, hold: Hold, kill: Callable[[], None]) -> Iterator[None]:
    """Let a thread kill when the server holds a write; wait for it at the end of the block."""

    def wait() -> None:
        if hold.wait():
            try:
                kill()
            finally:
                hold.release()

    server.fault = hold
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        hold.release()
        thread.join(SECONDS)
        server.fault = lambda method, path: None


class Led:
    """An ingest that this process leads with two workers; it is connected to a cluster."""

    def __init__(self, server: StandIn, name: str) -> None:
        self._server = server
        self._name = name
        self._begun = False
        self.ended: set[int] = set()
        """The processes of the workers that have died."""

    def ingest(self, documents: Documents, hold: Hold, kill: Callable[[Led], None]) -> IngestReport:
        """Ingest; ``kill`` is called in the middle, when both workers are at work."""
        place = {"name": self._name, "url": self._server.url, "wait_seconds": _WAIT_SECONDS}
        hold.ready = self._ready
        with RayHelpers(plan(2), place) as self._helpers:
            with killing(self._server, hold, lambda: kill(self)), opened(self._server, self._name) as collection:
                report = collection.ingest(documents, helpers=self._helpers)
            self.ended = {each.process for each in self._helpers._writing.ended}
            return report

    def at_work(self) -> list[int]:
        """The processes of the workers that have something to do; the others may not have started."""
        members = [] if self._helpers._writing is None else list(self._helpers._writing._members)
        return [each.hello.process for each in members if each.hello is not None and each.calls]

    def _ready(self) -> bool | None:
        """Whether both workers have been at work at once; None before there are workers."""
        self._begun = self._begun or len(self.at_work()) == 2
        return None if self._helpers._writing is None else self._begun


def kill_driver(server: StandIn, name: str, hold: Hold, address: str, count: int, version: int = 0) -> None:
    """Ingest in another process, and kill it in the middle."""
    script = _DRIVER.format(tests=str(_TESTS), count=count, version=version, name=name, url=server.url, address=address)
    driver = subprocess.Popen([sys.executable, "-c", script], env=ray_clusters.environment())
    try:
        with killing(server, hold, driver.kill):
            assert driver.wait(SECONDS) == -signal.SIGKILL
    finally:
        driver.kill()


def kill_process(process: int) -> None:
    os.kill(process, signal.SIGKILL)
