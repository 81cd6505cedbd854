"""Awaited requests to a server, sent by an ``AsyncQdrantClient`` and retried as in ``retrying``.

An async client belongs to the event loop that first uses it: its connections fail on any other loop. Every loop
therefore has its own client here. The client opens at the first request, and closes with the loop or with the
collection. A caller's client serves only the loop in which the collection was opened.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import tenacity
from qdrant_client import AsyncQdrantClient

from twinvec.adapters.coalescing import Coalescer
from twinvec_qdrant.stores.server.clients import quiet_client
from twinvec_qdrant.stores.server.merging import Lane, points_of, slice_of
from twinvec_qdrant.stores.server.retrying import Requests, Tries, applied, is_local
from twinvec_qdrant.stores.steps import Ask, Encode, Step

Loop = asyncio.AbstractEventLoop

_PARTS = {"query_batch_points": slice_of, "retrieve": points_of}
CONNECTIONS = httpx.Limits(max_connections=64, max_keepalive_connections=64)
"""Connections of a client that twinvec makes. By default, Qdrant's client keeps no connection to this machine open."""


@dataclass(frozen=True, slots=True)
class _OfLoop:
    """What one event loop uses: a client, the generator that closes it (None for a caller's client), and lanes."""

    client: AsyncQdrantClient
    life: AsyncGenerator[AsyncQdrantClient] | None = None
    lanes: dict[tuple[str, str], Lane] = field(default_factory=dict)


class AwaitedRequests:
    """The awaited form of ``requests``: the same requests, retries and errors.

    ``client`` is a client of the caller, which ``close`` leaves open, or the arguments of new clients.
    """

    def __init__(self, client: AsyncQdrantClient | Mapping[str, Any], requests: Requests) -> None:
        given = client if isinstance(client, AsyncQdrantClient) else None
        self._everywhere = given if given is not None and is_local(given) else None
        self._options = _options(client.init_options if isinstance(client, AsyncQdrantClient) else client)
        self._requests = requests
        self._lock = threading.Lock()
        self._of_loops: dict[Loop, _OfLoop] = {}
        self._encoders: dict[Any, Coalescer[str, Any]] = {}
        if given is not None and (loop := _running_loop()) is not None:
            self._of_loops[loop] = _OfLoop(given)

    async def perform(self, step: Step) -> Any:
        """Perform one step of ``stores.steps``, and return its result."""
        if isinstance(step, Ask):
            return await self._merged(step)
        if isinstance(step, Encode):
            return await self._coalescer(step.encode)(step.texts)
        call = partial(contextvars.copy_context().run, step.call)
        return await asyncio.get_running_loop().run_in_executor(None, call)

    def close(self) -> None:
        """Close the clients that were made here."""
        with self._lock:
            of_loops, self._of_loops = self._of_loops, {}
        for loop, each in of_loops.items():
            if each.life is None:
                continue
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(_ended(each.life), loop)
            elif not loop.is_closed() and _running_loop() is None:
                loop.run_until_complete(each.life.aclose())

    async def _merged(self, ask: Ask) -> Any:
        """Send a request, if possible together with others that wait, and return its answer."""
        part = _PARTS.get(ask.method)
        if part is None or ask.alone:
            return await self._sent(ask)
        lanes = (await self._of_this_loop()).lanes
        key = (ask.method, repr(sorted(ask.options.items())))
        if key not in lanes:
            method, options = ask.method, ask.options
            lanes[key] = Lane(lambda items: self._sent(Ask(method, (items,), options)), part)
        return await lanes[key](ask.arguments[0])

    async def _sent(self, ask: Ask) -> Any:
        method = getattr((await self._of_this_loop()).client, ask.method)
        options = dict(ask.options)
        tries = Tries(self._requests, ask.method, options.pop("refill_seconds", 0.0))

        async def attempt() -> Any:
            self._requests.check_open()
            async with asyncio.timeout(tries.next_seconds()):
                return applied(await method(self._requests.name, *ask.arguments, **options))

        with self._requests.errors(ask.method):
            return await tenacity.AsyncRetrying(**tries.policy())(attempt)

    async def _of_this_loop(self) -> _OfLoop:
        """Return what the running event loop uses; forget what closed loops have used."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if (known := self._of_loops.get(loop)) is not None:
                return known
            self._of_loops = {each: used for each, used in self._of_loops.items() if not each.is_closed()}
            client = self._everywhere or quiet_client(AsyncQdrantClient, **self._options)
            made = self._of_loops[loop] = _OfLoop(client, None if self._everywhere else _life(client))
        if made.life is not None:
            await anext(made.life)  # starts the generator, since an ending event loop closes only started generators
        return made

    def _coalescer(self, encode: Any) -> Coalescer[str, Any]:
        """Return the object that encodes the queries of all searches that wait at the same time."""
        key = getattr(encode, "__self__", encode)
        with self._lock:
            if id(key) not in self._encoders:
                self._encoders = {id(key): Coalescer(encode)}  # after a migration, this drops the former encoder
            return self._encoders[id(key)]


async def _life(client: AsyncQdrantClient) -> AsyncGenerator[AsyncQdrantClient]:
    """Yield the client, and close it when the event loop ends: a loop then closes its started generators."""
    try:
        yield client
    finally:
        await client.close()


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a client; unless ``options`` say otherwise, its connections stay open."""
    kept = {name: value for name, value in options.items() if value is not None}
    kept["check_compatibility"] = False
    return kept if {"limits", "pool_size"} & kept.keys() else {**kept, "limits": CONNECTIONS}


def _running_loop() -> Loop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _ended(life: AsyncGenerator[Any]) -> None:
    await life.aclose()
