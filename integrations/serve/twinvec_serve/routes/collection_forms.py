"""The bodies of requests about collections, and the bodies of the answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from twinvec_serve.errors import ErrorAnswer
from twinvec_serve.routes.checks import as_texts, expecting

_STRICT = ConfigDict(extra="forbid", strict=True)
_MOST = 10_000  # the limit of ``twinvec search``
_LEAST_RATE = 0.01  # the limit of ``twinvec migrate``

Texts = Annotated[list[str], Field(fail_fast=True)]
"""Texts of a request. Validation stops at the first item that is not a text, since there may be millions of them."""

Quantization = Literal["none", "int8", "binary", "turbo"] | None
_IndexType = Annotated[
    str | Literal[False],
    expecting("the type of an index, or false", lambda each: each is False or isinstance(each, str)),
]
PayloadIndexTypes = dict[str, _IndexType] | None
_QUANTIZATION = "Number format of the small copies of vectors that the index searches."
_PAYLOAD_INDEXES = 'Type of the index of each payload key, or false for no index; "*" stands for other keys.'

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request is not valid; the message says why."},
    404: {"model": ErrorAnswer, "description": "There is no such collection; the message lists the existing ones."},
    409: {"model": ErrorAnswer, "description": "The collection has another model, or is being migrated or tuned."},
    429: {"model": ErrorAnswer, "description": "Too many requests wait; Retry-After says when to try again."},
    502: {"model": ErrorAnswer, "description": "The store is damaged, or refuses a request of the server."},
    503: {"model": ErrorAnswer, "description": "The store is busy or does not answer; try again."},
    507: {"model": ErrorAnswer, "description": "A limit of the store does not permit the request."},
}
"""The errors of requests about collections."""

SILENT = {"model": ErrorAnswer, "description": "The client was silent for a minute before the end of the body."}
"""The error of a request whose body is read while the body arrives."""


class CollectionInList(BaseModel):
    """One collection of the store."""

    name: str = Field(description="Its name.")
    documents: int | None = Field(description="Number of documents; null if the collection cannot be opened.")
    chunks: int | None = Field(description="Number of chunks that the documents are cut into.")
    model: str | None = Field(description="Name of its model; null if the collection cannot be read.")
    dim: int | None = Field(description="Size of its vectors.")
    descriptions: dict[str, str] = Field(
        description="Descriptions of its sources in the user's words, by the name of the source or SOURCE/FOLDER."
    )
    error: str | None = Field(default=None, description="Why the collection cannot be opened.")


class CollectionList(BaseModel):
    """The collections of the store."""

    data: list[CollectionInList] = Field(description="The collections, sorted by name.")


class NewCollection(BaseModel):
    """A collection to make."""

    model_config = _STRICT

    name: str = Field(description="Its name.", min_length=1, max_length=200)
    model: str | None = Field(default=None, description="A model of this server; default: the first one.")
    exists_ok: bool = Field(
        default=False, description="Accept an existing collection, unless its settings differ from these."
    )
    keep_model: bool = Field(default=False, description="With exists_ok: an existing collection keeps its model.")
    chunking: bool | None = Field(default=None, description="Whether to cut documents into chunks; default: true.")
    chunk_tokens: int | None = Field(
        default=None, ge=1, description="Largest chunk in tokens; default: the model's limit."
    )
    overlap: int | None = Field(default=None, ge=0, description="Tokens that neighbouring chunks share; default: 0.")
    surroundings: int | None = Field(
        default=None, ge=0, description="Tokens of text around a chunk that are embedded with it; default: 0."
    )
    language: str = Field(default="english", description="Language of the texts, for BM25 (a stemmer of Snowball).")
    tenant_key: str | None = Field(default=None, description="Payload key that names a document's tenant.")
    late_interaction: bool | None = Field(default=None, description="Whether to store token states for maxsim.")
    quantization: Quantization = Field(default=None, description=_QUANTIZATION)
    payload_indexes: PayloadIndexTypes = Field(default=None, description=_PAYLOAD_INDEXES)

    @field_validator("name")
    @classmethod
    def _can_be_addressed(cls, name: str) -> str:
        if "/" in name or name in (".", "..") or not name.isprintable() or name != name.strip():
            raise ValueError("cannot be part of a URL: expected printable text without /")
        return name


class Search(BaseModel):
    """One or several queries, and how to search."""

    model_config = _STRICT

    query: Texts = Field(description="One text, or a list of texts.", min_length=1)
    limit: int = Field(default=10, ge=1, le=_MOST, description="Largest number of hits for each query.")
    offset: int = Field(default=0, ge=0, le=_MOST, description="Number of best hits to skip, for a later page.")
    mode: Literal["hybrid", "dense", "sparse"] | None = Field(
        default=None,
        description="Search by meaning (dense), words (sparse) or both (hybrid); default: the collection's tuned "
        "setting, else hybrid.",
    )
    filter: dict[str, Any] | None = Field(default=None, description='Conditions on payloads, such as {"lang": "en"}.')
    group: bool = Field(default=True, description="Whether to return only the best chunk of each document.")
    words: Texts = Field(
        default=[], description="Further forms of the query in key words, for BM25: one text or a list."
    )
    answers: Texts = Field(
        default=[], description="Made-up answers to the query, for the vectors (HyDE): one text or a list."
    )
    min_relevance: float | None = Field(default=None, ge=0, le=1, description="Leave out hits with a lower relevance.")
    everything: bool = Field(
        default=False,
        description="Return all hits with min_relevance (default: 0.5) or more; limit and offset have no effect.",
    )
    syntax: bool = Field(
        default=False, description="Whether a phrase in quotes must occur, and a word after - must not."
    )
    rerank: str | None = Field(
        default=None, description="none, maxsim, or a reranker of this server; default: the collection's tuned setting."
    )
    candidates: int = Field(default=100, ge=1, le=_MOST, description="Number of hits to rerank.")
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


class SearchOfSeveral(Search):
    """A search of all collections, or of some."""

    collections: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = Field(
        default=None, description="Names of the collections to search; default: all."
    )


class PassageOfHit(BaseModel):
    """The part of a hit's text that answers the query."""

    text: str = Field(description="The passage.")
    start: int = Field(description="Where the passage begins in the hit's text, in characters.")
    end: int = Field(description="Where the passage ends in the hit's text.")
    matches: list[tuple[int, int]] = Field(description="Start and end of each word of the query in the passage.")


