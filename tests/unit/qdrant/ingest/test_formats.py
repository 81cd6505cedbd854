"""Office, web and mail formats to documents, with the pages of a PDF; what is broken, and what holds no text."""

from __future__ import annotations

import gzip
import json
import os
import re
import zipfile
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import pairwise

import pytest
from bs4 import Tag

import office_files
from twinvec.text import MAX_TEXT_BYTES
from twinvec_qdrant import Empty, Failure, read_source
from twinvec_qdrant.ingest.reading import pdf_pages
from twinvec_qdrant.ingest.reading.converting import _without_placeholders, convert
from twinvec_qdrant.ingest.reading.decoding import decode_as_stated
from twinvec_qdrant.ingest.reading.files import SLOW_SUFFIXES, read_file
from twinvec_qdrant.ingest.reading.results import PagedDocument
from twinvec_qdrant.settings import NEWEST_READING

SENTENCE = "the tea is brewed with water as hot as it gets and then left to stand for a while"
WORDS = SENTENCE.split()


def read(path):
    (document,) = read_source(path)
    return document


def page(number: int, lines: int = 12) -> list[str]:
    """Lines of prose that differ from page to page, below a running title."""
    return ["The book of tea"] + [
        " ".join(WORDS[(row * number + place) % len(WORDS)] for place in range(12)) + f" {number}-{row}."
        for row in range(lines)
    ]


WRITERS = {
    "docx": lambda path: office_files.write_docx(path, ["A report on tea", "Leaves are dried."]),
    "xlsx": lambda path: office_files.write_xlsx(path, [["kind", "price"], ["green tea", 7], ["black tea", 5]]),
    "pptx": lambda path: office_files.write_pptx(path, ["All about tea", "Water"]),
    "ipynb": lambda path: office_files.write_ipynb(path, [("markdown", "# About tea"), ("code", "brew(1)")]),
    "html": lambda path: path.write_text("<html><body><h1>Tea</h1><p>A page on tea.</p></body></html>"),
    "msg": lambda path: office_files.write_msg(path, subject="On tea", sender="ann@example.org", body="Tea at four."),
    "mhtml": lambda path: office_files.write_mhtml(path, "<h1>Tea</h1><p>A page on tea.</p>"),
    "odp": lambda path: office_files.write_odf(path, "<draw:page><text:p>Slides on tea</text:p></draw:page>"),
    "ods": lambda path: office_files.write_odf(
        path,
        "<table:table table:name='Teas'><table:table-row><table:table-cell><text:p>tea</text:p></table:table-cell>"
        "</table:table-row></table:table>",
    ),
    "odt": lambda path: office_files.write_odf(path, "<text:p>A text on tea</text:p>"),
    "pdf": lambda path: office_files.write_pdf(path, [["A page on tea"]]),
    "rtf": lambda path: path.write_text(r"{\rtf1\ansi A text on tea\par}"),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_format_gives_its_text(suffix, tmp_path):
    path = tmp_path / f"notes.{suffix}"
    WRITERS[suffix](path)
    document = read(path)
    assert "tea" in document.text.lower(), document
    assert document.payload == {"path": path.name, "format": "text" if suffix == "pdf" else "markdown"}


@pytest.mark.parametrize("suffix", office_files.OFFICE_VARIANTS)
def test_a_file_with_macros_a_template_or_a_slide_show_is_read_as_its_usual_document(suffix, tmp_path):
    usual = tmp_path / f"notes.{office_files.OFFICE_VARIANTS[suffix][0]}"
    WRITERS[usual.suffix[1:]](usual)
    saved = office_files.save_as(usual, suffix)
    expected = read(usual)
    found = read(saved)
    assert found.text == expected.text
    assert found.payload == {"path": saved.name, "format": "markdown"}
    assert read_file(saved, saved.name, 8).reason.startswith("a binary file"), "older collections keep the failure"
    saved.write_bytes(b"PK\x03\x04 and then words")
    assert read(saved).reason.startswith(f"damaged: a .{suffix} file is a zip archive")


def test_a_file_compressed_by_gzip_is_read(tmp_path):
    def compressed(name, data):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
        return read(tmp_path / f"{name}.gz")

    assert compressed("changelog", b"Tea is green.").text == "Tea is green."
    page = compressed("tea.html", b"<h1>Tea</h1>")
    assert (page.id, page.text, page.payload["format"]) == ("tea.html.gz", "# Tea", "markdown")
    assert compressed("tea.MD", b"---\nkind: green\n---\nTea.").payload["kind"] == "green"
    assert isinstance(compressed("pot.png", b"\x89PNG\0"), Failure)
    assert compressed("tea.csv", b"id,text\n1,tea").reason.startswith("compressed with gzip; decompress it")
    limit = f"the file unpacks to more than the limit of {MAX_TEXT_BYTES:,} bytes; unpack and split it"
    assert compressed("large.txt", b"a" * (MAX_TEXT_BYTES + 1)).reason == limit
    old = read_file(tmp_path / "changelog.gz", "changelog.gz", 8)
    assert old.reason.startswith("compressed with gzip; decompress it"), "older collections keep the failure"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(gzip.compress(b"tea")[:-9], id="cut short"),
        pytest.param(b"\x1f\x8b\x08\0tea tea tea tea", id="only a header"),
        pytest.param(b"tea", id="not gzip"),
        pytest.param(gzip.compress(b"tea" * 99)[:-20] + b"x" * 20, id="wrong bytes at the end"),
    ],
)
def test_a_damaged_gzip_file_fails(data, tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(data)
    assert read(tmp_path / "a.txt.gz").reason.startswith("damaged: it cannot be unpacked")


@pytest.mark.parametrize("suffix", WRITERS)
def test_what_only_has_the_name_of_a_format_fails_in_one_line(suffix, tmp_path):
    path = tmp_path / f"notes.{suffix}"
    path.write_bytes(b"just a line of words, twice\n" * 2)
    found = read(path)
    if suffix == "html":
        assert "just a line" in found.text  # HTML may lack every tag
    else:
        assert isinstance(found, Failure)
        assert "\n" not in found.reason
        assert "attempts" not in found.reason


@pytest.mark.parametrize("suffix", ["docx", "xlsx", "pptx", "msg", "mhtml", "odp", "ods", "odt", "pdf"])
def test_a_broken_file_fails_with_the_reason(suffix, tmp_path):
    path = tmp_path / f"notes.{suffix}"
    WRITERS[suffix](path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])
    found = read(path)
    assert isinstance(found, Failure), found
    assert "\n" not in found.reason
    assert len(found.reason) > len("cannot be converted: ")


