"""Conversion between LangChain's documents and twinvec's hits.

The metadata of a document has its final score as ``relevance_score``, as LangChain's rerankers call it, and the score
of each stage by name as ``twinvec_scores``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document

from twinvec import Hit

SCORE = "relevance_score"
SCORES = "twinvec_scores"


def document_of(hit: Hit) -> Document:
    """Return a document with the hit's id, text, payload and scores."""
    return Document(page_content=hit.text, metadata={**hit.payload, **_scores(hit)}, id=hit.id)


def hit_of(document: Document, position: int) -> Hit:
    """Return a hit with the document's scores (default: 0) and its id (default: its ``position``)."""
    scores = document.metadata.get(SCORES)
    score = document.metadata.get(SCORE)
    return Hit(
        id=document.id or str(position),
        text=document.page_content,
        score=float(score) if isinstance(score, (int, float)) else 0.0,
        scores=dict(scores) if isinstance(scores, Mapping) else {},
        payload={"position": position},
    )


def with_scores(document: Document, hit: Hit) -> Document:
    """Return a copy of the document with the hit's scores."""
    return document.model_copy(update={"metadata": {**document.metadata, **_scores(hit)}})


def _scores(hit: Hit) -> dict[str, Any]:
    return {SCORE: float(hit.score), SCORES: {stage: float(score) for stage, score in hit.scores.items()}}
