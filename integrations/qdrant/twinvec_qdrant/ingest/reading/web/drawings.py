"""Drawings: an SVG file -> its title, its descriptions and its texts, each on a line."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from twinvec.errors import DocumentError
from twinvec_qdrant.ingest.reading.results import one_line

DRAWING = ".svg"
"""Ending of the names of drawings; versions 1 to 4 of the reading read them as text with its markup."""

_SPACES = ("{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xhtml}")
_SPOKEN = ("title", "desc")
_HTML = "foreignObject"
_UNSEEN = ("script", "style", "metadata")
_PLACED = ("x", "y")  # attributes of a part of a text that begins at a place of its own, such as a line


def text_of_drawing(data: bytes) -> str:
    """Return what a drawing says; "" if it is only lines and shapes.

    Raises:
        DocumentError: the file is not XML.
    """
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # an unknown encoding raises the last two
        raise DocumentError(f"damaged drawing: not valid XML ({one_line(error)}); get the file again") from error
    return "\n".join(_lines(root))


def _lines(element: Element) -> Iterator[str]:
    name = _name(element)
    if name in (*_SPOKEN, "text", _HTML):
        if line := " ".join("".join(_pieces(element, apart=name == _HTML)).split()):
            yield line
    elif name == "switch":  # viewers show only one of its children
        yield from next(filter(None, (list(_lines(child)) for child in element)), [])
    elif name not in _UNSEEN:
        for child in element:
            yield from _lines(child)


def _pieces(element: Element, *, apart: bool) -> Iterator[str]:
    """Yield the pieces of a text, with spaces around children if ``apart``, else before children with a position."""
    yield element.text or ""
    for child in element:
        if _name(child) not in (*_UNSEEN, *_SPOKEN):
            yield " " if apart or any(place in child.attrib for place in _PLACED) else ""
            yield from _pieces(child, apart=apart)
        yield f" {child.tail or ''}" if apart else child.tail or ""


def _name(element: Element) -> str:
    """Return the name of an element of SVG, or of HTML in it; "" for elements of other namespaces."""
    tag = element.tag
    space = next((space for space in _SPACES if tag.startswith(space)), "")
    return tag.removeprefix(space) if space or "{" not in tag else ""