@pytest.mark.parametrize("suffix", ["docx", "epub", "odt", "pptx", "xlsx"])
def test_a_beginning_alone_does_not_make_an_office_file(suffix, tmp_path):
    path = tmp_path / f"notes.{suffix}"
    path.write_bytes(b"PK\x03\x04 and then words")
    found = read(path)
    assert isinstance(found, Failure), found
    assert found.reason.startswith(f"damaged: a .{suffix} file is a zip archive")


def test_files_without_text_are_empty(tmp_path):
    office_files.write_pdf(tmp_path / "scan.pdf", [[], []])
    (tmp_path / "blank.txt").write_text(" \n\n")
    (tmp_path / "none.md").touch()
    (tmp_path / "void.html").write_text("<html><body></body></html>")
    office_files.write_docx(tmp_path / "void.docx", [])
    (tmp_path / "front.md").write_text("---\ntitle: Only a title\n---\n")
    found = {getattr(each, "id", None) or each.source: each for each in read_source(tmp_path)}
    assert found.pop("front.md").title == "Only a title"
    assert {type(each) for each in found.values()} == {Empty}, found
    assert "OCR" in found["scan.pdf"].reason
    assert len(found) == 5


@pytest.mark.parametrize("suffix", [".txt", *sorted(SLOW_SUFFIXES)])
def test_a_file_without_a_byte_is_empty(suffix, tmp_path):
    path = tmp_path / f"notes{suffix}"
    path.touch()
    assert read(path) == Empty(path.name, "holds no text")


@pytest.mark.parametrize(
    ("name", "beginning", "reason"),
    [
        ("disk.iso", bytes(9), "a binary file (it holds NUL bytes) of a format that cannot be converted"),
        ("logs.tar.gz", b"\x1f\x8b\x08", "compressed with gzip; decompress it, and ingest its content"),
        (
            "a.log",
            "é".encode() * 40_000,
            "the file has 8,388,609 bytes, more than the limit of 8,388,608; split it first",
        ),
        (
            "b.log",
            b"x" + "é".encode() * 40_000,
            "the file has 8,388,609 bytes, more than the limit of 8,388,608; split it",
        ),
    ],
)
def test_of_large_files_only_texts_are_to_be_split(name, beginning, reason, tmp_path):
    path = tmp_path / name
    path.write_bytes(beginning)
    with path.open("ab") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    assert read(path).reason.startswith(reason)


@pytest.mark.parametrize(("name", "kind"), [("pot.PNG", "picture"), ("talk.mp4", "recording"), ("a.woff2", "font")])
def test_pictures_recordings_and_fonts_are_empty(name, kind, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(40))
    assert read(path) == Empty(name, f"a {kind}, which holds no text")
    with path.open("ab") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    assert read(path) == Empty(name, f"a {kind}, which holds no text"), "split it first, says the limit of texts"
    path.unlink()
    os.mkfifo(path)
    assert read(path) == Failure(name, "not a regular file"), "nobody knows what it holds"
    path.unlink()
    path.write_text("version https://git-lfs.github.com/spec/v1")
    assert read(path).text.startswith("version"), "what decodes is text, as in older collections"


SOURCE_MAP = '{"version":3,"file":"a.min.js","sources":["a.js"],"sourcesContent":["let tea = 1"],"mappings":"AAAA"}'


@pytest.mark.parametrize(
    "text",
    [SOURCE_MAP, f")]}}'\n{SOURCE_MAP}", SOURCE_MAP.replace('"mappings":"AAAA"', '"sections":[]')],
    ids=["plain", "guarded", "sections"],
)
def test_a_source_map_is_empty(text, tmp_path):
    path = tmp_path / "a.min.js.MAP"
    path.write_text(text)
    assert read(path) == Empty(path.name, "a source map, which holds no text of its own")
    assert read_file(path, path.name, 6).text == text, "older collections keep it"


