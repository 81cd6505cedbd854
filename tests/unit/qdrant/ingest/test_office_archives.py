"""Office files that unpack to too much: refused before a converter has them; honest ones are not."""

from __future__ import annotations

import struct
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile

import pytest

import office_files
from twinvec.errors import DocumentError
from twinvec_qdrant import Failure, read_source
from twinvec_qdrant.ingest.reading.office.office_archives import check_archive

MIB = 2**20
SHEET = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>%b</sheetData></worksheet>'
EPUB = {
    "META-INF/container.xml": b'<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>',
    "c.opf": b'<package><metadata/><manifest><item id="a" href="a.xhtml"/></manifest>'
    b'<spine><itemref idref="a"/></spine></package>',
}


def with_parts(path: Path, parts: dict[str, bytes], method: int = ZIP_DEFLATED) -> Path:
    """A small document of the format that the name says, with other or more parts."""
    if path.suffix == ".docx":
        office_files.write_docx(path, ["A report on tea"])
    elif path.suffix == ".pptx":
        office_files.write_pptx(path, ["All about tea"])
    elif path.suffix == ".xlsx":
        office_files.write_xlsx(path, [["kind", "price"], ["green tea", 7]])
    elif path.suffix in (".ods", ".odt"):
        office_files.write_odf(path, "")
    old = dict(EPUB)
    if path.exists():
        with ZipFile(path) as archive:
            old = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w", method, compresslevel=1) as archive:
        for name, content in (old | parts).items():
            archive.writestr(name, content)
    return path


def xml(size: int) -> bytes:
    return b"<w>%b</w>" % (b"a" * size)


@pytest.mark.parametrize(
    ("name", "parts", "what"),
    [
        ("a.docx", {"word/document.xml": xml(48 * MIB)}, "50,331,648 bytes of XML"),
        ("a.docx", {f"word/{number}.xml": xml(17 * MIB) for number in range(3)}, "50,331,648 bytes of XML"),
        ("a.docx", {"word/media/a.png": b"\xff\xfe" + xml(49 * MIB).decode().encode("utf-16-le")}, "bytes of XML"),
        ("a.pptx", {"ppt/slides/slide1.xml": xml(48 * MIB)}, "50,331,648 bytes of XML"),
        ("a.epub", {"a.xhtml": b"words" + xml(24 * MIB)}, "25,165,824 bytes of XML"),
        ("a.odt", {"content.xml": xml(24 * MIB)}, "25,165,824 bytes of XML"),
        ("a.ods", {"content.xml": xml(48 * MIB)}, "50,331,648 bytes of XML"),
        ("a.xlsx", {"xl/styles.xml": xml(48 * MIB)}, "50,331,648 bytes of XML"),
        ("a.xlsx", {"xl/worksheets/sheet1.xml": xml(128 * MIB)}, "134,217,728 bytes of sheets"),
        ("a.xlsx", {"xl/worksheets/sheet1.xml": SHEET % b"<row>%b</row>" % (b"<c/>" * (5 * MIB))}, "16,384 columns"),
        ("a.docx", {"word/media/a.png": b"\x89PNG" + bytes(512 * MIB)}, "536,870,912 bytes;"),
    ],
    ids=[
        "one part",
        "several",
        "as a picture",
        "slides",
        "a book",
        "text",
        "cells",
        "styles",
        "sheets",
        "a row",
        "pictures",
    ],
)
def test_what_unpacks_to_too_much_is_refused(name, parts, what, tmp_path):
    path = with_parts(tmp_path / name, parts)
    assert path.stat().st_size < 4 * MIB
    (found,) = read_source(path)
    assert isinstance(found, Failure)
    assert what in found.reason


def test_pictures_count_little(tmp_path):
    path = with_parts(tmp_path / "a.docx", {"word/media/a.emf": b"\1\0\0\0" + bytes(50 * MIB)})
    (found,) = read_source(path)
    assert "A report on tea" in found.text
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\1\2") + 16] ^= 1  # the checksum, in the list at the end
    check_archive(bytes(data), ".docx")  # whoever reads the picture says what is wrong
    check_archive(bytes(data[:100] + data[200:]), ".docx")  # zipfile looks for parts before the beginning then


def test_a_part_that_is_larger_than_the_archive_says_is_refused(tmp_path):
    path = with_parts(tmp_path / "a.docx", {"word/last.xml": xml(8 * MIB)})
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rindex(b"PK\1\2") + 24, 100)  # the size, in the list at the end
    path.write_bytes(data)
    (found,) = read_source(path)
    assert "'word/last.xml' exceeds its stated size" in found.reason


def test_an_unusual_compression_is_refused(tmp_path):
    (found,) = read_source(with_parts(tmp_path / "a.docx", {}, ZIP_BZIP2))
    assert "save the file again" in found.reason


def test_honest_texts_of_the_longest_kind_are_taken(tmp_path):
    run = '<w:r><w:rPr><w:rFonts w:ascii="Arial" w:hAnsi="Arial"/><w:sz w:val="22"/></w:rPr><w:t>%s</w:t></w:r>'
    text = "the tea is brewed with water as hot as it gets "
    document = "<w:document><w:body>" + (run % text) * (8_000_000 // len(text)) + "</w:body></w:document>"
    check_archive(with_parts(tmp_path / "a.docx", {"word/document.xml": document.encode()}).read_bytes(), ".docx")
    row = b"<row r='1'>%b</row>" % (b'<c r="AB123456" s="12" t="n"><v>7.25</v></c>' * 20)
    sheet = SHEET % (row * (8_000_000 // (20 * len("7.25 | "))))
    check_archive(with_parts(tmp_path / "a.xlsx", {"xl/worksheets/sheet1.xml": sheet}).read_bytes(), ".xlsx")
    page = b"<html><body>" + b"<p class='text'>the tea is brewed</p>" * (8_000_000 // 17) + b"</body></html>"
    check_archive(with_parts(tmp_path / "a.epub", {"a.xhtml": page}).read_bytes(), ".epub")
    part = b"<text:p text:style-name='P1'>the tea is brewed with water as hot as it gets</text:p>"
    content = b"<office:text>" + part * (8_000_000 // 47) + b"</office:text>"
    check_archive(with_parts(tmp_path / "a.odt", {"content.xml": content}).read_bytes(), ".odt")


def test_an_archive_that_cannot_be_read_is_left_to_the_converter(tmp_path):
    check_archive(b"PK\x05\x06", ".docx")
    with pytest.raises(DocumentError, match="unpacks"):
        check_archive(with_parts(tmp_path / "b.epub", {"a.xhtml": xml(24 * MIB)}).read_bytes(), ".epub")
