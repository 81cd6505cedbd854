"""Damaged and odd files: each is a failure that names the file, and none stops or holds up the reading of others."""

from __future__ import annotations

import io
import logging
import struct
import subprocess
import sys
import warnings
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

import office_files
from twinvec_qdrant import Failure, read_source
from twinvec_qdrant.ingest.reading.files import FileBytes, _or_failure, parse_file
from twinvec_qdrant.ingest.reading.records.columns import RecordColumns
from twinvec_qdrant.ingest.reading.records.json_lines import read_lines
from twinvec_qdrant.ingest.reading.records.tables import read_table
from twinvec_qdrant.ingest.reading.results import reason_of
from twinvec_qdrant.settings import NEWEST_READING

OFFICE = {
    ".docx": lambda path: office_files.write_docx(path, ["A report on tea", "Leaves are dried."]),
    ".epub": lambda path: office_files.write_epub(path, "Tea", ["<h1>One</h1><p>Leaves are dried.</p>"]),
    ".pptx": lambda path: office_files.write_pptx(path, ["All about tea"]),
    ".xlsx": lambda path: office_files.write_xlsx(path, [["kind", "price"], ["green tea", 7]]),
}
MAIN = {".docx": b"word/document.xml", ".epub": b"META-INF/container.xml"}
MAIN_PARTS = ("document.xml", "all.opf", "presentation.xml")
LETTER = b"From: a@example.org\nDate: Mon, 6 May 2024 10:00:00 +0000\n"


def only(path):
    (found,) = read_source(path)
    return found


def failure(path):
    """The failure of a file, after one that can be read, which proves that the reading goes on."""
    (path.parent / "z.txt").write_text("Tea is brewed with hot water.")
    found, good = read_source(path.parent)
    assert good.text == "Tea is brewed with hot water."
    assert isinstance(found, Failure), found
    assert found.source == path.name
    assert "\n" not in found.reason
    return found.reason


@pytest.mark.parametrize("suffix", OFFICE)
@pytest.mark.parametrize("lost", [1, 16, 200])
def test_an_archive_that_lacks_bytes_fails(suffix, lost, tmp_path):
    path = tmp_path / f"a{suffix}"
    OFFICE[suffix](path)
    data = path.read_bytes()
    place = data.index(MAIN.get(suffix, b"[Content_Types].xml")) + 30
    path.write_bytes(data[:place] + data[place + lost :])
    assert failure(path).startswith(("cannot be converted", "damaged"))