@pytest.mark.parametrize("text", ["tea.lang = tea", '{"version": 3}', '["mappings", "version"]', SOURCE_MAP[:-1]])
def test_other_maps_are_text(text, tmp_path):
    (tmp_path / "lang.map").write_text(text)
    assert read(tmp_path / "lang.map").text == text


INDEXES = {
    "mkdocs": {"config": {"lang": ["en"]}, "docs": [{"location": "tea/", "title": "Tea", "text": "Green tea."}]},
    "zensical": {"config": {}, "items": [{"location": "tea.html", "level": 1, "text": "<p>Green tea.</p>"}]},
    "lunr": {"version": "2.3.9", "fields": ["title"], "fieldVectors": [], "invertedIndex": [["tea", {}]]},
}


@pytest.mark.parametrize("site", INDEXES)
def test_the_search_index_of_a_site_is_empty(site, tmp_path):
    path = tmp_path / "search_index.json"
    path.write_text(text := json.dumps(INDEXES[site]))
    assert read(path) == Empty(path.name, "a search index, which holds no text of its own")
    assert read_file(path, path.name, 8).text == text, "older collections keep it"


@pytest.mark.parametrize(
    "text",
    [
        '{"config": {"tea": 1}, "docs": "tea"}',
        '{"config": {}, "docs": [{"title": "Tea"}]}',
        '{"docs": [{"location": "tea/", "text": "Green tea."}]}',
        '{"fields": ["tea"], "values": []}',
        '{"config": {}, "items": [{"location": "tea/"}]',
    ],
)
def test_other_json_is_text(text, tmp_path):
    (tmp_path / "tea.json").write_text(text)
    assert read(tmp_path / "tea.json").text == text


MINIFIED = "var tea=[" + ",".join(f'{{name:"tea {n}"}}' for n in range(150)) + "];"


