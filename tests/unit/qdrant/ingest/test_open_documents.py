"""OpenDocument files: texts and slides become Markdown with headings, and workbooks tables."""

from __future__ import annotations

from zipfile import ZipFile

import pytest

import office_files
from cases import slow
from twinvec_qdrant import Empty, Failure, read_source

NUMBERED = (
    "<office:styles><text:list-style style:name='N'><text:list-level-style-number text:level='1'/></text:list-style>"
    "<text:list-style style:name='B'><text:list-level-style-bullet text:level='1'/></text:list-style></office:styles>"
)


def read(path, body, **options):
    office_files.write_odf(path, body, **options)
    (found,) = read_source(path)
    return found


def p(text: str) -> str:
    return f"<text:p>{text}</text:p>"


def items(*texts: str, style: str = "") -> str:
    named = f" text:style-name='{style}'" if style else ""
    inner = "".join(f"<text:list-item>{text}</text:list-item>" for text in texts)
    return f"<text:list{named}>{inner}</text:list>"


def row(*cells: str, times: int = 1) -> str:
    return f"<table:table-row table:number-rows-repeated='{times}'>{''.join(cells)}</table:table-row>"


def cell(text: str = "", **attributes: object) -> str:
    given = "".join(f" {name.replace('__', ':').replace('_', '-')}='{value}'" for name, value in attributes.items())
    return f"<table:table-cell{given}>{p(text) if text else ''}</table:table-cell>"


def test_a_text_keeps_its_headings_lists_and_tables(tmp_path):
    body = (
        "<text:sequence-decls/><text:table-of-content><text:index-body><text:p>Tea 1</text:p></text:index-body>"
        "</text:table-of-content><text:h text:outline-level='1'>Tea &amp; milk</text:h>"
        + items("<text:h text:outline-level='2'>Kinds</text:h>", style="N")
        + p("a<text:s text:c='2'/>b<text:tab/>c<text:line-break/>d <text:span>e</text:span>")
        + p("See <text:a xlink:href='https://tea.example'>the shop</text:a>, <text:a xlink:href='#x'>above</text:a>.")
        + items(p("one") + items(p("deep")), p("two"), style="N")
        + items(p("green"), style="B")
        + "<table:table><table:table-column/>"
        + row(cell("kind"), cell("price"), cell("shop"))
        + row(cell("all", table__number_columns_spanned=2), "<table:covered-table-cell/>", cell("b"))
        + "</table:table>"
    )
    assert read(tmp_path / "a.odt", body, looks=NUMBERED).text == (
        "# Tea & milk\n\n## Kinds\n\na b c\nd e\n\nSee [the shop](https://tea.example), above.\n\n"
        "1. one\n\n   1. deep\n2. two\n\n* green\n\n"
        "| kind | price | shop |\n| --- | --- | --- |\n| all |  | b |"
    )


def test_the_title_of_a_text_is_a_heading(tmp_path):
    look = "<style:style style:name='P1' style:parent-style-name='Title'/>"
    body = "".join(f"<text:p text:style-name='{name}'>{name}</text:p>" for name in ("Title", "P1", "P2"))
    path = tmp_path / "a.odt"
    office_files.write_odf(path, body, content_looks=look)
    (found,) = read_source(path)
    assert found.text == "# Title\n\n# P1\n\nP2"


def test_deleted_text_and_comments_are_no_text_and_a_footnote_stands_at_its_mark(tmp_path):
    deleted = "<text:changed-region><text:deletion><text:p>gone</text:p></text:deletion></text:changed-region>"
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Soft<text:s/>water.</text:p>"
    body = (
        f"<text:tracked-changes>{deleted}</text:tracked-changes>"
        + p(f"Brew <text:change/>it<office:annotation><dc:date>2024</dc:date>{p('why')}</office:annotation> slowly")
        + p(f"with water{note}</text:note-body></text:note>.<!-- not this -->")
        + p("<draw:frame draw:name='i1'><svg:title>A pot</svg:title><draw:image><office:binary-data>AAAA"
            "</office:binary-data></draw:image></draw:frame>")
        + p("here <draw:frame><draw:image/></draw:frame>and there")
    )  # fmt: skip
    assert (
        read(tmp_path / "a.odt", body).text == "Brew it slowly\n\nwith water (Soft water.).\n\nA pot\n\nhere and there"
    )


def test_slides_have_their_titles_as_headings_and_the_notes_behind(tmp_path):
    def page(title, body, notes=""):
        framed = "<draw:frame{}><draw:text-box>{}</draw:text-box></draw:frame>"
        inner = framed.format(" presentation:class='title'", p(title)) + framed.format("", body)
        return f"<draw:page>{inner}<presentation:notes>{framed.format('', p(notes))}</presentation:notes></draw:page>"

    body = "<presentation:footer-decl>page foot</presentation:footer-decl>" + page("Tea", items(p("green")), "Smile.")
    assert read(tmp_path / "a.odp", body + page("Milk", p("cold"))).text == (
        "# Tea\n\n* green\n\n### Notes:\n\nSmile.\n\n# Milk\n\ncold"
    )


