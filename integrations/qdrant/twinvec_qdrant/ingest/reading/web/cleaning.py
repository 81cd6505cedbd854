"""Cleaning: the HTML of a page or chapter -> HTML that gives good Markdown.

Links to other places are removed: navigation, tables of contents, the addresses of images and of pages of the same
site. From reading version 3 on, texts that a browser shows apart stay apart: the converter (markdownify) knows only
some elements as blocks, and joins the texts of all others. From version 5 on, libxml2 parses a page, because it knows
which end tags HTML permits to omit. Version 5 also removes short hidden elements, except those that readers can open.

Beautiful Soup searches all children of an element when it moves one of them. This module therefore makes
lists of children anew (``_change``), so that the time is linear in the length of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.reading.decoding import is_utf_8
from twinvec_qdrant.ingest.reading.encodings.page_encodings import encoding_of_page
from twinvec_qdrant.ingest.reading.web.table_cells import whole_number, with_spans

_NAVIGATION = re.compile(
    r"(?:doc-?|site-?)?nav(?:bar|header|footer|igation|-panel)?|toc|toctree-wrapper|table-of-contents|breadcrumbs?"
    r"|pagination"
)
_CONTENT = ("html", "body", "main", "article", "h1")  # never removed as navigation, whatever their class, id or role
_UNSEEN = ("iframe", "noembed", "script", "style")
# ids of what style sheets of mdBook hide at the head of each page: keyboard shortcuts, the box that opens the contents,
# and the menu of colours; older versions of mdBook have some ids without "mdbook-"
_OF_MDBOOK = re.compile(r"mdbook-help-container|mdbook-theme-list|(?:mdbook-)?sidebar-toggle-anchor")
_DECLARATION = re.compile(rb"\A<\?xml[^>]*>")  # an XML declaration, of which Beautiful Soup would warn
_LISTS = ("ul", "ol", "dl")
_TERMS = ("dt", "dd")
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")  # the beginning of an address on another site
_HEADING = re.compile(r"h[1-6]$")
_WORD = re.compile(r"\w")
_NOT_DISPLAYED = re.compile(r"(?:^|;)\s*display\s*:\s*none\b", re.IGNORECASE)
_IN_LINE = ("a", "b", "button", "em", "i", "small", "span", "sub", "sup", "svg")
_OPENED = re.compile(  # a part of the class of an element that readers open
    r"(?:^|[-_])tabs?(?:$|[-_])|tab-?(?:content|pane)|accordion|collaps|expand|spoiler|toggle", re.IGNORECASE
)
_RUNNING_TEXT = 100  # a hidden element with more characters outside links and controls is content that a script shows
_LIST_ITEMS = 200  # the converter takes the square of this for each list
_BLOCKS = (  # blocks in the HTML standard's section on rendering, without the blocks that markdownify knows
    *("address", "aside", "center", "details", "dialog", "fieldset", "figure", "footer", "form", "header", "hgroup"),
    *("legend", "main", "nav", "noscript", "optgroup", "search", "summary"),
)
_APART_IN_LINE = (  # elements of forms, and of drawings with text
    *("button", "datalist", "label", "meter", "option", "output", "progress", "select", "svg", "text", "textarea"),
)


@dataclass(slots=True)
class _Facts:
    """Facts about the content of one element of a page.

    Attributes:
        letters: Number of characters in its texts.
        linked: Number of characters in links within the page; a text in two nested links counts twice.
        running: Number of characters outside links, controls and drawings.
        has_paragraph: Whether the element contains a <p> element with a letter or digit.
        has_word: Whether a text has a letter or digit.
        has_link: Whether the element contains a link.
        has_content: Whether the element contains the main content of the page (``_CONTENT``).
    """

    letters: int = 0
    linked: int = 0
    running: int = 0
    has_paragraph: bool = False
    has_word: bool = False
    has_link: bool = False
    has_content: bool = False


def clean(html: bytes, address: str, version: int, *, titled: bool = False) -> bytes:
    """Return HTML in UTF-8, without navigation and without links to other places.

    If the ``address`` is known, links to the page's own site are recognised. With ``titled``, a page without headings
    gets its title as heading.
    """
    page = _parsed(html, version)
    for link in page.find_all("a", href=True) if address else ():
        link["href"] = _on_site(str(link["href"]), address)
    if version > 4:
        _move_terms_out(page)
    _change(page, lambda children: [each for child in children for each in _shown(child, version)])
    facts = _facts(page)
    unseen = _unseen(page, facts, version) if version > 4 else ()
    _change(page, lambda children: [each for child in children for each in _kept(child, facts, unseen)])
    body = page.body or page
    if not body.get_text(strip=True):  # the page has no text besides what was removed
        return html if version < 3 else bytes(_set_apart(_parsed(html, version), version).encode("utf-8"))
    if titled and page.title and not body.find(_HEADING):
        heading = page.new_tag("h1")
        heading.string = " ".join(page.title.extract().get_text().split())
        body.insert(0, heading)
    return bytes((page if version < 3 else _set_apart(page, version)).encode("utf-8"))


def _parsed(html: bytes, version: int) -> Any:
    from bs4 import BeautifulSoup

    if version > 4:
        import_extra("lxml", "documents", "reading web pages", "twinvec-qdrant")
        undeclared = b"\n%b" % _DECLARATION.sub(b"", html)  # Beautiful Soup warns of some texts without a line end
        # huge_tree permits comments above 10 MB
        return BeautifulSoup(undeclared, "lxml", from_encoding="utf-8", huge_tree=True)
    encoding = "utf-8" if is_utf_8(html) else encoding_of_page(html, None)
    return BeautifulSoup(html, "html.parser", from_encoding=encoding)


def _change(page: Any, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the children of each element of a page; begin with the innermost elements."""
    for element in reversed(_elements(page)):
        element.contents = change(element.contents)
    last, following = page, [page]
    while following:
        item = following.pop()
        last.next_element, item.previous_element, last = item, last, item
        children = getattr(item, "contents", [])
        for before, child, behind in zip([None, *children], children, [*children[1:], None], strict=False):
            child.parent, child.previous_sibling, child.next_sibling = item, before, behind
        following.extend(reversed(children))
    page.previous_element = last.next_element = None