@pytest.mark.parametrize("suffix", ["js", "mjs", "cjs", "CSS"])
@pytest.mark.parametrize("before", ["", "/*! Tea 1.0 */\n\n"])
def test_minified_code_is_empty(before, suffix, tmp_path):
    path = tmp_path / f"tea.{suffix}"
    path.write_text(before + MINIFIED)
    assert read(path) == Empty(path.name, "a minified file, which holds no text of its own")
    assert read_file(path, path.name, 7).text == before + MINIFIED, "older collections keep it"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tea.js", "\n".join([f'tea("{"Green tea is steamed. " * 40}")'] * 9)),  # long sentences, such as translations
        ("tea.js", MINIFIED + "\n// tea\n" * 200),  # one long line in a file of short ones
        ("tea.txt", MINIFIED),
        ("tea.json", f'["{"tea " * 900}"]'),
        ("tea.js", " \n"),
    ],
)
def test_other_code_is_text(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    found = read(tmp_path / name)
    assert found == Empty(name, "holds no text") if text.isspace() else found.text == text


PAGE = """<html><head><title>Tea: brewing</title></head><body>
<div class="navheader"><table><tr><th>Brewing</th></tr><tr><td><a href="milk.html"><img src="prev.png" alt="Prev"></a>
</td></tr></table></div>
<nav><a href="index.html">All of the book</a></nav>
<h1 class="title">Brewing<a class="headerlink" href="#brewing" title="Permalink">¶</a></h1>
<ul><li><a href="#water">Hot water</a></li><li><a href="#time">Long time</a></li></ul>
<p id="water">See <a href="milk.html#cold" title="Chapter of milk">the milk</a> or <a href="https://tea.example/a_b"
title="x">a shop</a>. Set brew_time to 4 * 60.<img src="pot.png" alt="A blue pot"><img src="line.gif"></p>
<ul><li><a href="oolong.html">Oolong</a></li><li><a href="#x">Assam</a>, black</li></ul>
<div role="navigation"><a href="milk.html">Next</a></div></body></html>"""


def test_what_leads_elsewhere_is_no_text_of_a_web_page(tmp_path):
    (tmp_path / "a.html").write_text(PAGE, encoding="utf-8")
    assert read(tmp_path / "a.html").text.split("\n") == [
        "# Brewing",
        "",
        "See the milk or [a shop](https://tea.example/a_b). Set brew_time to 4 * 60. A blue pot",
        "",
        "* Oolong",
        "* Assam, black",
    ]


def test_a_web_page_of_links_keeps_them(tmp_path):
    (tmp_path / "a.html").write_text('<body class="toc"><ul class="toc"><li><a href="b.html">Tea</a></ul></body>')
    assert "Tea" in read(tmp_path / "a.html").text
    (tmp_path / "b.html").write_text('<div class="toc"><h1>Tea</h1> at four</div>')
    assert read(tmp_path / "b.html").text == "# Tea\n\nat four"


def test_a_web_page_without_headings_has_its_title_as_heading(tmp_path):
    (tmp_path / "a.html").write_text("<title>On\ntea</title><p>Brewed at four.")
    (tmp_path / "b.html").write_bytes(
        "<meta charset=latin-1><title>Café</title><body><h2>Thé</h2>à quatre".encode("latin-1")
    )
    first, second = read_source(tmp_path)
    assert first.text == "# On tea\n\nBrewed at four."
    assert second.text == "## Thé\n\nà quatre"


APART = [
    ("<details><summary>What about ferrets</summary>Ferrets travel free.</details>", "What about ferrets", "Ferrets"),
    ("<select><option>Lerwick</option><option>Kirkwall</option></select>", "Lerwick", "Kirkwall"),
    ("<select><option>Lerwick<option>Kirkwall</select>", "Lerwick", "Kirkwall"),
    ("<header>Tea</header><footer>Milk</footer>", "Tea", "Milk"),
    ("Tea<address>Milk</address>Water", "Tea", "Milk", "Water"),
    ("<fieldset><legend>Port</legend><label>From</label><input><label>To</label></fieldset>", "Port", "From", "To"),
    ("<p>Tea<button>Buy</button><!-- --><button>Sell</button>now", "Tea", "Buy", "Sell", "now"),
    ("<table><tr><td><aside>Tea</aside><footer>Milk</footer></td></tr></table>", "Tea", "Milk"),
    ("<menu><li>Tea</li><li>Milk</li></menu>", "Tea", "Milk"),
    ("<svg><text>Tea</text><text>Milk</text></svg>", "Tea", "Milk"),
    ("<p>Tea<img alt='A pot'>Milk</p>", "Tea", "A pot", "Milk"),
    ("<ul><li><a href='#a'>Tea</a><button>Milk</button></li></ul>", "Tea", "Milk"),
    *(
        (f"<{name}>Tea</{name}>Milk", "Tea", "Milk")
        for name in ("aside", "center", "dialog", "figure", "form", "hgroup")
    ),
    *((f"Tea<{name}>Milk</{name}>", "Tea", "Milk") for name in ("main", "noscript", "search", "textarea")),
]


@pytest.mark.parametrize(("page", "parts"), [(page, parts) for page, *parts in APART])
def test_what_a_browser_shows_apart_is_apart(page, parts):
    text = convert(page.encode(), ".html")
    assert re.search(r"\s+([|*] )*".join(map(re.escape, parts)), text), text


def test_blanks_between_controls_part_no_sentence():
    text = convert(b"<p>Your <label>name</label>, then <button>Save</button>.</p>", ".html")
    assert text == "Your name, then Save."


def test_a_page_of_navigation_alone_is_apart_too(tmp_path):
    (tmp_path / "a.html").write_bytes(
        b"<meta charset=latin-1><nav><button>Th\xe9</button><button>Caf\xe9</button></nav>"
    )
    assert read(tmp_path / "a.html").text == "Thé Café"


END_TAGS = re.compile("</(p|li|dt|dd|td|th|tr|thead|tbody|tfoot|option|optgroup|caption)>")
WHOLE = [
    "<h1>Tea</h1><p>Leaves.</p><p>Water.</p><h2>Milk</h2><p>Cold.</p>",
    "<ul><li>Tea</li><li>Milk<ul><li>cold</li><li>hot</li></ul></li><li>Water</li></ul><p>End.</p>",
    "<ol><li><p>Tea</p></li><li><p>Milk</p></li></ol>",
    "<dl><dt>Tea</dt><dd>green</dd><dd>black</dd><dt>Milk</dt><dt>Cream</dt><dd><p>cold</p></dd><dd>hot</dd></dl>",
    "<table><caption>Prices</caption><thead><tr><th>Tea</th><th>Price</th></tr></thead><tbody><tr><td>green</td>"
    "<td>7</td></tr><tr><td><p>black</p></td><td>5</td></tr></tbody><tfoot><tr><td>all</td><td>12</td></tr></tfoot></table>",
    "<select><optgroup><option>Tea</option><option>Milk</option></optgroup><optgroup><option>Water</option></optgroup></select>",
    *(
        f"<p>Tea</p><{name}>Milk</{name}><p>Water</p>"
        for name in ("blockquote", "div", "pre", "section", "aside", "nav")
    ),
]


@pytest.mark.parametrize("page", WHOLE)
def test_a_page_may_leave_out_the_end_tags_that_html_permits_to_leave_out(page):
    short = END_TAGS.sub("", page)
    assert len(short) < len(page)
    assert convert(short.encode(), ".html") == convert(page.encode(), ".html")


def test_a_long_page_without_end_tags_keeps_its_headings():
    page = "<h1>Tea</h1>" + "".join(f"<p>Leaf {number}.\n" for number in range(1200))
    text = convert(page.encode(), ".html")
    assert text.split("\n\n")[:3] == ["# Tea", "Leaf 0.", "Leaf 1."]
    assert text.endswith("Leaf 1199.")


@pytest.mark.parametrize("version", [2, 3, 4, NEWEST_READING])
@pytest.mark.parametrize("name", ["div", "span", "blockquote", "nav"])
def test_what_is_nested_very_deeply_is_flat_text(name, version):
    page = (f"<{name}>" * 2000 + "Tea<h1>Milk</h1>").encode()
    assert convert(page, ".html", version).split() == ["Tea", "Milk"]


@pytest.mark.parametrize("version", [2, 3, 4, NEWEST_READING])
def test_each_element_of_a_page_is_touched_a_fixed_number_of_times(version, monkeypatch):
    """Beautiful Soup looks for an element among all its siblings before it moves it, which takes quadratic time."""
    searched = []
    index = Tag.index
    monkeypatch.setattr(Tag, "index", lambda self, element: searched.append(element) or index(self, element))
    part = '<a href="#a">Tea</a> <img src="b" alt="pot"><nav>no</nav><button>buy</button><label>x</label>'
    page = f"<h1>Tea</h1><p>{part * 100}</p>{'<div>' * 200}"
    text = convert(page.encode(), ".html", version)
    assert text.count("Tea") == 101
    assert text.count("pot") == 100
    assert len(searched) < 10


LABELS = ["iso-8859-1", "ISO-8859-1", "latin-1", "us-ascii", "windows-1252"]
QUOTED = "I don’t “know” – it costs 5 €"


@pytest.mark.parametrize("label", LABELS)
def test_western_labels_mean_windows_1252_as_in_browsers(label, tmp_path):
    data = QUOTED.encode("cp1252")
    (tmp_path / "a.html").write_bytes(f"<meta charset={label}><p>".encode() + data)
    head = f"From: a@example.org\nMIME-Version: 1.0\nContent-Type: text/{{}}; charset={label}\n\n"
    (tmp_path / "b.eml").write_bytes(head.format("plain").encode() + data)
    (tmp_path / "c.eml").write_bytes(head.format("html").encode() + b"<p>" + data)
    (tmp_path / "d.mht").write_bytes(head.format("html").encode() + b"<p>" + data)
    assert [each.text for each in read_source(tmp_path)] == [QUOTED] * 4


def test_a_stated_encoding_is_taken_as_its_larger_successor_or_as_it_is():
    assert decode_as_stated("①".encode("cp932"), "shift_jis") == "①"
    assert decode_as_stated("镕".encode("gbk"), "gb2312") == "镕"
    assert decode_as_stated(b"\x93T\x81\xe9\x94", "iso-8859-1") == "“T\x81é”"  # Windows-1252 lacks one of them
    assert decode_as_stated("Thé".encode(), "us-ascii") == "Thé"
    for unknown in ("", "klingon", "hex", "a\0b", "utf-8"):
        assert decode_as_stated(b"\xff\xe9", unknown) is None
    for of_python in ("punycode", "unicode_escape"):  # one takes quadratic time, the other changes plain texts
        assert decode_as_stated(b"C:\\new", of_python) is None


@pytest.mark.parametrize("behind", ["<p>after", "\n<html><body class='x'><p>after</p></body></html>"])
def test_what_stands_behind_the_end_of_a_page_is_of_the_page(behind):
    page = f"<html><body><h1>Tea</h1></body></html>{behind}"
    assert convert(page.encode(), ".html").split() == ["#", "Tea", "after"]


@pytest.mark.parametrize(
    ("encoding", "label", "text"),
    [
        ("utf-8", "iso-8859-1", "Thé ☕"),
        ("shift_jis", "shift_jis", "日本語のお茶"),
        ("iso-2022-jp", "iso-2022-jp", "日本語のお茶"),
        ("utf-16-le", "utf-16", "Thé ☕"),
        ("utf-16", "utf-16", "Thé ☕"),
        ("utf-32-be", "", "Thé ☕"),
        ("cp1252", "utf-16", "Thé à quatre heures"),
        ("euc_jp", "", "ログイン、ログアウト、日本語のお茶"),
        ("cp1252", "hex", "Thé à quatre heures"),
    ],
)
def test_the_encoding_of_a_page_is_the_one_in_which_browsers_read_it(encoding, label, text):
    page = f"<!DOCTYPE html><meta charset='{label}'><h1>{text}</h1>".encode(encoding)
    assert convert(page, ".html") == f"# {text}"


def test_a_page_in_utf_8_with_a_broken_byte_is_in_utf_8():
    page = f"<meta charset=utf-8><p>{'Grüße ' * 9}".encode() + b"K\xffln"
    assert convert(page, ".html") == "Grüße " * 9 + "K\ufffdln"


BINARY = {
    "compressed with gzip": gzip.compress(b"<h1>Tea</h1>"),
    "a binary file (it holds NUL bytes)": b"<h1>Tea</h1>\0",
    "a PDF, and not a web page": b"%PDF-1.4\n<h1>Tea</h1>",
    "not text in a known encoding": b"\x01\x02\xff\xfe<h1>",
}


@pytest.mark.parametrize("reason", BINARY)
def test_a_binary_file_with_the_name_of_a_web_page_fails(reason, tmp_path):
    for name in ("a.html", "b.HTM"):
        (tmp_path / name).write_bytes(BINARY[reason])
    found = list(read_source(tmp_path))
    assert [each.reason.startswith(reason) for each in found] == [True, True], found


def test_a_binary_file_with_the_name_of_a_letter_fails(tmp_path):
    (tmp_path / "a.eml").write_bytes(gzip.compress(b"From: a@example.org\n\nTea"))
    (tmp_path / "b.eml").write_bytes(b"From: a@example.org\n\nTea\0")
    (tmp_path / "c.eml").write_bytes(b"%PDF-1.4\n")
    reasons = [each.reason.partition(" (")[0].partition(":")[0] for each in read_source(tmp_path)]
    assert reasons == ["compressed with gzip; decompress it, and ingest its content", "a binary file", "not an e-mail"]


def test_escape_sequences_of_terminals_are_no_text_of_pages_and_letters(tmp_path):
    red = "\x1b[31mTea\x1b[0m\x1b"
    (tmp_path / "a.html").write_text(f"<pre>{red}<b>!</b></pre>")
    (tmp_path / "b.eml").write_text(f"From: a@example.org\n\n{red[:-1]}")
    (tmp_path / "c.eml").write_text(f"From: a@example.org\nContent-Type: text/html\n\n<p>{red}<b>!</b>")
    texts = [each.text for each in read_source(tmp_path)]
    assert texts == ["```\nTea!\n```", "Tea", "Tea**!**"]


def test_what_a_browser_never_shows_is_no_text():
    page = "<p>Tea<script>a()</script><style>p {}</style><iframe><p>old</iframe></p><noembed>x</noembed>Milk"
    assert convert(page.encode(), ".html") == "Tea\n\nMilk"
    assert convert(b"<frameset><frame src=a><noframes><body><p>Tea</body></noframes></frameset>", ".html") == "Tea"


def test_a_web_archive_is_the_page_that_it_holds(tmp_path):
    links = '<a href="https://tea.example/milk">the milk</a> or <a href="https://milk.example/">a shop</a>'
    top = '<ul><li><a href="https://tea.example/brewing#time">Long time</a></li></ul>'
    page = f"<html><body>{top}<h1>Thé</h1><p>See {links}.<img src='cid:pot' alt='A pot'></p></body></html>"
    for name, charset in (("a.mhtml", ""), ("b.mht", "utf-16"), ("c.MHT", "latin-1")):
        office_files.write_mhtml(tmp_path / name, page, charset=charset)
    for name in ("a.mhtml", "b.mht", "c.MHT"):
        document = read(tmp_path / name)
        assert document.text == "# Thé\n\nSee the milk or [a shop](https://milk.example/). A pot"
        assert document.payload == {"path": name, "format": "markdown"}


def test_the_page_of_a_web_archive_may_state_its_encoding_itself(tmp_path):
    page = b"MIME-Version: 1.0\nContent-Type: text/html\n\n<meta charset=latin-1><p>Th\xe9</p>"
    (tmp_path / "a.mht").write_bytes(page)
    assert read(tmp_path / "a.mht").text == "Thé"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            b"just words\n",
            "not a web archive: it does not begin with headers such as Content-Type; save the page again",
        ),
        (b"Content-Type: image/png\n\nx", "the web archive has no page; save the page again"),
        (b"Content-Type: multipart/related; boundary=x\n\n--x\n", "the web archive has no page; save the page again"),
    ],
)
def test_what_is_no_web_archive_says_so(data, reason, tmp_path):
    (tmp_path / "a.mhtml").write_bytes(data)
    assert read(tmp_path / "a.mhtml") == Failure("a.mhtml", reason)


