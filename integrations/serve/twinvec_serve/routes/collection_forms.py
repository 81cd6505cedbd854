"""The bodies of requests about collections, and those of their answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from twinvec_serve.errors import ErrorAnswer
from twinvec_serve.routes.sizes import as_texts

_STRICT = ConfigDict(extra="forbid", strict=True)
_MOST = 10_000

Texts = Annotated[list[str], Field(fail_fast=True)]
"""Texts of a request. Validation stops at the first item that is not a text, since there may be millions of them."""

Quantization = Literal["none", "int8", "binary", "turbo"] | None
PayloadIndexTypes = dict[str, str | Literal[False]] | None
_QUANTIZATION = "Number format of the small copies of vectors that the index searches."
_PAYLOAD_INDEXES = 'Types of indexes of payload keys, or false for none; "*" stands for other keys.'

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request is not valid; the message says why."},
    404: {"model": ErrorAnswer, "description": "There is no such collection; the message lists those that there are."},
    409: {"model": ErrorAnswer, "description": "The collection has another model, or is being migrated."},
    429: {"model": ErrorAnswer, "description": "Too many requests wait; Retry-After says when to come again."},
    502: {"model": ErrorAnswer, "description": "The store is damaged, or refuses what the server asks of it."},
    503: {"model": ErrorAnswer, "description": "The store is busy or does not answer; try again."},
    507: {"model": ErrorAnswer, "description": "A limit of the store does not permit the request."},
}
"""How requests about collections fail."""


class CollectionInList(BaseModel):
    """One collection of the place."""

    name: str = Field(description="Its name.")
    documents: int | None = Field(description="Number of documents; null if the collection cannot be opened.")
    chunks: int | None = Field(description="Number of chunks that the documents are cut into.")
    model: str | None = Field(description="Name of its model; null if the collection cannot be read.")
    dim: int | None = Field(description="Size of its vectors.")
    descriptions: dict[str, str] = Field(
        description="What its sources hold, in the user's words, by the name of the source or SOURCE/FOLDER."
    )
    error: str | None = Field(default=None, description="Why the collection cannot be opened.")


class CollectionList(BaseModel):
    """The collections of the place."""

    data: list[CollectionInList] = Field(description="The collections, by name.")


class NewCollection(BaseModel):
    """A collection to make."""

    model_config = _STRICT

    name: str = Field(description="Its name.", min_length=1, max_length=200)
    model: str | None = Field(default=None, description="A model of this server; default: the first one.")
    exists_ok: bool = Field(
        default=False, description="Take a collection that exists, if these settings are not others than it has."
    )
    keep_model: bool = Field(default=False, description="With exists_ok: a collection that exists keeps its model.")
    chunking: bool | None = Field(default=None, description="False keeps documents whole; default: they are cut.")
    chunk_tokens: int | None = Field(
        default=None, ge=1, description="Largest chunk in tokens; default: what the model reads."
    )
    overlap: int | None = Field(default=None, ge=0, description="Tokens that neighbouring chunks share; default: 0.")
    surroundings: int | None = Field(
        default=None, ge=0, description="Tokens of text around a chunk that are embedded with it; default: 0."
    )
    language: str = Field(default="english", description="Language of the words that are compared (Snowball).")
    tenant_key: str | None = Field(default=None, description="Payload key that names a document's tenant.")
    late_interaction: bool | None = Field(default=None, description="Whether to store token states for maxsim.")
    quantization: Quantization = Field(default=None, description=_QUANTIZATION)
    payload_indexes: PayloadIndexTypes = Field(default=None, description=_PAYLOAD_INDEXES)

    @field_validator("name")
    @classmethod
    def _can_be_addressed(cls, name: str) -> str:
        if "/" in name or name in (".", "..") or not name.isprintable() or name != name.strip():
            raise ValueError("cannot be a part of an address: expected printable text without /")
        return name


class Search(BaseModel):
    """One or several queries, and how to search."""

    model_config = _STRICT

    query: Texts = Field(description="One text, or a list of texts.", min_length=1)
    limit: int = Field(default=10, ge=1, le=_MOST, description="Largest number of hits for each query.")
    offset: int = Field(default=0, ge=0, le=_MOST, description="Best hits to skip: those of the earlier pages.")
    mode: Literal["hybrid", "dense", "sparse"] | None = Field(
        default=None,
        description="By meaning, by words, or both; default: the collection's tuned setting, else hybrid.",
    )
    filter: dict[str, Any] | None = Field(default=None, description='Conditions on payloads, such as {"lang": "en"}.')
    group: bool = Field(default=True, description="The best chunk of each document; false gives every chunk.")
    words: Texts = Field(default=[], description="The query in key words, for BM25: a text or several.")
    answers: Texts = Field(default=[], description="Made-up answers, for the vectors (HyDE): a text or several.")
    min_relevance: float | None = Field(default=None, ge=0, le=1, description="Leave out hits of less relevance.")
    everything: bool = Field(default=False, description="All hits of min_relevance (default: 0.5) instead of limit.")
    syntax: bool = Field(default=False, description='Whether "exact phrase" must occur, and -word must not.')
    rerank: str | None = Field(
        default=None, description="none, maxsim, or a reranker of this server; default: as the collection is tuned."
    )
    candidates: int = Field(default=100, ge=1, le=_MOST, description="Hits to rerank.")
    passages: Literal["auto", "words", "states"] = Field(
        default="auto",
        description="How to find passages: by words, by token states (some 10 ms a hit), or by states where words do "
        "not suffice.",
    )

    @field_validator("query", "words", "answers", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return as_texts(value)

    @field_validator("query")
    @classmethod
    def _not_empty(cls, queries: list[str]) -> list[str]:
        for number, query in enumerate(queries, 1):
            if not query.strip():
                named = f"number {number} is empty" if len(queries) > 1 else "is empty"
                raise ValueError(f"{named}; expected words to look for")
        return queries


class PassageOfHit(BaseModel):
    """The part of a hit's text that answers the query."""

    text: str = Field(description="The passage.")
    start: int = Field(description="Where it begins in the hit's text, in characters.")
    end: int = Field(description="Where it ends there.")
    matches: list[tuple[int, int]] = Field(description="Where words of the query stand in it: start and end.")


