"""Workbooks to Markdown: every cell as the sheet holds it, and tables as markitdown writes those that it reads well."""

from __future__ import annotations

import zipfile
from datetime import datetime, time
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markitdown import MarkItDown, StreamInfo
from openpyxl import Workbook

import office_files
from twinvec.errors import DocumentError
from twinvec_qdrant import Empty, read_source
from twinvec_qdrant.ingest.reading import spreadsheets
from twinvec_qdrant.ingest.reading.converting import convert

CUSTOMERS = [
    ["Customer", "EAN", "Amount", "Phone", "Since"],
    ["Crane", 4006381333931, 1234567.89, 491701234567, datetime(2024, 5, 1)],
    ["NA", None, 5, None, None],
    ["Egret", 4006381333948, None, 491709999999, datetime(2024, 5, 2)],
]
WORDS = st.text("ab*_ |<&\u00e9\u00a0`#[]\\-", min_size=1).filter(lambda text: text.strip() == text)
CELLS = st.one_of(WORDS.map("x{}x".format), st.integers(0, 10**12))  # a text like "007" is a number to pandas


def workbook(*sheets):
    book, stream = Workbook(), BytesIO()
    book.remove(book.active)
    for number, rows in enumerate(sheets, 1):
        if rows is None:
            continue
        sheet = book.create_sheet(f"Sheet {number}")
        for row in rows:
            sheet.append(row)
    book.save(stream)
    return stream.getvalue()


def by_markitdown(data):
    return MarkItDown().convert_stream(BytesIO(data), stream_info=StreamInfo(extension=".xlsx")).markdown


@pytest.mark.parametrize("suffix", ["xls", "xlsx"])
def test_an_empty_cell_changes_no_other(suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    getattr(office_files, f"write_{suffix}")(path, CUSTOMERS)
    assert convert(path.read_bytes(), path.suffix).splitlines()[1:] == [
        "| Customer | EAN | Amount | Phone | Since |",
        "| --- | --- | --- | --- | --- |",
        "| Crane | 4006381333931 | 1234567.89 | 491701234567 | 2024-05-01 |",
        "| NA |  | 5.00 |  |  |",
        "| Egret | 4006381333948 |  | 491709999999 | 2024-05-02 |",
    ]


@pytest.mark.parametrize("text", ["007", "+49 170", "1.50", "1e5", "null", "nan", "n/a", "TRUE"])
def test_a_text_stays_a_text(text):
    assert convert(workbook([["phone"], [text]]), ".xlsx").endswith(f"| {text} |")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1 / 3, "0.333333333333333"),
        (0.1 + 0.2, "0.3"),
        (52.5200066, "52.5200066"),
        (1e-9, "1e-09"),
        (3.0, "3"),
        (123456789012345, "123456789012345"),
        (True, "True"),
        ("#DIV/0!", "#DIV/0!"),
        ("two\nlines\tand \r\n more ", "two lines and more"),
    ],
)
def test_a_value_is_written_as_excel_holds_it(value, shown):
    assert convert(workbook([["value"], [value]]), ".xlsx").endswith(f"\n| {shown} |")


@pytest.mark.parametrize("suffix", ["xls", "xlsx"])
def test_a_workbook_of_empty_sheets_holds_no_text(suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    getattr(office_files, f"write_{suffix}")(path, [["", " ", None]])
    (found,) = read_source(path)
    assert found == Empty(path.name, "holds no text")


def test_blank_rows_and_columns_are_left_out():
    data = workbook([[], [None, "a", " ", None, "b"], [None, 1], [], [None, None, None, None, 2, None]], [], [["c"]])
    assert convert(data, ".xlsx").splitlines() == [
        "## Sheet 1",
        "| a | b |",
        "| --- | --- |",
        "| 1 |  |",
        "|  | 2 |",
        "",
        "## Sheet 3",
        "| c |",
        "| --- |",
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [["price", "count"], [19.99, 1], [5, 2], [0.5, 3]],
        [["day", "when", "mixed"], *([datetime(2024, 1, 1), datetime(2024, 1, n, 9 * n), n] for n in (1, 2))],
        [["day", "time"], [datetime(2024, 1, 1), time(10, 30)], ["later", time(11)]],
        [["mixed"], [1.5], ["x"], [2], [True]],
        [["a"], ["x" * 5000]],
    ],
)
def test_a_workbook_that_was_read_well_gives_the_same_text(rows):
    data = workbook(rows, [], rows)
    assert convert(data, ".xlsx", version=2) == by_markitdown(data)
    assert convert(data, ".xlsx", version=8) == by_markitdown(workbook(rows, None, rows))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1)))