def test_slides_are_text_without_their_numbers_and_without_pictures_that_nobody_describes(tmp_path):
    for picture in ("", "A blue pot"):
        office_files.write_pptx(tmp_path / "a.pptx", ["Tea", "", "Milk"], picture=picture)
        shown = "\n\n![A blue pot](Picture2.jpg)" if picture else ""
        parts = [f"# Tea{shown}", shown.strip(), f"# Milk{shown}"]
        assert read(tmp_path / "a.pptx").text == "\n\n".join(filter(None, parts))
    office_files.write_pptx(tmp_path / "a.pptx", ["", ""], picture="")
    assert read(tmp_path / "a.pptx") == Empty("a.pptx", "holds no text")


def test_text_behind_a_chart_is_no_part_of_its_table(tmp_path):
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    show = Presentation()
    shapes = show.slides.add_slide(show.slide_layouts[6]).shapes
    prices = CategoryChartData()
    prices.categories = ["Green", "Black"]
    prices.add_series("Price", (7, 5))
    shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, 0, 0, 4_000_000, 3_000_000, prices)
    shapes.add_textbox(0, 4_000_000, 4_000_000, 400_000).text_frame.text = "Source: the market"
    show.save(tmp_path / "a.pptx")
    assert read(tmp_path / "a.pptx").text.endswith("| Black | 5.0 |\n\nSource: the market")
    older = read_file(tmp_path / "a.pptx", "a.pptx", 8).text
    assert older.endswith("| Black | 5.0 |Source: the market"), "older collections keep it"