class FoundHit(BaseModel):
    """One hit, as ``twinvec search --json`` prints it."""

    id: str = Field(description="Id of the document; of a chunk, with # and its position.")
    text: str = Field(description="The text that was found.")
    score: float = Field(description="The score of the last stage; larger is better.")
    scores: dict[str, float] = Field(description="The score of every stage.")
    payload: dict[str, Any] = Field(description="The document's payload, and the chunk's place.")
    relevance: float | None = Field(description="How likely it answers the query, from 0 to 1, if that is measured.")
    passage: PassageOfHit | None = Field(description="The part of the text that answers the query.")
    page: int | None = Field(default=None, description="The page on which the passage starts, if that is known.")
    described: str | None = Field(default=None, description="What its source holds, in the user's words.")
    collection: str | None = Field(default=None, description="Its collection, in a search of all collections.")


class FoundForQuery(BaseModel):
    """The hits of one query."""

    query: str = Field(description="The query.")
    hits: list[FoundHit] = Field(description="The hits, best first.")
    seconds: float = Field(description="How long the search took.")
    rerank_seconds: float | None = Field(description="How long the reranker took; null without one.")
    unknown: bool = Field(description="Whether the query consists mostly of words that the model does not know.")
    named: list[str] = Field(description="The id of the document that the query names, if it names one.")


class Found(BaseModel):
    """The hits of all queries."""

    results: list[FoundForQuery] = Field(description="One for each query, in their order.")
    collections: list[str] = Field(description="The collections that were searched.")
    failed: dict[str, str] | None = Field(default=None, description="Why collections could not be searched, by name.")


class Report(BaseModel):
    """What an ingest did; the first five, and ``empty``, count documents."""

    new: int = Field(description="Added to the collection.")
    updated: int = Field(description="Replaced, since text, title or payload differ.")
    unchanged: int = Field(description="Already in the collection.")
    deleted: int = Field(description="Removed because the ingest did not bring them (prune).")
    failed: int = Field(description="Not ingested; an older version stays in the collection.")
    failures: list[tuple[str, str]] = Field(description="Source and reason of each failed document.")
    chunks: int = Field(description="Chunks written.")
    encoded: int = Field(description="Texts of chunks encoded.")
    truncated: int = Field(description="Chunks written that are longer than the model reads.")
    unknown: int = Field(description="Chunks written that consist mostly of words that the model does not know.")
    empty: int = Field(description="Documents without text, which are not in the collection.")
    empties: list[tuple[str, str]] = Field(description="Source and reason of each empty document.")
    warnings: list[str] = Field(description="What the log has warned of, such as documents that were not pruned.")