class FoundHit(BaseModel):
    """One hit, as ``twinvec search --json`` prints it."""

    id: str = Field(description="Id of the document, or of a chunk: the document's id, # and the chunk's position.")
    text: str = Field(description="The text that was found.")
    score: float = Field(description="The score of the last stage; larger is better.")
    scores: dict[str, float] = Field(description="The score of every stage.")
    payload: dict[str, Any] = Field(description="The document's payload, and the position of the chunk.")
    relevance: float | None = Field(
        description="How likely the hit answers the query, from 0 to 1; null if the collection is not calibrated."
    )
    passage: PassageOfHit | None = Field(description="The part of the text that answers the query.")
    page: int | None = Field(default=None, description="The page on which the passage starts, if it is known.")
    described: str | None = Field(
        default=None, description="Description of the document's source, in the user's words."
    )
    collection: str | None = Field(default=None, description="Collection of the hit, at /v1/search.")


class FoundForQuery(BaseModel):
    """The hits of one query."""

    query: str = Field(description="The query.")
    hits: list[FoundHit] = Field(description="The hits, best first.")
    seconds: float = Field(description="How long the search took.")
    rerank_seconds: float | None = Field(description="How long the reranker took; null without one.")
    unknown: bool = Field(description="Whether the query consists mostly of words that the model does not know.")
    named: list[str] = Field(description="The id of the document that the query names, if it names one.")
    corrected: str = Field(description="The query with corrected spelling; empty if nothing was corrected.")


class Found(BaseModel):
    """The hits of all queries."""

    results: list[FoundForQuery] = Field(description="The hits of each query, in the order of the queries.")
    collections: list[str] = Field(description="The collections that were searched.")
    failed: dict[str, str] | None = Field(
        default=None, description="Names of collections that could not be searched, with the reasons."
    )


class Report(BaseModel):
    """The result of an ingest. The first five fields, and ``empty``, count documents."""

    new: int = Field(description="Documents added to the collection.")
    updated: int = Field(description="Documents replaced, because text, title or payload differ.")
    unchanged: int = Field(description="Documents that the collection had already.")
    deleted: int = Field(description="Documents removed, because the ingest did not contain them (prune).")
    failed: int = Field(description="Documents not ingested; their older versions stay in the collection.")
    failures: list[tuple[str, str]] = Field(description="Source and reason of each failed document.")
    chunks: int = Field(description="Chunks written.")
    encoded: int = Field(description="Texts of chunks encoded.")
    truncated: int = Field(description="Chunks written that are longer than the model reads.")
    unknown: int = Field(description="Chunks written that consist mostly of words that the model does not know.")
    empty: int = Field(description="Documents without text, which are not in the collection.")
    empties: list[tuple[str, str]] = Field(description="Source and reason of each empty document.")
    warnings: list[str] = Field(description="Warnings, such as that documents were not pruned.")