@pytest.mark.parametrize("picture", ["![](Picture1.jpg)", "![Picture 1](Picture1.jpg)", "![Grafik  1-ü](Grafik1ü.jpg)"])
def test_a_placeholder_of_every_markitdown_goes(picture):
    """The first one is how markitdown before 0.1.4 writes a picture without description."""
    assert _without_placeholders(f"<!-- Slide number: 1 -->\n\n{picture}\n\nTea") == "Tea"
    assert _without_placeholders(f"Tea {picture}") == f"Tea {picture}"


def test_a_letter_has_its_subject_as_title(tmp_path):
    when = datetime(2024, 5, 6, 7, 8, tzinfo=UTC)
    path = tmp_path / "a.eml"
    headers = {"from": "Ann <ann@example.org>", "to": "Zoë <zoe@example.org>", "subject": "Tea über alles"}
    office_files.write_eml(
        path, text="Tea at four.\n", html="<p>no</p>", attachment="a.bin", date=format_datetime(when), **headers
    )
    letter = read(path)
    assert (letter.title, letter.text.strip()) == ("Tea über alles", "Tea at four.")
    assert letter.payload == {
        "from": "Ann <ann@example.org>",
        "to": "Zoë <zoe@example.org>",
        "date": "2024-05-06T07:08:00+00:00",
        "attachments": ["a.bin"],
        "path": "a.eml",
        "format": "text",
    }


