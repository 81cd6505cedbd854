"""Recognises requests of twinvec's own commands by a secret that lies in the store's folder."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextvars import ContextVar

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_HEADER = "Twinvec-Store"

_is_own: ContextVar[bool] = ContextVar("is_own", default=False)


def is_own_command() -> bool:
    """Return whether the present request is from a twinvec command that can read the store's folder."""
    return _is_own.get()


class OwnCommands:
    """Middleware that checks whether a request has the secret of the store's folder; ``secret`` returns the secret."""

    def __init__(self, app: ASGIApp, secret: Callable[[], str | None]) -> None:
        self._app = app
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            secret, given = self._secret(), Headers(scope=scope).get(_HEADER, "")
            _is_own.set(secret is not None and hmac.compare_digest(secret.encode(), given.encode()))
        await self._app(scope, receive, send)
