"""Web pages: HTML, or the MHTML in which a browser saves a page with its images -> HTML that gives good Markdown.

What leads elsewhere goes: navigation, tables of contents, the addresses of images and of pages of the same site. By
version 3 of the reading, what a browser shows apart is apart: the converter (markdownify) knows only some elements as
blocks, and joins the texts of all others. By version 4, the same holds for the chapters of an EPUB book.
"""

from __future__ import annotations

import re
import zipfile
from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from twinvec.errors import DocumentError

PAGES = (".htm", ".html")
"""Endings of the names of web pages."""

BOOK = ".epub"
ARCHIVES = (".mht", ".mhtml")
"""Endings of the names of web pages that a browser saved as a single file; versions 1 and 2 read them as text."""

_NAVIGATION = re.compile(
    r"(?:doc-?|site-?)?nav(?:bar|header|footer|igation|-panel)?|toc|toctree-wrapper|table-of-contents|breadcrumbs?"
    r"|pagination"
)
_CHAPTER = ".xhtml"
_CONTENT = ("html", "body", "main", "article", "h1")  # no navigation, whatever is said of them
_LISTS = ("ul", "ol", "dl")
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")  # how the address of another site begins
_HEADING = re.compile(r"h[1-6]$")
_WORD = re.compile(r"\w")
_BLOCKS = (  # of the HTML standard's section on rendering, without those that markdownify knows
    *("address", "aside", "center", "details", "dialog", "fieldset", "figure", "footer", "form", "header", "hgroup"),
    *("legend", "main", "nav", "noscript", "optgroup", "search", "summary"),
)
_APART_IN_LINE = (  # controls, and the texts of drawings
    *("button", "datalist", "label", "meter", "option", "output", "progress", "select", "svg", "text", "textarea"),
)


def page_of_archive(data: bytes) -> tuple[bytes, str]:
    """Return the HTML of a web archive (MHTML, RFC 2557), and the address that it is from, or "".

    The HTML is in UTF-8 if the archive says which encoding it has.

    Raises:
        DocumentError: not a web archive, or one without a page.
    """
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    if "content-type" not in message:
        raise DocumentError("not a web archive: no Content-Type at its beginning; save the page again")
    try:
        part = message.get_body(("html",))
        raw = None if part is None else part.get_payload(decode=True)
        address = "" if part is None else str(part["content-location"] or message["snapshot-content-location"] or "")
    except Exception as error:  # as in ``mail``
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DocumentError(f"a broken web archive: {reason}; save the page again") from error
    if part is None or not isinstance(raw, bytes):
        raise DocumentError("a web archive without a page; save the page again")
    return _in_utf8(raw, part), "".join(address.split())


def cleaned_book(data: bytes, version: int) -> bytes:
    """Return an EPUB book whose chapters are cleaned; a chapter without headings gets none."""
    book = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as read, zipfile.ZipFile(book, "w") as written:
        for name in dict.fromkeys(read.namelist()):
            is_chapter = PurePosixPath(name).suffix.lower() in (*PAGES, _CHAPTER)
            try:
                part = read.read(name)
            except (zipfile.BadZipFile, RuntimeError):  # broken or encrypted: only the book's texts are read
                if is_chapter:
                    raise
                continue
            written.writestr(name, cleaned(part, "", version, titled=False) if is_chapter else part)
    return book.getvalue()


def _in_utf8(raw: bytes, part: MIMEPart) -> bytes:
    """Return a page in UTF-8. One whose encoding is not stated, or not that, stays: the page may state it itself."""
    try:
        return raw.decode(part.get_content_charset() or "utf-8").encode("utf-8", "replace")
    except (LookupError, UnicodeDecodeError):
        return raw


def cleaned(data: bytes, address: str, version: int, *, titled: bool = True) -> bytes:
    """Return a web page, in UTF-8, without what leads elsewhere.

    A page whose ``address`` is known may name its own site in its links. A page without headings has its title as
    heading if ``titled``.
    """
    page = _parsed(data)
    for link in page.find_all("a", href=True) if address else ():
        link["href"] = _on_site(str(link["href"]), address)
    for image in page.find_all("img"):
        words = str(image.get("alt") or "")
        image.replace_with(f" {words} " if words and version > 2 else words)
    for element in page.find_all(True):
        if _is_navigation(element):
            element.extract()
    for link in page.find_all("a", href=True):
        del link["title"]
        if not _ELSEWHERE.match(str(link["href"])):
            link.unwrap()
    body = page.body or page
    if not body.get_text(strip=True):  # it is nothing else
        return data if version < 3 else bytes(_set_apart(_parsed(data)).encode("utf-8"))
    if titled and page.title and not body.find(_HEADING):
        heading = page.new_tag("h1")
        heading.string = " ".join(page.title.extract().get_text().split())
        body.insert(0, heading)
    return bytes((page if version < 3 else _set_apart(page)).encode("utf-8"))


def _parsed(data: bytes) -> Any:
    from bs4 import BeautifulSoup

    return BeautifulSoup(data, "html.parser", from_encoding="utf-8" if _is_utf8(data) else None)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _on_site(link: str, address: str) -> str:
    """Return a link without the site, or without the page, if it leads to the site or page at ``address``."""
    place = link.partition("#")
    if place[0] == address.partition("#")[0]:
        return f"#{place[2]}"
    try:
        parts = urlsplit(link)
        is_elsewhere = parts[:2] != urlsplit(address)[:2]
    except ValueError:
        return link
    return link if is_elsewhere else urlunsplit(("", "", *parts[2:]))


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


def _set_apart(page: Any) -> Any:
    """Return a page in which the converter takes each block for one, and blanks part what is apart in a line."""
    from bs4.element import NavigableString

    for block in page.find_all(_BLOCKS):
        block.name = "div"
    for menu in page.find_all("menu"):
        menu.name = "ul"
    for element in page.find_all(_APART_IN_LINE):
        before, behind = element.previous_sibling, element.next_sibling
        if type(before) is not NavigableString or not before[-1:].isspace():
            element.insert_before(" ")
        if type(behind) is not NavigableString or _WORD.match(behind):  # no blank before a comma
            element.insert_after(" ")
    page.smooth()
    return page