def test_a_letter_of_html_is_converted(tmp_path):
    path = tmp_path / "a.eml"
    office_files.write_eml(path, html="<h1>Tea</h1><p>at <b>four</b></p>", **{"from": "a@example.org"})
    letter = read(path)
    assert letter.text.startswith("# Tea")
    assert "<" not in letter.text
    assert letter.payload["format"] == "markdown"


@pytest.mark.parametrize(
    "data",
    [
        b"just words\n",
        b"From: a@example.org\nDate: never\nContent-Type: text/plain; charset=klingon\n\nt\xe9a\n",
        b"From: =?utf-8?q?=FF?=\nTo: \xff\xfe <a@b>\nSubject: =?x?b?!!?=\n\ntea\n",
        b"From: a@example.org\nContent-Type: multipart/mixed; boundary=x\n\n--x\n",
        b"Message-ID: <[x]@y>\nContent-Type: ;;;\nContent-Transfer-Encoding: base64\n\n!!!\n",
        b"From: a@example.org\nContent-Type: text/html; charset=utf-7\n\n<p>tea +2AA- tea</p>\n",
    ],
)
def test_odd_letters_stop_nothing(data, tmp_path):
    (tmp_path / "a.eml").write_bytes(data)
    (tmp_path / "b.txt").write_text("tea")
    first, second = read_source(tmp_path)
    assert second.text == "tea"
    assert isinstance(first, Failure) or "t" in first.full_text


def test_a_damaged_pdf_is_not_read_as_text(tmp_path):
    path = tmp_path / "bad.pdf"
    path.write_text("%PDF-1.4 broken\n")
    found = read(path)
    assert isinstance(found, Failure)
    assert found.reason == "damaged: no page of the PDF can be read; get the file again"


@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".xlsx"])
def test_an_office_file_with_a_password_says_so(tmp_path, suffix):
    path = tmp_path / f"locked{suffix}"
    office_files.write_encrypted(path)
    assert read(path).reason == "encrypted with a password; save it without the password"


def test_a_pdf_with_a_password_says_so(tmp_path):
    path = tmp_path / "locked.pdf"
    office_files.write_pdf(path, [["A page on tea"]])
    keys = f"/Filter /Standard /V 1 /R 2 /P -4 /O <{'01' * 32}> /U <{'02' * 32}>"
    data = path.read_bytes().replace(b"/Root 1 0 R", f"/Root 1 0 R /ID [<00> <00>] /Encrypt << {keys} >>".encode())
    path.write_bytes(data)
    assert read(path).reason == "encrypted with a password; save it without the password"


def test_a_notebook_that_is_cut_off_is_not_read_as_text(tmp_path):
    path = tmp_path / "notes.ipynb"
    WRITERS["ipynb"](path)
    path.write_bytes(path.read_bytes()[:-30])
    found = read(path)
    assert isinstance(found, Failure)
    assert found.reason.startswith("damaged notebook: not valid JSON (")
    assert found.reason.endswith("; get the file again")


def test_pages_start_where_their_text_does(tmp_path):
    path = tmp_path / "book.pdf"
    office_files.write_pdf(path, [page(1), page(2), [], page(4), page(5, lines=1)])
    document = read(path)
    assert isinstance(document, PagedDocument)
    starts = [document.text[start : start + 200] for start in document.pages]
    for number in (1, 2, 4, 5):
        assert f" {number}-0." in starts[number - 1], starts[number - 1]
        assert document.text.count(f" {number}-0.") == 1
    assert document.pages[2] == document.pages[3]


def test_a_table_in_a_pdf_hides_no_page(tmp_path):
    table = [
        f"{name}        {price}        {place}"
        for name, price, place in zip("abcdefgh", range(8), range(8), strict=True)
    ]
    path = tmp_path / "prices.pdf"
    office_files.write_pdf(path, [page(1), table, page(3)])
    document = read(path)
    assert " 3-0." in document.text[document.pages[2] : document.pages[2] + 200]
    assert " 3-0." not in document.text[: document.pages[2]]


def test_words_of_a_pdf_are_whole(tmp_path):
    """Columns part no words, and a hyphen at the end of a line goes unless the word has it elsewhere."""
    lines = [
        "a well-known tea is brewed with boil-",
        "ing water, which the well-",
        "known house has        at        its        door",
    ]
    office_files.write_pdf(tmp_path / "book.pdf", [lines])
    found = read(tmp_path / "book.pdf")
    assert "brewed with boiling water" in found.text
    assert "which the well-known house has" in found.text
    assert "|" not in found.text
    assert "-\n" not in found.text


@pytest.mark.slow
def test_the_time_is_linear_in_the_length_of_a_word_of_a_pdf(monkeypatch):
    text = "tea " + "a" * 2**20
    monkeypatch.setattr(pdf_pages, "page_texts", lambda _: [(text, "1")])
    assert pdf_pages.read_pdf(b"")[0] == text


def test_a_sentence_of_a_pdf_goes_on_in_the_next_line(tmp_path):
    """Chunks end at line ends, and should not end within a sentence."""
    lines = [
        "The leaves of tea are dried in the sun before",
        "they are sent away in the ships of the harbour.",
        "water is boiled, and there are two kinds of it;",
        "brew(1)",
        "pour()",
    ]
    office_files.write_pdf(tmp_path / "book.pdf", [lines])
    assert read(tmp_path / "book.pdf").text.split("\n") == [" ".join(lines[:2]), *lines[2:]]


