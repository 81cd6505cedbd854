"""Documents read from files as JSON lines: the commands send them in this form to a process that serves the store.

A line is a document, with its pages if they are known, or a failure: a file or part that could not be read. An
additional first line may name the source of all documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from twinvec.errors import DocumentError
from twinvec.retrieval.documents import Document, as_document
from twinvec_qdrant.ingest.reading.results import Empty, Failure, PagedDocument


def written_line(value: Document | Failure) -> dict[str, Any]:
    """Return a document or a failure as a JSON object."""
    if isinstance(value, Failure):
        kind = "empty" if isinstance(value, Empty) else "failure"
        return {kind: {"source": value.source, "reason": value.reason, "hides": value.hides, "below": value.below}}
    document = {"id": value.id, "text": value.text, "title": value.title, "payload": dict(value.payload)}
    pages = {"pages": list(value.pages)} if isinstance(value, PagedDocument) else {}
    return {"document": document, **pages}


def read_line(values: Mapping[str, Any]) -> Document | Failure:
    """Return the document or failure from which ``written_line`` made this JSON object.

    Raises:
        DocumentError: ``written_line`` does not make such an object.
        TextError: a text of the document is invalid.
    """
    for kind, name in ((Empty, "empty"), (Failure, "failure")):
        if isinstance(found := values.get(name), dict):
            below = str(found.get("below", ""))
            return kind(str(found.get("source")), str(found.get("reason")), bool(found.get("hides")), below=below)
    document = as_document(values.get("document"), 0)
    pages = values.get("pages")
    if pages is None:
        return document
    if not isinstance(pages, list) or not all(type(each) is int and each >= 0 for each in pages):
        raise DocumentError(f"document {document.id!r}: pages must be a list of offsets in the text, integers from 0")
    return PagedDocument(document.id, document.text, document.title, document.payload, tuple(pages))


@dataclass(frozen=True)
class RootElsewhere:
    """Documents of one source that another process has read; an argument of ``Collection.ingest``.

    Attributes:
        documents: The documents and failures.
        root: The source: the fields of a ``StoredRoot``, as JSON.
        named: Whether the user gave the source's name.
        empty: The result of ``empty_folders``.
    """

    documents: Iterable[Any]
    root: Mapping[str, Any]
    named: bool
    empty: Sequence[str] = ()

    def empty_folders(self) -> Iterable[str]:
        """Return the folders of the source that hold nothing at all, as prefixes of ids."""
        return self.empty

    def __iter__(self) -> Iterator[Any]:
        return iter(self.documents)

    def __length_hint__(self) -> int:
        return length_hint(self.documents)
