"""A folder of real files, good and broken, taken in again and again."""

from __future__ import annotations

import pytest

import office_files
from cases import slow
from twinvec.errors import SpaceMismatchError
from twinvec_qdrant import Collection, read_source
from twinvec_qdrant.records.description import COLLECTION_PROBES
from words import WordEncoder

LINE = "word and another word, "


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "documents"
    (folder / "deep").mkdir(parents=True)
    (folder / "guide.md").write_text("# Guide\n\nHow to brew tea.\n\n## Water\n\nAs hot as it gets.\n")
    (folder / "deep" / "bread.txt").write_text("bread from rye and wheat")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "table.db").write_bytes(b"SQLite format 3\0\x10\0\1\1\0")
    (folder / "latin.txt").write_bytes("Grüße aus Köln".encode("latin-1"))
    return folder


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def ingest(store, folder, encoder, **options):
    with Collection.open("notes", store, encoder=encoder) as collection:
        return collection.ingest(read_source(folder), **options)


@pytest.mark.parametrize("megabytes", [1, slow(5)])
def test_a_folder_is_taken_in_and_followed(store, folder, megabytes):
    encoder = WordEncoder(max_tokens=256)
    (folder / "line.txt").write_text(LINE * (44_000 * megabytes))  # without a line break
    report = ingest(store, folder, encoder)
    assert (report.new, report.failed, report.truncated) == (4, 1, 0)
    assert (report.empty, report.empties) == (1, [("empty.txt", "holds no text")])
    reasons = dict(report.failures)
    assert "binary" in reasons["table.db"]
    assert report.chunks > 400 * megabytes

    encoder.encoded.clear()
    again = ingest(store, folder, encoder)
    assert (again.unchanged, again.new, again.updated, again.failed, again.chunks) == (4, 0, 0, 1, 0)
    assert len(encoder.encoded) == len(COLLECTION_PROBES)

    (folder / "guide.md").write_text("# Guide\n\nHow to brew tea.\n\n## Water\n\nNot too hot.\n")
    (folder / "line.txt").unlink()
    (folder / "table.db").unlink()
    encoder.encoded.clear()
    report = ingest(store, folder, encoder, prune=True)
    assert (report.updated, report.unchanged, report.deleted, report.failed) == (1, 2, 1, 0)
    assert encoder.encoded[len(COLLECTION_PROBES) :] == ["Guide > Water\n\nNot too hot."]
    with Collection.open("notes", store, encoder=encoder) as collection:
        assert sorted(collection.find()) == ["deep/bread.txt", "guide.md", "latin.txt"]
        hit = collection.search("hot water", limit=1)[0]
        assert (hit.id, hit.payload["heading"]) == ("guide.md", "Guide > Water")
        assert collection.count() == 4


def test_a_file_that_breaks_keeps_its_older_version_also_with_prune(store, folder):
    encoder = WordEncoder(max_tokens=256)
    ingest(store, folder, encoder)
    (folder / "guide.md").write_bytes(b"\xff\xff tea\0")
    report = ingest(store, folder, encoder, prune=True)
    assert (report.failed, report.deleted) == (2, 0)
    with Collection.open("notes", store, encoder=encoder) as collection:
        assert "As hot as it gets." in collection.get(["guide.md"])[0].text


def test_a_document_that_is_open_in_an_office_program_changes_nothing(store, folder):
    """The lock file of an open Word document is no document, and no reason to keep others from being pruned."""
    encoder = WordEncoder(max_tokens=256)
    (folder / "table.db").unlink()
    office_files.write_docx(folder / "report.docx", ["The tea is hot."])
    ingest(store, folder, encoder)
    (folder / "~$report.docx").write_bytes(b"\x05Ann Bee" + bytes(154))
    (folder / "latin.txt").unlink()
    report = ingest(store, folder, encoder, prune=True)
    assert (report.new, report.unchanged, report.deleted, report.failed) == (0, 3, 1, 0)
    with Collection.open("notes", store, encoder=encoder) as collection:
        assert sorted(collection.find()) == ["deep/bread.txt", "guide.md", "report.docx"]


def test_the_folder_is_not_taken_in_with_another_model(store, folder):
    ingest(store, folder, WordEncoder(max_tokens=256))
    other = WordEncoder(seed=1, max_tokens=256)
    with pytest.raises(SpaceMismatchError, match=r"words-0.*words-1"):
        ingest(store, folder, other)
    assert other.encoded == []
