"""Parses JSON bodies without holding up other requests.

A large body is parsed in a thread. Python's parser holds up all other threads, except while it calls a Python function.
For a large body, the parser therefore calls a function for each object (``itself``). ``SteppedDecoder`` parses texts
with many lists or items in Python, which takes longer but does not hold up other threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from json.decoder import JSONArray  # type: ignore[attr-defined]  # it is not in typeshed
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from anyio import to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from twinvec.errors import DocumentError

SMALL_BYTES = 64 * 1024
"""Largest text that is parsed on the event loop."""

MOST_LISTS = 500_000
"""Largest number of lists in a JSON text, and of items in a list of a body that a pydantic model describes."""

_MANY_LISTS = 20_000  # Python's parser needs a few milliseconds for this many lists
_MANY_COMMAS = 100_000  # it needs as long for this many commas between numbers; commas within texts cost nothing
_MOST_FIELDS = 1000  # largest number of fields of a body that a pydantic model describes


class SteppedDecoder(json.JSONDecoder):
    """JSON decoder that parses lists in Python; raises DocumentError for a text with more than ``MOST_LISTS`` lists."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lists = 0
        self.parse_array = self._list
        self.scan_once = py_make_scanner(self)

    def _list(self, *given: Any) -> Any:
        self._lists += 1
        if self._lists > MOST_LISTS:
            raise DocumentError(f"too large: it has more than {MOST_LISTS:,} lists; send it in parts")
        return JSONArray(*given)


def decoder_for(text: bytes) -> type[json.JSONDecoder]:
    """Return the decoder that parses a JSON text without holding up other threads for long."""
    is_long = text.count(b"[") > _MANY_LISTS or text.count(b",") > _MANY_COMMAS
    return SteppedDecoder if is_long else json.JSONDecoder


def itself(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object unchanged. Python's parser calls this for each object, so that other threads get a turn."""
    return value


async def parsed_body(body: bytes) -> Any:
    """Parse a body that a pydantic model describes.

    Raise HTTPException (400) if the body has too many lists or fields, or a list with too many items, ValueError if it
    is not JSON, and RecursionError if it is nested too deeply.
    """
    if len(body) <= SMALL_BYTES:
        return json.loads(body)
    try:
        value = await to_thread.run_sync(_parsed, body)
    except DocumentError as error:
        raise HTTPException(400, f"the body is {error}") from None
    if isinstance(value, dict):
        _check_sizes(value)
    return value


def _parsed(body: bytes) -> Any:
    return json.loads(body, cls=decoder_for(body), object_hook=itself)


def _check_sizes(fields: dict[str, Any]) -> None:
    """Raise HTTPException for a body whose validation would hold up other requests."""
    if len(fields) > _MOST_FIELDS:
        raise HTTPException(
            400, f"the body has {len(fields):,} fields, and the limit is {_MOST_FIELDS:,}; leave out unknown fields"
        )
    longest = max((len(each) for each in fields.values() if isinstance(each, list)), default=0)
    if longest > MOST_LISTS:
        raise HTTPException(
            400, f"the body has a list of {longest:,} items, and the limit is {MOST_LISTS:,}; send it in parts"
        )


class JsonRoute(APIRoute):
    """A route whose body is parsed by ``parsed_body``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        usual = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await usual(_JsonRequest(request.scope, request.receive))

        return handler


class _JsonRequest(Request):
    async def json(self) -> Any:
        return await parsed_body(await self.body())