def _elements(page: Any) -> list[Any]:
    """Return a page and its elements; each element follows its parent."""
    from bs4.element import Tag

    elements = [page]
    for element in elements:  # the list grows during the loop
        elements.extend(child for child in element.contents if isinstance(child, Tag))
    return elements


def _facts(page: Any) -> dict[int, _Facts]:
    """Return the facts about each element of a page, by ``id()`` of the element."""
    from bs4.element import CData, NavigableString, Tag

    facts: dict[int, _Facts] = {}
    for element in reversed(_elements(page)):
        known = facts[id(element)] = _Facts()
        for child in element.contents:
            if isinstance(child, Tag):
                inner = facts[id(child)]
                known.letters += inner.letters
                known.linked += inner.linked
                known.running += 0 if child.name == "a" or child.name in _APART_IN_LINE else inner.running
                known.has_paragraph |= inner.has_paragraph or (child.name == "p" and inner.has_word)
                known.has_word |= inner.has_word
                known.has_link |= inner.has_link or child.name == "a"
                known.has_content |= inner.has_content or child.name in _CONTENT
            elif type(child) in (NavigableString, CData):  # neither a comment nor a script
                known.letters += len(child.strip())
                known.running += len(child.strip())
                known.has_word = known.has_word or bool(_WORD.search(child))
        if element.name == "a" and _is_inner(element):
            known.linked += known.letters
    return facts


def _shown(child: Any, version: int) -> list[Any]:
    """Return the replacement of an element or text; the replacement of an image is its description."""
    from bs4.element import NavigableString

    if child.name == "img":
        words = str(child.get("alt") or "")
        return [NavigableString(f" {words} " if words and version > 2 else words)]
    if version > 4 and (child.name in _UNSEEN or (child.name == "template" and not child.get("shadowrootmode"))):
        return []
    return [child]


def _move_terms_out(page: Any) -> None:
    """Move <dt> and <dd> elements behind the one in which libxml2 nests them by mistake."""
    for element in _elements(page):
        if element.name not in _TERMS:
            element.contents = list(_terms(element.contents))


def _terms(children: list[Any]) -> Iterator[Any]:
    """Yield these children; after a <dt> or <dd> element, yield its content from the first such inner element on."""
    left = children[::-1]
    while left:
        child = left.pop()
        if child.name in _TERMS:
            inner = next((row for row, each in enumerate(child.contents) if each.name in _TERMS), len(child.contents))
            left += reversed(child.contents[inner:])
            child.contents = child.contents[:inner]
        yield child


def _kept(child: Any, facts: Mapping[int, _Facts], unseen: Collection[int]) -> list[Any]:
    """Return what is kept of an element or text: of a link to the same site, only its contents.

    Nothing is kept of navigation and of the elements whose ``id()`` is in ``unseen``.
    """
    if child.name is None:
        return [child]
    if id(child) in unseen or _is_navigation(child, facts[id(child)]):
        return []
    if child.name == "a" and child.get("href") is not None:
        del child["title"]
        if not _ELSEWHERE.match(str(child["href"])):
            return list(child.contents)
    return [child]


def _on_site(link: str, address: str) -> str:
    """Return a link relative to ``address`` if it leads to the same page or site, else unchanged."""
    place = link.partition("#")
    if place[0] == address.partition("#")[0]:
        return f"#{place[2]}"
    try:
        parts = urlsplit(link)
        is_elsewhere = parts[:2] != urlsplit(address)[:2]
    except ValueError:
        return link
    return link if is_elsewhere else urlunsplit(("", "", *parts[2:]))


