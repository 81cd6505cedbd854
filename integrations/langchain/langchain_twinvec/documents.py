"""LangChain documents and twinvec hits, one as the other.

Scores travel in a document's metadata: ``relevance_score``, the final one, as LangChain's rerankers name it, and
``twinvec_scores``, those of all stages by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document

from twinvec import Hit

SCORE = "relevance_score"
SCORES = "twinvec_scores"


def document_of(hit: Hit) -> Document:
    """A document with the hit's id, text and payload, and its scores."""
    return Document(page_content=hit.text, metadata={**hit.payload, **_scores(hit)}, id=hit.id)


def hit_of(document: Document, position: int) -> Hit:
    """A hit with the scores that the document carries, else 0. ``position`` stands for a missing id."""
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
    """A copy of the document that carries the hit's scores."""
    return document.model_copy(update={"metadata": {**document.metadata, **_scores(hit)}})


def _scores(hit: Hit) -> dict[str, Any]:
    return {SCORE: float(hit.score), SCORES: {stage: float(score) for stage, score in hit.scores.items()}}
