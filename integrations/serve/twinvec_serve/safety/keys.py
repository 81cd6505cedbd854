"""API keys: which requests may read, and which may write.

``Border`` asks ``Access`` before a body is read, for every path that is not public. A route states the right that it
needs by a dependency, ``Depends(reads)`` or ``Depends(writes)``.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from fastapi import Request
from pydantic import SecretStr
from starlette.datastructures import Headers

from twinvec_serve.errors import RequestError

Right = Literal["read", "write"]

ALL_RIGHTS: frozenset[Right] = frozenset(("read", "write"))
RIGHTS = "twinvec.rights"
"""The entry of a request's ASGI scope that holds the rights of the request."""

_CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(slots=True)
class Access:
    """The read keys and write keys of a server. A write key may also read. Without any key, everybody may do both.

    Other keys may replace them at any time; they hold from the next request on.
    """

    read_keys: tuple[SecretStr, ...] = ()
    write_keys: tuple[SecretStr, ...] = ()

    def rights(self, headers: Headers) -> frozenset[Right]:
        """Return the rights of a request; raise RequestError (401) if it has no key or an unknown one."""
        if not self.read_keys and not self.write_keys:
            return ALL_RIGHTS
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            raise RequestError(
                "this server needs a key: send the header Authorization: Bearer KEY",
                code="missing_key",
                status=401,
                headers=_CHALLENGE,
            )
        digest = _digest(given.strip())
        may_write, may_read = _is_among(digest, self.write_keys), _is_among(digest, self.read_keys)
        if may_write:
            return ALL_RIGHTS
        if may_read:
            return frozenset(("read",))
        raise RequestError("the key is unknown to this server", code="invalid_key", status=401, headers=_CHALLENGE)


async def reads(request: Request) -> None:
    """Refuse a request whose key may not read. Routes that read depend on this."""
    _require(request, "read")


async def writes(request: Request) -> None:
    """Refuse a request whose key may not write. Routes that write depend on this."""
    _require(request, "write")


def _require(request: Request, right: Right) -> None:
    rights: frozenset[Right] = request.scope.get(RIGHTS, frozenset())
    if right not in rights:
        raise RequestError(f"the key may not {right}; use a {right} key", code=f"no_{right}_key", status=403)


def _is_among(digest: bytes, keys: Iterable[SecretStr]) -> bool:
    """Return whether a digest is that of one of the keys, in a time that does not depend on the keys."""
    found = False
    for key in keys:
        found |= hmac.compare_digest(digest, _digest(key.get_secret_value()))
    return found


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
