"""Converting: the bytes of a document in an office or web format -> Markdown, by the extra ``documents``.

markitdown converts all formats but workbooks (``spreadsheets``) and PDFs (``pdf_pages``). Web pages are made ready for
it before (``web_pages``). It is held to the one converter of the format that a file's name says: it would try others
next, of which one unpacks archives within archives.
"""

from __future__ import annotations

import json
import re
import warnings
from codecs import BOM_UTF8
from io import BytesIO
from typing import Any
from zipfile import is_zipfile

from twinvec.errors import DocumentError, MissingExtraError, TwinvecError
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.compound_files import check_message
from twinvec_qdrant.ingest.office_archives import check_archive, check_parts
from twinvec_qdrant.ingest.reading.results import one_line
from twinvec_qdrant.ingest.reading.spreadsheets import SPREADSHEETS, read_workbook
from twinvec_qdrant.ingest.reading.web_pages import ARCHIVES, BOOK, PAGES, cleaned, cleaned_book, page_of_archive
from twinvec_qdrant.settings import NEWEST_READING

CONVERTED = frozenset({".docx", ".epub", ".htm", ".html", ".ipynb", ".msg", ".pdf", ".pptx", ".xls", ".xlsx"})
"""Endings of the names of files that are converted."""

_ZIP, _OLE = b"PK", b"\xd0\xcf\x11\xe0"
_BEGINNINGS = {
    **dict.fromkeys((".docx", ".epub", ".pptx", ".xlsx"), _ZIP),
    **dict.fromkeys((".msg", ".xls"), _OLE),
    ".ipynb": b"{",
}
_CONVERTERS = {  # of markitdown
    **dict.fromkeys((*PAGES, *ARCHIVES), "HtmlConverter"),
    ".docx": "DocxConverter",
    ".epub": "EpubConverter",
    ".ipynb": "IpynbConverter",
    ".msg": "OutlookMsgConverter",
    ".pdf": "PdfConverter",
    ".pptx": "PptxConverter",
}
_SLIDES = ".pptx"
_SLIDE_NUMBER = re.compile(r"^<!-- Slide number: \d+ -->$", re.MULTILINE)
_PICTURE = re.compile(r"^!\[([^\]\n]*)\]\((\w*)\.jpg\)$", re.MULTILINE)
_NO_WORD = re.compile(r"\W")
_BLANK_LINES = re.compile(r"\n{3,}")
_DEEP_PAGE = "HTML document is too deeply nested"  # a warning of markitdown, which then takes the text without Markdown
_UNESCAPED = {"escape_asterisks": False, "escape_underscores": False}  # names such as a_b are found as they are


def convert(data: bytes, suffix: str, version: int = NEWEST_READING) -> str:
    """Return the Markdown of a document; ``suffix`` is the ending of its name.

    By version 1 of the reading, a PDF has a Markdown too, and a web page is converted as it is. Web archives are for
    version 3.

    Raises:
        DocumentError: the document is broken, is of another format than its name says, or unpacks to too much.
        MissingExtraError: markitdown, or another package that it needs for this format, is missing.
    """
    try:
        _check_format(data, suffix)
        if suffix in SPREADSHEETS:
            return read_workbook(data, suffix, version)
        markdown = _by_markitdown(data, suffix, version)
    except TwinvecError:
        raise
    except Exception as error:  # the many converters raise many types, and one broken file must not stop the reading
        if _BEGINNINGS.get(suffix) == _ZIP:
            check_parts(data, suffix)
        raise DocumentError(f"cannot be converted: {one_line(_first_reason(error))}") from error
    return _without_placeholders(markdown) if suffix == _SLIDES and version > 2 else markdown


def _by_markitdown(data: bytes, suffix: str, version: int) -> str:
    purpose = f"reading {suffix} files"
    telemetry.switch_off()  # markitdown uses ONNX Runtime
    package = import_extra("markitdown", "documents", purpose, "twinvec-qdrant")
    is_page = suffix in (*PAGES, *ARCHIVES) and version > 1
    extension = PAGES[0] if suffix in ARCHIVES else suffix
    info = package.StreamInfo(extension=extension, charset="utf-8" if is_page else None)
    page = page_of_archive(data, version) if suffix in ARCHIVES else (data, "")
    if suffix == BOOK and version > 3:
        data = cleaned_book(data, version)
    stream = BytesIO(cleaned(*page, version) if is_page else data)
    warnings.filterwarnings("ignore", _DEEP_PAGE, UserWarning)
    try:
        converter = package.MarkItDown(enable_builtins=False, enable_plugins=False)
        converter.register_converter(getattr(package.converters, _CONVERTERS[suffix])())
        return str(converter.convert_stream(stream, stream_info=info, **(_UNESCAPED if version > 1 else {})).markdown)
    except Exception as error:
        if isinstance(_first_reason(error), package.MissingDependencyException):
            raise MissingExtraError("markitdown", "documents", purpose, "twinvec-qdrant") from error
        raise


def _without_placeholders(markdown: str) -> str:
    """Return the Markdown of slides without their numbers, and without the pictures that have no description.

    markitdown writes the name of such a picture in place of the description, or nothing. A blank line separates slides.
    """
    text = _PICTURE.sub(lambda found: "" if _NO_WORD.sub("", found[1]) in ("", found[2]) else found[0], markdown)
    return _BLANK_LINES.sub("\n\n", _SLIDE_NUMBER.sub("", text)).strip()


def _check_format(data: bytes, suffix: str) -> None:
    """Refuse a file whose beginning is not that of its format: markitdown would take it for plain text."""
    beginning = _BEGINNINGS.get(suffix)
    if beginning and not data.removeprefix(BOM_UTF8).lstrip().startswith(beginning):
        raise DocumentError(f"not of the format that its name ({suffix}) says; save it again, or rename it")
    if beginning == _ZIP and not is_zipfile(BytesIO(data)):
        raise DocumentError(f"damaged: a {suffix} file is a zip archive, and this one has no end; get the file again")
    if beginning == _ZIP:
        check_archive(data, suffix)
    if suffix == ".msg":
        check_message(data)
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
