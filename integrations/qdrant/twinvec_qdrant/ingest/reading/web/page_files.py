"""Page files: a web page, a web archive (MHTML) or an EPUB book -> cleaned HTML in UTF-8.

From reading version 4 on, the chapters of a book are cleaned like pages. From version 5 on, the encoding of a page is
determined as browsers do it.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection
from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart
from html import escape
from io import BytesIO
from pathlib import PurePosixPath

from twinvec.errors import DocumentError
from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.reading.decoding import decode, decode_as_stated, decode_page, without_escapes
from twinvec_qdrant.ingest.reading.encodings.page_encodings import encodings_of_page
from twinvec_qdrant.ingest.reading.results import one_line
from twinvec_qdrant.ingest.reading.web.cleaning import clean

PAGES = (".htm", ".html")
"""Endings of the names of web pages."""

XHTML = ".xhtml"
"""Ending of the names of chapters of books, and of web pages that reading versions 1 to 4 read as text."""

BOOK = ".epub"
ARCHIVES = (".mht", ".mhtml")
"""Endings of the names of web pages that a browser saved as one file; reading versions 1 and 2 read them as text."""

_MISREAD = re.compile(  # tags that libxml2 and browsers read differently
    r"</?noframes[^>]*>"  # libxml2 reads the content of noframes as plain text
    r"|</(?:body|html)\s*>",  # libxml2 begins another page after these end tags
    re.IGNORECASE,
)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


def cleaned(data: bytes, address: str, version: int, *, is_xhtml: bool = False) -> bytes:
    """Return a web page in UTF-8, without navigation and without links to other places.

    If the ``address`` is known, links to the page's own site are recognised. A page without headings gets its title as
    heading.

    Raises:
        DocumentError: the file is binary (from reading version 5 on).
    """
    page = _page(data, version) if version > 4 else data
    return clean(_without_cdata(page) if is_xhtml else page, address, version, titled=True)


def page_of_archive(data: bytes, version: int) -> tuple[bytes, str]:
    """Return the HTML of a web archive (MHTML, RFC 2557), and the address of the page, or "".

    The HTML is in UTF-8 if the archive states its encoding.

    Raises:
        DocumentError: the file is not a web archive, or has no page.
    """
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    if "content-type" not in message:
        raise DocumentError(
            "not a web archive: it does not begin with headers such as Content-Type; save the page again"
        )
    try:
        part = message.get_body(("html",))
        raw = None if part is None else part.get_payload(decode=True)
        address = "" if part is None else str(part["content-location"] or message["snapshot-content-location"] or "")
    except Exception as error:  # the parser of mail raises many types for broken archives
        raise DocumentError(f"damaged web archive: {one_line(error)}; save the page again") from error
    if part is None or not isinstance(raw, bytes):
        raise DocumentError("the web archive has no page; save the page again")
    return _in_utf8(raw, part, version), "".join(address.split())


def cleaned_book(data: bytes, version: int) -> bytes:
    """Return an EPUB book whose chapters are cleaned; a chapter without headings gets none."""
    book = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as read, zipfile.ZipFile(book, "w") as written:
        for name in dict.fromkeys(read.namelist()):
            is_chapter = PurePosixPath(name).suffix.lower() in (*PAGES, XHTML)
            try:
                part = read.read(name)
            except (zipfile.BadZipFile, RuntimeError):  # broken or encrypted: ignored, unless it is a chapter
                if is_chapter:
                    raise
                continue
            written.writestr(name, clean(_chapter(part, version), "", version) if is_chapter else part)
    return book.getvalue()


def _chapter(part: bytes, version: int) -> bytes:
    """Return a chapter in UTF-8, with CDATA sections as plain text, since the XHTML will be parsed as HTML."""
    if version < 5:
        return part
    try:
        page = _page(part, version)
    except DocumentError:  # a broken chapter does not stop the others
        return part.decode("utf-8", "replace").encode()
    return _without_cdata(page)


def _without_cdata(page: bytes) -> bytes:
    closed, end, rest = page.decode().rpartition("]]>")  # without the rest, the time is linear in the length
    return (_CDATA.sub(lambda found: escape(found[1], quote=False), closed + end) + rest).encode()


def _in_utf8(raw: bytes, part: MIMEPart, version: int) -> bytes:
    """Return a page of an archive in UTF-8, or unchanged if its bytes do not fit the stated encoding."""
    stated = part.get_content_charset() or "utf-8"
    try:
        text = decode_as_stated(raw, stated) if version > 4 else raw.decode(stated)
    except (LookupError, UnicodeDecodeError):
        text = None
    return raw if text is None else text.encode("utf-8", "replace")


def _page(data: bytes, version: int) -> bytes:
    """Return a page in UTF-8, without escape sequences of terminals; raise the errors of ``cleaned``."""
    dammit = import_extra("bs4.dammit", "documents", "reading web pages", "twinvec-qdrant")
    stated = dammit.EncodingDetector.find_declared_encoding(data, is_html=True) or ""
    # the statement was found as ASCII bytes, so the page is neither UTF-16 nor UTF-32
    wrong = [stated] if stated.startswith(("utf-16", "utf-32")) else []
    text = decode_page(data, "" if wrong else stated)
    if text is None:
        text = _guessed(data, version) or _in_any_encoding(data, wrong)
    closed, end, rest = without_escapes(text.replace("\x1b<", "<")).rpartition(">")
    return (_MISREAD.sub("", closed + end) + rest).encode("utf-8", "replace")


def _guessed(data: bytes, version: int) -> str:
    """Return a page in a guessed encoding; "" if no encoding is likely, and in reading versions 5 to 8."""
    try:
        return decode(data, version)[0] if version > 8 else ""
    except DocumentError:
        return ""


def _in_any_encoding(data: bytes, wrong: Collection[str]) -> str:
    dammit = import_extra("bs4.dammit", "documents", "reading web pages", "twinvec-qdrant")
    found = dammit.UnicodeDammit(
        data, encodings_of_page(data, wrong), exclude_encodings=wrong, is_html=True
    ).unicode_markup
    return found or data.decode("utf-8", "replace")
