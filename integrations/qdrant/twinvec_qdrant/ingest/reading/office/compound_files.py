"""Checks of compound files (MS-CFB), the format of .xls and .msg: a damaged file can make a library read for ever.

The sectors of a compound file are chained, and a damaged chain may be a circle. xlrd and olefile notice most circles.
This module finds the other circles, and wrong sizes that would make the libraries fill the memory.
"""

from __future__ import annotations

import re
import struct
from io import BytesIO, StringIO
from typing import Any

from twinvec.errors import DocumentError
from twinvec.support.extras import import_extra

_SECTOR = 512  # bytes of the smallest sector
_PLACES = _SECTOR // 4  # how many sector numbers one sector of the allocation table holds
_IN_HEADER = 109  # how many sectors of the allocation table the header can list
_COUNTS = struct.Struct("<44x I 16x I 4x I")  # in the header: the sizes of the three allocation tables, in sectors
_USER_STREAM, _ROOT = 2, 5  # types of directory entries

_WORKBOOKS = ("Workbook", "Book")  # names of the stream in Excel 97 and later, and in Excel 5
_LINK = re.compile(  # start of a hyperlink's record (MS-XLS): its type (440), its length, a range of cells, a class id
    rb"\xb8\x01(?=.{10}\xd0\xc9\xea\x79\xf9\xba\xce\x11\x8c\x82\x00\xaa\x00\x4b\xa9\x0b)", re.DOTALL
)
_NO_RECORD = b"\xff\x7f"  # a type of record that does not exist, so that xlrd skips the record


def workbook_stream(data: bytes) -> bytes:
    """Return the records of a workbook (.xls), without hyperlinks: xlrd lists each cell of a link, up to 2**32 cells.

    Raises:
        DocumentError: the file is damaged, or holds no workbook.
        MissingExtraError: xlrd is missing.
        Exception: xlrd finds that the file is damaged.
    """
    compdoc = import_extra("xlrd.compdoc", "documents", "reading .xls files", "twinvec-qdrant")
    file = compdoc.CompDoc(data, logfile=StringIO())
    for name in _WORKBOOKS:
        _check_small_stream(file, name)
        memory, begin, size = file.locate_named_stream(name)
        if memory:
            return _LINK.sub(_NO_RECORD, memory[begin : begin + size])
    raise DocumentError("the file holds no workbook; if it has a password, save it without a password")


def _check_small_stream(file: Any, name: str) -> None:
    """Refuse a stream whose small sectors are chained in a circle, which xlrd would read for ever."""
    for entry in file.dirlist:
        if entry.name.lower() != name.lower() or entry.tot_size >= file.min_size_std_stream:
            continue
        sector, passed = entry.first_SID, 0
        while 0 <= sector < len(file.SSAT):
            sector, passed = file.SSAT[sector], passed + 1
            if passed > len(file.SSAT):
                raise DocumentError("damaged file: its sectors are chained in a circle; get the file again")


def check_message(data: bytes) -> None:
    """Raise ``DocumentError`` if an Outlook message (.msg) states sizes that are larger than the file.

    Raises:
        MissingExtraError: olefile is missing.
        Exception: olefile finds that the file is damaged.
    """
    package = import_extra("olefile", "documents", "reading .msg files", "twinvec-qdrant")
    if len(data) < _COUNTS.size:
        raise _too_large()
    sectors = len(data) // _SECTOR
    table, small_table, table_of_table = _COUNTS.unpack_from(data)
    if table > _IN_HEADER + 2 * sectors // _PLACES or max(small_table, table_of_table) > sectors:
        raise _too_large()
    with package.OleFileIO(BytesIO(data)) as file:
        streams = [each for each in file.direntries if each and each.entry_type in (_USER_STREAM, _ROOT)]
        if any(each.size > len(data) for each in streams):
            raise _too_large()


def _too_large() -> DocumentError:
    return DocumentError("damaged file: it states sizes larger than the file; get the file again")
