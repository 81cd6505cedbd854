"""The body of an ingest: JSON, JSON lines that are read while they arrive, or uploaded files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

from fastapi import Request
from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from twinvec.errors import DocumentError
from twinvec.retrieval.documents import parse_json
from twinvec_qdrant import Failure, RootElsewhere, read_source
from twinvec_serve.collections.ingests import Ingests
from twinvec_serve.collections.reading import ndjson_pages, plain, plain_line, read_by_command
from twinvec_serve.collections.uploads import UploadFolder, keeping_files, save_files
from twinvec_serve.errors import ClientGoneError, RequestError
from twinvec_serve.json_texts import decoder_for, itself
from twinvec_serve.own_commands import is_own_command
from twinvec_serve.routes.answers import TAR
from twinvec_serve.safety.silence import describe_silence, receive_in_time
from twinvec_serve.services import Services

_SLOW_SECONDS = 60.0
_LEAST_RATE = 100.0
"""Bytes a second that a client must send while other ingests wait, once the server has waited a minute for it."""

_NDJSON, _FILES, _JSON = "application/x-ndjson", "multipart/form-data", "application/json"
_EXPECTED = '{"documents": [{"id": ..., "text": ...}, ...]} or the list itself'
_DOCUMENT = {
    "type": "object",
    "required": ["id", "text"],
    "description": "A document; all other keys are payload to filter by.",
    "properties": {
        "id": {"type": "string", "description": "Id of the document, unique in the collection."},
        "text": {"type": "string", "description": "Its text."},
        "title": {"type": "string", "description": "Title of the document; it is embedded before the text."},
        "payload": {"type": "object", "description": "More payload.", "additionalProperties": True},
    },
    "additionalProperties": True,
}
_LIST = {"type": "array", "items": _DOCUMENT, "description": "Documents."}
_OBJECT = {"type": "object", "required": ["documents"], "properties": {"documents": _LIST}}
_UPLOAD = {
    "type": "object",
    "required": ["files"],
    "properties": {
        "files": {
            "type": "array",
            "items": {"type": "string", "format": "binary"},
            "description": "Files, read as by twinvec ingest; a file's name may be a path.",
        }
    },
}
BODY = {
    "required": True,
    "content": {
        _JSON: {"schema": {"anyOf": [_LIST, _OBJECT]}},
        _NDJSON: {"schema": {"type": "string", "description": "One document per line, read while the body arrives."}},
        _FILES: {"schema": _UPLOAD},
    },
}
"""The bodies, as OpenAPI describes them."""

ARCHIVE_BODY = {"required": True, "content": {TAR: {"schema": {"type": "string", "format": "binary"}}}}
"""The body of a restore."""


async def given_documents(request: Request, shared: Services, stack: AsyncExitStack) -> tuple[Any, asyncio.Event]:
    """Return the documents of a request, and an event that is set when its body has been read.

    Closing ``stack`` removes the uploaded files.

    Raise RequestError if the type of the body is not supported, or the client falls silent or is slow (408).
    """
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    kind, ended = kind.strip().lower(), asyncio.Event()
    by_command = kind == _NDJSON and "form=read" in parameters.replace(" ", "").split(";")
    request = Request(request.scope, _InTime(request.receive, None if by_command else shared.collections.ingests))
    if by_command:
        return await _of_command(request, shared, ended), ended
    if kind == _NDJSON:
        pages = ndjson_pages(_pieces(request, ended), shared.settings.max_body_bytes, plain_line)
        return shared.collections.ingests.bridge(pages), ended
    if kind == _FILES:
        with keeping_files():
            documents = await _of_files(request, shared, stack)
    elif kind in (_JSON, ""):
        documents = await shared.collections.run(_of_json, await request.body(), shared)
    else:
        raise RequestError(
            f"the content type {kind!r} is not known; send {_JSON}, {_NDJSON} or {_FILES}",
            code="unsupported_type",
            status=415,
        )
    ended.set()
    return documents, ended


def given_archive(request: Request, shared: Services) -> tuple[Iterator[bytes], asyncio.Event]:
    """Return the pieces of a tar archive, which arrive while they are read, and an event set at the end of the body.

    Raise RequestError (415) for another type of body; reading raises RequestError (408) if the client falls silent.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != TAR:
        raise RequestError(f"the content type {kind!r} is not known; send {TAR}", code="unsupported_type", status=415)
    ended = asyncio.Event()
    pieces = _pieces(Request(request.scope, _InTime(request.receive, None)), ended)
    return shared.collections.ingests.bridge([piece] async for piece in pieces if piece), ended


