"""Word documents: rename elements that the converter (mammoth) ignores to an element that it reads.

mammoth reads inserted text (``w:ins``), but neither text that was moved here with tracked changes (``w:moveTo``) nor
the text of a simple field, such as a date or a reference (``w:fldSimple``). Deleted text (``w:del``) and the former
place of moved text (``w:moveFrom``) are not text.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.reading.office.office_archives import BROKEN_ARCHIVE, rewritten

_SPACES = (  # namespaces of WordprocessingML, transitional and strict (ISO/IEC 29500)
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_UNREAD = ("moveTo", "fldSimple")
_READ = "ins"
_MENTIONED = re.compile(rb"\bmoveTo\b|\bfldSimple\b")
_TEXTS = re.compile(r"word/[^/]+\.xml", re.IGNORECASE)  # the document, its notes and its comments


def with_all_text(data: bytes) -> bytes:
    """Return a Word document whose moved text and simple fields the converter reads.

    A damaged document, and one without such elements, stays as it is.
    """
    try:
        with ZipFile(BytesIO(data)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist() if _TEXTS.fullmatch(name)}
        changed = {name: new for name, part in parts.items() if (new := _renamed(part)) is not None}
        return rewritten(data, changed.get) if changed else data
    except BROKEN_ARCHIVE:
        return data


def _renamed(part: bytes) -> bytes | None:
    """Return a part with its elements renamed; None if it has no such element, or cannot be parsed."""
    if not _MENTIONED.search(part):
        return None
    etree: Any = import_extra("lxml.etree", "documents", "reading .docx files", "twinvec-qdrant")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    try:
        root = etree.fromstring(part, parser)
    except etree.XMLSyntaxError:  # the converter reports it
        return None
    for space in _SPACES:
        for element in list(root.iter(*(f"{{{space}}}{name}" for name in _UNREAD))):
            element.tag = f"{{{space}}}{_READ}"
    return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))
