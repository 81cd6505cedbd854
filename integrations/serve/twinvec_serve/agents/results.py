"""Results of the tools. A sentence explains each field to the language model."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

# fields of several results
_FAILED: Any = Field(default_factory=dict, description="Names of collections that could not be read, with the reasons.")
_DESCRIBES: Any = Field(default=None, description="What the document's source holds, in its owner's words.")


class SourceInfo(BaseModel):
    """A source of documents: a folder, a file or a stream."""

    name: str = Field(description="Name of the source. Ids of its documents begin with it, unless it is the first.")
    documents: int = Field(description="Number of its documents.")
    describes: dict[str, str] = Field(
        default_factory=dict,
        description="What each folder of the source holds, in its owner's words; the key '' "
        "stands for the whole source.",
    )


class CollectionInfo(BaseModel):
    """A collection of documents."""

    name: str = Field(description="Name of the collection, for the other tools.")
    documents: int = Field(description="Number of documents.")
    chunks: int = Field(description="Number of passages that can be found.")
    model: str = Field(description="The model that embeds its texts.")
    language: str = Field(description="Language of its texts.")
    sources: list[SourceInfo] = Field(default_factory=list, description="Sources of the documents.")
    metadata: dict[str, str] = Field(
        default_factory=dict, description="Keys that the filter of search accepts, each with the type of its values."
    )
    metadata_left_out: int = Field(default=0, description="Number of further keys that the filter accepts.")


class Collections(BaseModel):
    """All collections: those that can be searched, and those that cannot be read."""

    collections: list[CollectionInfo] = Field(description="The collections that can be searched.")
    failed: dict[str, str] = _FAILED


class Found(BaseModel):
    """A passage that was found."""

    collection: str = Field(description="Name of the collection.")
    source: str = Field(description="Id of the document; get_document returns the whole document.")
    place: str = Field(description="Where the passage is: id, lines, page and headings. get_document accepts id:line.")
    title: str | None = Field(default=None, description="Title of the document.")
    relevance: float | None = Field(
        default=None, description="How likely the passage answers the query, from 0 to 1; missing if unknown."
    )
    score: float = Field(description="Score; larger is better. Scores of different collections cannot be compared.")
    text: str = Field(description="The passage; empty if an earlier result has the same one.")
    same_as: str | None = Field(default=None, description="Place of the earlier result that has the same passage.")
    shortened: bool = Field(default=False, description="Whether the passage was cut at the limit of size.")
    describes: str | None = _DESCRIBES


class Search(BaseModel):
    """The passages that answer a query, best first."""

    results: list[Found] = Field(description="The passages, best first.")
    left_out: int = Field(
        default=0, description="Number of passages that were found but left out of the answer for its size."
    )
    hint: str | None = Field(default=None, description="What to do next, if nothing was found.")
    failed: dict[str, str] = _FAILED


class DocumentText(BaseModel):
    """A document, or some of its lines."""

    collection: str = Field(description="Name of the collection.")
    id: str = Field(description="Id of the document.")
    text: str = Field(description="The text of the lines.")
    first_line: int = Field(description="Number of the first line of the text, from 1.")
    last_line: int = Field(description="Number of the last line of the text.")
    lines: int = Field(description="Number of lines of the whole document.")
    next_line: int | None = Field(default=None, description="If the text was cut: the from_line of the next call.")
    next_char: int | None = Field(
        default=None, description="If the text was cut within a line: the from_char of the next call."
    )
    metadata: dict[str, Any] = Field(default_factory=dict, description="Metadata of the document.")
    metadata_left_out: int = Field(
        default=0, description="Number of further metadata keys, whose values are too large to show."
    )
    describes: str | None = _DESCRIBES


class Documents(BaseModel):
    """Documents whose ids fit a pattern."""

    documents: list[DocumentText] = Field(description="The documents, by id.")
    left_out: list[str] = Field(
        default_factory=list, description="First of the ids that fit but were left out of the answer for its size."
    )
    left_out_count: int = Field(default=0, description="Number of ids that fit but were left out.")
    failed: dict[str, str] = _FAILED