def check_number(values: Sequence[Any], shared: Services) -> None:
    """Raise RequestError (400) if a request has too many documents or ids."""
    if len(values) > shared.settings.max_texts:
        raise RequestError(
            f"the request has {len(values):,} documents or ids, and the limit is {shared.settings.max_texts:,}; send "
            f"several requests, or documents as {_NDJSON}",
            code="too_many_texts",
        )


async def _of_command(request: Request, shared: Services, ended: asyncio.Event) -> Any:
    """Return the documents that a command of twinvec has read. The first line of the body describes their source."""
    if not is_own_command():
        raise RequestError(
            "form=read is only for commands that can read the store's folder", code="not_permitted", status=403
        )
    pages = ndjson_pages(_pieces(request, ended), shared.settings.max_body_bytes, read_by_command)
    first = await anext(pages, [None])
    if not isinstance(first[0], dict):
        raise RequestError("the first line does not say where the documents are from", code="invalid_request")
    documents = shared.collections.ingests.bridge(pages, first[1:])
    return RootElsewhere(documents, first[0]["root"], first[0]["named"], first[0].get("empty", ()))


class _InTime:
    """Receives a body, and refuses a client that falls silent, or is slow while other ``ingests`` wait.

    If ``ingests`` is None, the client may be slow: commands of twinvec need a long time for some files, and send
    blank lines until they have read them.
    """

    def __init__(self, receive: Receive, ingests: Ingests | None) -> None:
        self._receive = receive
        self._ingests = ingests
        self._waited = 0.0
        self._received = 0

    async def __call__(self) -> Message:
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            message = await receive_in_time(self._receive)
        except TimeoutError:
            raise _late(describe_silence(), "client_silent") from None
        self._waited += clock() - begun
        self._received += len(message.get("body", b""))
        if self._waited > _SLOW_SECONDS + self._received / _LEAST_RATE and self._ingests and self._ingests.crowded:
            raise _late(f"sends less than {_LEAST_RATE:g} bytes a second while other ingests wait", "client_slow")
        return message


def _late(what: str, code: str) -> RequestError:
    return RequestError(
        f"the client {what} before the end of the body; committed documents stay; send the same request again",
        code=code,
        status=408,
        headers={"Connection": "close"},
    )


async def _pieces(request: Request, ended: asyncio.Event) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise ClientGoneError from None
    finally:
        ended.set()


def _of_json(body: bytes, shared: Services) -> list[Any]:
    if not body:
        raise RequestError(f"the body is empty; send {_EXPECTED}", code="invalid_request")
    try:
        values = parse_json(body, each_object=itself, decoder=decoder_for(body))
    except DocumentError as error:
        raise RequestError(f"the body is {error}", code="invalid_request") from None
    if isinstance(values, dict) and "documents" in values:
        if unknown := sorted(values.keys() - {"documents"}):
            raise RequestError(f"the key {unknown[0]!r:.80} is not known; leave it out", code="invalid_request")
        values = values["documents"]
    if not isinstance(values, list):
        raise RequestError(f"expected {_EXPECTED}", code="invalid_request")
    check_number(values, shared)
    return [_of_item(each, position) for position, each in enumerate(values)]


def _of_item(value: Any, position: int) -> Any:
    if isinstance(value, dict):
        return plain(value)
    got = type(value).__name__
    return Failure(f"document {position}", f"expected an object with an id and a text, got {got}", hides=True)


class _Form(MultiPartParser):
    """Parses a form, and notes whether the form is complete, because starlette accepts a form that was cut off."""

    has_end = False

    def on_end(self) -> None:
        self.has_end = True


@asynccontextmanager
async def _form_of(request: Request, shared: Services) -> AsyncIterator[FormData]:
    """Yield the form of a request; raise RequestError (400) if it is not valid or was cut off."""
    try:
        async with aclosing(request.stream()) as stream:
            parser = _Form(request.headers, stream, max_files=shared.settings.max_texts)
            form = await parser.parse()
    except MultiPartException as error:
        raise RequestError(error.message, code="invalid_request") from None
    except FormParserError:  # from older versions of starlette
        raise RequestError("Invalid multipart data.", code="invalid_request") from None
    try:
        if not parser.has_end:
            raise RequestError(
                "the form was cut off: its closing boundary is missing; send the whole form again",
                code="invalid_request",
            )
        yield form
    finally:
        await form.close()


async def _of_files(request: Request, shared: Services, stack: AsyncExitStack) -> Any:
    async with _form_of(request, shared) as form:
        files = [each for each in form.getlist("files") if isinstance(each, UploadFile)]
        if not files:
            raise RequestError(
                "the form has no files: give each file in a part with the name files",
                param="files",
                code="invalid_request",
            )
        folder = await shared.collections.run(UploadFolder)
        stack.push_async_callback(shared.collections.run, folder.remove)
        await save_files(files, folder.files)
    return await shared.collections.run(read_source, folder.files, gitignore=False)
