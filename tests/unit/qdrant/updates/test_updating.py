"""Updating: the sources of a collection again, from their places."""

from __future__ import annotations

import shutil

import pytest

from twinvec_qdrant import Collection, Root
from twinvec_qdrant.updates.updating import places, update_collection


@pytest.fixture
def folders(tmp_path, collection):
    """Two folders that the collection was made from, and documents without a place."""
    made = []
    for name in ("guides", "minutes"):
        (tmp_path / name).mkdir()
        for file in ("README.md", "x.txt"):
            (tmp_path / name / file).write_text(f"{name} {file}")
        made.append(tmp_path / name)
    collection.ingest(Root(str(made[0]), include=("*.md",)))
    collection.ingest(Root(str(made[1])))
    collection.ingest([("tea", "green tea")], source="from Python")
    return made


def counts(report):
    return report.new, report.updated, report.unchanged, report.deleted


ALL = ["README.md", "from Python:tea", "minutes:README.md", "minutes:x.txt"]


def test_what_changed_is_taken_in_as_it_was_read_before(collection, folders):
    assert counts(update_collection(collection)) == (0, 0, 3, 0)
    (folders[0] / "new.md").write_text("new")
    (folders[0] / "new.txt").write_text("not read: another ending")
    (folders[1] / "README.md").write_text("changed")
    (folders[1] / "x.txt").unlink()
    report = update_collection(collection)
    assert (counts(report), report.changed) == ((1, 1, 1, 1), True)
    assert (report.roots, report.placeless, report.missing) == (["guides", "minutes"], ["from Python"], [])
    assert sorted(collection.find()) == ["README.md", "from Python:tea", "minutes:README.md", "new.md"]


def test_without_pruning(collection, folders):
    (folders[1] / "x.txt").unlink()
    assert counts(update_collection(collection, prune=False)) == (0, 0, 2, 0)
    assert sorted(collection.find()) == ALL


def test_only_some(collection, folders):
    for folder in folders:
        (folder / "new.md").write_text("new")
    report = update_collection(collection, only={"minutes"})
    assert (counts(report), report.roots, report.placeless) == ((1, 0, 2, 0), ["minutes"], [])


@pytest.mark.parametrize("emptied", [shutil.rmtree, lambda folder: [each.unlink() for each in folder.iterdir()]])
def test_a_folder_that_is_gone_or_empty_removes_nothing(collection, folders, emptied):
    emptied(folders[1])
    (folders[0] / "new.md").write_text("new")
    report = update_collection(collection)
    assert (counts(report), report.roots) == ((1, 0, 1, 0), ["guides"])
    assert [name for name, _ in report.missing] == ["minutes"]
    assert report.unexpected == []
    assert sorted(collection.find()) == sorted([*ALL, "new.md"])


def test_places_of_another_machine_are_left_alone_on_a_server(collection, folders, place, monkeypatch):
    """Another machine may have other files under the same path. An embedded store has one machine, with a new name."""
    assert list(places(collection)) == ["guides", "minutes"]
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    found = ["guides", "minutes"] if "path" in place else []
    assert list(places(collection)) == found
    report = update_collection(collection)
    assert report.roots == found
    assert report.placeless == [each for each in ("guides", "minutes", "from Python") if each not in found]


def test_an_embedded_collection_on_another_machine_without_the_folder(collection, folders, place, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    shutil.move(folders[0], folders[0].parent / "moved")
    report = update_collection(collection)
    assert report.placeless == (["guides", "from Python"] if "path" in place else ["guides", "minutes", "from Python"])
    assert sorted(collection.find()) == ALL


def test_a_folder_that_is_gone_after_the_machine_has_a_new_name_is_missing(tmp_path, words, monkeypatch):
    (tmp_path / "guides").mkdir()
    (tmp_path / "guides" / "README.md").write_text("guide")
    with Collection.open("notes", tmp_path / "store", encoder=words, chunking=False) as collection:
        collection.ingest(Root(str(tmp_path / "guides")))
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
        update_collection(collection)
        shutil.rmtree(tmp_path / "guides")
        report = update_collection(collection)
        assert ([name for name, _ in report.missing], report.placeless) == (["guides"], [])


def test_an_unexpected_error_of_a_source_stops_no_other(collection, folders, monkeypatch):
    real = Root.read

    def read(root, *arguments):
        if root.path == str(folders[0]):
            raise ZeroDivisionError("by a defect")
        return real(root, *arguments)

    monkeypatch.setattr(Root, "read", read)
    (folders[1] / "README.md").write_text("changed")
    report = update_collection(collection)
    assert report.missing == [("guides", "unexpected ZeroDivisionError: by a defect")]
    assert report.unexpected == ["guides"]
    assert counts(report) == (0, 1, 1, 0)
    assert sorted(collection.find()) == ALL
