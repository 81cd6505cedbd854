"""Files: one file -> one document.

Text files are decoded here, markitdown converts other formats (``converting``), and letters are taken apart by
``mail``. A file without text is ``Empty``.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from twinvec.errors import DocumentError, TwinvecError
from twinvec.retrieval.documents import Document, as_document
from twinvec.text import MAX_TEXT_BYTES
from twinvec_qdrant.ingest.front_matter import MARKDOWN_SUFFIXES, split_front_matter
from twinvec_qdrant.ingest.reading.converting import CONVERTED, convert
from twinvec_qdrant.ingest.reading.decoding import decode
from twinvec_qdrant.ingest.reading.mail import MAIL_SUFFIX, read_mail
from twinvec_qdrant.ingest.reading.pdf_pages import page_starts
from twinvec_qdrant.ingest.reading.results import NO_TEXT, Empty, Failure, PagedDocument, printable

_NO_TEXT_IN_PDF = "holds no text, perhaps only images; recognise its text first (OCR)"
_MAX_CONVERTED_BYTES = 256 * 1024 * 1024


def read_file(path: Path, identity: str) -> Document | Failure:
    """Return the document that a file holds.

    Its payload is ``path`` (the id), ``format`` ("markdown" or "text"), ``encoding`` if that was guessed, and the front
    matter of a Markdown file or the sender, recipients and date of a letter.
    """
    try:
        document = as_document(_read(path, identity), 0)
        if document.full_text.strip():
            return document
        return Empty(printable(identity), _NO_TEXT_IN_PDF if path.suffix.lower() == ".pdf" else NO_TEXT)
    except OSError as error:
        return Failure(printable(identity), f"cannot be read: {error.strerror or error}")
    except TwinvecError as error:
        return Failure(printable(identity), str(error))


def read_bytes(path: Path, limit: int) -> bytes:
    """Return what a regular file holds.

    Raises:
        DocumentError: not a regular file, larger than ``limit``, or changed while it was read.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
        raise DocumentError("not a regular file")
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size > limit:
            raise DocumentError(f"{before.st_size:,} bytes, more than the limit of {limit:,}; split it first")
        data = file.read(before.st_size + 1)  # reading ``limit`` bytes would allocate as many for every small file
        after = os.fstat(file.fileno())
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or len(data) != after.st_size:
        raise DocumentError("the file changed while it was read; ingest it again")
    return data


def _read(path: Path, identity: str) -> Document:
    suffix = path.suffix.lower()
    if suffix in CONVERTED:
        return _converted(read_bytes(path, _MAX_CONVERTED_BYTES), identity, suffix)
    if suffix == MAIL_SUFFIX:
        letter = read_mail(read_bytes(path, _MAX_CONVERTED_BYTES))
        own = {"path": identity, "format": "markdown" if letter.is_markdown else "text"}
        return Document(identity, letter.body, letter.subject, letter.payload | own)
    text, encoding = decode(read_bytes(path, MAX_TEXT_BYTES))
    is_markdown = suffix in MARKDOWN_SUFFIXES
    payload, body = split_front_matter(text) if is_markdown else ({}, text)
    payload |= {"path": identity, "format": "markdown" if is_markdown else "text"}
    if encoding:
        payload["encoding"] = encoding
    title = payload.pop("title") if isinstance(payload.get("title"), str) else ""
    return Document(identity, body, title, payload)


def _converted(data: bytes, identity: str, suffix: str) -> Document:
    text = convert(data, suffix)
    payload = {"path": identity, "format": "markdown"}
    if suffix == ".pdf" and (pages := page_starts(data, text)):
        return PagedDocument(identity, text, payload=payload, pages=pages)
    return Document(identity, text, payload=payload)
