"""Office archives: refuse an office file that unpacks to more than a converter can hold in memory.

A zip archive may unpack to a thousand times its size, and converters hold much of it in memory at once, as trees: up to
55 bytes for each byte of a .docx file, 30 of a .pptx file or of styles, and 125 of an .epub file. The sheets and
strings of a workbook are read in a stream. Of 8 MB of text, the limit of a document, a .docx file has measured 11 to
43 MB, and an .xlsx file 31 to 61 MB.
"""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
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
_TREES = {".docx": 48 * _MIB, ".epub": 24 * _MIB, ".pptx": 48 * _MIB, ".xlsx": 48 * _MIB}
_MAIN = {
    ".docx": "word/",
    ".epub": "meta-inf/container.xml",
    ".pptx": "ppt/",
    ".xlsx": "xl/",
}  # how a part's name begins
_STREAMED = ("xl/worksheets/", "xl/sharedStrings")
_TEXTS = frozenset({".htm", ".html", ".ncx", ".opf", ".rels", ".txt", ".xhtml", ".xml"})
_MARKS = (BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE)
_USUAL = (ZIP_STORED, ZIP_DEFLATED)
_BROKEN = (BadZipFile, ZlibError, EOFError, NotImplementedError, RuntimeError, ValueError)  # of a damaged archive
_BLOCK = _MIB

_CHECKED_SHEET = 16 * _MIB
_MOST_ELEMENTS = 1_000_000  # in a row: a row has at most 16,384 cells
_ENDS = ("row", "si")


def check_archive(data: bytes, suffix: str) -> None:
    """Raise ``DocumentError`` if the archive of an office file of the kind ``suffix`` unpacks to more than a limit.

    The parts of XML and HTML have a limit for each kind, and all together 512 MiB. An archive that cannot be read is
    left to the converter. A part that is longer than the archive says is refused: ``zipfile`` unpacks it whole.
    """
    try:
        archive = ZipFile(BytesIO(data))
    except _BROKEN:
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
    except _BROKEN:
        return
    if not any(name.lower().startswith(_MAIN[suffix]) for name in names):
        raise DocumentError(f"damaged, or no {suffix} file: the archive has none of its parts; get the file again")


def _check_sum(items: Iterable[ZipInfo], limit: int, what: str) -> None:
    if sum(each.file_size for each in items) > limit:
        raise DocumentError(f"unpacks to more than the limit of {limit:,} bytes{what}; split it first")


def _check_part(archive: ZipFile, item: ZipInfo, *, is_streamed: bool) -> None:
    if item.compress_type not in _USUAL:
        raise DocumentError(f"compressed in a way that no office file is ({item.filename!r:.80}); save it again")
    elements = _Elements() if is_streamed and item.file_size > _CHECKED_SHEET else None
    size = 0
    for block in _blocks(archive, item):
        size += len(block)
        if size > item.file_size:
            raise DocumentError(f"damaged: {item.filename!r:.80} is larger than the archive says; get the file again")
        if elements is not None:
            elements.count(block)


def _blocks(archive: ZipFile, item: ZipInfo) -> Iterator[bytes]:
    """Yield what a part unpacks to, or one byte more than the archive says if that is less; stop where it is broken."""
    wanted = copy(item)
    wanted.file_size += 1
    wanted.CRC = None  # type: ignore[assignment]  # zipfile checks none then: a broken picture does no harm
    try:
        with archive.open(wanted) as part:
            while block := part.read(_BLOCK):
                yield block
    except _BROKEN:  # RuntimeError: encrypted, ValueError: the archive says a place before its beginning
        return


def _is_text(archive: ZipFile, item: ZipInfo) -> bool:
    """Return whether a part is XML or HTML, by how it begins, whatever its name is; or by its name."""
    head = next(_blocks(archive, item), b"")[:64]
    for mark in _MARKS:
        head = head.removeprefix(mark)
    return head.lstrip(b"\0 \t\r\n").startswith(b"<") or PurePosixPath(item.filename).suffix.lower() in _TEXTS


class _Elements:
    """Counts the elements of a sheet; openpyxl has all elements of a row in memory."""

    def __init__(self) -> None:
        self._number = 0
        self._parser: expat.XMLParserType | None = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def count(self, block: bytes) -> None:
        """Take the next block; raise ``DocumentError`` if a row has too many elements."""
        try:
            if self._parser is not None:
                self._parser.Parse(block)
        except expat.ExpatError:  # openpyxl says what is wrong
            self._parser = None

    def _start(self, *_: object) -> None:
        self._number += 1
        if self._number > _MOST_ELEMENTS:
            raise DocumentError(f"a row of more than {_MOST_ELEMENTS:,} elements, and a workbook has 16,384 columns")

    def _end(self, name: str) -> None:
        if name.rpartition(":")[2] in _ENDS:
            self._number = 0
