"""Twenty ingests on a Ray cluster, each with a kill that a seed chooses: nothing is lost, no report is wrong.

A seed chooses whether a worker, a node or the driver is killed, at which write, whether the writes that are on their
way at that moment are done or lost, and whether the documents are new or two of three have changed. The ingests share
one cluster of two nodes and one server; each has 300 documents and a collection of its own. Where the driver was
killed, a Ray ingest brings what is missing; elsewhere a single process finds nothing to do.
"""

from __future__ import annotations

import random

import pytest

from crash.cluster import ray_ingests
from crash.cluster.ray_ingests import Hold, Led, check, check_report, corpus, kill_driver, kill_process
from twinvec_qdrant import IngestReport
from twinvec_ray.ingesting import ingest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DOCUMENTS = 300
MOST_WRITES = 6  # that are let through; the shortest ingest has more
VICTIMS = ("worker", "node", "driver")


@pytest.fixture(scope="module")
def cluster():
    with ray_ingests.two_nodes() as started:
        yield started


@pytest.fixture(scope="module")
def alone(server):
    """The reports and the points of ingests by one process: of new documents, and of changed ones."""
    new = ray_ingests.ingested_alone(server, "new", corpus(DOCUMENTS))
    changed = ray_ingests.ingested_alone(server, "changed", corpus(DOCUMENTS), corpus(DOCUMENTS, 1))
    return new, changed


@pytest.mark.parametrize("seed", range(20))
def test_a_kill_at_random(cluster, server, alone, seed):
    ray_ingests.add_lost_node(cluster)
    rng = random.Random(seed)
    victim, version, name = rng.choice(VICTIMS), rng.randrange(2), f"seed-{seed}"
    hold = Hold(name, rng.randrange(MOST_WRITES + 1), lost=rng.random() < 0.5)
    wanted, points = alone[version]
    documents = corpus(DOCUMENTS, version)
    if version:
        ray_ingests.ingested_alone(server, name, corpus(DOCUMENTS))
    if victim == "driver":
        kill_driver(server, name, hold, cluster.address, DOCUMENTS, version)
    else:
        killed = []

        def kill(led: Led) -> None:
            if victim == "worker":
                killed.append(rng.choice(led.at_work()))
                kill_process(killed[0])
            else:
                killed.append(next(iter(cluster.worker_nodes)))
                cluster.remove_node(killed[0], allow_graceful=False)

        report = Led(server, name).ingest(documents, hold, kill)
        assert len(killed) == 1
        check_report(report, wanted)
        check(server, name, points, DOCUMENTS)
        with ray_ingests.opened(server, name) as collection:
            assert collection.ingest(documents) == IngestReport(unchanged=DOCUMENTS)
        return
    report = ingest(documents, name, url=server.url, encoder=ray_ingests.encoder())
    brought = wanted.updated if version else wanted.new
    assert report.new + report.updated + report.unchanged == DOCUMENTS
    assert (report.updated if version else report.new) <= brought
    assert (report.new if version else report.updated, report.failed, report.deleted) == (0, 0, 0)
    check(server, name, points, DOCUMENTS)
