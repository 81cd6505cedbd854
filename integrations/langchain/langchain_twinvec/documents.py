"""Conversion between LangChain's documents, and the documents and hits of twinvec.

The metadata of a found document has two more keys. ``relevance_score`` is the final score; LangChain's rerankers use
the same key. ``twinvec_scores`` has the score of each stage by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.documents import Document

from twinvec import Document as Stored
from twinvec import Hit
from twinvec.adapters.earlier_scores import completed
from twinvec.adapters.metadata import plain_metadata
from twinvec.errors import DocumentError
from twinvec.text import is_list
from twinvec_qdrant import Failure

SCORE = "relevance_score"
SCORES = "twinvec_scores"


class ScoredDocument(Document):
    """A document whose comparison (==) ignores its scores.

    Retrievers with several queries, such as ``MultiQueryRetriever``, drop equal documents, and the scores of a document
    differ between queries. The class has the name ``Document``, because LangChain and LangGraph save an object with the
    name of its class, and LangGraph's strict mode restores only classes that it knows.
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        return _compared(self) == _compared(other)

    __hash__ = None  # type: ignore[assignment]  # as for Document

    def __reduce__(self) -> tuple[Any, ...]:
        return _scored, (self.page_content, self.metadata, self.id)


ScoredDocument.__module__, ScoredDocument.__qualname__ = Document.__module__, Document.__qualname__
ScoredDocument.__name__ = Document.__name__


def _scored(text: str, metadata: dict[str, Any], key: str | None) -> ScoredDocument:
    return ScoredDocument(page_content=text, metadata=metadata, id=key)


def check_documents(documents: object, hint: str = "; add_texts takes strings") -> list[Document]:
    """Return documents as a list; raise DocumentError for anything else. ``hint`` ends the error about an item."""
    if isinstance(documents, (Document, Mapping)) or not is_list(documents):
        raise DocumentError(f"documents: expected a list of documents, got {type(documents).__name__}")
    listed = list(cast("Iterable[Document]", documents))
    for index, each in enumerate(listed):
        if not hasattr(each, "page_content"):
            raise DocumentError(
                f"documents: item {index}: expected a Document(page_content=..., metadata=...), got "
                f"{type(each).__name__}{hint}"
            )
    return listed


def storable(key: str, text: str, metadata: Mapping[str, Any] | None) -> Stored | Failure:
    """Return the document to store, or a Failure if its metadata cannot be stored."""
    try:
        return Stored(key, text, payload=plain_metadata(key, metadata or {}))
    except DocumentError as error:
        return Failure(str(key), str(error))


def stored_document(stored: Stored) -> Document:
    """Return the LangChain document that a stored document was made from."""
    return Document(page_content=stored.text, metadata=dict(stored.payload), id=stored.id)


def document_of(hit: Hit) -> Document:
    """Return a document with the hit's id, text, payload and scores."""
    return _scored(hit.text, {**hit.payload, **_scores(hit)}, hit.id)


def hits_of(documents: Sequence[Document]) -> list[Hit]:
    """Return the documents as hits, with their scores and ids (default: the position); a missing score is the mean."""
    scores = completed([document.metadata.get(SCORE) for document in documents])
    return [_hit(document, position, scores[position]) for position, document in enumerate(documents)]


def _hit(document: Document, position: int, score: float) -> Hit:
    scores = document.metadata.get(SCORES)
    return Hit(
        id=document.id or str(position),
        text=document.page_content,
        score=score,
        scores=dict(scores) if isinstance(scores, Mapping) else {},
        payload={"position": position},
    )


def with_scores(document: Document, hit: Hit) -> Document:
    """Return a copy of the document with the hit's scores."""
    return _scored(document.page_content, {**document.metadata, **_scores(hit)}, document.id)


def _scores(hit: Hit) -> dict[str, Any]:
    return {SCORE: float(hit.score), SCORES: {stage: float(score) for stage, score in hit.scores.items()}}


def _compared(document: Document) -> tuple[Any, ...]:
    metadata = {key: value for key, value in document.metadata.items() if key not in (SCORE, SCORES)}
    return document.id, document.page_content, document.type, metadata