def _is_navigation(element: Any, held: _Facts) -> bool:
    """Return whether an element is only navigation, such as a list of the page's own headings."""
    names = [*element.get_attribute_list("class"), element.get("id"), element.get("role")]
    if element.name == "nav" or any(name and _NAVIGATION.fullmatch(name) for name in names):
        return element.name not in _CONTENT and not held.has_content
    if element.name == "a":  # a sign beside a heading, which links to the heading
        return _is_inner(element) and not held.has_word
    return element.name in _LISTS and held.has_link and held.linked == held.letters


def _controlled(page: Any) -> set[str]:
    """Return the ids of elements that a control of the page, such as a button, shows and hides."""
    controls = page.find_all(attrs={"aria-controls": True})
    return {name for each in controls for name in str(each["aria-controls"]).split()}


def _unseen(page: Any, facts: Mapping[int, _Facts], version: int) -> set[int]:
    """Return the ``id()`` of each decoration, and of short hidden elements unless they have most of the text."""
    body = page.body or page
    controlled = _controlled(page)
    decorations: set[int] = set()
    hidden: set[int] = set()
    removed, left = 0, facts[id(body)].letters
    following = [body]
    while following:
        for child in (each for each in following.pop().contents if each.name is not None):
            held = facts[id(child)]
            if _is_navigation(child, held):
                left -= held.letters
            elif _is_decoration(child) or (version > 8 and _OF_MDBOOK.fullmatch(str(child.get("id")))):
                decorations.add(id(child))
                left -= held.letters
            elif _is_hidden(child) and not _is_shown_later(child, held, controlled):
                hidden.add(id(child))
                removed, left = removed + held.letters, left - held.letters
            else:
                following.append(child)
    return decorations | hidden if removed <= left else decorations


def _is_decoration(element: Any) -> bool:
    """Return whether an element is a decoration within a line, which screen readers skip.

    Larger elements that screen readers skip may be content: an open dialog makes them skip everything else.
    """
    return element.name in _IN_LINE and str(element.get("aria-hidden")).lower() == "true"


def _is_hidden(element: Any) -> bool:
    """Return whether browsers do not show an element."""
    hidden = element.get("hidden")
    if hidden is not None and str(hidden).lower() != "until-found":
        return True
    return bool(_NOT_DISPLAYED.search(str(element.get("style") or "")))


def _is_shown_later(element: Any, held: _Facts, controlled: Collection[str]) -> bool:
    """Return whether a hidden element is content that readers can open, such as a tab, or that a script shows later.

    Pages of Docusaurus, Starlight and Sphinx have such tabs; Docusaurus also hides the content of <details>. Hidden
    running text counts as content, since few pages state that a script shows it.
    """
    if held.has_paragraph or (held.running > _RUNNING_TEXT and element.name not in _APART_IN_LINE):
        return True
    if element.name in (*_CONTENT, "details") or held.has_content or element.get("role") == "tabpanel":
        return True
    names = [name for name in element.get_attribute_list("class") if name]
    is_opened = element.get("id") in controlled or element.get("x-show") or any(_OPENED.search(name) for name in names)
    return is_opened or element.find_parent("details") is not None


def _is_inner(link: Any) -> bool:
    """Return whether a link leads to another place of its page."""
    return str(link.get("href") or "").startswith("#")


def _set_apart(page: Any, version: int) -> Any:
    """Return a page in which the converter knows all blocks, and blanks surround inline controls such as buttons."""
    for block in page.find_all(_BLOCKS):
        block.name = "div"
    for menu in page.find_all("menu"):
        menu.name = "ul"
    _change(page, _parted if version < 5 else lambda children: _parted(_split_lists(with_spans(children, page), page)))
    return page


def _split_lists(children: list[Any], page: Any) -> list[Any]:
    """Split long numbered lists: the converter counts the items before each item."""
    split: list[Any] = []
    for child in children:
        items = [each for each in child.contents if each.name == "li"] if child.name == "ol" else []
        if len(items) <= _LIST_ITEMS:
            split.append(child)
            continue
        for place in range(0, len(items), _LIST_ITEMS):
            part = page.new_tag("ol", attrs={"start": str(whole_number(child, "start") + place)})
            part.contents = items[place : place + _LIST_ITEMS]
            split.append(part)
    return split


def _parted(children: list[Any]) -> list[Any]:
    """Return the children of an element, with blanks around inline controls such as buttons."""
    from bs4.element import NavigableString

    parted: list[Any] = []
    for child, behind in zip(children, [*children[1:], None], strict=False):
        is_apart = child.name in _APART_IN_LINE
        before = parted[-1] if parted else None
        if is_apart and (type(before) is not NavigableString or not before[-1:].isspace()):
            parted.append(NavigableString(" "))
        parted.append(child)
        if is_apart and (type(behind) is not NavigableString or _WORD.match(behind)):  # a comma gets no blank before it
            parted.append(NavigableString(" "))
    return parted
