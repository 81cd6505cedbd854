"""Errors for invalid lines of standard input. The SDK does not answer these lines, and an agent would wait for ever."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, RequestId
from pydantic import TypeAdapter, ValidationError

Message = SessionMessage | Exception

_IDS: TypeAdapter[RequestId] = TypeAdapter(RequestId)


@asynccontextmanager
async def readable(
    lines: ReadStream[Message], answers: WriteStream[SessionMessage]
) -> AsyncIterator[MemoryObjectReceiveStream[Message]]:
    """Yield the stream of valid messages among the lines, and answer invalid lines with an error."""
    sender, messages = anyio.create_memory_object_stream[Message](0)

    async def pass_on() -> None:
        async with sender:
            async for each in lines:
                if not isinstance(each, ValidationError):
                    await sender.send(each)
                elif (refusal := refused(each)) is not None:
                    await answers.send(SessionMessage(refusal))

    async with anyio.create_task_group() as group:
        group.start_soon(pass_on)
        yield messages
        group.cancel_scope.cancel()


def refused(fault: ValidationError) -> JSONRPCError | None:
    """Return the error that answers an invalid line; None for a blank line."""
    found = fault.errors()
    first = found[0]
    if first["type"] != "json_invalid":
        message = next((each["input"] for each in found if isinstance(each["input"], dict)), None)
        error = ErrorData(code=INVALID_REQUEST, message="the line is not a JSON-RPC message")
        return JSONRPCError(jsonrpc="2.0", id=_id_of(message), error=error)
    line = first["input"]
    if not line.strip():
        return None
    try:
        message = json.loads(line)  # accepts lone surrogates, so that the request's id is found
    except (ValueError, RecursionError):
        message = None
    error = ErrorData(code=PARSE_ERROR, message=f"the line is not JSON: {first['ctx']['error']}")
    return JSONRPCError(jsonrpc="2.0", id=_id_of(message), error=error)


def _id_of(message: object) -> RequestId | None:
    try:
        return _IDS.validate_python(message["id"]) if isinstance(message, dict) else None
    except (KeyError, ValidationError):
        return None
