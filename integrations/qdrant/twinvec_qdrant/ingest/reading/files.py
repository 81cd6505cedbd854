"""Files: one file -> its bytes -> one document.

Text files are decoded here, PDFium reads PDFs (``pdf_pages``), libraries convert other formats (``converting``),
``letters`` reads e-mails, ``subtitles`` subtitles, and ``web.drawings`` drawings. A file without text, such as a
picture, a recording or a font, becomes ``Empty``. So does a file that ``generated`` recognises.

The document depends only on the bytes, the file's name and the reading version. A process on another machine, which
does not have the file, can therefore parse the bytes. ``older`` holds the code that only version 1 uses.
"""

from __future__ import annotations

import gzip
import logging
import os
import stat
import zlib
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

from twinvec.errors import DocumentError, TwinvecError
from twinvec.interrupts import raise_of_handler
from twinvec.retrieval.documents import Document, as_document
from twinvec.text import MAX_TEXT_BYTES
from twinvec_qdrant.ingest.front_matter import split_front_matter
from twinvec_qdrant.ingest.markup import MARKDOWN_SUFFIXES, RESTRUCTURED_TEXT_SUFFIXES
from twinvec_qdrant.ingest.reading.converting import CONVERTED_SINCE, convert, title_of
from twinvec_qdrant.ingest.reading.decoding import decode, without_data_uris, without_escapes
from twinvec_qdrant.ingest.reading.generated import generated_kind
from twinvec_qdrant.ingest.reading.letters.contacts import markdown_of_contacts
from twinvec_qdrant.ingest.reading.letters.invitations import markdown_of_calendar
from twinvec_qdrant.ingest.reading.letters.mail import MAIL_SUFFIX, document_of_mail, read_mail
from twinvec_qdrant.ingest.reading.letters.mail_files import APPLE_MAIL, mail_of_apple, suffix_of
from twinvec_qdrant.ingest.reading.older.pdf import read_pdf_of_version_1
from twinvec_qdrant.ingest.reading.pdf_pages import read_pdf
from twinvec_qdrant.ingest.reading.results import (
    CHANGED,
    NO_TEXT,
    NOT_UTF8,
    Empty,
    Failure,
    PagedDocument,
    is_unchanged,
    or_empty,
    printable,
    reason_of,
)
from twinvec_qdrant.ingest.reading.subtitles import SUBTITLES, text_of_subtitles
from twinvec_qdrant.ingest.reading.web.drawings import DRAWING, text_of_drawing

_WHY_EMPTY = {
    ".pdf": f"{NO_TEXT}, perhaps only images; recognise its text first (OCR)",
    DRAWING: f"a drawing, which {NO_TEXT}",
}
_UNREAD_FRONT_MATTER = "%s: the front matter cannot be read and stays text: %s"
_COMPRESSED = ".gz"
_RECORDS = frozenset({".csv", ".json", ".jsonl", ".mbox", ".ndjson", ".tsv"})  # are read only when not compressed
_ENTRIES = {".ics": markdown_of_calendar, ".vcard": markdown_of_contacts, ".vcf": markdown_of_contacts}
_WITHOUT_TEXT = {  # kind of file -> endings. If such a file is not text, it counts as empty, not as damaged.
    "picture": ".avif .bmp .emf .gif .heic .ico .jpeg .jpg .png .psd .tif .tiff .webp .wmf",
    "recording": ".aac .avi .flac .m4a .m4v .mkv .mov .mp3 .mp4 .mpeg .mpg .ogg .opus .wav .webm .wma .wmv",
    "font": ".eot .otf .ttf .woff .woff2",
}
_KINDS = {suffix: kind for kind, suffixes in _WITHOUT_TEXT.items() for suffix in suffixes.split()}

_SLOW_SINCE = {**CONVERTED_SINCE, MAIL_SUFFIX: 1, APPLE_MAIL: 9}

