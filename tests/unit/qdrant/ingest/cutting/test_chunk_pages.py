"""The pages of chunks, and the form feeds that tell the pages within a chunk."""

from __future__ import annotations

import re

import pytest

import office_files
from twinvec.retrieval.base import Hit, pages_of
from twinvec_qdrant import Chunker, ChunkSettings, Collection, read_source
from twinvec_qdrant.ingest.cutting.chunk_pages import with_breaks
from words import WordEncoder

TABLE = [f"{name}        {price}        {price}0" for price, name in enumerate("abcdefgh")]
"""Text in columns. It has none of the words that the test searches for."""


def page(number, lines=12):
    return [f"page {number} line {row} speaks of subject{number}x{row} at length" for row in range(lines)]


@pytest.mark.parametrize("pages", [[page(1), page(2), page(3)], [page(1), page(2), TABLE, page(4), page(5)]])
@pytest.mark.parametrize("max_tokens", [20, 40, 70, 500])
def test_the_page_of_every_word_is_known(tmp_path, pages, max_tokens):
    office_files.write_pdf(tmp_path / "book.pdf", pages)
    (document,) = read_source(tmp_path / "book.pdf")
    settings = ChunkSettings(pages=True, max_tokens=max_tokens)
    found = Chunker(WordEncoder(max_tokens=600), settings).chunks(document)
    words = 0
    for chunk in found:
        assert chunk.text == chunk.text.strip("\f\n")
        hit = Hit("book.pdf", chunk.text, 1.0, payload={"page": chunk.page, "heading": chunk.heading})
        for word in re.finditer(r"subject(\d)x", chunk.text):
            assert pages_of(hit, *word.span()) == (int(word[1]),) * 2
            words += 1
    assert words == 12 * (len(pages) - (TABLE in pages))


def test_a_page_begins_with_its_signs():
    assert with_breaks("one\n\n\f* two", (0, 8)) == ("one\n\n\f* two", [0, 6])
    assert with_breaks("one\n\n| two |\n\n| three |", (0, 7, 16)) == (
        "one\n\f\n| two |\n\f\n| three |",
        [0, 5, 15],
    )
    assert with_breaks("one two", (0, 4, 4, 7)) == ("\f\f\fone two", [0, 1, 2, 3]), "no line parts them"
    assert with_breaks("", ()) == ("", [])


def test_documents_that_are_there_stay_as_they_are(tmp_path, monkeypatch):
    """A version that kept the text of a PDF as it was read has cut it otherwise."""
    office_files.write_pdf(tmp_path / "book.pdf", [page(1), TABLE, page(3)])

    def opened():
        return Collection.open("books", tmp_path / "store", encoder=WordEncoder(max_tokens=40))

    with monkeypatch.context() as patch, opened() as collection:
        patch.setattr("twinvec_qdrant.ingest.cutting.chunking.with_breaks", lambda text, starts: (text, list(starts)))
        collection.ingest(read_source(tmp_path / "book.pdf"))
        old = collection.get(["book.pdf"])
    with opened() as collection:
        assert collection.ingest(read_source(tmp_path / "book.pdf")).unchanged == 1
        assert collection.get(["book.pdf"]) == old
        assert "\f" not in old[0].text
