"""Converting: the bytes of a document in an office or web format -> Markdown, by the extra ``documents``.

markitdown (``by_markitdown``) converts all formats but workbooks (``spreadsheets``), PDFs (``pdf_pages``) and RTF
(``office.rich_text``). Web pages are cleaned first (``web``), and texts and slides of OpenDocument become HTML first
(``office.open_documents``). A file is refused if its content is not of the format that its name states.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from io import BytesIO
from zipfile import is_zipfile

from twinvec.errors import DocumentError, TwinvecError
from twinvec_qdrant.ingest.reading.by_markitdown import by_markitdown, first_reason, load_markitdown
from twinvec_qdrant.ingest.reading.notebooks import NOTEBOOK, in_newest_format
from twinvec_qdrant.ingest.reading.office.compound_files import check_message
from twinvec_qdrant.ingest.reading.office.office_archives import as_presentation, check_archive, check_parts
from twinvec_qdrant.ingest.reading.office.open_documents import TEXTS, WORKBOOK, html_of
from twinvec_qdrant.ingest.reading.office.rich_text import BEGINNING, RICH_TEXT, read_rich_text
from twinvec_qdrant.ingest.reading.office.word_changes import with_all_text, without_unread_text
from twinvec_qdrant.ingest.reading.office.word_titles import title_of_word
from twinvec_qdrant.ingest.reading.results import one_line
from twinvec_qdrant.ingest.reading.spreadsheets import SPREADSHEETS, read_workbook
from twinvec_qdrant.ingest.reading.web.page_files import (
    ARCHIVES,
    BOOK,
    PAGES,
    XHTML,
    cleaned,
    cleaned_book,
    page_of_archive,
)
from twinvec_qdrant.settings import NEWEST_READING

_VARIANTS = {  # endings of templates, slide shows and files with macros, each with the ending of a usual document
    **dict.fromkeys((".docm", ".dotm", ".dotx"), ".docx"),
    **dict.fromkeys((".potm", ".potx", ".ppsm", ".ppsx", ".pptm"), ".pptx"),
    **dict.fromkeys((".xlsm", ".xltm", ".xltx"), ".xlsx"),
}

CONVERTED_SINCE = {
    **dict.fromkeys((".docx", ".epub", ".htm", ".html", ".ipynb", ".msg", ".pdf", ".pptx", ".xls", ".xlsx"), 1),
    **dict.fromkeys(ARCHIVES, 3),
    **dict.fromkeys((*TEXTS, WORKBOOK, RICH_TEXT, XHTML), 5),
    **dict.fromkeys(_VARIANTS, 9),
}
"""Endings of the names of files that are converted, each with the first reading version that converts such files."""

_ZIP, _OLE = b"PK", b"\xd0\xcf\x11\xe0"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the stream of an Office file with a password (MS-OFFCRYPTO)
_BEGINNINGS = {
    **dict.fromkeys((".docx", ".epub", ".pptx", ".xlsx", *TEXTS, WORKBOOK), _ZIP),
    **dict.fromkeys((".msg", ".xls"), _OLE),
    NOTEBOOK: b"{",
    RICH_TEXT: BEGINNING,
}
_SLIDES, _WORD = ".pptx", ".docx"
_SLIDE_NUMBER = re.compile(r"^<!-- Slide number: \d+ -->$", re.MULTILINE)
_PICTURE = re.compile(r"^!\[([^\]\n]*)\]\((\w*)\.jpg\)$", re.MULTILINE)
_SOFT_HYPHEN = "\xad"
_NO_WORD = re.compile(r"\W")
_BLANK_LINES = re.compile(r"\n{3,}")


def convert(data: bytes, suffix: str, version: int = NEWEST_READING) -> str:
    """Return the Markdown of a document; ``suffix`` is the ending of its name.

    In reading version 1, a PDF is converted to Markdown too, and a web page is not cleaned. ``CONVERTED_SINCE`` names
    the least version for each format.

    Raises:
        DocumentError: the document is damaged, has another format than its name states, or unpacks to too much.
        MissingExtraError: markitdown, or another package that it needs for this format, is missing.
    """
    stated, suffix = suffix, _VARIANTS.get(suffix, suffix)
    try:
        _check_format(data, suffix, stated)
        markdown = _markdown(data, suffix, version)
    except TwinvecError:
        raise
    except Exception as error:  # the many converters raise many types, and one broken file must not stop the reading
        if _BEGINNINGS.get(suffix) == _ZIP:
            check_parts(data, suffix)
        raise DocumentError(f"cannot be converted: {one_line(first_reason(error))}") from error
    if suffix == _SLIDES and version > 2:
        markdown = _without_placeholders(markdown)
    # words with soft hyphens could not be found
    return markdown.replace(_SOFT_HYPHEN, "") if version > 4 else markdown


def title_of(data: bytes, suffix: str, text: str, name: str) -> str:
    """Return the title in the properties of a Word document with this text; "" if it has none, and for other files.

    ``name`` is the name of the file.
    """
    return title_of_word(data, text, name) if _VARIANTS.get(suffix, suffix) == _WORD else ""


def _markdown(data: bytes, suffix: str, version: int) -> str:
    if suffix in SPREADSHEETS:
        return read_workbook(data, suffix, version)
    if suffix == RICH_TEXT:
        return read_rich_text(data)
    # checks for markitdown first, so that a missing package is reported before a fault of the file
    load_markitdown(suffix)
    if suffix in TEXTS:
        return by_markitdown(html_of(data, suffix), PAGES[0], version)
    if suffix in (*PAGES, *ARCHIVES, XHTML) and version > 1:
        page = page_of_archive(data, version) if suffix in ARCHIVES else (data, "")
        return by_markitdown(cleaned(*page, version, is_xhtml=suffix == XHTML), PAGES[0], version)
    if suffix == BOOK and version > 3:
        data = cleaned_book(data, version)
    if suffix == _WORD:
        data = with_all_text(data) if version > 4 else without_unread_text(data)
    if suffix == NOTEBOOK and version > 5:
        data = in_newest_format(data)
    if suffix == _SLIDES and version > 8:
        data = as_presentation(data)
    return by_markitdown(data, suffix, version)


def _without_placeholders(markdown: str) -> str:
    """Return the Markdown of slides without slide numbers, and without pictures that have no description.

    In place of a missing description, markitdown writes the picture's name or nothing. A blank line separates slides.
    """
    text = _PICTURE.sub(lambda found: "" if _NO_WORD.sub("", found[1]) in ("", found[2]) else found[0], markdown)
    return _BLANK_LINES.sub("\n\n", _SLIDE_NUMBER.sub("", text)).strip()


def _check_format(data: bytes, suffix: str, stated: str) -> None:
    """Refuse a file that does not begin as its format requires: markitdown would take it for plain text.

    ``suffix`` is the usual ending of the format, and ``stated`` that of the file's name.
    """
    beginning = _BEGINNINGS.get(suffix)
    if beginning == _ZIP and data.startswith(_OLE) and _ENCRYPTED in data:
        raise DocumentError("encrypted with a password; save it without the password")
    if beginning and not data.removeprefix(BOM_UTF8).lstrip().startswith(beginning):
        raise DocumentError(f"not of the format that its name ({stated}) says; save it again, or rename it")
    if beginning == _ZIP and not is_zipfile(BytesIO(data)):
        raise DocumentError(
            f"damaged: a {stated} file is a zip archive, and the end of this archive is missing; get the file again"
        )
    if beginning == _ZIP:
        check_archive(data, suffix)
    if suffix == ".msg":
        check_message(data)
    if suffix == NOTEBOOK:
        _check_notebook(data)


def _check_notebook(data: bytes) -> None:
    try:
        json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"damaged notebook: not valid JSON ({error}); get the file again") from error