SLOW_SUFFIXES = frozenset(_SLOW_SINCE)
"""Endings of the names of files that take longer to parse than to send to another process; text files do not."""

VERSIONED_SUFFIXES = (*(each for each, since in CONVERTED_SINCE.items() if since == 1), MAIL_SUFFIX, *MARKDOWN_SUFFIXES)
"""Endings of the names of files that reading versions 1 and 2 read differently."""

NAMED_SUFFIXES = (".txt", *sorted({*SLOW_SUFFIXES, *MARKDOWN_SUFFIXES, *RESTRUCTURED_TEXT_SUFFIXES}))
"""Endings that people leave out when they name a document's file."""

MAX_CONVERTED_BYTES = 256 * 1024 * 1024
"""Largest size of a file whose format is slow to parse, and of a JSON file with records."""

_BEGINNING_BYTES = 64 * 1024  # length of the beginning that shows whether a large file is text

T = TypeVar("T")

logger = logging.getLogger(__name__)


class UnreadError(DocumentError):
    """The bytes of a file could not be read, so its text is unknown."""


class FileBytes(NamedTuple):
    """The bytes of a file, with the document's id, the file's ending in lower case, and the reading version."""

    identity: str
    suffix: str
    data: bytes
    version: int


def is_slow(suffix: str, version: int) -> bool:
    """Return whether files with this ending are slow to parse; older reading versions read some of them as text."""
    return suffix in _SLOW_SINCE and version >= _SLOW_SINCE[suffix]


def read_file(path: Path, identity: str, version: int) -> Document | Failure:
    """Return the document in a file.

    The payload has ``path`` (the id), ``format`` ("markdown", "rst" or "text"), ``encoding`` if the encoding was
    guessed, and the front matter of a Markdown file or the sender, recipients and date of an e-mail.
    """
    file = take_file(path, identity, version)
    return file if isinstance(file, Failure) else parse_file(file)


def take_file(path: Path, identity: str, version: int) -> FileBytes | Failure:
    """Return the bytes of a file: at most 256 MiB if its format is slow to parse, and 8 MiB for any other format."""
    if identity != printable(identity):
        return Failure(printable(identity), NOT_UTF8)
    suffix = suffix_of(path, version)
    limit, check = (MAX_CONVERTED_BYTES, None) if is_slow(suffix, version) else (MAX_TEXT_BYTES, decode)
    return _or_failure(identity, suffix, lambda: FileBytes(identity, suffix, read_bytes(path, limit, check), version))


def parse_file(file: FileBytes) -> Document | Failure:
    """Return the document in a file, as ``read_file`` does."""
    return _or_failure(file.identity, file.suffix, lambda: _parsed(file))


