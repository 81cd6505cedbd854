"""Folders of a source that are empty now, as where a disk is not mounted: documents stay, and a warning says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from twinvec.errors import DocumentError
from twinvec_qdrant import Root
from twinvec_qdrant.updates.updating import update_collection


@pytest.fixture
def docs(tmp_path) -> Path:
    """A folder with a disk that holds 12 documents and 12 records, and a folder with few documents."""
    for row in range(12):
        file = tmp_path / "docs" / "disk" / f"part {row % 2}" / f"{row}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"document {row}")
    rows = "\n".join(f'{{"id": "{row}", "text": "record {row}"}}' for row in range(12))
    (tmp_path / "docs" / "disk" / "rows.jsonl").write_text(rows)
    (tmp_path / "docs" / "few").mkdir()
    for row in range(3):
        (tmp_path / "docs" / "few" / f"{row}.md").write_text(f"few {row}")
    (tmp_path / "docs" / "readme.md").write_text("read me")
    return tmp_path / "docs"


def unmount(folder: Path) -> None:
    shutil.move(folder, folder.parent.parent / "away")
    folder.mkdir()


def mount(folder: Path) -> None:
    folder.rmdir()
    shutil.move(folder.parent.parent / "away", folder)


@pytest.mark.parametrize("name", ["docs", "second"])
def test_the_documents_of_a_folder_that_is_empty_now_stay(docs, collection, words, name):
    collection.ingest([("x", "other")], source="docs")
    root = Root(str(docs))
    collection.ingest(root, source=name, prune=True)
    unmount(docs / "disk")
    told = "not pruned: 24 missing documents of folders that are empty, as if a disk were not mounted: "
    for dry_run in (True, False):
        report = collection.ingest(root, source=name, prune=True, dry_run=dry_run)
        assert (report.deleted, report.unchanged) == (0, 4)
        (warning,) = report.warnings
        assert warning.startswith(told + ("disk/ (24); " if name == "docs" else "second:disk/ (24); "))
    mount(docs / "disk")
    words.encoded.clear()
    report = collection.ingest(root, source=name, prune=True)
    assert (report.unchanged, report.deleted, report.warnings, words.encoded) == (28, 0, [], [])


def test_a_folder_that_was_deleted_is_pruned(docs, collection):
    collection.ingest(Root(str(docs)))
    unmount(docs / "disk")
    assert update_collection(collection).deleted == 0
    (docs / "disk").rmdir()
    report = update_collection(collection)
    assert (report.deleted, report.warnings) == (24, [])


def test_allow_empty_prunes(docs, collection):
    collection.ingest(Root(str(docs)))
    unmount(docs / "disk")
    report = collection.ingest(Root(str(docs)), prune=True, allow_empty=True)
    assert (report.deleted, report.warnings) == (24, [])


def test_few_documents_and_a_folder_with_any_file_are_pruned(docs, collection):
    """Files that a user deletes must not be found any more, even if they were the last ones of their folder."""
    collection.ingest(Root(str(docs)))
    unmount(docs / "disk")
    (docs / "disk" / ".hidden").touch()
    for file in (docs / "few").iterdir():
        file.unlink()
    report = update_collection(collection)
    assert (report.deleted, report.warnings) == (27, [])


def test_a_source_whose_only_folder_is_empty_now_keeps_its_documents(docs, collection):
    (docs / "readme.md").unlink()
    shutil.rmtree(docs / "few")
    collection.ingest(Root(str(docs)))
    unmount(docs / "disk")
    report = update_collection(collection)
    assert (report.deleted, report.missing, len(report.warnings)) == (0, [], 1)
    shutil.rmtree(docs / "disk")
    with pytest.raises(DocumentError, match="pruning would remove all 24 documents"):
        collection.ingest(Root(str(docs)), prune=True)


def test_a_folder_that_is_left_out_now_is_pruned(docs, collection):
    """Its files are not missing."""
    collection.ingest(Root(str(docs)))
    unmount(docs / "disk")
    report = collection.ingest(Root(str(docs), exclude=("disk/",)), prune=True)
    assert (report.deleted, report.warnings) == (24, [])
