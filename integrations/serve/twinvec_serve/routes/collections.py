"""The routes of collections: list, describe, create, drop, search. ``maintenance`` has the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, Request, Response

from twinvec import TwinvecError
from twinvec.retrieval.relevance import DEFAULT_MIN_RELEVANCE
from twinvec_qdrant import Asked, ChunkSettings, Collection, CollectionEntry, IndexSettings
from twinvec_serve.collections.open_collections import EXISTS, OpenCollections, Searched
from twinvec_serve.errors import RequestError, error_for_client
from twinvec_serve.json_texts import JsonRoute
from twinvec_serve.own_commands import is_own_command
from twinvec_serve.routes.answers import json_answer
from twinvec_serve.routes.checks import check_sizes, known_query
from twinvec_serve.routes.collection_forms import (
    ERRORS,
    CollectionList,
    Dropped,
    Found,
    NewCollection,
    Search,
    SearchOfSeveral,
)
from twinvec_serve.routes.presence import WhileConnected
from twinvec_serve.safety.keys import reads, writes
from twinvec_serve.services import Served, Services

router = APIRouter(
    route_class=JsonRoute, prefix="/v1", tags=["collections"], dependencies=[Depends(known_query)], responses=ERRORS
)

_OWN_RERANKERS = ("none", "maxsim")


@router.get(
    "/collections", dependencies=[Depends(reads)], response_model=CollectionList, summary="List the collections"
)
async def list_all(shared: Served) -> Response:
    """List the collections of the store, with the descriptions of their sources."""
    data = [await _in_list(shared.collections, each) for each in await shared.collections.entries()]
    return json_answer({"data": data})


@router.get("/collections/{name}", dependencies=[Depends(reads)], summary="Describe a collection")
async def describe(name: str, shared: Served) -> dict[str, Any]:
    """Return the size, model and settings of a collection, as ``twinvec info --json`` prints them.

    Only commands on the server's machine get the ``location`` of the collection and of its sources.
    """
    return await _info(await shared.collections.open(name), shared)


@router.delete(
    "/collections/{name}", dependencies=[Depends(writes)], response_model=Dropped, summary="Drop a collection"
)
async def drop(name: str, shared: Served) -> Response:
    """Delete a collection and all its contents for ever, after the ingests that came before."""
    await shared.collections.drop(name)
    return json_answer({"dropped": name})


@router.post("/collections", dependencies=[Depends(writes)], status_code=201, summary="Make a collection")
async def create(wanted: NewCollection, shared: Served, response: Response) -> dict[str, Any]:
    """Make a collection, and return the answer of ``GET /v1/collections/NAME``.

    If the collection exists, the status is 200 with ``exists_ok``, otherwise 409.
    """
    given: dict[str, Any] = {
        "chunking": _chunking(wanted),
        "index": None if wanted.quantization is None else IndexSettings(wanted.quantization),
        "tenant_key": wanted.tenant_key,
        "late_interaction": wanted.late_interaction,
        "language": wanted.language,
        "payload_indexes": wanted.payload_indexes,
    }
    model = None if wanted.model is None else shared.models.served_name(wanted.model)
    try:
        opened = await shared.collections.create(wanted.name, model, given)
    except RequestError as error:
        if not wanted.exists_ok or error.code != EXISTS:
            raise
        await shared.collections.check(wanted.name, None if wanted.keep_model else model, given)
        response.status_code = 200
        opened = await shared.collections.open(wanted.name)
    return await _info(opened, shared)


@router.post(
    "/collections/{name}/search", dependencies=[Depends(reads)], response_model=Found, summary="Search a collection"
)
async def search(name: str, wanted: Search, request: Request, shared: Served) -> Response:
    """Search a collection by meaning, by words or both."""
    return await _search(name, wanted, request, shared)


@router.post("/search", dependencies=[Depends(reads)], response_model=Found, summary="Search all collections, or some")
async def search_all(wanted: SearchOfSeveral, request: Request, shared: Served) -> Response:
    """Search all or some collections, each with its own model; their hits are compared by relevance."""
    return await _search(None, wanted, request, shared, among=wanted.collections)


async def _search(
    name: str | None, wanted: Search, request: Request, shared: Services, among: Sequence[str] | None = None
) -> Response:
    for param in ("query", "words", "answers"):
        check_sizes(getattr(wanted, param), shared.settings, param)
    asked = _asked(wanted, shared)
    async with WhileConnected(request):
        found = await shared.collections.search(name, wanted.query, asked, among=among)
        answer = partial(_found, found, with_roots=is_own_command())
        return await shared.collections.run(answer)


def _asked(wanted: Search, shared: Services) -> Asked:
    rerank: Any = wanted.rerank
    if rerank is not None and rerank not in _OWN_RERANKERS:
        rerank = shared.models.reranker(rerank)
    phrasings = {"words": wanted.words, "answers": wanted.answers}
    return Asked(
        wanted.mode,
        rerank,
        wanted.limit,
        wanted.offset,
        wanted.candidates,
        wanted.filter,
        not wanted.group,
        DEFAULT_MIN_RELEVANCE if wanted.everything and wanted.min_relevance is None else wanted.min_relevance,
        everything=wanted.everything,
        phrasings={key: each for key, each in phrasings.items() if each},
        syntax=wanted.syntax,
        passages=wanted.passages,
    )


def _found(found: Searched, *, with_roots: bool) -> Response:
    results = [
        {
            "query": each.query,
            "hits": [hit.as_fields() for hit in each.hits],
            "seconds": each.searched,
            "rerank_seconds": each.reranked,
            "unknown": each.unknown,
            "named": each.named,
            "corrected": each.corrected,
        }
        for each in found.answers
    ]
    failed = {"failed": found.failed} if found.failed else {}
    roots = {"roots": found.roots} if with_roots else {}
    return json_answer({"results": results, "collections": found.names, **failed, **roots})


async def _info(opened: Collection, shared: Services) -> dict[str, Any]:
    """Return what ``twinvec info --json`` prints; only commands get the places of the collection and its sources."""
    info = await shared.collections.call(opened, Collection.info)
    if not is_own_command():
        for each in (info, *info.get("roots", [])):
            del each["location"]
    return info


async def _in_list(collections: OpenCollections, entry: CollectionEntry) -> dict[str, Any]:
    try:
        opened = await collections.open(entry.name)
        info = await collections.call(opened, Collection.info)
    except (TwinvecError, RequestError) as error:
        unknown: dict[str, Any] = {"documents": None, "chunks": None, "descriptions": {}}
        told = error_for_client(error).message
        return {"name": entry.name, "model": entry.model, "dim": entry.dim, **unknown, "error": told}
    described = {
        f"{root['name']}/{path}".rstrip("/"): text
        for root in info.get("roots", [])
        for path, text in root.get("described", {}).items()
    }
    return {
        "name": entry.name,
        "documents": info["sources"],
        "chunks": info["points"],
        "model": info["model"],
        "dim": info["dim"],
        "descriptions": described,
    }


def _chunking(wanted: NewCollection) -> ChunkSettings | None:
    given = (wanted.chunk_tokens, wanted.overlap, wanted.surroundings)
    if wanted.chunking is False:
        if any(each is not None for each in given):
            raise RequestError("chunking is false: leave out chunk_tokens, overlap and surroundings", param="chunking")
        return ChunkSettings(enabled=False)
    if all(each is None for each in given):
        return None
    return ChunkSettings(
        max_tokens=wanted.chunk_tokens, overlap=wanted.overlap or 0, surroundings=wanted.surroundings or 0
    )
