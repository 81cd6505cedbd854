"""How ``TwinvecVectorStore`` searches its collection: by a text, by a vector, and by maximal marginal relevance.

Further arguments are those of the store's methods; unknown ones are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from langchain_twinvec.documents import stored_document
from twinvec import Hit
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import Mode, check_limit
from twinvec.support.checks import number
from twinvec_qdrant import (
    Collection,
    exact_search,
    filtered,
    refuse_foreign,
    understood_filter,
    vector_space,
    with_documents,
)

if TYPE_CHECKING:
    from qdrant_client import models

    from twinvec.retrieval.filters import Filter

    AnyFilter = Filter | models.Filter


def by_text(
    collection: Collection,
    query: str,
    k: int,
    filter: AnyFilter | None,
    mode: Mode,
    *,
    offset: int = 0,
    score_threshold: float | None = None,
    search_params: Any = None,
    weights: tuple[float, float] = (1.0, 1.0),
    **others: Any,
) -> list[tuple[Document, Hit]]:
    """Return the best documents for a text, each with its hit."""
    refuse_foreign(others)
    check_limit(k, "k")
    check_threshold(score_threshold)
    exact, conditions = exact_search(search_params), understood_filter(filter)
    hits = collection.search(query, k, mode, conditions, offset=offset, weights=weights, passages=False, exact=exact)
    if not query.strip():
        hits = filtered(collection, conditions, k, offset)
    return _with_documents(collection, hits, score_threshold)


def by_vector(
    collection: Collection,
    embedding: list[float],
    k: int,
    filter: AnyFilter | None,
    *,
    offset: int = 0,
    score_threshold: float | None = None,
    search_params: Any = None,
    **others: Any,
) -> list[tuple[Document, Hit]]:
    """Return the documents nearest to a vector, each with its hit."""
    exact = exact_search(search_params)
    refuse_foreign(others)
    check_limit(k, "k")
    check_threshold(score_threshold)
    space = vector_space(collection, embedding)
    hits = collection.search_vector(embedding, k, understood_filter(filter), offset=offset, exact=exact, space=space)
    return _with_documents(collection, hits, score_threshold)


def diverse(
    collection: Collection,
    query: str | list[float],
    k: int,
    fetch_k: int,
    lambda_mult: float,
    filter: AnyFilter | None,
    *,
    score_threshold: float | None = None,
    search_params: Any = None,
    **others: Any,
) -> list[tuple[Document, float]]:
    """Return documents that are near to a text or a vector and differ from each other, with their cosines."""
    refuse_foreign(others)
    check_limit(k, "k")
    check_threshold(score_threshold)
    check_limit(fetch_k, "fetch_k")
    diversity = 1 - number(lambda_mult, "lambda_mult", 0, 1)
    if exact_search(search_params):
        raise ConfigurationError(
            "search_params: maximal marginal relevance has no exact search; leave search_params out"
        )
    space, conditions = None if isinstance(query, str) else vector_space(collection, query), understood_filter(filter)
    hits = collection.search_diverse(query, k, conditions, candidates=fetch_k, diversity=diversity, space=space)
    if isinstance(query, str) and not query.strip():
        hits = filtered(collection, conditions, k)
    return [(document, hit.score) for document, hit in _with_documents(collection, hits, score_threshold)]


def check_threshold(score_threshold: float | None) -> None:
    """Raise ConfigurationError unless a threshold is a number or None; NaN is not a number."""
    if score_threshold is not None and math.isnan(number(score_threshold, "score_threshold")):
        raise ConfigurationError("score_threshold must be a number, got nan")


def relevance_of(hit: Hit) -> float:
    """Return the relevance of a hit, or its cosine mapped to 0 to 1 if the collection is not calibrated."""
    if hit.relevance is not None:
        return hit.relevance
    if "dense" not in hit.scores:
        raise ConfigurationError(
            "the collection is not calibrated, so hits of a sparse search have no relevance: run Collection.reindex, "
            "or search in mode 'dense' or 'hybrid'"
        )
    return (1 + min(1.0, max(-1.0, hit.scores["dense"]))) / 2


def _with_documents(collection: Collection, hits: Sequence[Hit], least: float | None) -> list[tuple[Document, Hit]]:
    good = [hit for hit in hits if least is None or hit.score >= least]
    return [(stored_document(stored), hit) for stored, hit in with_documents(collection, good)]
