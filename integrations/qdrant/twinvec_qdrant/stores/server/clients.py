"""Qdrant's clients with a time limit for each request, whatever the method, and without their warnings.

A method's own ``timeout`` does not suffice: it is in whole seconds, some methods have none, and it is also sent to the
server, whose strict mode may forbid it. Over REST, the time limit is therefore set on the HTTP request. Over gRPC, it
is the method's ``timeout``, if the method has one.
"""

from __future__ import annotations

import inspect
import math
import os
import ssl
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import httpx
from qdrant_client import QdrantClient
from qdrant_client.qdrant_remote import QdrantRemote

from twinvec.errors import CollectionNotFoundError, StoreBusyError
from twinvec.support.checks import file_path

C = TypeVar("C")

_seconds: ContextVar[float | None] = ContextVar("seconds that a request of twinvec may take", default=None)
_END = "twinvec_end"  # key among httpx's extensions of a request for the time by which its answer must be complete
_observed: weakref.WeakSet[Any] = weakref.WeakSet()

_PLAIN_ANSWERS = {"accept-encoding": "identity"}
"""Header of REST requests that asks for answers without compression.

A Qdrant server sends a compressed answer in two packets and without TCP_NODELAY, so that the second packet waits until
the client has acknowledged the first: 40 ms on Linux (seen with Qdrant 1.18.3).
"""


def quiet_client(kind: Callable[..., C], **options: Any) -> C:
    """Return a client that does not warn of an unencrypted API key, which twinvec sends to this machine only.

    The client does not search every point and query for texts to encode, because twinvec's points have vectors. Over
    REST, it asks for answers without compression.
    """
    options.setdefault("verify", _certificates())
    options["metadata"] = {**_PLAIN_ANSWERS, **(options.get("metadata") or {})}
    options["cloud_inference"] = True
    if (given := options.get("grpc_options")) is not None:  # a client adds its user agent, and warns if one is there
        options["grpc_options"] = {name: value for name, value in given.items() if name != "grpc.primary_user_agent"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
        return kind(**options)


def local_client(path: str | Path) -> QdrantClient:
    """Return a client in local mode on an existing folder; opening it does not change the folder.

    Raise ``CollectionNotFoundError`` if the folder is not one of local mode, and ``StoreBusyError`` if another process
    has it open.
    """
    folder = file_path(path, "local_path")
    if not (folder / "meta.json").is_file():
        raise CollectionNotFoundError(f"{folder}: not a folder of qdrant-client's local mode (it has no meta.json)")
    try:
        return QdrantClient(path=str(folder))
    except RuntimeError as error:
        raise StoreBusyError(f"{folder}: {error}") from error


@cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates that all clients trust; loading them takes longer than a search."""
    return httpx.create_ssl_context()


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit each request in this block to these seconds, or to the client's own timeout if that is shorter."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def observe(client: QdrantClient) -> None:
    """Make the client obey ``time_limit``; requests outside such a block stay as they are."""
    remote = getattr(client, "_client", None)
    if isinstance(remote, QdrantRemote) and remote not in _observed:
        _observed.add(remote)
        api_client = remote.openapi_client.client
        api_client.add_middleware(_limited)
        hooks = api_client._client.event_hooks
        api_client._client.event_hooks = {**hooks, "response": [*hooks["response"], _end_in_time]}


def options_for(client: QdrantClient, method: Callable[..., Any], seconds: float, most: int | None) -> dict[str, Any]:
    """Return the option by which a method over gRPC takes at most ``seconds``, and at most ``most``; {} over REST."""
    remote = getattr(client, "_client", None)
    if isinstance(remote, QdrantRemote) and remote._prefer_grpc and _takes_timeout(getattr(method, "__func__", method)):
        return {"timeout": min(math.ceil(seconds), most or math.inf)}
    return {}


@cache
def _takes_timeout(method: Callable[..., Any]) -> bool:
    return "timeout" in inspect.signature(method).parameters


def _limited(request: httpx.Request, send: Callable[[httpx.Request], httpx.Response]) -> httpx.Response:
    seconds = _seconds.get()
    if seconds is not None:
        given = request.extensions.get("timeout", {})
        parts = ("connect", "read", "write", "pool")
        request.extensions["timeout"] = {
            part: seconds if given.get(part) is None else min(seconds, given[part]) for part in parts
        }
        request.extensions[_END] = time.monotonic() + seconds
    return send(request)


def _end_in_time(response: httpx.Response) -> None:
    """Limit the time of a whole answer: httpx limits each read only, and a server may send few bytes at a time."""
    end = response.request.extensions.get(_END)
    if end is not None and isinstance(response.stream, httpx.SyncByteStream):
        response.stream = _Bounded(response.stream, end, response.request)


def _reconnect() -> None:
    """Give the clients that a forked child has inherited connections of their own.

    Two processes on one connection would read each other's answers. gRPC does the same by itself.
    """
    for remote in list(_observed):
        api_client = remote.openapi_client.client
        if not (shared := api_client._client).is_closed:
            api_client._client = httpx.Client(**remote._rest_args)
            api_client._client.event_hooks = shared.event_hooks


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reconnect)


class _Bounded(httpx.SyncByteStream):
    """The bytes of an answer; after the time ``end``, reading them raises an error."""

    def __init__(self, stream: httpx.SyncByteStream, end: float, request: httpx.Request) -> None:
        self._stream, self._end, self._request = stream, end, request

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            if time.monotonic() > self._end:
                raise httpx.ReadTimeout("the answer has taken too long", request=self._request)
            yield part

    def close(self) -> None:
        self._stream.close()