@pytest.mark.parametrize("suffix", OFFICE)
def test_an_archive_of_an_unknown_version_fails(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    OFFICE[suffix](path)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") + 6] = 178  # the version that is needed to unpack it
    path.write_bytes(data)
    assert "17.8" in failure(path)


@pytest.mark.parametrize("suffix", OFFICE)
def test_an_archive_without_the_parts_of_its_format_is_not_unpacked(suffix, tmp_path):
    inner = io.BytesIO()
    with ZipFile(inner, "w", ZIP_DEFLATED) as archive:
        archive.writestr("words.txt", "Leaves are dried. " * 100)
    path = tmp_path / f"a{suffix}"
    with ZipFile(path, "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())
        archive.writestr("words.txt", "Tea is brewed.")
    assert (
        failure(path) == f"damaged, or not a {suffix} file: the archive has none of the usual parts; get the file again"
    )


@pytest.mark.parametrize("version", range(1, NEWEST_READING + 1))
@pytest.mark.parametrize("suffix", [".docx", ".epub", ".pptx"])
def test_a_damaged_office_file_is_not_converted_as_another_format(suffix, version, tmp_path):
    path = tmp_path / f"a{suffix}"
    OFFICE[suffix](path)
    made = io.BytesIO()
    with ZipFile(path) as old, ZipFile(made, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name)[: 60 if name.endswith(MAIN_PARTS) else None])
    assert "cannot be converted" in parse_file(FileBytes("a", suffix, made.getvalue(), version)).reason


def test_a_broken_notebook_is_not_read_as_text(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text('{"cells": 5, "nbformat": 4}')
    assert failure(path).startswith("cannot be converted: ")


@pytest.mark.parametrize(
    "body",
    [
        "".join(f"Content-Type: multipart/mixed; boundary=b{row}\n\n--b{row}\n" for row in range(3000)),
        "Content-Type: message/rfc822\n\n" * 3000,
        "Content-Type: =?utf-7?Q?+2AA-?=multipart/mixed; boundary=x\n\n--x\n\nThe lift\n--x--\n",
    ],
    ids=["parts in parts", "letters in letters", "half a character"],
)
def test_a_broken_letter_fails(body, tmp_path):
    path = tmp_path / "a.eml"
    path.write_bytes(LETTER + body.encode())
    assert failure(path).startswith("damaged e-mail: ")


def test_a_workbook_whose_sectors_are_a_circle_fails(tmp_path):
    path = tmp_path / "a.xls"
    office_files.write_xls(path, [["kind", "price"], ["green tea", 7.0]])
    data = bytearray(path.read_bytes())
    table = 512 + 512 * struct.unpack_from("<I", data, 60)[0]  # of the small sectors
    struct.pack_into("<I", data, table, 0)  # the first one is followed by itself
    path.write_bytes(data)
    assert failure(path) == "damaged file: its sectors are chained in a circle; get the file again"


def test_what_a_library_says_of_a_workbook_is_not_printed(tmp_path):
    path = tmp_path / "a.xls"
    office_files.write_xls(path, [["kind", "price"], ["green tea", 7.0]])
    path.write_bytes(path.read_bytes() + b"x")  # xlrd warns of the odd size
    program = "import sys; from twinvec_qdrant import read_source; print([*read_source(sys.argv[1])][0].id)"
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("a.xls\n", "")


def test_a_deep_page_is_read_without_a_warning(tmp_path):
    path = tmp_path / "a.html"
    path.write_text("<ul><li>" * 330 + "deep tea")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "deep tea" in only(path).text


def test_a_link_on_all_cells_costs_nothing(tmp_path):
    path = tmp_path / "a.xls"
    office_files.write_xls(path, [["kind", "price"], ["green tea", 7.0]], link=(65_535, 65_535))
    assert only(path).text == "## Sheet\n| kind | price |\n| --- | --- |\n| green tea | 7 |"


def test_a_compound_file_without_a_workbook_says_so(tmp_path):
    path = tmp_path / "a.xls"
    office_files.write_msg(path, subject="On tea", sender="ann@example.org", body="Tea at four.")
    assert failure(path) == "the file holds no workbook; if it has a password, save it without a password"


@pytest.mark.parametrize("place", [44, 64, 72])  # of counts in the header
def test_a_message_that_says_more_sectors_than_it_has_fails(place, tmp_path):
    path = tmp_path / "a.msg"
    office_files.write_msg(path, subject="On tea", sender="ann@example.org", body="Tea at four.")
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, place, 2_000_000)
    path.write_bytes(data)
    assert failure(path) == "damaged file: it states sizes larger than the file; get the file again"


def test_a_message_of_a_part_larger_than_the_file_fails(tmp_path):
    path = tmp_path / "a.msg"
    office_files.write_msg(path, subject="On tea", sender="ann@example.org", body="Tea at four.")
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.index("__substg1.0_1000001F".encode("utf-16-le")) + 120, 2**30)
    path.write_bytes(data)
    assert failure(path) == "damaged file: it states sizes larger than the file; get the file again"


def raising(error: Exception):
    raise error


def test_an_error_that_no_parser_declares_is_a_failure(caplog):
    caplog.set_level(logging.DEBUG)
    found = _or_failure("deep/a.docx", ".docx", lambda: raising(KeyError("x\ny")))
    assert found == Failure("deep/a.docx", "damaged, or of a kind that is not supported (KeyError: 'x\\ny')")
    (logged,) = caplog.records
    assert logged.levelno == logging.DEBUG
    assert "deep/a.docx" in logged.getMessage()
    assert logged.exc_info


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()])
def test_what_is_no_fault_of_the_file_is_raised(error):
    with pytest.raises(type(error)):
        _or_failure("a.docx", ".docx", lambda: raising(error))


def test_a_reason_is_one_short_line():
    assert reason_of(ValueError("a\n\nb " + "c" * 1000), "x").startswith("damaged, or of a kind")
    assert "a b ccc" in reason_of(ValueError("a\n\nb " + "c" * 1000), "x")
    assert len(reason_of(ValueError("c" * 1000), "x")) < 600
    assert "nested too deeply" in reason_of(RecursionError(), "x")


class Raising(RecordColumns):
    """Columns of which one record is odd."""

    def renamed(self, record):
        if record["id"] == "odd":
            raise KeyError("no such thing")
        return dict(record)


def test_an_odd_line_stops_no_others():
    lines = b'{"id": "a", "text": "tea"}\n{"id": "odd", "text": "x"}\n{"id": "b", "text": "water"}\n'
    first, odd, last = (each.value for each in read_lines(io.BytesIO(lines), "n.jsonl", "", Raising()))
    assert (first.id, last.id) == ("a", "b")
    assert odd.source == "n.jsonl:2"
    assert odd.hides
    assert "KeyError" in odd.reason


def test_an_odd_row_stops_no_others(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("id,text\na,tea\nodd,x\nb,water\n")
    from twinvec_qdrant.ingest.reading.records import tables

    real = tables.as_document
    monkeypatch.setattr(tables, "as_document", lambda value, row: raising(KeyError()) if row == 2 else real(value, row))
    first, odd, last = (each.value for each in read_table(path, "t.csv", "", RecordColumns()))
    assert (first.id, last.id) == ("a", "b")
    assert odd.source == "t.csv:3"
    assert odd.hides
