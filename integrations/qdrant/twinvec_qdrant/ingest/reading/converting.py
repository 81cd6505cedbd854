"""Converting: the bytes of a document in an office or web format -> Markdown, by the extra ``documents``.

markitdown converts all formats but workbooks (``spreadsheets``).
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from io import BytesIO
from typing import Any
from zipfile import is_zipfile

from twinvec.errors import DocumentError, MissingExtraError, TwinvecError
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.reading.spreadsheets import SPREADSHEETS, read_workbook

CONVERTED = frozenset({".docx", ".epub", ".htm", ".html", ".ipynb", ".msg", ".pdf", ".pptx", ".xls", ".xlsx"})
"""Endings of the names of files that are converted."""

_ZIP, _OLE = b"PK", b"\xd0\xcf\x11\xe0"
_BEGINNINGS = {
    **dict.fromkeys((".docx", ".epub", ".pptx", ".xlsx"), _ZIP),
    **dict.fromkeys((".msg", ".xls"), _OLE),
    ".ipynb": b"{",
}
_PDF = "%PDF-"
_PDF_WITHIN = 1024  # bytes: readers of PDF allow other bytes before the mark
_PDF_LOCKED = "PDFPasswordIncorrect"  # the error of pdfminer, by which markitdown reads a PDF
_LONGEST_REASON = 500


def convert(data: bytes, suffix: str) -> str:
    """Return the Markdown of a document; ``suffix`` is the ending of its name.

    Raises:
        DocumentError: the document is broken, or is of another format than its name says.
        MissingExtraError: markitdown, or another package that it needs for this format, is missing.
    """
    _check_format(data, suffix)
    try:
        markdown = read_workbook(data, suffix) if suffix in SPREADSHEETS else _by_markitdown(data, suffix)
    except TwinvecError:
        raise
    except Exception as error:  # the many converters raise many types, and one broken file must not stop the reading
        reason = _first_reason(error)
        if type(reason).__name__ == _PDF_LOCKED:
            raise DocumentError("encrypted with a password; save it without the password") from error
        raise DocumentError(f"cannot be converted: {_in_one_line(reason)}") from error
    if suffix == ".pdf" and markdown.lstrip().startswith(_PDF):  # it was taken for plain text
        raise DocumentError("damaged: no page of the PDF can be read; get the file again")
    return markdown


def _by_markitdown(data: bytes, suffix: str) -> str:
    purpose = f"reading {suffix} files"
    telemetry.switch_off()  # markitdown uses ONNX Runtime
    package = import_extra("markitdown", "documents", purpose, "twinvec-qdrant")
    info = package.StreamInfo(extension=suffix)
    try:
        return str(package.MarkItDown(enable_plugins=False).convert_stream(BytesIO(data), stream_info=info).markdown)
    except Exception as error:
        if isinstance(_first_reason(error), package.MissingDependencyException):
            raise MissingExtraError("markitdown", "documents", purpose, "twinvec-qdrant") from error
        raise


def _check_format(data: bytes, suffix: str) -> None:
    """Refuse a file whose beginning is not that of its format: markitdown would take it for plain text."""
    if suffix == ".pdf" and _PDF.encode() not in data[:_PDF_WITHIN]:
        raise DocumentError("not a PDF, although its name ends in .pdf")
    beginning = _BEGINNINGS.get(suffix)
    if beginning and not data.removeprefix(BOM_UTF8).lstrip().startswith(beginning):
        raise DocumentError(f"not of the format that its name ({suffix}) says; save it again, or rename it")
    if beginning == _ZIP and not is_zipfile(BytesIO(data)):
        raise DocumentError(f"damaged: a {suffix} file is a zip archive, and this one has no end; get the file again")
    if suffix == ".ipynb":
        _check_notebook(data)


def _check_notebook(data: bytes) -> None:
    try:
        json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"damaged: a notebook is one JSON object: {error}; get the file again") from error


def _first_reason(error: BaseException) -> BaseException:
    """Return what the first converter that tried raised, instead of a list of all attempts."""
    attempts: list[Any] = getattr(error, "attempts", None) or []
    for attempt in attempts:
        if attempt.exc_info and attempt.exc_info[1] is not None:
            return _root(attempt.exc_info[1])
    return _root(error)


def _root(error: BaseException) -> BaseException:
    """Return the cause of an error that says nothing itself."""
    while not str(error).strip() and (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _in_one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if not text:
        return type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
