"""What the tools return: fields that a model understands, each with a sentence."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class SourceInfo(BaseModel):
    """What documents of a collection are from."""

    name: str = Field(description="Name of the source. Ids of its documents begin with it, unless it is the first.")
    documents: int = Field(description="Number of its documents.")
    describes: dict[str, str] = Field(
        default_factory=dict, description="What it holds, in its owner's words, by folder; the key '' is the whole."
    )


class CollectionInfo(BaseModel):
    """A collection of documents."""

    name: str = Field(description="Name of the collection, as the other tools take it.")
    documents: int = Field(description="Number of documents.")
    chunks: int = Field(description="Number of passages that can be found.")
    model: str = Field(description="The model that embeds its texts.")
    language: str = Field(description="The language of its words.")
    sources: list[SourceInfo] = Field(default_factory=list, description="What the documents are from.")
    metadata: dict[str, str] = Field(
        default_factory=dict, description="Keys that the filter of search takes, each with the kind of its values."
    )
    metadata_left_out: int = Field(default=0, description="Number of further keys that the filter takes.")


class Collections(BaseModel):
    """All collections, and those that cannot be read."""

    collections: list[CollectionInfo] = Field(description="The collections that can be searched.")
    failed: dict[str, str] = Field(default_factory=dict, description="Why a collection could not be read, by name.")


class Found(BaseModel):
    """A passage that was found."""

    collection: str = Field(description="Name of the collection.")
    source: str = Field(description="Id of the document: get_document returns the whole.")
    place: str = Field(description="Where the passage is: id, lines, page and headings. get_document takes id:line.")
    title: str | None = Field(default=None, description="Title of the document.")
    relevance: float | None = Field(
        default=None, description="How likely it answers the query, from 0 to 1; missing if nobody has measured it."
    )
    score: float = Field(description="Score; larger is better. Scores of different collections do not compare.")
    text: str = Field(description="The passage.")
    shortened: bool = Field(default=False, description="Whether the passage was cut at the limit of size.")
    describes: str | None = Field(default=None, description="What the document's source holds, in its owner's words.")


class Search(BaseModel):
    """The passages that answer a query, best first."""

    results: list[Found] = Field(description="The passages, best first.")
    left_out: int = Field(default=0, description="Passages that were found and left out at the limit of size.")
    hint: str | None = Field(default=None, description="What to do next, if nothing was found.")
    failed: dict[str, str] = Field(default_factory=dict, description="Why a collection could not be read, by name.")


class DocumentText(BaseModel):
    """A document, or lines of it."""

    collection: str = Field(description="Name of the collection.")
    id: str = Field(description="Id of the document.")
    text: str = Field(description="The text of the lines.")
    first_line: int = Field(description="Number of the first line of the text, from 1.")
    last_line: int = Field(description="Number of the last line of the text.")
    lines: int = Field(description="Number of lines of the whole document.")
    next_line: int | None = Field(default=None, description="The from_line that goes on, if the text was cut.")
    next_char: int | None = Field(default=None, description="The from_char that goes on, if it was cut within a line.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="What else the collection knows of it.")
    metadata_left_out: int = Field(default=0, description="Number of further keys, whose values are too large to show.")
    describes: str | None = Field(default=None, description="What its source holds, in its owner's words.")


class Documents(BaseModel):
    """Documents whose ids fit a pattern."""

    documents: list[DocumentText] = Field(description="The documents, by id.")
    left_out: list[str] = Field(
        default_factory=list, description="Ids that fit and were left out at the limit of size, the first ones."
    )
    left_out_count: int = Field(default=0, description="How many were left out.")
    failed: dict[str, str] = Field(default_factory=dict, description="Why a collection could not be read, by name.")
