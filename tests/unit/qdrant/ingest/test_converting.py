"""Converting by markitdown: without its guesses, without warnings, and with few copies of a file's bytes."""

from __future__ import annotations

import json
import warnings
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import markitdown
import pytest

import office_files
from twinvec.errors import DocumentError
from twinvec_qdrant.cli.results import places
from twinvec_qdrant.ingest.reading import by_markitdown
from twinvec_qdrant.ingest.reading.converting import convert
from twinvec_qdrant.ingest.reading.decoding import decode_page
from twinvec_qdrant.ingest.reading.letters.mail import read_mail
from twinvec_qdrant.settings import NEWEST_READING

LONG = 11_000_000
"""Bytes above the limit of libxml2 for one text."""
DEEP = "<div>" * 2000 + "Tea"


def write_deep_book(path: Path) -> None:
    office_files.write_epub(path, "Leaves", ["<h1>One</h1><p>Water</p>", DEEP])


WRITERS = {
    ".docx": lambda path: office_files.write_docx(path, ["Tea"]),
    ".epub": write_deep_book,
    ".html": lambda path: path.write_text(f"<body>{DEEP}</body>"),
    ".ipynb": lambda path: office_files.write_ipynb(path, [("markdown", "Tea")]),
    ".mht": lambda path: office_files.write_mhtml(path, "<p>Tea"),
    ".msg": lambda path: office_files.write_msg(path, subject="Tea", sender="a@example.org", body="Tea"),
    ".pptx": lambda path: office_files.write_pptx(path, ["Tea"]),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_no_format_is_guessed(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"a{suffix}"
    WRITERS[suffix](path)
    by_markitdown._guessing.cache_clear()
    monkeypatch.setattr(markitdown, "MarkItDown", None)  # it loads a neural network, and runs it on each file
    assert "Tea" in convert(path.read_bytes(), suffix)


def test_a_notebook_of_an_older_format_has_cells():
    code = {"cell_type": "code", "input": ["brew(1)\n", "pour()"], "outputs": [], "language": "python"}
    heading = {"cell_type": "heading", "level": 2, "source": "Tea"}
    sheets = [{"cells": [heading, code]}, {"cells": [{"cell_type": "markdown", "source": ["Green *", "leaves*."]}]}]
    notebook = json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": sheets}).encode()
    assert convert(notebook, ".ipynb") == "## Tea\n\n```python\nbrew(1)\npour()\n```\n\nGreen *leaves*."
    assert convert(notebook, ".ipynb", 5) == ""


@pytest.mark.parametrize("worksheets", ["null", "5", "[5]", '[{"cells": [{"cell_type": "code"}]}]'])
def test_a_malformed_notebook_of_an_older_format_is_refused(worksheets):
    with pytest.raises(DocumentError, match="cannot be converted"):
        convert(f'{{"nbformat": 3, "worksheets": {worksheets}}}'.encode(), ".ipynb")


@pytest.mark.parametrize(("suffix", "version"), [(".html", 1), (".ipynb", 4)])
def test_older_versions_decode_pages_and_notebooks_as_markitdown_guesses(suffix, version, tmp_path):
    WRITERS[suffix](tmp_path / "a")
    by_markitdown._guessing.cache_clear()
    assert "Tea" in convert((tmp_path / "a").read_bytes(), suffix, version)
    assert by_markitdown._guessing.cache_info().currsize == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le"])
def test_a_notebook_is_in_unicode(encoding):
    notebook = {"cells": [{"cell_type": "markdown", "source": ["x" * 70_000, "Ã©ÃÂ 日本"]}]}
    assert convert(json.dumps(notebook, ensure_ascii=False).encode(encoding), ".ipynb").endswith("xÃ©ÃÂ 日本")


@pytest.mark.parametrize("suffix", [".html", ".epub"])
@pytest.mark.parametrize("version", [1, 4, NEWEST_READING])
def test_deep_pages_leave_the_filters_of_warnings_alone(suffix, version, tmp_path):
    path = tmp_path / f"a{suffix}"
    WRITERS[suffix](path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        text = convert(path.read_bytes(), suffix, version)
        assert warnings.filters == before
    assert text.endswith("Tea")
    assert suffix == ".html" or "# One\n\nWater" in text


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_declaration_before_a_part_of_a_page_stays_text_in_older_collections(version):
    page = b'<?xml version="1.0" encoding="utf-8"?>\n<p>Hi</p>'
    assert convert(page, ".html", version) == 'xml version="1.0" encoding="utf-8"?\n\nHi'
    assert convert(page, ".html") == "Hi"


def test_a_page_that_is_xml_gives_no_warning():
    page = '<?xml version="1.0" encoding="utf-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Thé</p></body></html>'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert convert(page.encode(), ".html") == "Thé"


@pytest.mark.parametrize("hidden", ["<!-- {} -->", "<?php {} ?>"])
def test_a_long_comment_is_not_text(hidden):
    page = f"<p>Tea</p>{hidden.format('x ' * (LONG // 2))}<h1>Milk</h1>"
    assert convert(page.encode(), ".html") == "Tea\n\n# Milk"


def test_a_template_is_text_only_where_browsers_show_it():
    page = (
        "<p>Tea</p><template><p>{{name}}</p></template><div><template shadowrootmode=open><p>Milk</p></template></div>"
    )
    assert convert(page.encode(), ".html") == "Tea\n\nMilk"
    assert convert(page.encode(), ".html", 4) == "Tea\n\n{{name}}\n\nMilk"


def test_a_letter_with_a_blank_plain_text_is_its_html():
    parts = "".join(
        f"--b\nContent-Type: text/{kind}\n\n{text}\n" for kind, text in (("plain", " "), ("html", "<p>Tea"))
    )
    letter = f"From: a@example.org\nContent-Type: multipart/alternative; boundary=b\n\n{parts}--b--\n".encode()
    assert read_mail(letter)[1:3] == ("Tea", True)
    assert read_mail(letter, 4)[1:3] == (" ", False)


class Counted(bytes):
    """Bytes that count how often they are decoded."""

    decoded = 0

    def decode(self, *arguments: str) -> str:
        self.decoded += 1
        return super().decode(*arguments)


@pytest.mark.parametrize("stated", ["", "utf-8", "iso-8859-1"])
def test_a_page_in_utf_8_is_decoded_once(stated):
    page = Counted("<p>Thé".encode())
    assert decode_page(page, stated) == "<p>Thé"
    assert page.decoded == 1


def test_an_encoding_in_front_matter_is_no_guess_to_be_made_again(tmp_path, monkeypatch):
    path = tmp_path / "a.md"
    path.write_text("---\nencoding: klingon\n---\nThé\n", encoding="utf-8")
    versions = []
    decode = places.decode
    monkeypatch.setattr(places, "decode", lambda data, **version: versions.append(version) or decode(data, **version))
    assert places._read(path, "klingon") == path.read_text(encoding="utf-8")
    path.write_bytes("Thé à la crème, crème brûlée".encode("cp1252"))
    assert places._read(path, "cp1250").startswith("Thé")
    assert [each["version"] for each in versions] == [NEWEST_READING, NEWEST_READING, 8, 4]


@pytest.mark.parametrize(
    "hidden",
    [
        "<div hidden>no</div>",
        "<p style='color: red; DISPLAY : none !important'>no</p>",
        "<a href='#x' aria-hidden=true>no</a>",
        "<div class='table stable' hidden=''>no</div>",
        f"<div hidden><a href='https://a.example'>{'no ' * 40}</a></div>",
        f"<div hidden><select><option>{'no ' * 40}</select><svg><title>{'no ' * 40}</title></svg></div>",
        f"<span aria-hidden=true>{'no ' * 40}</span>",
    ],
)
def test_hidden_elements_are_not_text(hidden):
    page = f"<p>Tea</p>{hidden}<p>Milk{' and honey' * 40}</p>"
    text = convert(page.encode(), ".html")
    assert text.startswith("Tea\n\nMilk")
    assert "no" not in text.split()
    assert "no" in convert(page.encode(), ".html", 4).split()


@pytest.mark.parametrize(
    "page",
    [
        "<div role=tab>x</div><div role=tabpanel hidden>yes</div>",  # Docusaurus, Starlight, sphinx-tabs
        "<details><summary>x</summary><div style='display:none;height:0px'><p>yes</p></div></details>",  # Docusaurus
        "<button aria-controls='a b'>x</button><div id=b hidden>yes</div>",
        "<p>x</p><div hidden=until-found>yes</div>",
        "<p>x</p><div class='tab-pane fade' style='display:none'>yes</div>",
        "<p>x</p><div class='faq-collapsible' hidden>yes</div>",
        "<p>x</p><main hidden>yes</main>",
        "<p>x</p><div hidden><h1>yes</h1></div>",
        "<p>x</p><div aria-hidden=true>yes</div>",  # all of a page while a dialog is open
        "<body style='display:none'><p>yes</p></body>",  # until a script runs
        "<div hidden>yes</div>",
        "<h1>Questions</h1><div class=faq-answer style='display:none'><p>yes</p></div>",
        f"<p>A long story</p><div class=more style='display:none'>{'story ' * 20} yes</div>",
        "<p>x</p><div x-show='open' style='display:none'>yes</div>",
        "<div id=app style='display:none'><div>yes</div></div><noscript>js</noscript>",
        "<div id=app style='display:none'><p>yes</p></div><noscript>This page needs JavaScript</noscript>",
    ],
)
def test_hidden_content_that_readers_can_open_is_text(page):
    assert "yes" in convert(page.encode(), ".html")


@pytest.mark.parametrize(("suffix", "page"), [(".html", "<p>Soft&shy;ware</p>"), (".html", "<pre>Soft\xadware</pre>")])
def test_soft_hyphens_are_left_out(suffix, page):
    assert "Software" in convert(page.encode(), suffix)
    assert "Soft\xadware" in convert(page.encode(), suffix, 4)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (
            "<tr><th rowspan=2>Day<th colspan=2>Tea</tr><tr><th>green<th>black</tr><tr><td rowspan=2>Mon<td>1<td>2</tr>"
            "<tr><td>3<td>4</tr><tr><td>Tue<td>5<td>6",
            ["Day|Tea||", "---|---|---|", "Day|green|black|", "Mon|1|2|", "Mon|3|4|", "Tue|5|6|"],
        ),
        (
            "<tr><th>a<th>b<th rowspan=0>c</tr><tr><td>x</tr><tr><td>y<td>z",
            ["a|b|c|", "---|---|---|", "x||c|", "y|z|c|"],
        ),
        ("<tr><th rowspan=99999999999>a<th rowspan=x>b</tr><tr><td>c<td>d", ["a|b|", "---|---|", "c|d|"]),
    ],
)
def test_cells_that_reach_into_further_rows_are_repeated(rows, wanted):
    text = convert(f"<table>{rows}</table>".encode(), ".html")
    assert [line.replace(" ", "").lstrip("|") for line in text.splitlines()] == wanted


def test_a_cell_reaches_into_rows_of_its_own_part_of_the_table_only():
    page = b"<table><tbody><tr><th rowspan=9>a<th>b</tr></tbody><tbody><tr><td>c<td>d</table>"
    assert "| c | d |" in convert(page, ".html").splitlines()


def test_a_cell_that_reaches_down_in_a_far_column_makes_no_row_long():
    wide = "<tr>" + "<td colspan=1000>a" * 5
    for cells in (f"{wide}<td rowspan=0>b", "<tr><td colspan=900>a<td rowspan=0>b"):
        text = convert(f"<table>{cells}{'<tr><td>c' * 10}</table>".encode(), ".html")
        assert [line.replace(" ", "") for line in text.splitlines()[-10:]] == ["|c|"] * 10


def test_a_long_repeated_cell_stays_in_its_first_row():
    text = convert(f"<table><tr><td rowspan=9>{'tea ' * 60}<td>b</tr>{'<tr><td>c</tr>' * 8}</table>".encode(), ".html")
    assert text.count("tea") == 60
    assert text.count("|  | c |") == 8


def test_a_long_numbered_list_keeps_its_numbers():
    text = convert(b"<ol start=5>%b</ol>" % (b"<li>tea</li>\n" * 1000), ".html")
    assert [line for line in text.splitlines() if line] == [f"{number}. tea" for number in range(5, 1005)]


@pytest.mark.slow
def test_the_time_for_a_numbered_list_is_linear_in_its_length():
    assert convert(b"<ol>%b</ol>" % (b"<li>tea" * 20_000), ".html").endswith("20000. tea")


@pytest.mark.parametrize(
    "page",
    ["https://tea.example/a.html", "tea.html", "<?xml version='1.0'", "<?xml a?><?xml b?><p>Tea", " <?xml a?><tea>"],
)
def test_no_warning_of_a_library_reaches_the_user(page, tmp_path):
    office_files.write_epub(tmp_path / "a.epub", "Tea", ["<p>Tea"])
    book = BytesIO()
    with ZipFile(tmp_path / "a.epub") as old, ZipFile(book, "w") as new:
        for name in old.namelist():
            new.writestr(name, page if name.endswith(".xhtml") else old.read(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for suffix in (".html", ".xhtml"):
            convert(page.encode(), suffix)
        convert(book.getvalue(), ".epub")


def test_an_xhtml_file_is_read_like_a_web_page():
    page = (
        "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>"
        "<head><script src='a'/><title>Teas</title></head>"
        "<body><a id='x'/><p>Thé<br/><![CDATA[a < b]]></p><nav>no</nav></body></html>"
    )
    assert convert(page.encode(), ".xhtml") == "# Teas\n\nThé\na < b"


@pytest.mark.slow
@pytest.mark.parametrize(("tag", "times"), [("<noframes ", 200_000), ("<![CDATA[", 200_000), ("<dt>x", 50_000)])
def test_the_time_is_linear_in_the_number_of_tags_without_an_end(tag, times):
    assert "Tea" in convert(b"<p>Tea</p>" + tag.encode() * times, ".xhtml")


MDBOOK = """<body><div id="mdbook-help-container"><div id="mdbook-help-popup"><h2>Keyboard shortcuts</h2>
<p>Press <kbd>S</kbd> or <kbd>/</kbd> to search in the book</p></div></div><div id="mdbook-body-container">
<input type="checkbox" id="mdbook-sidebar-toggle-anchor" class="hidden"><div id="mdbook-page-wrapper">
<div id="mdbook-menu-bar"><ul id="mdbook-theme-list" role="menu"><li><button>Light</button></li></ul>
<h1 class="menu-title">The Book of Tea</h1></div><main><h1>Leaves</h1><p>Leaves are dried.</p>
<ul id="theme-list"><li>Green</li></ul></main></div></div></body>"""


def test_what_mdbook_hides_at_the_head_of_a_page_is_left_out():
    assert convert(MDBOOK.encode(), ".html") == "# The Book of Tea\n\n# Leaves\n\nLeaves are dried.\n\n* Green"
    older = convert(MDBOOK.encode(), ".html", version=8)
    assert older.startswith("## Keyboard shortcuts")
    assert "* Light" in older
