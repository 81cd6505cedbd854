"""The cluster: how a process reaches it, and how many workers it can hold.

Tasks that read data need a CPU of their own. If the workers reserved every CPU, workers and tasks would wait for each
other for ever. A plan therefore reserves less: however Ray places the workers, one node keeps a CPU free.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import floor
from typing import Any

import grpc
import ray

from twinvec.errors import ConfigurationError, EngineError
from twinvec.support.checks import check_methods, integer, string

Workers = int | tuple[int, int] | None
"""The number of workers, or a pair (least, most); None for one worker for each core or GPU of the cluster."""

AUTOMATIC = ""
"""Address of the cluster that ``RAY_ADDRESS`` names, else of a cluster that runs on this machine, else of a new one."""

_NAMED = "RAY_ADDRESS"
_TLS = "RAY_USE_TLS"  # a cluster with TLS accepts only clients that have its certificates
_AUTH_MODE = "RAY_AUTH_MODE"
_WITH_TOKEN = "token"
_ANY_CALL = "/ray.rpc.NodeInfoGcsService/GetClusterId"  # a cluster with tokens refuses any call without a token
_AUTO = "auto"
_LOCAL = "local"
_CLIENT = "ray://"
_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})")
_URL = re.compile(r"\w+://\S+")
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of workers, and the resources of each.

    Attributes:
        least: Number of workers to begin with.
        most: Largest number of workers.
        threads: Threads with which a worker computes on a CPU.
        cpus: CPUs that Ray reserves for a worker.
        gpus: GPUs that Ray reserves for a worker.
        cores: CPUs of the cluster.
    """

    least: int
    most: int
    threads: int
    cpus: float
    gpus: float
    cores: int

    @property
    def options(self) -> dict[str, Any]:
        """The resources of a worker, as options of Ray's actors."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}


def plan(workers: Workers = None, *, threads: int = 1, use_gpu: bool = False) -> Plan:
    """Return the plan for the cluster that this process is connected to; raise errors as ``planned`` does."""
    list_nodes: Callable[[], list[dict[str, Any]]] = ray.nodes
    nodes = [node["Resources"] for node in list_nodes() if node["Alive"]]
    return planned(nodes, workers, threads=threads, use_gpu=use_gpu)


def planned(
    nodes: Sequence[Mapping[str, float]], workers: Workers = None, *, threads: int = 1, use_gpu: bool = False
) -> Plan:
    """Return the plan for a cluster of nodes with these resources.

    Raise ConfigurationError if a number is invalid, or the cluster lacks the resources that the plan needs.
    """
    integer(threads, "threads", least=1)
    cores = [floor(node.get("CPU", 0)) for node in nodes]
    total, gpus = sum(cores), sum(floor(node.get("GPU", 0)) for node in nodes)
    has = f"the cluster has {len(nodes)} nodes with {total} CPUs and {gpus} GPUs"
    if total < 1:
        raise ConfigurationError(f"{has}, but the tasks that read data need a CPU")
    least, most = _numbers(workers, gpus if use_gpu else max(total // threads, 1))
    if use_gpu and gpus < max(least, 1):
        raise ConfigurationError(f"{max(least, 1)} workers with use_gpu need a GPU each, but {has}")
    if not use_gpu and least * threads > total:
        raise ConfigurationError(f"{least} workers of {threads} threads need {least * threads} CPUs, but {has}")
    if not use_gpu:
        most = min(most, total // threads)
    spare = total - sum(1 for each in cores if each)  # tasks that read can run on a node with one free CPU
    return Plan(least, most, threads, min(threads, floor(100 * spare / most) / 100), 1.0 if use_gpu else 0.0, total)


def _numbers(workers: Workers, default: int) -> tuple[int, int]:
    if isinstance(workers, tuple) and len(workers) != 2:
        raise ConfigurationError(f"num_workers {workers}: expected a number, or a pair (least, most)")
    least, most = workers if isinstance(workers, tuple) else (workers, workers)
    if least is None or most is None:
        return default, default
    integer(least, "num_workers", least=1)
    integer(most, "num_workers", least=1)
    if least > most:
        raise ConfigurationError(f"num_workers {workers}: expected the smaller number first")
    return least, most


def check_dataset(value: object, what: str) -> None:
    """Raise ``ConfigurationError`` unless a value is a Ray dataset."""
    check_methods(value, ("schema", "map_batches", "context"), what, "a Ray dataset, as twinvec_ray.read returns it")


@contextmanager
def connected(address: str | None = AUTOMATIC) -> Iterator[None]:
    """Connect this process to a cluster until the end of the block, unless it is connected already.

    A cluster that this function starts ends with the block. Raise ConfigurationError if the address is invalid or no
    cluster answers there, and EngineError if a new cluster does not start, for example on a machine that is too busy.
    """
    if ray.is_initialized():
        yield
        return
    _check_answer(string(address or AUTOMATIC, "address"))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        ray.init(address or None, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigurationError(f"no Ray cluster answers at {address or 'the default address'}: {error}") from error
    except Exception as error:  # Ray has no class for the error of a node that does not start in time
        raise EngineError(f"Ray does not start: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_answer(address: str) -> None:
    """Raise ``ConfigurationError`` unless a gRPC server answers at the address; Ray itself would wait for minutes."""
    named = os.environ.get(_NAMED, "") if address in (AUTOMATIC, _AUTO) else ""
    place = named or address
    if place in (AUTOMATIC, _AUTO, _LOCAL):
        return
    said = f"{place} ({_NAMED})" if named else place
    if place.startswith(_CLIENT):
        raise ConfigurationError(
            f"{said}: Ray Client ({_CLIENT}) cannot run Ray Data: run this on a machine of the cluster, and give "
            f"HOST:PORT of its head, such as {_host(place)}:6379"
        )
    found = _HOST_AND_PORT.fullmatch(place)
    if found is None:
        if _URL.fullmatch(place):
            return  # an address of another service, for which Ray has a package
        raise ConfigurationError(
            f"{said} is not an address of a Ray cluster: expected HOST:PORT, such as {_host(place)}:6379, "
            f"{_AUTO} or {_LOCAL}"
        )
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), _ANSWER_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConfigurationError(f"no Ray cluster answers at {said}: {error}") from error
    if os.environ.get(_TLS, "0") in ("", "0"):
        _check_grpc(f"{found['host']}:{found['port']}", said)


def _check_grpc(place: str, said: str) -> None:
    with grpc.insecure_channel(place, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(_ANSWER_SECONDS)
        except grpc.FutureTimeoutError:
            raise ConfigurationError(
                f"the program that listens at {said} is not a Ray cluster: give the port of the cluster's head, "
                "6379 by default"
            ) from None
        if os.environ.get(_AUTH_MODE) == _WITH_TOKEN:
            return
        try:
            channel.unary_unary(_ANY_CALL)(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                raise ConfigurationError(
                    f"the Ray cluster at {said} admits only clients with its token: set {_AUTH_MODE}={_WITH_TOKEN}, "
                    "and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH if the token is not in ~/.ray/auth_token"
                ) from None


def _host(place: str) -> str:
    """Return the host of a malformed address, if it can be found, for the example in an error."""
    host = place.removeprefix(_CLIENT).partition(":")[0]
    return host if re.fullmatch(r"[\w.-]+", host) else "head"
