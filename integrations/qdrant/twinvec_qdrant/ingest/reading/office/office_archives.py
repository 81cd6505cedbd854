"""Office files are zip archives: check that a converter can hold their parts in memory, and rewrite parts.

A zip archive may unpack to a thousand times its size, and converters hold much of it in memory at once, as trees. A
tree takes up to 55 bytes for each byte of a .docx file, 30 bytes for a .pptx file or for styles, and 125 bytes for an
.epub file. The sheets and strings of a workbook are read as a stream. Measured files with 8 MB of text, the limit of a
document, unpack to 11 to 43 MB (.docx) or to 31 to 61 MB (.xlsx).
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from io import BytesIO
from pathlib import PurePosixPath
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo
from zlib import error as ZlibError  # noqa: N812

from twinvec.errors import DocumentError

_MIB = 2**20
_WHOLE = 512 * _MIB
_SHEETS = 128 * _MIB
_TREES = {
    **dict.fromkeys((".docx", ".ods", ".pptx", ".xlsx"), 48 * _MIB),
    **dict.fromkeys((".epub", ".odp", ".odt"), 24 * _MIB),
}
_MAIN = {
    **dict.fromkeys((".odp", ".ods", ".odt"), "content.xml"),
    ".docx": "word/",
    ".epub": "meta-inf/container.xml",
    ".pptx": "ppt/",
    ".xlsx": "xl/",
}  # prefix of an entry that every archive of this type contains
_STREAMED = ("xl/worksheets/", "xl/sharedStrings")
_TEXTS = frozenset({".htm", ".html", ".ncx", ".opf", ".rels", ".txt", ".xhtml", ".xml"})
_MARKS = (BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE)
_USUAL = (ZIP_STORED, ZIP_DEFLATED)
_BLOCK = _MIB
_CONTENT_TYPES = "[Content_Types].xml"
# content types of slide shows and of templates of slides, also those with macros
_OTHER_SLIDES = re.compile(
    rb"(presentationml\.|ms-powerpoint\.)(?:slideshow|template)(?=\.(?:macroEnabled\.)?main\+xml)"
)

_CHECKED_SHEET = 16 * _MIB  # the rows of a smaller sheet are not checked
_MOST_ELEMENTS = 1_000_000  # most XML elements of a row, which has at most 16,384 cells
_ENDS = ("row", "si")

BROKEN_ARCHIVE = (BadZipFile, ZlibError, EOFError, NotImplementedError, RuntimeError, ValueError)
"""The errors that ``zipfile`` raises for damaged and encrypted archives."""


def check_archive(data: bytes, suffix: str) -> None:
    """Raise ``DocumentError`` if the archive of an office file of the kind ``suffix`` unpacks to more than a limit.

    All parts together may unpack to 512 MiB. The parts in XML and HTML have a lower limit, which depends on ``suffix``.
    A part that exceeds its stated size is refused, because ``zipfile`` would unpack it whole. An archive that cannot be
    read passes, because the converter reports the error.
    """
    try:
        archive = ZipFile(BytesIO(data))
    except BROKEN_ARCHIVE:
        return
    with archive:
        items = archive.infolist()
        streamed = {each for each in items if suffix == ".xlsx" and each.filename.startswith(_STREAMED)}
        _check_sum(items, _WHOLE, "")
        _check_sum(streamed, _SHEETS, " of sheets")
        for each in items:
            _check_part(archive, each, is_streamed=each in streamed)
        trees = [each for each in items if each not in streamed and _is_text(archive, each)]
        _check_sum(trees, _TREES[suffix], " of XML and HTML")


def check_parts(data: bytes, suffix: str) -> None:
    """Raise ``DocumentError`` if an archive has none of the parts that every office file of the kind ``suffix`` has."""
    try:
        with ZipFile(BytesIO(data)) as archive:
            names = archive.namelist()
    except BROKEN_ARCHIVE:
        return
    if not any(name.lower().startswith(_MAIN[suffix]) for name in names):
        raise DocumentError(
            f"damaged, or not a {suffix} file: the archive has none of the usual parts; get the file again"
        )


def rewritten(data: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    """Return an archive with changed parts; ``change`` gets a part's name and bytes, and returns its new bytes.

    Raises an error of the types in ``BROKEN_ARCHIVE`` if a part is damaged.
    """
    changed = BytesIO()
    with ZipFile(BytesIO(data)) as archive, ZipFile(changed, "w") as written:
        for name in dict.fromkeys(archive.namelist()):
            written.writestr(name, change(name, archive.read(name)), archive.getinfo(name).compress_type)
    return changed.getvalue()


def as_presentation(data: bytes) -> bytes:
    """Return a slide show or a template of slides as a presentation, because python-pptx opens nothing else.

    Raises an error of the types in ``BROKEN_ARCHIVE`` if a part is damaged.
    """
    with ZipFile(BytesIO(data)) as archive:
        if not _OTHER_SLIDES.search(archive.read(_CONTENT_TYPES)):
            return data
    return rewritten(
        data, lambda name, part: _OTHER_SLIDES.sub(rb"\1presentation", part) if name == _CONTENT_TYPES else part
    )


def _check_sum(items: Iterable[ZipInfo], limit: int, what: str) -> None:
    if sum(each.file_size for each in items) > limit:
        raise DocumentError(f"the file unpacks to more than the limit of {limit:,} bytes{what}; split the file")


def _check_part(archive: ZipFile, item: ZipInfo, *, is_streamed: bool) -> None:
    if item.compress_type not in _USUAL:
        name = f"{item.filename!r:.80}"
        raise DocumentError(f"{name} is compressed by a method that office files do not use; save the file again")
    elements = _Elements() if is_streamed and item.file_size > _CHECKED_SHEET else None
    size = 0
    for block in _blocks(archive, item):
        size += len(block)
        if size > item.file_size:
            raise DocumentError(f"damaged file: {item.filename!r:.80} exceeds its stated size; get the file again")
        if elements is not None:
            elements.count(block)


def _blocks(archive: ZipFile, item: ZipInfo) -> Iterator[bytes]:
    """Yield the unpacked bytes of a part, at most one byte more than its stated size; stop at damaged data."""
    wanted = copy(item)
    wanted.file_size += 1
    wanted.CRC = None  # type: ignore[assignment]  # no check: a damaged picture does no harm
    try:
        with archive.open(wanted) as part:
            while block := part.read(_BLOCK):
                yield block
    except BROKEN_ARCHIVE:  # RuntimeError: encrypted; ValueError: an offset before the archive's beginning
        return


def _is_text(archive: ZipFile, item: ZipInfo) -> bool:
    """Return whether a part is XML or HTML, by its first bytes or by the ending of its name."""
    head = next(_blocks(archive, item), b"")[:64]
    for mark in _MARKS:
        head = head.removeprefix(mark)
    return head.lstrip(b"\0 \t\r\n").startswith(b"<") or PurePosixPath(item.filename).suffix.lower() in _TEXTS


class _Elements:
    """Counts the elements in each row of a sheet, since openpyxl holds all elements of a row in memory."""

    def __init__(self) -> None:
        self._number = 0
        self._parser: expat.XMLParserType | None = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def count(self, block: bytes) -> None:
        """Parse the next block; raise ``DocumentError`` if a row has too many elements."""
        try:
            if self._parser is not None:
                self._parser.Parse(block)
        except expat.ExpatError:  # openpyxl reports the error later
            self._parser = None

    def _start(self, *_: object) -> None:
        self._number += 1
        if self._number > _MOST_ELEMENTS:
            raise DocumentError(
                f"a row has more than {_MOST_ELEMENTS:,} elements, but a sheet has at most 16,384 columns; "
                "save the file again"
            )

    def _end(self, name: str) -> None:
        if name.rpartition(":")[2] in _ENDS:
            self._number = 0