def test_texts_and_whole_numbers_give_the_same_text(rows):
    data = workbook([[f"column {place}" for place in range(len(rows[0]))], *rows])
    assert convert(data, ".xlsx") == by_markitdown(data)


def test_dates_have_no_time_if_no_date_of_their_column_has_one():
    rows = [
        ["task", datetime(2024, 5, 1), "due", "begun"],
        ["tea", 1, datetime(2024, 5, 1), datetime(2024, 5, 1)],
        ["milk", 2, "open", datetime(2024, 5, 1, 10, 30)],
    ]
    data = workbook(rows)
    assert "| tea | 1 | 2024-05-01 00:00:00 | 2024-05-01 00:00:00 |" in convert(data, ".xlsx", version=8)
    assert convert(data, ".xlsx").splitlines()[1:] == [
        "| task | 2024-05-01 | due | begun |",
        "| --- | --- | --- | --- |",
        "| tea | 1 | 2024-05-01 | 2024-05-01 00:00:00 |",
        "| milk | 2 | open | 2024-05-01 10:30:00 |",
    ]


def test_more_text_than_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(spreadsheets, "MAX_TEXT_BYTES", 1000)
    assert convert(workbook([["a"], ["x" * 400]]), ".xlsx")
    for sheets in (
        [[["a"], ["x" * 1000]]],
        [[["a"], ["x" * 400]]] * 3,
        [[[None] * row + [1] for row in range(20)]],  # twenty cells, but a table of four hundred
    ):
        with pytest.raises(DocumentError, match="the workbook has more text than the limit of 1,000 bytes"):
            convert(workbook(*sheets), ".xlsx")


def test_a_misspelt_attribute_of_a_sheet_hides_nothing():
    made = BytesIO()
    with zipfile.ZipFile(BytesIO(workbook([["a"], [1]]))) as old, zipfile.ZipFile(made, "w") as new:
        for item in old.infolist():
            part = old.read(item)
            changed = part.replace(b"<sheetView ", b'<sheetView showZeroes="0" ')
            assert (changed != part) == item.filename.startswith("xl/worksheets/")
            new.writestr(item, changed)
    assert convert(made.getvalue(), ".xlsx") == "## Sheet 1\n| a |\n| --- |\n| 1 |"


def with_sheet(changed, rows=((["a"], [1], [2]))):
    made = BytesIO()
    with zipfile.ZipFile(BytesIO(workbook(rows))) as old, zipfile.ZipFile(made, "w") as new:
        for item in old.infolist():
            part = old.read(item)
            new.writestr(item, changed(part) if item.filename.startswith("xl/worksheets/") else part)
    return made.getvalue()


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'<row r="3"', b'<row r="999999999"'), (b'<row r="3"', b'<row r="1048577"'), (b'r="A3"', b'r="XFE3"')],
)
def test_a_cell_that_no_sheet_has_is_refused(old, new):
    data = with_sheet(lambda part: part.replace(old, new))
    assert data != with_sheet(lambda part: part)
    with pytest.raises(DocumentError, match="damaged: a cell beyond the 1,048,576 rows and 16,384 columns of a sheet"):
        convert(data, ".xlsx")


@pytest.mark.parametrize("place", ["A1048576", "XFD3"])
def test_the_last_cell_of_a_sheet_is_read(place):
    row = int(place.lstrip("ADFX"))
    data = with_sheet(
        lambda part: part.replace(b'<row r="3"', b'<row r="%d"' % row).replace(b'"A3"', b'"%b"' % place.encode())
    )
    assert convert(data, ".xlsx").splitlines()[-1].strip("| ") == "2"


@pytest.mark.parametrize("suffix", [".xls", ".xlsx"])
def test_blank_cells_between_filled_ones_are_bounded(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"a{suffix}"
    rows = [["a", "b"], *[[]] * 98, [*[None] * 99, "far"]]
    getattr(office_files, f"write_{suffix[1:]}")(path, rows)
    usual = convert(path.read_bytes(), suffix)
    assert usual.splitlines()[-1] == "|  |  | far |"
    monkeypatch.setattr(spreadsheets, "_MOST_BLANK", 99 + 99 + 1)
    assert convert(path.read_bytes(), suffix) == usual
    monkeypatch.setattr(spreadsheets, "_MOST_BLANK", 99 + 99)
    with pytest.raises(DocumentError, match="more than 198 blank cells between filled cells"):
        convert(path.read_bytes(), suffix)