def read_bytes(path: Path, limit: int, check: Callable[[bytes], object] | None = None) -> bytes:
    """Return the content of a regular file.

    ``check`` is called with the first bytes of a file that is larger than ``limit``. It may raise a ``DocumentError``
    that says more: it would be of no use to split a large archive.

    Raises:
        UnreadError: the file is not regular, or has changed while it was read.
        DocumentError: the file is larger than ``limit``.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
        raise UnreadError("not a regular file")
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size > limit:
            if check is not None:
                check(file.read(_BEGINNING_BYTES))
            raise DocumentError(
                f"the file has {before.st_size:,} bytes, more than the limit of {limit:,}; split it first"
            )
        data = file.read(before.st_size + 1)  # read(limit) would allocate ``limit`` bytes for each file
        after = os.fstat(file.fileno())
    if not is_unchanged(before, after) or len(data) != after.st_size:
        raise UnreadError(CHANGED)
    return data


def _or_failure(identity: str, suffix: str, work: Callable[[], T]) -> T | Failure:
    try:
        return work()
    except OSError as error:
        raise_of_handler(error)
        return Failure(printable(identity), f"cannot be read: {error.strerror or error}")
    except Exception as error:  # parsers of damaged files raise many types, and one file does not stop the others
        reason = reason_of(error, printable(identity))
        if suffix in _KINDS and isinstance(error, TwinvecError) and not isinstance(error, UnreadError):
            return Empty(printable(identity), f"a {_KINDS[suffix]}, which {NO_TEXT}")
        return Failure(printable(identity), reason)


def _parsed(file: FileBytes) -> Document | Empty:
    if not file.data:  # empty, so not damaged, whatever its format
        return Empty(printable(file.identity), NO_TEXT)
    found = _document(file)
    return found if isinstance(found, Empty) else or_empty(as_document(found, 0), _WHY_EMPTY.get(file.suffix, NO_TEXT))


def _document(file: FileBytes) -> Document | Empty:
    identity, suffix, data, version = file = _unpacked(file)
    if suffix == ".pdf":
        return _of_pdf(file)
    if suffix in CONVERTED_SINCE and is_slow(suffix, version):
        text = _without_data_uris(convert(data, suffix, version), version)
        title = title_of(data, suffix, text, identity) if version > 8 else ""
        return Document(identity, text, title, {"path": identity, "format": "markdown"})
    if suffix == APPLE_MAIL and version > 8:
        suffix, data = MAIL_SUFFIX, mail_of_apple(data)
    if suffix == MAIL_SUFFIX:
        return document_of_mail(read_mail(data, version), identity, identity)
    if suffix == DRAWING and version > 4:
        return Document(identity, text_of_drawing(data), payload={"path": identity, "format": "text"})
    text, encoding = decode(data, version)
    if version > 2:
        text = without_escapes(text)
    if suffix in SUBTITLES and version > 5:
        text = text_of_subtitles(text, suffix)
    if version > 8 and suffix in _ENTRIES and (markdown := _ENTRIES[suffix](text)):
        return Document(identity, markdown, payload={"path": identity, "format": "markdown"})
    if kind := generated_kind(text, suffix, version):
        return Empty(printable(identity), f"a {kind}, which {NO_TEXT} of its own")
    is_markdown = suffix in MARKDOWN_SUFFIXES
    payload: dict[str, Any] = {}
    if is_markdown:
        tell = partial(logger.warning, _UNREAD_FRONT_MATTER, printable(identity))
        markdown = _without_data_uris(text, version)
        payload, text = split_front_matter(markdown, tell, toml=version > 2, newest=version > 5)
    is_restructured = version > 5 and suffix in RESTRUCTURED_TEXT_SUFFIXES
    payload |= {"path": identity, "format": "markdown" if is_markdown else "rst" if is_restructured else "text"}
    if encoding:
        payload["encoding"] = encoding
    title = payload.pop("title") if isinstance(payload.get("title"), str) else ""
    return Document(identity, text, title, payload)


def _unpacked(file: FileBytes) -> FileBytes:
    """Return the file in a file that gzip has compressed; return any other file, and files of records, as they are."""
    suffix = PurePath(PurePath(file.identity).stem).suffix.lower()
    if file.suffix != _COMPRESSED or file.version < 9 or suffix in _RECORDS:
        return file
    try:
        with gzip.open(BytesIO(file.data)) as packed:
            data = packed.read(MAX_TEXT_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DocumentError(f"damaged: it cannot be unpacked ({error}); get the file again") from error
    if len(data) > MAX_TEXT_BYTES:
        raise DocumentError(f"the file unpacks to more than the limit of {MAX_TEXT_BYTES:,} bytes; unpack and split it")
    return file._replace(suffix=suffix, data=data)


def _without_data_uris(markdown: str, version: int) -> str:
    return without_data_uris(markdown) if version > 1 else markdown


def _of_pdf(file: FileBytes) -> Document:
    is_old = file.version == 1
    text, pages = (read_pdf_of_version_1 if is_old else read_pdf)(file.data)
    payload = {"path": file.identity, "format": "markdown" if is_old else "text"}
    if pages:
        return PagedDocument(file.identity, text, payload=payload, pages=pages)
    return Document(file.identity, text, payload=payload)