def test_a_workbook_becomes_tables_of_its_values(tmp_path):
    blank = cell(table__number_columns_repeated=16380)
    sheet = (
        row(cell("kind"), cell("price"), cell("since"), cell("on"), blank)
        + row(cell("green", office__value_type="string"),
              cell("7,50 €", office__value_type="currency", office__value=7.5),
              cell("1.5.24", office__value_type="date", office__date_value="2024-05-01"),
              cell("yes", office__value_type="boolean", office__boolean_value="true"), blank)
        + row(blank, times=1_000_000)
        + row(cell("black", table__number_columns_repeated=2), cell("odd", office__value_type="date"), times=2)
        + row(blank, times=48_572)
    )  # fmt: skip
    body = f"<table:table table:name='Teas'>{sheet}</table:table><table:table table:name='None'/>"
    assert read(tmp_path / "a.ods", body).text.splitlines() == [
        "## Teas",
        "| kind | price | since | on |",
        "| --- | --- | --- | --- |",
        "| green | 7.5 | 2024-05-01 | True |",
        "| black | black | odd |  |",
        "| black | black | odd |  |",
    ]


def test_blank_rows_at_the_end_of_a_workbook_may_be_too_many(tmp_path):
    body = row(cell("tea")) + row(cell(), times=1_048_576) * 9
    assert "| tea |" in read(tmp_path / "a.ods", f"<table:table>{body}</table:table>").text


def test_the_text_under_a_merged_cell_of_a_workbook_is_left_out(tmp_path):
    covered = f"<table:covered-table-cell>{p('hidden')}</table:covered-table-cell>"
    body = row(cell("kind"), cell("price"), cell("shop"))
    body += row(cell("all", table__number_columns_spanned=2), covered, cell("b"))
    lines = read(tmp_path / "a.ods", f"<table:table>{body}</table:table>").text.splitlines()
    assert lines[-1] == "| all |  | b |"


def test_cells_and_rows_of_a_text_are_repeated(tmp_path):
    columns = "table__number_columns_repeated"
    body = (
        row(cell("kind"), cell("price", **{columns: 2}), cell(**{columns: 9999}))
        + row(cell("tea"), cell(**{columns: 2}), cell("x"), times=2)
        + row(cell(), times=9999)
    )
    text = read(tmp_path / "a.odt", f"<table:table>{body}</table:table>").text
    assert [line.replace(" ", "") for line in text.splitlines()][:4] == [
        "|kind|price|price||",
        "|---|---|---|---|",
        "|tea|||x|",
        "|tea|||x|",
    ]
    assert len(text.splitlines()) == 5  # a blank row stays one


def test_what_a_text_repeats_is_limited(tmp_path):
    body = row(cell("tea", table__number_columns_repeated=9999), times=9999)
    for _ in range(3):
        inner = f"<table:table>{body}</table:table>"
        body = row(f"<table:table-cell table:number-columns-repeated='9999'>{inner}</table:table-cell>", times=9999)
    assert 100 < read(tmp_path / "a.odt", f"<table:table>{body}</table:table>").text.count("tea") < 50_000


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        slow("a.ods", row(cell("x"), times=999_999_999), "beyond the 1,048,576 rows"),
        ("a.ods", row(cell("x", table__number_columns_repeated=999_999_999)), "beyond the 1,048,576 rows and 16,384"),
        ("a.ods", row(cell(), times=1_048_576) + row(cell("x")), "beyond the 1,048,576 rows"),
        slow(
            "a.ods", row(cell(), cell("x", table__number_columns_repeated=9), times=9) * 120_000, "text than the limit"
        ),
        slow("a.ods", (row(cell(table__number_columns_repeated=16_383), cell("x")) * 4000), "blank cells between"),
    ],
)
def test_a_workbook_that_repeats_too_much_is_refused(name, body, reason, tmp_path):
    found = read(tmp_path / name, f"<table:table>{body}</table:table>")
    assert isinstance(found, Failure)
    assert reason in found.reason


def test_entities_are_not_expanded(tmp_path):
    levels = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 12))
    prolog = f"<!DOCTYPE x [<!ENTITY e0 'tea'><!ENTITY f SYSTEM 'file:///etc/passwd'>{levels}]>"
    found = read(tmp_path / "a.odt", p("a&e11;b&f;c"), prolog=prolog)
    assert isinstance(found, Failure) or found.text == "abc"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"manifest": "<file-entry><encryption-data/></file-entry>"}, "encrypted with a password"),
        ({"prolog": "<"}, "cannot be converted"),
    ],
)
def test_an_encrypted_or_damaged_file_is_a_failure_that_says_so(change, reason, tmp_path):
    found = read(tmp_path / "a.odt", p("Tea"), **change)
    assert isinstance(found, Failure)
    assert reason in found.reason


def test_a_file_of_another_format_or_without_text_is_told(tmp_path):
    assert isinstance(read(tmp_path / "a.odt", ""), Empty)
    office_files.write_odf(tmp_path / "a.ods", "")
    (tmp_path / "a.ods").rename(tmp_path / "b.odt")
    office_files.write_xlsx(tmp_path / "c.odt", [["tea"]])
    (tmp_path / "d.odt").write_text("Tea")
    reasons = {each.source: each.reason for each in read_source(tmp_path)}
    assert "not of the format that its name (.odt) says" in reasons["b.odt"]
    assert "none of the usual parts" in reasons["c.odt"]
    assert "not of the format that its name (.odt) says" in reasons["d.odt"]


def test_a_text_needs_its_content_only(tmp_path):
    office_files.write_odf(tmp_path / "a.odt", p("Tea"))
    with ZipFile(tmp_path / "a.odt") as whole, ZipFile(tmp_path / "b.odt", "w") as part:
        part.writestr("content.xml", whole.read("content.xml"))
    assert [each.text for each in read_source(tmp_path)] == ["Tea", "Tea"]


def test_deep_nesting_is_a_document_or_a_failure(tmp_path):
    found = read(tmp_path / "a.odt", "<text:section>" * 1500 + p("Tea") + "</text:section>" * 1500)
    assert isinstance(found, Failure) or "Tea" in found.text
