"""An ingest on a Ray cluster of two nodes, of which a worker, a node, or the driver is killed: nothing is lost.

Each kill is in the middle of an ingest of 5,000 documents, and the collection afterwards is compared, point for point,
with that of one process. ``test_ray_seeded_kills`` kills at random moments of smaller ingests.
"""

from __future__ import annotations

import pytest

from crash.cluster import ray_ingests
from crash.cluster.ray_ingests import Hold, Led, check, check_report, committed, corpus, kill_driver, kill_process
from twinvec.errors import EngineError
from twinvec_qdrant import IngestReport
from twinvec_ray.ingesting import ingest
from words import WordEncoder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DOCUMENTS = 5000
AFTER = 12  # writes


@pytest.fixture(scope="module")
def alone(server):
    """The report and the points of an ingest by one process."""
    return ray_ingests.ingested_alone(server, "alone", corpus(DOCUMENTS))


@pytest.fixture(scope="module")
def started():
    with ray_ingests.two_nodes() as made:
        yield made


@pytest.fixture
def cluster(started):
    """A cluster of two nodes; one that a test before has killed is replaced."""
    ray_ingests.add_lost_node(started)
    return started


def in_the_middle(server, name: str) -> bool:
    return 0 < committed(server, name) < DOCUMENTS


def test_a_worker_is_killed(cluster, server, alone):
    killed = []

    def kill(led: Led) -> None:
        assert in_the_middle(server, "worker")
        killed.append(led.at_work()[0])
        kill_process(killed[0])

    led = Led(server, "worker")
    report = led.ingest(corpus(DOCUMENTS), Hold("worker", AFTER), kill)
    assert len(killed) == 1
    assert led.ended == set(killed)
    check_report(report, alone[0])
    check(server, "worker", alone[1], DOCUMENTS)
    again = ingest(corpus(DOCUMENTS), "worker", url=server.url, encoder=ray_ingests.encoder())
    assert again == IngestReport(unchanged=DOCUMENTS)


def test_a_node_is_killed(cluster, server, alone):
    (node,) = cluster.worker_nodes
    killed = []

    def kill(led: Led) -> None:
        assert in_the_middle(server, "node")
        cluster.remove_node(node, allow_graceful=False)
        killed.append(node)

    led = Led(server, "node")
    report = led.ingest(corpus(DOCUMENTS), Hold("node", AFTER), kill)
    assert killed == [node]
    assert len(led.ended) == 1
    check_report(report, alone[0])
    check(server, "node", alone[1], DOCUMENTS)
    again = ingest(corpus(DOCUMENTS), "node", url=server.url, encoder=ray_ingests.encoder())
    assert again == IngestReport(unchanged=DOCUMENTS)


def test_the_driver_is_killed(cluster, server, alone):
    kill_driver(server, "driver", Hold("driver", AFTER), cluster.address, DOCUMENTS)
    done = committed(server, "driver")
    report = ingest(corpus(DOCUMENTS), "driver", url=server.url, encoder=ray_ingests.encoder())
    assert report.new + report.unchanged == DOCUMENTS
    assert 0 < done <= report.unchanged
    assert report.new > 0
    assert (report.updated, report.failed) == (0, 0)
    check(server, "driver", alone[1], DOCUMENTS)


def test_a_worker_that_cannot_start_says_why(cluster, server):
    class Broken(WordEncoder):
        def __reduce__(self):
            return _broken, ()

    with pytest.raises(EngineError, match="this machine has no such model"):
        ingest(corpus(3), "broken", url=server.url, encoder=Broken(max_tokens=16))


def _broken() -> None:
    raise RuntimeError("this machine has no such model")
