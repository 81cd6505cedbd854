"""Checks that a request names an address that this server serves, and does not come from a page of another site.

A page of another site can send requests to a server on the machine of its visitor. If the site's name is made to point
to that machine (DNS rebinding), the browser even lets the page read the answers. The header ``Host`` has the name that
the browser used, and ``Origin`` the site of the page. RFC 6454 (origins), RFC 9110 7.2 (Host).
"""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from functools import cached_property, lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from twinvec.errors import ConfigurationError
from twinvec.support.checks import is_loopback
from twinvec_serve.errors import RequestError, error_answer
from twinvec_serve.settings import ServeSettings

_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:/@?#*\s]+)(:(?P<port>\d{1,5}))?")
_COSTLY = ("/v1/", "/v2/", "/mcp")
_OTHER_SITES = frozenset({"cross-site", "same-site"})  # Sec-Fetch-Site for a page of another origin
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_EVERY_ADDRESS = ("0.0.0.0", "::")
_REMEMBERED = 256  # entries of each cache; without the caches, a short request would take a tenth longer


class Origin(NamedTuple):
    """The origin of a page, or the address of a server: scheme, host name or IP address, and port."""

    scheme: str
    name: str
    port: int


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a server that listens at ``host``."""
    return is_loopback(_plain_name(host))


def parse_origin(text: str) -> Origin:
    """Read an origin such as ``https://search.example.com`` or ``http://[::1]:8080``; else raise ConfigurationError."""
    parts = urlsplit(text)
    match = _AUTHORITY.fullmatch(parts.netloc)
    if parts.scheme not in _PORTS or match is None or parts.path or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{text!r} is not an origin: expected http:// or https://, a host name, and a port unless it is 80 or "
            f"443, such as https://search.example.com"
        )
    return Origin(parts.scheme, _plain_name(match["name"]), int(match["port"] or _PORTS[parts.scheme]))


class CheckedAddresses:
    """Refuses requests whose Host is not an address of the server (421), and requests of other sites' pages (403)."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app = app
        self._settings = settings
        self._allowed = frozenset(map(parse_origin, settings.allow_origins))
        self._scheme = "http" if settings.tls_cert is None else "https"
        self._served = lru_cache(_REMEMBERED)(self._served_at)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            try:
                self._check(scope)
            except RequestError as error:
                await error_answer(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        served = self._served(*(scope["server"] or ("localhost", self._settings.port)))
        hosts = _values(scope, b"host")
        if len(hosts) != 1:
            raise RequestError("the request needs one Host header", code="no_host")
        if not _is_served(hosts[0], served):
            raise RequestError(
                "this server does not serve the address in the Host header; to permit it, start the server with "
                "--allow-origin and its origin, such as https://search.example.com",
                code="unknown_host",
                status=421,
            )
        origins = _values(scope, b"origin")
        for each in origins:
            if not _is_origin_of(each, served):
                raise RequestError(
                    "a page of another origin may not use this server; to permit it, start the server with "
                    "--allow-origin and the page's origin",
                    code="foreign_origin",
                    status=403,
                )
        # a page can send a GET without an Origin, as for an image: it cannot read the answer, but may start a backup
        if (
            not origins
            and scope["path"].startswith(_COSTLY)
            and _OTHER_SITES.intersection(_values(scope, b"sec-fetch-site"))
        ):
            raise RequestError(
                "a page of another site may not send requests to this server", code="foreign_origin", status=403
            )

    def _served_at(self, name: str, port: int | None) -> frozenset[Origin]:
        """Return the origins of the server: the address at which a request arrived, and the allowed origins."""
        names = (*self._names, _plain_name(name))
        return self._allowed.union(Origin(self._scheme, each, port or 0) for each in names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        host = _plain_name(self._settings.host)
        if is_loopback(host):
            return (*_LOOPBACK, host)
        return (*_LOOPBACK, socket.gethostname().lower()) if host in _EVERY_ADDRESS else (host,)


@lru_cache(_REMEMBERED)
def _is_served(host: str, served: frozenset[Origin]) -> bool:
    match = _AUTHORITY.fullmatch(host)
    if match is None:
        return False
    name, port = _plain_name(match["name"]), match["port"]
    return any(each.name == name and each.port == int(port or _PORTS[each.scheme]) for each in served)


def _is_origin_of(origin: str, served: frozenset[Origin]) -> bool:
    try:
        return parse_origin(origin) in served
    except (ConfigurationError, ValueError):  # an origin such as "null"
        return False


def _values(scope: Any, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


@lru_cache(_REMEMBERED)
def _plain_name(name: str) -> str:
    """Return the canonical form of a host name or address: lower case, no brackets, no final dot, the shortest IPv6."""
    name = name.strip("[]").lower().removesuffix(".")
    with suppress(ValueError):
        number = ip_address(name)
        mapped = number.ipv4_mapped if isinstance(number, IPv6Address) else None
        return str(mapped or number)
    return name
