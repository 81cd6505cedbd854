"""Conversion between LangChain's documents and twinvec's hits.

A document carries scores in its metadata: ``relevance_score`` is the final score, as LangChain's rerankers call it, and
``twinvec_scores`` has the score of each stage by name.
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
    """Return a hit with the document's scores, or score 0. A document without an id gets its ``position`` as id."""
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
