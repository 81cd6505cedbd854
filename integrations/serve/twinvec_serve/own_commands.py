"""Requests of twinvec's own commands on the server's machine, which prove that they can read the store's folder."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextvars import ContextVar

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_HEADER = "Twinvec-Store"

_is_own: ContextVar[bool] = ContextVar("is_own", default=False)


def is_own_command() -> bool:
    """Return whether the present request is from a command that can read the store's folder."""
    return _is_own.get()


class OwnCommands:
    """Notes for each request whether it is from such a command; ``secret`` returns the secret in the store's folder."""

    def __init__(self, app: ASGIApp, secret: Callable[[], str | None]) -> None:
        self._app = app
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            secret, given = self._secret(), Headers(scope=scope).get(_HEADER, "")
            _is_own.set(secret is not None and hmac.compare_digest(secret.encode(), given.encode()))
        await self._app(scope, receive, send)
