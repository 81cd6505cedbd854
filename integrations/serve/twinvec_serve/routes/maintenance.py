"""The routes of maintenance: verify, repair, back up, restore, migrate, tune and reindex a collection."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import asdict

from fastapi import APIRouter, Depends, Request, Response

from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet
from twinvec_serve.errors import RequestError
from twinvec_serve.json_texts import JsonRoute
from twinvec_serve.routes.answers import ARCHIVE, ArchiveAnswer, json_answer
from twinvec_serve.routes.checks import known_query
from twinvec_serve.routes.collection_forms import (
    ERRORS,
    SILENT,
    Migrated,
    Migration,
    OthersDropped,
    Reindexed,
    Reindexing,
    Repaired,
    Restored,
    Tune,
    Tuned,
    Verified,
)
from twinvec_serve.routes.ingest_bodies import ARCHIVE_BODY, given_archive
from twinvec_serve.routes.presence import WhileConnected
from twinvec_serve.routes.progress import PROGRESS, work_answer
from twinvec_serve.safety.keys import writes
from twinvec_serve.services import Served

router = APIRouter(
    route_class=JsonRoute,
    prefix="/v1/collections/{name}",
    tags=["collections"],
    dependencies=[Depends(writes), Depends(known_query)],
    responses=ERRORS,
)


@router.get("/verify", response_model=Verified, summary="Verify a collection")
async def verify(name: str, shared: Served) -> Response:
    """Check that a collection holds everything that it has acknowledged. Its ingests and searches wait meanwhile."""
    opened = await shared.collections.open(name)
    return json_answer(asdict(await shared.collections.ingests.write(opened, opened.verify)))


@router.post("/repair", responses=PROGRESS, response_model=Repaired, summary="Repair a collection")
async def repair(name: str, request: Request, shared: Served) -> Response:
    """Repair a collection after its earlier ingests, as ``twinvec verify --repair`` does; its files may be damaged.

    Meanwhile, other requests for the collection get 503 and Retry-After. After the repair, ingest its documents again.
    The repair goes on if the client goes away. With ``Accept: text/event-stream``, the answer is a stream of events
    while the work goes on, then the report or the error.
    """
    return await work_answer(await shared.maintenance.repair(name), request, shared)


@router.get("/backup", responses=ARCHIVE, response_class=Response, summary="Back up a collection")
async def back_up(name: str, request: Request, shared: Served) -> Response:
    """Return a snapshot of the collection: a tar archive of the folder that ``twinvec restore`` reads.

    Its ingests and searches wait while the files are copied, and go on while the archive is sent.
    """
    stack = AsyncExitStack()
    async with WhileConnected(request):
        pieces = await stack.enter_async_context(shared.backups.archive(name))
    return ArchiveAnswer(pieces, stack)


@router.post(
    "/restore",
    responses={**PROGRESS, 408: SILENT},
    response_model=Restored,
    openapi_extra={"requestBody": ARCHIVE_BODY},
    summary="Restore a collection",
)
async def restore(name: str, request: Request, shared: Served) -> Response:
    """Make a new collection of a backup: a tar archive of the folder, as ``GET /v1/collections/NAME/backup`` sends it.

    The files are checked first. The collection appears as a whole or not at all. Its name must be free.
    """
    pieces, ended = given_archive(request, shared)
    return await work_answer(await shared.backups.restore(name, pieces), request, shared, ended)


@router.post("/migrate", responses=PROGRESS, response_model=Migrated | OthersDropped, summary="Migrate a collection")
async def migrate(name: str, wanted: Migration, request: Request, shared: Served) -> Response:
    """Move a collection to another model of this server, while its searches and ingests go on.

    The migration goes on if the client goes away. The next migration continues an interrupted one. With ``Accept:
    text/event-stream``, the answer is a stream of events with the progress, then the report or the error.
    """
    if (wanted.model is not None) is wanted.drop_others:
        raise RequestError("give either model or drop_others", code="invalid_request")
    if wanted.model is None:
        return json_answer({"dropped": await shared.maintenance.drop_others(name)})
    options = {"chunks_per_second": wanted.rate, "allow_truncation": wanted.allow_truncation}
    return await work_answer(await shared.maintenance.migrate(name, wanted.model, **options), request, shared)


@router.post("/reindex", responses=PROGRESS, response_model=Reindexed, summary="Rebuild the indexes of a collection")
async def reindex(name: str, wanted: Reindexing, request: Request, shared: Served) -> Response:
    """Rebuild the indexes, with other settings if they are given; searches go on meanwhile, and ingests wait.

    The work goes on if the client goes away. With ``Accept: text/event-stream``, the answer is a stream of events while
    the work goes on, then the report or the error.
    """
    return await work_answer(await shared.maintenance.reindex(name, **wanted.model_dump()), request, shared)


@router.post("/tune", responses=PROGRESS, response_model=Tuned, summary="Tune the searches of a collection")
async def tune(name: str, wanted: Tune, request: Request, shared: Served) -> Response:
    """Choose the best search settings of a collection, and store them with it; the next searches use them.

    The queries are judged queries, as ``twinvec tune --ir`` reads them, or passages of the collection's documents.
    Searches and ingests go on meanwhile. The work goes on if the client goes away. With ``Accept: text/event-stream``,
    the answer is a stream of events with the progress, then the report or the error.
    """
    data = _judged(wanted)
    return await work_answer(await shared.maintenance.tune(name, data, wanted.measure), request, shared)


def _judged(wanted: Tune) -> BeirSet | None:
    """Return the judged queries of a request, or None if it has none; errors are those of ``BeirSet``."""
    if not wanted.queries and not wanted.qrels:
        return None
    if not wanted.qrels:
        raise InputError("qrels is empty; say which documents answer the queries")
    texts = {each.id: each.text for each in wanted.queries}
    if len(texts) < len(wanted.queries):
        raise InputError("queries: an id is used twice; give each query its own _id")
    qrels: dict[str, dict[str, int]] = {}
    for each in wanted.qrels:
        qrels.setdefault(each.query, {})[each.document] = each.score
    queries = {query: texts[query] for query in qrels if query in texts}
    return BeirSet("the judged queries", [], queries, qrels)
