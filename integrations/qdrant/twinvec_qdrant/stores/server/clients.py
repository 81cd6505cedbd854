"""Clients as twinvec uses them: without their warnings, and with a time for each request, whatever the method.

A method's own ``timeout`` is in whole seconds, tells the server too, where strict mode may forbid it, and is missing in
some methods. Over REST, the time is therefore set on the request as it is sent; over gRPC, it is that of the method,
where it has one.
"""

from __future__ import annotations

import inspect
import math
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
_END = "twinvec_end"  # when a request has to be over: a key of httpx's extensions of the request
_observed: weakref.WeakSet[Any] = weakref.WeakSet()


def quiet_client(kind: Callable[..., C], **options: Any) -> C:
    """Return a client without its warning of a key that goes unencrypted, which happens to this machine only.

    It does not look into every point and every query for texts to encode: ours have vectors.
    """
    options.setdefault("verify", _certificates())
    options["cloud_inference"] = True
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
        return kind(**options)


def local_client(path: str | Path) -> QdrantClient:
    """Return a client of the local mode on an existing folder; it changes the folder only if it is told to.

    Raise ``CollectionNotFoundError`` if there is none, and ``StoreBusyError`` if another process has it.
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
    """Return the certificates that all clients trust; to load them takes longer than a search."""
    return httpx.create_ssl_context()


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let each request in this block take this long, or as long as the client's own timeout if that is shorter."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def observe(client: QdrantClient) -> None:
    """Make the client keep to ``time_limit``; requests outside of it stay as they are."""
    remote = getattr(client, "_client", None)
    if isinstance(remote, QdrantRemote) and remote not in _observed:
        _observed.add(remote)
        remote.openapi_client.client.add_middleware(_limited)
        hooks = remote.openapi_client.client._client.event_hooks
        remote.openapi_client.client._client.event_hooks = {**hooks, "response": [*hooks["response"], _end_in_time]}


def options_for(client: QdrantClient, method: Callable[..., Any], seconds: float, most: int | None) -> dict[str, Any]:
    """Return the options that make a method keep to the time over gRPC, at most ``most``; none over REST."""
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
    """Bound the time of a body: httpx bounds the time of each read, and a server may send few bytes at a time."""
    end = response.request.extensions.get(_END)
    if end is not None and isinstance(response.stream, httpx.SyncByteStream):
        response.stream = _Bounded(response.stream, end, response.request)


class _Bounded(httpx.SyncByteStream):
    """The bytes of a stream until the time ``end``."""

    def __init__(self, stream: httpx.SyncByteStream, end: float, request: httpx.Request) -> None:
        self._stream, self._end, self._request = stream, end, request

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            if time.monotonic() > self._end:
                raise httpx.ReadTimeout("the answer has taken too long", request=self._request)
            yield part

    def close(self) -> None:
        self._stream.close()
