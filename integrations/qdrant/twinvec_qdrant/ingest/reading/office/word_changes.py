"""Word documents: make the text that the converter (mammoth) reads the same with every version of it.

mammoth reads inserted text (``w:ins``), but not the text of a simple field, such as a date or a reference
(``w:fldSimple``). Versions before 1.13 read neither text that was moved here with tracked changes (``w:moveTo``) nor
text with custom XML tags (``w:customXml``). Deleted text (``w:del``) and the former place of moved text
(``w:moveFrom``) are not text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.reading.office.office_archives import BROKEN_ARCHIVE, rewritten

_SPACES = (  # namespaces of WordprocessingML, transitional and strict (ISO/IEC 29500)
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_UNREAD = ("customXml", "fldSimple", "moveTo")
_READ = "ins"
_MENTIONED = re.compile(rb"\b(?:customXml|fldSimple|moveTo)\b")
_TEXTS = re.compile(r"word/[^/]+\.xml", re.IGNORECASE)  # the document, its notes and its comments


def with_all_text(data: bytes) -> bytes:
    """Return a Word document in which every version of mammoth reads moved text, simple fields and tagged text.

    A damaged document, or a document without these elements, is returned unchanged.
    """
    return _changed(data, _rename)


def without_unread_text(data: bytes) -> bytes:
    """Return a Word document without moved text, simple fields and tagged text, for reading versions 1 to 4.

    A damaged document, or a document without these elements, is returned unchanged.
    """
    return _changed(data, _remove)


def _changed(data: bytes, change: Callable[[Any], None]) -> bytes:
    try:
        with ZipFile(BytesIO(data)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist() if _TEXTS.fullmatch(name)}
        changed = {name: new for name, part in parts.items() if (new := _changed_part(part, change)) is not None}
        return rewritten(data, changed.get) if changed else data
    except BROKEN_ARCHIVE:
        return data


def _changed_part(part: bytes, change: Callable[[Any], None]) -> bytes | None:
    """Return a part with its elements changed; None if it has no such element, or cannot be parsed."""
    if not _MENTIONED.search(part):
        return None
    etree: Any = import_extra("lxml.etree", "documents", "reading .docx files", "twinvec-qdrant")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    try:
        root = etree.fromstring(part, parser)
    except etree.XMLSyntaxError:  # the converter reports it
        return None
    for element in list(root.iterdescendants(*(f"{{{space}}}{name}" for space in _SPACES for name in _UNREAD))):
        change(element)
    return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))


def _rename(element: Any) -> None:
    space, _, _ = element.tag.rpartition("}")
    element.tag = f"{space}}}{_READ}"


def _remove(element: Any) -> None:
    element.getparent().remove(element)
