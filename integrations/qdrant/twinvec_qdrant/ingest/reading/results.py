"""Results of reading besides plain documents: failures, documents without text, documents with pages, and calls.

A call (``HelperCall``) is work that another process may do.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from twinvec.errors import TwinvecError
from twinvec.interrupts import raise_of_handler
from twinvec.retrieval.documents import Document

NO_TEXT = "holds no text"
NOT_UTF8 = "the path is not UTF-8; rename the file, or the folder that is not"
CHANGED = "the file changed while it was read; ingest it again"

_LONGEST_REASON = 500

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that could not be read, or all rows of a table that do not fit its header.

    Attributes:
        source: The document's id, a folder, a file, or "file.jsonl:17".
        reason: The fault, and what to do about it.
        hides: Whether the failure may hide other documents, as an unreadable folder or a line without an id does. An
            ingest then prunes no document whose id begins with ``below``, because a missing document may still exist.
        below: Prefix of the ids of the hidden documents, such as "notes.jsonl/"; "" if any document may be hidden.
    """

    source: str
    reason: str
    hides: bool = False
    below: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Empty(Failure):
    """A document that was read and holds no text, such as an empty file or a PDF of images.

    It never hides other documents. If the collection has a version with text, that version stays until an ingest
    prunes.
    """


@dataclass(frozen=True, slots=True)
class PagedDocument(Document):
    """A document whose pages are known.

    Attributes:
        pages: Offset in the text where each page starts, in order, from page 1; a page whose start is not known has the
            offset of the next known page.
    """

    pages: tuple[int, ...] = ()


class Read(NamedTuple):
    """A document or failure, and the number of bytes that were read for it."""

    value: Document | Failure
    size: int


@dataclass(frozen=True, slots=True)
class HelperCall:
    """A call that another process may do.

    Attributes:
        function: A function of a module that every process can import; its result depends on its arguments only.
        arguments: Its arguments.
        size: Estimated bytes of the arguments.
        lost: Result to use if every process that tried the call has died.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    size: int
    lost: Any


WithResults = Callable[[Iterator[Any]], Iterator[Any]]
"""Function that yields the given items in order, with each ``HelperCall`` replaced by its result."""


def hiding(source: str, reason: str, below: str) -> Failure:
    """Return a failure that may hide all documents whose ids begin with ``below``."""
    return Failure(source, reason, hides=True, below=printable(below))


def unreadable(name: str, error: OSError, below: str) -> Failure:
    """Return the failure of a file of records that cannot be read.

    A file of records holds many documents. The failure may hide all whose ids begin with ``below``.

    Raises:
        BaseException: see ``reason_of``.
    """
    raise_of_handler(error)
    return hiding(printable(name), f"cannot be read: {error.strerror or error}", below)


def or_empty(document: Document, reason: str = NO_TEXT) -> Document | Empty:
    """Return a document, or ``Empty`` for this reason if its text is blank."""
    return document if document.full_text.strip() else Empty(printable(document.id), reason)


def reason_of(error: Exception, source: str) -> str:
    """Return an error of any type as the reason of a failure; log the traceback of an unexpected error (debug).

    Raises:
        MemoryError: the error is a ``MemoryError``, which says nothing about the document.
        BaseException: the exception of a signal handler that is, or has caused, the error.
    """
    raise_of_handler(error)
    if isinstance(error, TwinvecError):
        return str(error)
    if isinstance(error, MemoryError):
        raise error
    logger.debug("%s: cannot be read", source, exc_info=error)
    return f"damaged, or of a kind that is not supported ({type(error).__name__}: {one_line(error)})"


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line of at most 500 characters, or its type if the message is empty."""
    if isinstance(error, RecursionError):
        return "its parts are nested too deeply"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    """Return whether a file still has the same time and size."""
    return (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)


def printable(name: str) -> str:
    """Return a file name that can be printed: escape lone surrogates, which stand for bytes that are not UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()