def test_lines_that_pages_repeat_stay_once(tmp_path):
    """Left and right pages have heads of their own; a page's number is part of its head or foot."""
    heads = ["The book of tea {}", "{} On water", "The book of tea {}", "{} On water", "{} / 6 On milk", "The end"]
    pages = [[head.format(row), f"Tip {row + 40}", *page(row)[1:], f"{row}"] for row, head in enumerate(heads, 1)]
    office_files.write_pdf(tmp_path / "book.pdf", pages)
    found = read(tmp_path / "book.pdf")
    assert isinstance(found, PagedDocument)
    bounds = pairwise([*found.pages, len(found.text)])
    shown = [found.text[start:end].split() for start, end in bounds]
    assert [" ".join(words[:3]) for words in shown[:2]] == ["The book of", "2 On water"]
    assert [words[0] for words in shown] == ["The", "2", "Tip", "Tip", "5", "The"]
    assert [words[-1] == str(row) for row, words in enumerate(shown, 1)] == [True, *[False] * 5]


def test_leaders_of_a_table_of_contents_are_no_text(tmp_path):
    office_files.write_pdf(tmp_path / "book.pdf", [["Water . . . . . . . . . . . 7", "Milk........12", "and so on..."]])
    assert read(tmp_path / "book.pdf").text.split("\n") == ["Water 7", "Milk 12", "and so on..."]


def test_the_chapters_of_a_book_are_read_like_web_pages(tmp_path):
    """Without addresses within the book; a chapter without a heading does not get the book's title again."""
    notes = '<p>See <a href="b.xhtml#x">there</a>, <a href="#n">1</a>.</p><aside>Note 1.</aside><aside>Note 2.</aside>'
    chapters = [
        f'<h1>Leaves</h1><img src="a.png" alt="A pot"/>{notes}',
        "<p>Gr\u00fcn.</p><address>A street</address><pre><![CDATA[if a < b: brew()]]></pre>End.",
    ]
    office_files.write_epub(tmp_path / "tea.epub", "All about tea", chapters)
    told, _, text = read(tmp_path / "tea.epub").text.partition("\n\n")
    assert told == "**Title:** All about tea\n**Language:** en"
    parts = [
        "# Leaves",
        "A pot",
        "See there, 1.",
        "Note 1.",
        "Note 2.",
        "Gr\u00fcn.",
        "A street",
        "```\nif a < b: brew()\n```",
        "End.",
    ]
    assert text.split("\n\n") == parts


def test_a_broken_chapter_of_a_book_leaves_out_no_other(tmp_path):
    office_files.write_epub(tmp_path / "tea.epub", "Tea", ["<p>Leaves.\0</p>", '<p>Water<a id="n"/>, <i>hot</i>.</p>'])
    assert read(tmp_path / "tea.epub").text.split("\n\n")[1:] == ["Leaves.\ufffd", "Water, *hot*."]


def test_a_broken_picture_of_a_book_does_no_harm(tmp_path):
    path = tmp_path / "tea.epub"
    office_files.write_epub(path, "Tea", ["<p>Leaves.</p>"])
    with zipfile.ZipFile(path, "a") as book:
        book.writestr("book/pot.jpg", b"a picture of a pot")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"a picture of a pot", b"a picture of a cup"))
    with zipfile.ZipFile(path) as book, pytest.raises(zipfile.BadZipFile):
        book.read("book/pot.jpg")
    assert read(path).text.endswith("Leaves.")


LEASE = ["Terms", "The lease of the flat in Main Street begins in June."]


@pytest.mark.parametrize(
    ("title", "name", "found"),
    [
        ("Lease of the flat in Main Street", "a.docx", True),
        ("The rules  of the house", "house_rules.docx", True),
        ("Minutes of the meeting in the office", "a.docx", False),  # of the document that was copied
        ("Document1", "a.docx", False),
        ("Microsoft Word - lease.doc", "lease.docx", False),
        ("TERMS", "a.docx", False),
    ],
)
def test_the_title_of_a_word_document_counts_if_it_names_its_content(tmp_path, title, name, found):
    office_files.write_docx(tmp_path / name, LEASE, title=title)
    (document,) = read_source(tmp_path)
    assert (document.title, document.text) == (" ".join(title.split()) if found else "", "\n\n".join(LEASE))
    reading = read_source(tmp_path)
    reading.read_by(8)
    assert next(reading).title == ""


def test_a_title_that_the_text_begins_with_is_not_repeated(tmp_path):
    office_files.write_docx(
        tmp_path / "a.docx", ["House rules of Main Street", "No dogs."], title="House Rules of Main Street"
    )
    (document,) = read_source(tmp_path)
    assert document.title == ""


def test_comments_of_a_word_document_are_read(tmp_path):
    office_files.write_docx(tmp_path / "a.docx", LEASE, comment="Ask the landlord.")
    (document,) = read_source(tmp_path)
    assert "End[[B1]](#comment-0)\n\nComment [B1]\n:   Ask the landlord." in document.text
    assert "landlord" not in convert((tmp_path / "a.docx").read_bytes(), ".docx", 8)
