"""The tools over HTTP: the route ``/mcp``, and the SDK's session manager, which runs as long as the server.

The SDK takes a second to import, so it is imported at the first request of an agent. Sessions have no state, so a stop
of the server loses none. Keys, hosts and origins are checked earlier, as for every path
(``twinvec_serve.safety``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from twinvec_serve.errors import RequestError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from twinvec_serve.agents.library import Shelf

PATH = "/mcp"
_METHODS = ("POST",)  # the server sends no messages of its own (GET) and has no sessions (DELETE)


def add_routes(app: FastAPI) -> None:
    """Add ``/mcp`` to the app."""
    app.router.routes.append(_Endpoint().route)


@asynccontextmanager
async def running_sessions(app: FastAPI) -> AsyncIterator[None]:
    """In the block, answer the requests of agents at ``/mcp``."""
    services = app.state.services
    sessions = _Sessions(services.collections, services.settings.max_body_bytes)
    app.state.agents = sessions
    task = asyncio.create_task(sessions.hold())
    try:
        yield
    finally:
        app.state.agents = None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Endpoint:
    """The route ``/mcp``, which passes requests on to the session manager."""

    def __init__(self) -> None:
        self.route = Route(PATH, self, methods=_METHODS, include_in_schema=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # the log and the metrics read the route, which FastAPI sets for its own routes only
        scope["route"] = self.route
        sessions: _Sessions | None = getattr(scope["app"].state, "agents", None)
        if sessions is None:
            raise RequestError("the server is not running", code="stopping", status=503, headers={"Retry-After": "1"})
        # the body is read here, because the SDK would answer 500 if the client left
        body = await Request(scope, receive).body()
        manager = await sessions.manager()
        await manager.handle_request(scope, _again(body, receive), send)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that repeats a body that was already read, and then passes on further messages."""
    messages: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def received() -> Message:
        return next(messages, None) or await receive()

    return received


class _Sessions:
    """Runs the session manager in one task, because its task group must end in the task that started it."""

    def __init__(self, shelf: Shelf, max_body_bytes: int) -> None:
        self._shelf = shelf
        self._max_body_bytes = max_body_bytes
        self._wanted = asyncio.Event()
        self._manager: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def manager(self) -> Any:
        """Return the session manager, which is made at the first call."""
        self._wanted.set()
        return await asyncio.shield(self._manager)

    async def hold(self) -> None:
        """Make the manager when it is first needed, and run it until this task is cancelled."""
        await self._wanted.wait()
        try:
            server = await asyncio.to_thread(self._build)
            async with server.session_manager.run():
                self._manager.set_result(server.session_manager)
                await asyncio.Event().wait()
        except Exception as error:
            if self._manager.done():
                raise
            self._manager.set_exception(error)

    def _build(self) -> MCPServer[object]:
        from mcp.server.transport_security import TransportSecuritySettings

        from twinvec_serve.agents.server import build

        server = build(self._shelf)
        checked_before = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        server.streamable_http_app(  # makes the session manager
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=self._max_body_bytes,
            transport_security=checked_before,
        )
        return server
