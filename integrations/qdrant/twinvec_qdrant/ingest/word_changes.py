"""Word documents: rename what the converter (mammoth) passes over to what it reads.

It reads inserted text (``w:ins``), but neither text that was moved to its place with tracked changes (``w:moveTo``) nor
the text of a simple field, such as a date or a reference (``w:fldSimple``). Deleted text (``w:del``) and the place that
text was moved from (``w:moveFrom``) are not text.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from io import BytesIO
from typing import Any

from twinvec.support.extras import import_extra

_SPACES = (  # of WordprocessingML, transitional and strict (ISO/IEC 29500)
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_UNREAD = ("moveTo", "fldSimple")
_READ = "ins"
_MENTIONED = re.compile(rb"\bmoveTo\b|\bfldSimple\b")
_TEXTS = re.compile(r"word/[^/]+\.xml", re.IGNORECASE)  # the document, its notes and its comments
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def with_all_text(data: bytes) -> bytes:
    """Return a Word document whose moved text and simple fields the converter reads.

    A damaged document, and one without such elements, stays as it is.
    """
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist() if _TEXTS.fullmatch(name)}
            changed = {name: _renamed(part) for name, part in parts.items() if _MENTIONED.search(part)}
            return _rewritten(archive, changed) if changed else data
    except _BROKEN:
        return data


def _renamed(part: bytes) -> bytes:
    etree: Any = import_extra("lxml.etree", "documents", "reading .docx files", "twinvec-qdrant")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    try:
        root = etree.fromstring(part, parser)
    except etree.XMLSyntaxError:  # the converter reports it
        return part
    for space in _SPACES:
        for element in list(root.iter(*(f"{{{space}}}{name}" for name in _UNREAD))):
            element.tag = f"{{{space}}}{_READ}"
    return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))


def _rewritten(archive: zipfile.ZipFile, changed: dict[str, bytes]) -> bytes:
    copy = BytesIO()
    with zipfile.ZipFile(copy, "w") as written:
        for name in dict.fromkeys(archive.namelist()):
            written.writestr(name, changed.get(name) or archive.read(name), archive.getinfo(name).compress_type)
    return copy.getvalue()
