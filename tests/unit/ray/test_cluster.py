"""Clusters: how many workers one holds, so that the tasks that read always have a CPU, and where none answers."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from http_servers import serving
from twinvec.errors import ConfigurationError, EngineError
from twinvec_ray import cluster
from twinvec_ray.cluster import connected, planned

LAPTOP = [{"CPU": 2.0, "memory": 8e9}]
LARGE = [{"CPU": 64.0, "GPU": 8.0}, {"CPU": 32.0}]


def test_a_laptop_of_two_cores_has_two_workers_and_a_free_cpu():
    plan = planned(LAPTOP)
    assert (plan.least, plan.most, plan.threads) == (2, 2, 1)
    assert 2 - plan.most * plan.cpus >= 1


def test_workers_of_a_large_cluster_reserve_nearly_what_they_use():
    plan = planned(LARGE)
    assert plan.most == 96
    assert 0.9 < plan.cpus < 1


def test_each_gpu_has_a_worker():
    plan = planned(LARGE, use_gpu=True)
    assert (plan.most, plan.gpus, plan.cpus) == (8, 1.0, 1)


def test_a_range_of_workers_ends_where_the_cluster_ends():
    plan = planned(LARGE, (2, 500), threads=4)
    assert (plan.least, plan.most) == (2, 24)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 9), st.integers(1, 4), st.randoms())
def test_a_node_keeps_a_whole_cpu_wherever_the_workers_are_placed(cores, workers, threads, random):
    if workers * threads > sum(cores):
        return
    plan = planned([{"CPU": float(each)} for each in cores], workers, threads=threads)
    free = [float(each) for each in cores]
    for _ in range(plan.most):
        node = random.choice([row for row, each in enumerate(free) if each >= plan.cpus - 1e-9] or [None])
        if node is not None:
            free[node] -= plan.cpus
    assert max(free) >= 1 - 1e-9
    assert plan.cores == sum(cores)


@pytest.mark.parametrize(
    ("nodes", "options", "lack"),
    [
        (LAPTOP, {"workers": 3}, "3 workers of 1 threads need 3 CPUs, but the cluster has 1 nodes with 2 CPUs"),
        (LAPTOP, {"use_gpu": True}, "need a GPU each, but the cluster has 1 nodes with 2 CPUs and 0 GPUs"),
        (LARGE, {"workers": 9, "use_gpu": True}, "9 workers with use_gpu need a GPU each"),
        ([{"memory": 1e9}], {}, "the tasks that read data need a CPU"),
        (LARGE, {"workers": (4, 2)}, "smaller number first"),
        (LARGE, {"workers": 0}, "num_workers"),
        (LARGE, {"workers": (1, 2, 3)}, "expected a number, or a pair"),
    ],
)
def test_an_error_says_what_the_cluster_lacks(nodes, options, lack):
    with pytest.raises(ConfigurationError, match=lack):
        planned(nodes, **options)


@pytest.fixture
def silent():
    """The address of a port of this machine at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"127.0.0.1:{port}"


@pytest.fixture
def unasked(monkeypatch):
    """Ray must not be asked: it would wait for minutes."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster.ray, "init", lambda *_, **__: pytest.fail("Ray was asked"))


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_a_name_that_no_host_can_have_is_refused(unasked, host):
    with pytest.raises(ConfigurationError, match="no Ray cluster answers at"), connected(f"{host}:6379"):
        pass


def test_an_address_where_nobody_answers_is_told_at_once(silent, unasked, monkeypatch):
    with pytest.raises(ConfigurationError, match=f"no Ray cluster answers at {silent}: .*refused"), connected(silent):
        pass
    monkeypatch.setenv("RAY_ADDRESS", silent)
    for automatic in (None, "", "auto"):
        with (
            pytest.raises(ConfigurationError, match=rf"no Ray cluster answers at {silent} \(RAY_ADDRESS\)"),
            connected(automatic),
        ):
            pass


@pytest.mark.parametrize(
    ("address", "example"),
    [("head", "head:6379"), ("head:", "head:6379"), ("a b", "head:6379")],
)
def test_an_address_without_a_port_is_refused_with_an_example(unasked, address, example):
    message = f"{address} is not an address of a Ray cluster: expected HOST:PORT, such as {example}"
    with pytest.raises(ConfigurationError, match=message), connected(address):
        pass


@pytest.mark.parametrize("address", ["ray://head", "ray://head:10001"])
def test_ray_client_is_refused(unasked, monkeypatch, address):
    message = f"{address}.*: Ray Client .* cannot run Ray Data: .* such as head:6379"
    with pytest.raises(ConfigurationError, match=message), connected(address):
        pass
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigurationError, match=message), connected():
        pass


def test_a_cluster_that_wants_its_token_is_told_at_once(unasked, monkeypatch):
    class Refusing(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(lambda _, call: call.abort(grpc.StatusCode.UNAUTHENTICATED, ""))

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    server = grpc.server(ThreadPoolExecutor(1), handlers=[Refusing()])
    there = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    message = f"the Ray cluster at {there} admits only clients with its token: set RAY_AUTH_MODE=token"
    with pytest.raises(ConfigurationError, match=message), connected(there):
        pass
    server.stop(None).wait()


def test_what_listens_and_is_no_cluster_is_told(unasked, monkeypatch):
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.5)
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        serving(HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)) as page,
    ):
        for address in (f"127.0.0.1:{mute.getsockname()[1]}", page.removeprefix("http://")):
            message = f"the program that listens at {address} is not a Ray cluster"
            with pytest.raises(ConfigurationError, match=message), connected(address):
                pass


def test_a_node_that_does_not_start_in_time_is_an_error_of_ours(monkeypatch):
    def late(*_, **__):
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(cluster.ray, "init", late)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(EngineError, match="Ray does not start: The current node timed out"), connected("local"):
        pass


def test_a_cluster_that_listens_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 120.0)
    monkeypatch.setattr(cluster.ray, "init", lambda address, **_: asked.append(address))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    server = grpc.server(ThreadPoolExecutor(1))
    there = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    for address in (there, "local", "", None, "anyscale://mine"):
        with connected(address):
            pass
    server.stop(None).wait()
    with socket.create_server(("127.0.0.1", 0)) as encrypted:
        monkeypatch.setenv("RAY_USE_TLS", "1")
        with connected(closed := f"127.0.0.1:{encrypted.getsockname()[1]}"):
            pass
    assert asked == [there, "local", None, None, "anyscale://mine", closed]