class Verified(BaseModel):
    """The result of a check of a collection."""

    sources: int = Field(description="Number of documents.")
    chunks: int = Field(description="Number of chunks that the documents should have.")
    incomplete: list[str] = Field(description="Documents that lack chunks or vectors, until they are ingested again.")
    forgotten: list[str] = Field(description="Documents with chunks but without a record; searches do not show them.")
    stray: int = Field(
        description="Number of chunks without a document, left by a killed writer; searches do not show them."
    )
    repaired: bool = Field(description="Whether the collection was repaired: false for verify, true for repair.")


class Repaired(Verified):
    """The result of a repair. The last three fields are missing if no file was damaged."""

    damaged: list[str] | None = Field(default=None, description="Files that differ from what was written.")
    lost: int | None = Field(
        default=None, description="Number of documents that have left no trace; above 0, ingest all documents again."
    )
    lost_notes: int | None = Field(
        default=None, description="Number of notes that are lost, such as the list of the collection's sources."
    )


class Migration(BaseModel):
    """A migration to a model of this server, or the removal of the vectors of all other models."""

    model_config = _STRICT

    model: str | None = Field(default=None, description="The new model, by its name on this server.")
    rate: float | None = Field(
        default=None, ge=_LEAST_RATE, allow_inf_nan=False, description="Largest number of chunks to encode per second."
    )
    allow_truncation: bool = Field(
        default=False, description="Migrate even if the new model truncates some of the chunks."
    )
    drop_others: bool = Field(
        default=False,
        description="Instead of model: delete the vectors of every model but the current one, and give up a migration.",
    )


class Migrated(BaseModel):
    """The result of a migration."""

    model: str = Field(description="Name of the new model, as the collection records it.")
    encoded: int = Field(description="Chunks encoded; an earlier, unfinished migration may have encoded others.")
    truncated: int = Field(description="Encoded chunks that are longer than the new model reads.")
    switched: bool = Field(description="Whether the collection now uses the new model.")


class OthersDropped(BaseModel):
    """The models whose vectors were deleted."""

    dropped: list[str] = Field(description="Names of the models.")


class Restored(BaseModel):
    """What was restored."""

    collection: str = Field(description="Name of the collection in the backup.")
    time: str = Field(description="When the backup was made, in UTC.")
    points: dict[str, int] = Field(description="Number of chunks, records (one for each document) and notes.")


class JudgedQuery(BaseModel):
    """A query, as a line of queries.jsonl in the BEIR layout; other keys of the line are ignored."""

    model_config = ConfigDict(strict=True)

    id: str = Field(alias="_id", description="Its id.")
    text: str = Field(description="Its text.", min_length=1)


class Judgement(BaseModel):
    """A judgement, as a line of qrels/SPLIT.tsv in the BEIR layout."""

    model_config = _STRICT

    query: str = Field(alias="query-id", description="Id of the query.")
    document: str = Field(alias="corpus-id", description="Id of the document in the collection.")
    score: int = Field(description="Its relevance; 0 for a document that is not relevant.")


class Tune(BaseModel):
    """Queries with known answers; without them, passages are cut out of the collection's own documents."""

    model_config = _STRICT

    queries: list[JudgedQuery] = Field(default=[], description="At least ten queries.", fail_fast=True)
    qrels: list[Judgement] = Field(default=[], description="Which documents answer the queries.", fail_fast=True)
    measure: str = Field(
        default="ndcg@10",
        pattern=r"^(ndcg|mrr|map|recall|precision)@[1-9]\d{0,2}$",
        description="The measure that decides, such as ndcg@10, mrr@10, map@100 or recall@10.",
    )


class TunedSetting(BaseModel):
    """A setting of a search."""

    mode: Literal["hybrid", "dense", "sparse"] = Field(description="The mode of the first stage.")
    words: float = Field(description="Weight of words against vectors in a hybrid search.")
    mix: float = Field(description="Weight of MaxSim as a second stage; 0 for none.")
    candidates: int = Field(description="Number of hits that MaxSim reranks.")
    feedback: int = Field(description="Number of first hits that steer a second search; 0 for none.")


