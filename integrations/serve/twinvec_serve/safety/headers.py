"""Security headers of every answer, and redirects that are relative.

The headers limit what a browser may do with an answer. The page and the documentation load scripts and styles as files
of this server. All other scripts are forbidden, so a script inside a text never runs.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_TLS_HEADERS = {"Strict-Transport-Security": "max-age=31536000"}


class SafeHeaders:
    """Adds the headers to every answer; a header that a route sets stays as it is.

    A redirect, which only adds or removes a final slash, is relative, because behind a proxy the server does not know
    its own address.
    """

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        headers = _HEADERS | (_TLS_HEADERS if tls else {})
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name, _relative(value) if name == b"location" else value) for name, value in message["headers"]]
                present = {name for name, _ in own}
                message["headers"] = [*own, *(each for each in self._headers if each[0] not in present)]
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def _relative(address: bytes) -> bytes:
    """Return an address as seen from the same address with, or without, a final slash."""
    parts = urlsplit(address)
    name = parts.path.rstrip(b"/").rpartition(b"/")[2]
    path = b"./%s/" % name if parts.path.endswith(b"/") else b"../%s" % name
    return parts._replace(scheme=b"", netloc=b"", path=path).geturl()