class Verified(BaseModel):
    """What a check of a collection found."""

    sources: int = Field(description="Documents.")
    chunks: int = Field(description="Chunks that the documents should have.")
    incomplete: list[str] = Field(description="Documents that lack chunks or vectors, until they are ingested again.")
    forgotten: list[str] = Field(description="Documents with chunks but without a record; searches do not show them.")
    stray: int = Field(description="Chunks of no document, which a writer left that died; searches do not show them.")
    repaired: bool = Field(description="Always false: twinvec verify --repair repairs, when no server has the store.")


class Migration(BaseModel):
    """A migration to a model of this server, or the end of the way back from one."""

    model_config = _STRICT

    model: str | None = Field(default=None, description="The new model: one that the server was started with.")
    rate: float | None = Field(
        default=None, ge=1, allow_inf_nan=False, description="Largest number of chunks to encode per second."
    )
    allow_truncation: bool = Field(
        default=False, description="Migrate even if the new model truncates some of the chunks."
    )
    drop_others: bool = Field(
        default=False,
        description="Instead of model: delete the vectors of every model but the current one, and give up a migration.",
    )


class Migrated(BaseModel):
    """What a migration did."""

    model: str = Field(description="Name of the new model, as the collection records it.")
    encoded: int = Field(description="Chunks encoded; an earlier, unfinished migration may have encoded others.")
    truncated: int = Field(description="Encoded chunks that are longer than the new model reads.")
    switched: bool = Field(description="Whether the collection now uses the new model.")


class OthersDropped(BaseModel):
    """The models whose vectors were deleted."""

    dropped: list[str] = Field(description="Names of the models.")


class Reindexing(BaseModel):
    """New settings; all that are left out stay as they are."""

    model_config = _STRICT

    quantization: Quantization = Field(default=None, description=_QUANTIZATION)
    payload_indexes: PayloadIndexTypes = Field(default=None, description=_PAYLOAD_INDEXES)
    cut_code: bool | None = Field(
        default=None, description="From the next ingest: cut code at functions and classes, in all languages."
    )
    pages: bool | None = Field(default=None, description="From the next ingest: keep the page of each chunk of a PDF.")
    surroundings: int | None = Field(
        default=None, ge=0, description="From the next ingest: tokens of text around a chunk that are embedded with it."
    )


class Reindexed(BaseModel):
    """The state of the indexes."""

    settings: str = Field(description="The settings of the vectors' index, in words.")
    chunks: int = Field(description="Chunks in the collection.")
    indexed: int = Field(description="About how many of them are in the index; the others are compared one by one.")
    recall: float | None = Field(
        description="Share of the exact ten nearest chunks that searches find, for a sample; null without chunks."
    )
    payload_indexes: dict[str, str] = Field(description="Type of the index of every payload key that has one.")


class Dropped(BaseModel):
    """The collection that was dropped."""

    dropped: str = Field(description="Its name.")


class Ids(BaseModel):
    """Documents to get."""

    model_config = _STRICT

    ids: Texts = Field(description="Ids of documents.", min_length=1)
    nearest: bool = Field(default=True, description="Look for the ids that are closest to the first missing ones.")


class StoredDocument(BaseModel):
    """A document as the collection holds it."""

    id: str = Field(description="Its id.")
    text: str = Field(description="What was embedded: its chunks, joined by blank lines.")
    payload: dict[str, Any] = Field(description="Its payload.")
    described: str | None = Field(default=None, description="What its source holds, in the user's words.")


class StoredDocuments(BaseModel):
    """The documents that are there, and the ids that are not."""

    documents: list[StoredDocument] = Field(description="The documents, in the order of the ids.")
    missing: list[str] = Field(description="Ids of which there is no document.")
    nearest: dict[str, list[str]] = Field(description="For the first missing ids, the ids that are closest.")


class Deletion(BaseModel):
    """Documents to delete: by their ids, by a filter, or all of a source."""

    model_config = _STRICT

    ids: list[str] | None = Field(default=None, description="Ids of documents.", min_length=1, fail_fast=True)
    filter: dict[str, Any] | None = Field(default=None, description="Conditions on payloads.", min_length=1)
    source: str | None = Field(default=None, description="Name of a source, which is removed with its documents.")
    dry_run: bool = Field(default=False, description="Say what would be deleted, and delete nothing.")


class Deleted(BaseModel):
    """What was deleted."""

    deleted: int = Field(description="Number of documents that were deleted.")
    documents: list[str] = Field(description="Ids of the documents that were found.")
    missing: list[str] = Field(description="Ids of which there is no document.")
