"""The title of a Word document, from its properties.

Word fills in the title from the first line of a new document or from a template, and nobody changes it when the
document becomes another one. So a title counts only if the text or the name of the file has most of its words.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import PurePath
from typing import Any
from zipfile import ZipFile

from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.reading.office.office_archives import BROKEN_ARCHIVE

_PROPERTIES = "docProps/core.xml"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_WORD = re.compile(r"[^\W_]{4,}")  # shorter words are in every text
_LEAST_WORDS = 2
_LONGEST = 200  # characters; a longer title is a paragraph
_LEAST_SHARE = 0.5  # of the words of a title that the text or the name of the file must have


def title_of_word(data: bytes, text: str, name: str) -> str:
    """Return the title of a Word document; "" if it is generic, of another document, or the first line of the text."""
    title = " ".join(_stated(data).split())
    words = _words(title)
    if len(words) < _LEAST_WORDS or len(title) > _LONGEST:
        return ""
    if title.casefold() == text.lstrip().partition("\n")[0].strip("#* ").casefold():
        return ""
    known = len(words & (_words(text) | _words(PurePath(name).stem)))
    return title if known >= _LEAST_SHARE * len(words) else ""


def _stated(data: bytes) -> str:
    etree: Any = import_extra("lxml.etree", "documents", "reading .docx files", "twinvec-qdrant")
    try:
        with ZipFile(BytesIO(data)) as archive:
            properties = archive.read(_PROPERTIES)
        root = etree.fromstring(properties, etree.XMLParser(resolve_entities=False, no_network=True))
    except (*BROKEN_ARCHIVE, KeyError, etree.XMLSyntaxError):  # KeyError: no properties
        return ""
    return root.findtext(_TITLE) or ""


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
