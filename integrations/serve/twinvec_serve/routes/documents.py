"""The routes of a collection's documents: ingest, list, get, delete.

An ingest is answered when it has committed. A collection has one ingest at a time. Other ingests wait; if too many
wait, the answer is 429. If the client goes away after it has sent all documents, the ingest goes on. If the client goes
away or falls silent earlier, the ingest ends, and the committed documents stay.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from twinvec.errors import CollectionNotFoundError
from twinvec.support.checks import shown
from twinvec_qdrant import Collection, delete_documents, stored_documents
from twinvec_serve.errors import RequestError
from twinvec_serve.json_texts import JsonRoute
from twinvec_serve.own_commands import is_own_command
from twinvec_serve.routes.answers import json_answer
from twinvec_serve.routes.checks import known_query
from twinvec_serve.routes.collection_forms import (
    ERRORS,
    SILENT,
    Deleted,
    Deletion,
    DocumentList,
    Ids,
    Report,
    StoredDocument,
    StoredDocuments,
)
from twinvec_serve.routes.ingest_bodies import BODY, check_number, given_documents
from twinvec_serve.routes.progress import PROGRESS, work_answer
from twinvec_serve.safety.keys import reads, writes
from twinvec_serve.services import Served

router = APIRouter(
    route_class=JsonRoute,
    prefix="/v1/collections",
    tags=["documents"],
    dependencies=[Depends(known_query)],
    responses=ERRORS,
)

_MOST = 2**53 - 1  # JavaScript represents all integers up to this one exactly


@dataclass(frozen=True, slots=True)
class Options:
    """How to ingest; ``total`` is the number of documents, for the progress of a stream."""

    prune: Annotated[bool, Query(description="Delete the other documents of the same source.")] = False
    allow_empty: Annotated[bool, Query(description="Prune even if the request has no documents.")] = False
    source: Annotated[
        str | None, Query(description="Name of the source of the documents; default: the collection's first source.")
    ] = None
    dry_run: Annotated[bool, Query(description="Report what would change, and write nothing.")] = False
    total: Annotated[
        int | None, Query(ge=0, le=_MOST, description="Number of documents, for the progress of a stream.")
    ] = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Which documents to list."""

    source: Annotated[str | None, Query(description="Name of the documents' source; default: any.")] = None
    filter: Annotated[str | None, Query(description='Conditions on payloads, as JSON: {"lang": "en"}.')] = None
    pattern: Annotated[
        list[str] | None,
        Query(description="Pattern that the ids fit; * stands for any characters. Repeat for further patterns."),
    ] = None
    after: Annotated[str | None, Query(description="The next of the previous page.")] = None
    limit: Annotated[int, Query(ge=1, le=100_000, description="Largest number of documents on the page.")] = 1000


@router.post(
    "/{name}/documents",
    dependencies=[Depends(writes)],
    responses={**PROGRESS, 408: SILENT},
    response_model=Report,
    openapi_extra={"requestBody": BODY},
    summary="Ingest documents",
)
async def ingest(name: str, options: Annotated[Options, Depends()], request: Request, shared: Served) -> Response:
    """Add documents, and update changed ones; the answer comes when they are stored.

    With ``Accept: text/event-stream``, the answer is a stream of events with the progress, then the report or the
    error.
    """
    try:
        opened = await shared.collections.open(name)
    except CollectionNotFoundError as error:
        raise CollectionNotFoundError(f"{error}; POST /v1/collections creates a collection") from None
    stack = AsyncExitStack()
    try:
        documents, ended = await given_documents(request, shared, stack)
        given: dict[str, Any] = asdict(options)
        begun = shared.collections.ingests.begin(opened, documents, given.pop("total"), **given)
    except BaseException:
        await stack.aclose()
        raise
    begun.done.add_done_callback(lambda _: shared.collections.ingests.start(stack.aclose()))
    return await work_answer(begun, request, shared, ended)


@router.get(
    "/{name}/documents", dependencies=[Depends(reads)], response_model=DocumentList, summary="List the documents"
)
async def list_all(name: str, chosen: Annotated[Listing, Depends()], shared: Served) -> Response:
    """List the documents of a collection, a page at a time, sorted by id."""
    opened = await shared.collections.open(name)
    return await shared.collections.call(opened, _page, chosen)


@router.post(
    "/{name}/documents/get", dependencies=[Depends(reads)], response_model=StoredDocuments, summary="Get documents"
)
async def get(name: str, wanted: Ids, shared: Served) -> Response:
    """Return documents by their ids."""
    check_number(wanted.ids, shared)
    opened = await shared.collections.open(name)
    found = await shared.collections.call(opened, stored_documents, wanted.ids, nearest=wanted.nearest)
    if is_own_command():
        found["roots"] = await shared.collections.roots(opened)
    return json_answer(found)


@router.get("/{name}/roots", dependencies=[Depends(reads)], include_in_schema=False)
async def roots(name: str, shared: Served) -> Response:
    """Return the sources of the documents and how to read them, for commands that update the collection."""
    if not is_own_command():
        raise RequestError(
            "roots are only for commands that can read the store's folder", code="not_permitted", status=403
        )
    opened = await shared.collections.open(name)
    return json_answer({"data": await shared.collections.roots(opened)})


@router.get(
    "/{name}/documents/{identity:path}",
    dependencies=[Depends(reads)],
    response_model=StoredDocument,
    summary="Get a document",
)
async def get_one(name: str, identity: str, shared: Served) -> Response:
    """Return one document by its id."""
    opened = await shared.collections.open(name)
    found = await shared.collections.call(opened, stored_documents, [identity])
    if not found["documents"]:
        nearest = ", ".join(map(repr, found["nearest"].get(identity, [])))
        hint = f"; the nearest: {nearest}" if nearest else ""
        raise RequestError(f"no document {shown(identity)}{hint}", param="id", code="document_not_found", status=404)
    return json_answer(found["documents"][0])


@router.post(
    "/{name}/documents/delete", dependencies=[Depends(writes)], response_model=Deleted, summary="Delete documents"
)
async def delete(name: str, wanted: Deletion, shared: Served) -> Response:
    """Delete documents, by their ids, by a filter, or all of a source."""
    if sum(each is not None for each in (wanted.ids, wanted.filter, wanted.source)) != 1:
        raise RequestError("give one of ids, filter and source", code="invalid_request")
    check_number(wanted.ids or [], shared)
    opened = await shared.collections.open(name)
    work = partial(delete_documents, opened, wanted.ids, wanted.filter, wanted.source, dry_run=wanted.dry_run)
    return json_answer(await shared.collections.ingests.write(opened, work))


def _page(opened: Collection, chosen: Listing) -> Response:
    try:
        conditions = None if chosen.filter is None else json.loads(chosen.filter)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"filter is not JSON: {error}", param="filter", code="invalid_request") from None
    one_more = chosen.limit + 1  # it shows that there is a next page
    given = asdict(chosen) | {"filter": conditions, "limit": one_more}
    entries = [asdict(each) for each in opened.documents(**given)]
    page = entries[: chosen.limit]
    return json_answer({"documents": page, "next": page[-1]["id"] if len(entries) > len(page) else None})