class Gain(BaseModel):
    """A difference of means over the same queries, with its interval."""

    difference: float = Field(description="The difference.")
    interval: dict[str, float] = Field(description="Its bounds, low and high, and the confidence.")
    p_value: float = Field(description="The p-value of a paired test.")


class Tuned(BaseModel):
    """The chosen setting and its gain, as ``twinvec tune --json`` prints them, and warnings."""

    setting: TunedSetting = Field(description="The chosen setting, which searches of the collection now use.")
    measure: str = Field(description="The measure that decided.")
    expected: float = Field(description="Its mean on queries that were left out of the choice (cross-validation).")
    single: TunedSetting = Field(description="The better one of dense and sparse search alone.")
    gain: Gain = Field(description="Gain of expected over single.")
    figures: dict[str, float] = Field(description="The mean measure of each setting, by the setting in words.")
    queries: int = Field(description="Number of queries.")
    pseudo: bool = Field(description="Whether the queries are passages that were cut out of documents.")
    gain_over_plain: Gain = Field(description="Gain of expected over plain hybrid search; this gain decides.")
    milliseconds: dict[str, float] = Field(
        description="Median time of a search: plain for plain hybrid search, chosen for the setting."
    )
    warnings: list[str] = Field(description="Warnings, such as that the collection lacks relevant documents.")


class Reindexing(BaseModel):
    """New settings of the indexes; settings that are left out stay as they are."""

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
    indexed: int = Field(description="Approximate number of chunks in the index; the others are compared one by one.")
    recall: float | None = Field(
        description="Share of the ten nearest chunks that a search finds, measured on a sample; null without chunks."
    )
    payload_indexes: dict[str, str] = Field(description="Type of the index of every payload key that has one.")
    erased: bool = Field(
        description="Whether the collection's files now hold nothing of what was deleted or replaced before; false on "
        "a Qdrant server."
    )


class Dropped(BaseModel):
    """The collection that was dropped."""

    dropped: str = Field(description="Its name.")


class Ids(BaseModel):
    """Documents to get."""

    model_config = _STRICT

    ids: Texts = Field(description="Ids of documents.", min_length=1)
    nearest: bool = Field(
        default=True, description="Whether to return the existing ids that are most like the first missing ones."
    )


class StoredDocument(BaseModel):
    """A document as the collection holds it."""

    id: str = Field(description="Its id.")
    text: str = Field(description="The text that was embedded: the document's chunks, joined by blank lines.")
    payload: dict[str, Any] = Field(description="Its payload.")
    described: str | None = Field(
        default=None, description="Description of the document's source, in the user's words."
    )


class StoredDocuments(BaseModel):
    """The documents that were found, and the ids that no document has."""

    documents: list[StoredDocument] = Field(description="The documents, in the order of the ids.")
    missing: list[str] = Field(description="Ids that no document has.")
    nearest: dict[str, list[str]] = Field(
        description="The existing ids that are most like each of the first missing ids."
    )


class DocumentInList(BaseModel):
    """A document in the list of a collection's documents, as ``twinvec documents --json`` prints it."""

    id: str = Field(description="Its id.")
    title: str = Field(description="Its title; may be empty.")
    source: str | None = Field(description="Name of its source; null in a collection without sources.")
    chunks: int = Field(description="Number of its chunks; 0 for a document without text.")
    complete: bool = Field(
        description="False if a repair has found that chunks are missing, which the document's next ingest writes "
        "again."
    )


class DocumentList(BaseModel):
    """A page of the list of a collection's documents."""

    documents: list[DocumentInList] = Field(description="The documents, sorted by id.")
    next: str | None = Field(description="The value of after for the next page; null on the last page.")


class Deletion(BaseModel):
    """Documents to delete: by their ids, by a filter, or all of a source."""

    model_config = _STRICT

    ids: list[str] | None = Field(default=None, description="Ids of documents.", min_length=1, fail_fast=True)
    filter: dict[str, Any] | None = Field(default=None, description="Conditions on payloads.", min_length=1)
    source: str | None = Field(default=None, description="Name of a source, which is removed with its documents.")
    dry_run: bool = Field(default=False, description="Report what would be deleted, and delete nothing.")


class Deleted(BaseModel):
    """The result of a deletion."""

    deleted: int = Field(description="Number of documents that were deleted.")
    documents: list[str] = Field(description="Ids of the documents that were found.")
    missing: list[str] = Field(description="Ids that no document has.")
