"""Files of a collection that an older version made are read as that version read them, until ``reindex``."""

from __future__ import annotations

import socket

import pytest

import office_files
from reading_ahead import read_ahead
from twinvec.retrieval.base import Hit
from twinvec_qdrant import Collection, Root, opening, read_source
from twinvec_qdrant.cli.results.places import Places
from twinvec_qdrant.ingest.reading.results import PagedDocument
from twinvec_qdrant.stored_roots import StoredRoot
from words import WordEncoder

URI = f"data:image/png;base64,{'A' * 120}"
NEW, OLD = 2, 1
READ = {  # of each version: the texts by path
    OLD: {
        "a.pdf": "tea is brewed with boil-\ning water\n\n\x0cmilk is cold\n\n",
        "b.html": "[All of the book](all.html)\n\nSet brew\\_time to 4 \\* 60.",
        "c.docx": "the leaf\\_size of tea",
        "d.md": f"# Tea\n\n![A pot]({URI})",
        "e.eml": "a pot\\_of tea",
        "f.txt": f"a_b {URI}",
    },
    NEW: {
        "a.pdf": "tea is brewed with boiling water\n\nmilk is cold",
        "b.html": "Set brew_time to 4 * 60.",
        "c.docx": "the leaf_size of tea",
        "d.md": "# Tea\n\n![A pot](data:image/png;base64...)",
        "e.eml": "a pot_of tea",
        "f.txt": f"a_b {URI}",
    },
}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    office_files.write_pdf(folder / "a.pdf", [["tea is brewed with boil-", "ing water"], ["milk is cold"]])
    (folder / "b.html").write_text('<nav><a href="all.html">All of the book</a></nav><p>Set brew_time to 4 * 60.</p>')
    office_files.write_docx(folder / "c.docx", ["the leaf_size of tea"])
    (folder / "d.md").write_text(f"# Tea\n\n![A pot]({URI})")
    office_files.write_eml(folder / "e.eml", html="<p>a pot_of tea</p>", subject="Tea", **{"from": "a@example.org"})
    (folder / "f.txt").write_text(f"a_b {URI}")
    return folder


def opened(tmp_path):
    return Collection.open("notes", tmp_path / "store", encoder=WordEncoder(), chunking=False)


@pytest.fixture
def old(folder, tmp_path, monkeypatch):
    """A collection as an older version made it: its description has no reading."""
    with monkeypatch.context() as patched, opened_by_older(patched, tmp_path) as collection:
        reading = read_source(folder)
        reading.read_by(OLD)
        collection.ingest(list(reading))
        assert "reading" not in collection._backend.read_metadata()
        yield collection


def opened_by_older(patched, tmp_path):
    patched.setattr(opening, "NEWEST_READING", None)
    return opened(tmp_path)


def points(collection):
    """Return the payloads of all points by id, without the notes that record the folders ingested."""
    return {each.id: each.payload for each in collection._backend.scroll([]) if each.payload["kind"] != "note"}


def counts(report):
    return report.new, report.updated, report.unchanged, report.deleted, report.encoded


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_version_reads_files_in_its_way(folder, version):
    reading = Root(str(folder)).read(read_ahead)
    reading.read_by(version)
    documents = {each.id: each for each in reading}
    assert {name: each.text for name, each in documents.items()} == READ[version]
    pdf = documents["a.pdf"]
    assert isinstance(pdf, PagedDocument)
    assert pdf.payload["format"] == ("markdown" if version == OLD else "text")
    assert [pdf.text[start:].lstrip("\x0c")[:4] for start in pdf.pages] == ["tea ", "milk"]


def test_files_are_read_in_the_newest_way_without_a_collection(folder):
    assert {each.id: each.text for each in Root(str(folder))} == READ[NEW]


def test_an_older_collection_is_unchanged_by_its_own_ingest(folder, old):
    before = points(old)
    for options in ({"dry_run": True}, {}, {"prune": True}):
        assert counts(old.ingest(Root(str(folder)), **options)) == (0, 0, 6, 0, 0)
        assert old._backend.read_metadata().get("reading") == (None if options.get("dry_run") else OLD)
    assert counts(old.ingest(read_source(folder))) == (0, 0, 6, 0, 0)
    assert points(old) == before
    assert old.info()["reading"] == OLD


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_lines_of_a_hit_are_found_with_and_without_the_bytes_of_an_image(folder, version):
    text = READ[version]["d.md"]
    hit = Hit("d.md", text, 1.0, {}, {"source": "d.md", "format": "markdown"})
    places = Places([StoredRoot("notes", True, str(folder), socket.gethostname())])
    assert places.lines("d.md", hit, 0, len(text)) == (1, 3)


@pytest.mark.slow
def test_reindex_brings_an_older_collection_to_the_newest_reading(folder, old):
    old.ingest(Root(str(folder)))
    old.reindex(payload_indexes=False)
    assert old.info()["reading"] == OLD
    old.reindex()
    assert old.info()["reading"] == NEW
    report = old.ingest(Root(str(folder)))
    assert (report.updated, report.unchanged) == (5, 1)
    assert {each.id: each.text for each in old.get(old.find())}["b.html"] == READ[NEW]["b.html"]
    assert counts(old.ingest(Root(str(folder)))) == (0, 0, 6, 0, 0)


def test_an_older_collection_without_such_files_reads_them_in_the_newest_way(folder, tmp_path, monkeypatch):
    with monkeypatch.context() as patched, opened_by_older(patched, tmp_path) as collection:
        collection.ingest([{"id": "f.txt", "text": "of an older version"}])
        collection.ingest(Root(str(folder)))
        assert collection.info()["reading"] == NEW
        assert {each.id: each.text for each in collection.get(["b.html"])} == {"b.html": READ[NEW]["b.html"]}


def test_a_new_collection_records_the_newest_reading_which_a_copy_keeps(folder, tmp_path):
    with opened(tmp_path) as collection:
        assert collection.info()["reading"] == NEW
        collection.ingest([{"id": "b.html", "text": "given by an application"}])
        assert collection.ingest(Root(str(folder))).updated == 1
        collection.push(tmp_path / "other")
    with Collection.open("notes", tmp_path / "other", encoder=WordEncoder()) as copy:
        assert copy.info()["reading"] == NEW
        assert counts(copy.ingest(Root(str(folder)))) == (0, 0, 6, 0, 0)
