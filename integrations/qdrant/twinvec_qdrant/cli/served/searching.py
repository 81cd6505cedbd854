"""Searches of a store that a process serves: the process searches, and the command prints the hits as usual."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from twinvec.errors import CollectionNotFoundError, ConfigurationError
from twinvec_qdrant.asking import Answer, Asked, FoundHit
from twinvec_qdrant.cli.options import CollectionPlace
from twinvec_qdrant.serving.client import ServerClient
from twinvec_qdrant.serving.names import collection_path
from twinvec_qdrant.stored_roots import StoredRoot


def search_served(
    client: ServerClient, place: CollectionPlace, model: str | None, queries: Sequence[str], asked: Asked
) -> tuple[list[Answer], dict[str, list[StoredRoot]], dict[str, str]]:
    """Search the named collection, or all of the store; return answers, roots, and errors by collection."""
    name = place.name
    if name and model is not None:
        _check_model(client, name, model)
    try:
        found = client.post(collection_path(name, "/search") if name else "/v1/search", _body(queries, asked))
    except CollectionNotFoundError as error:
        if name:
            raise
        from twinvec_qdrant.several import no_collections

        raise no_collections("", place.path) from error
    failed = found.get("failed", {})
    several = not name and len(found["collections"]) + len(failed) > 1
    answers = [_answer(each, asked, several=several) for each in found["results"]]
    roots = {
        each if several else "": [StoredRoot.of_fields(root) for root in fields]
        for each, fields in found["roots"].items()
    }
    return answers, roots, failed


def _check_model(client: ServerClient, name: str, model: str) -> None:
    """Refuse a --model that is not the collection's, because the process searches with the collection's model."""
    recorded = client.get(collection_path(name))["model"]
    if model != recorded:
        raise ConfigurationError(
            f"the process that serves the store searches the collection {name!r} only with its model {recorded!r}; "
            f"leave --model {model} out"
        )


def _body(queries: Sequence[str], asked: Asked) -> dict[str, Any]:
    body = {
        "query": list(queries),
        "limit": asked.limit,
        "offset": asked.offset,
        "mode": asked.mode,
        "filter": asked.filter or None,
        "group": not asked.chunks,
        **{name: list(each) for name, each in asked.phrasings.items()},
        "min_relevance": asked.least,
        "everything": asked.everything,
        "syntax": asked.syntax,
        "rerank": asked.rerank,
        "candidates": asked.candidates,
        "passages": asked.passages,
    }
    return {name: value for name, value in body.items() if value is not None}


def _answer(found: Mapping[str, Any], asked: Asked, *, several: bool) -> Answer:
    hits = [FoundHit.of_fields(each, chunks=asked.chunks) for each in found["hits"]]
    if not several:
        hits = [replace(each, collection="") for each in hits]
    told = {name: found[name] for name in ("unknown", "corrected") if name in found}  # an older version lacks some
    named = tuple(found.get("named", ()))
    return Answer(found["query"], hits, found["seconds"], found["rerank_seconds"], named=named, **told)


def passages_for_output() -> Any:
    """Return the value of ``Asked.passages``: "states" if the output is a terminal, else "auto", which is faster.

    Loading the code for token states takes half as long as the rest of a search in a new process.
    """
    return "states" if sys.stdout.isatty() else "auto"
