"""Converting by markitdown: without its guesses, without warnings, and with few copies of a file's bytes."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import markitdown
import pytest

import office_files
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
    assert versions == [{}, {}, {"version": 4}]
