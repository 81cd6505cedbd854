"""Converting: the bytes of a document in an office or web format -> Markdown, by the extra ``documents``.

markitdown converts all formats but workbooks (``spreadsheets``) and PDFs (``pdf_pages``). A web page is freed before
from what leads elsewhere: navigation, tables of contents, the addresses of images and of pages of the same site.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from io import BytesIO
from typing import Any
from zipfile import is_zipfile

from twinvec.errors import DocumentError, MissingExtraError, TwinvecError
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.reading.spreadsheets import SPREADSHEETS, read_workbook
from twinvec_qdrant.settings import NEWEST_READING

CONVERTED = frozenset({".docx", ".epub", ".htm", ".html", ".ipynb", ".msg", ".pdf", ".pptx", ".xls", ".xlsx"})
"""Endings of the names of files that are converted."""

_ZIP, _OLE = b"PK", b"\xd0\xcf\x11\xe0"
_BEGINNINGS = {
    **dict.fromkeys((".docx", ".epub", ".pptx", ".xlsx"), _ZIP),
    **dict.fromkeys((".msg", ".xls"), _OLE),
    ".ipynb": b"{",
}
_PAGES = (".htm", ".html")
_NAVIGATION = re.compile(
    r"(?:doc-?|site-?)?nav(?:bar|header|footer|igation|-panel)?|toc|toctree-wrapper|table-of-contents|breadcrumbs?"
    r"|pagination"
)
_CONTENT = ("html", "body", "main", "article", "h1")  # no navigation, whatever is said of them
_LISTS = ("ul", "ol", "dl")
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")  # how the address of another site begins
_HEADING = re.compile(r"h[1-6]$")
_WORD = re.compile(r"\w")
_UNESCAPED = {"escape_asterisks": False, "escape_underscores": False}  # names such as a_b are found as they are
_LONGEST_REASON = 500


def convert(data: bytes, suffix: str, version: int = NEWEST_READING) -> str:
    """Return the Markdown of a document; ``suffix`` is the ending of its name.

    By version 1 of the reading, a PDF has a Markdown too, and a web page is converted as it is.

    Raises:
        DocumentError: the document is broken, or is of another format than its name says.
        MissingExtraError: markitdown, or another package that it needs for this format, is missing.
    """
    _check_format(data, suffix)
    try:
        return read_workbook(data, suffix) if suffix in SPREADSHEETS else _by_markitdown(data, suffix, version)
    except TwinvecError:
        raise
    except Exception as error:  # the many converters raise many types, and one broken file must not stop the reading
        raise DocumentError(f"cannot be converted: {_in_one_line(_first_reason(error))}") from error


def _by_markitdown(data: bytes, suffix: str, version: int) -> str:
    purpose = f"reading {suffix} files"
    telemetry.switch_off()  # markitdown uses ONNX Runtime
    package = import_extra("markitdown", "documents", purpose, "twinvec-qdrant")
    is_page = suffix in _PAGES and version > 1
    info = package.StreamInfo(extension=suffix, charset="utf-8" if is_page else None)
    stream = BytesIO(_without_navigation(data) if is_page else data)
    try:
        converter = package.MarkItDown(enable_plugins=False)
        return str(converter.convert_stream(stream, stream_info=info, **(_UNESCAPED if version > 1 else {})).markdown)
    except Exception as error:
        if isinstance(_first_reason(error), package.MissingDependencyException):
            raise MissingExtraError("markitdown", "documents", purpose, "twinvec-qdrant") from error
        raise


def _without_navigation(data: bytes) -> bytes:
    """Return a web page, in UTF-8, without what leads elsewhere; a page without headings has its title as heading."""
    from bs4 import BeautifulSoup

    page = BeautifulSoup(data, "html.parser", from_encoding="utf-8" if _is_utf8(data) else None)
    for image in page.find_all("img"):
        image.replace_with(str(image.get("alt") or ""))
    for element in page.find_all(True):
        if _is_navigation(element):
            element.extract()
    for link in page.find_all("a", href=True):
        del link["title"]
        if not _ELSEWHERE.match(str(link["href"])):
            link.unwrap()
    body = page.body or page
    if not body.get_text(strip=True):
        return data  # it is nothing else
    if page.title and not body.find(_HEADING):
        heading = page.new_tag("h1")
        heading.string = " ".join(page.title.extract().get_text().split())
        body.insert(0, heading)
    return bytes(page.encode("utf-8"))


def _is_navigation(element: Any) -> bool:
    """Return whether an element of a page only leads elsewhere, such as a list of the page's own headings."""
    names = [*element.get_attribute_list("class"), element.get("id"), element.get("role")]
    if element.name == "nav" or any(name and _NAVIGATION.fullmatch(name) for name in names):
        return element.name not in _CONTENT and element.find(_CONTENT) is None
    if element.name == "a":  # the sign beside a heading
        return _is_inner(element) and not _WORD.search(element.get_text())
    if element.name in _LISTS and element.a is not None:
        linked = sum(len(link.get_text(strip=True)) for link in element.find_all("a") if _is_inner(link))
        return bool(linked == len(element.get_text(strip=True)))
    return False


def _is_inner(link: Any) -> bool:
    """Return whether a link leads to another place of its page."""
    return str(link.get("href") or "").startswith("#")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _check_format(data: bytes, suffix: str) -> None:
    """Refuse a file whose beginning is not that of its format: markitdown would take it for plain text."""
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
