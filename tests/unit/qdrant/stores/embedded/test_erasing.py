"""Deleted and replaced texts in the files of an embedded collection: ``reindex`` leaves nothing of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cases import slow
from holders import open_notes
from twinvec import Document
from twinvec_qdrant import Collection, IndexSettings, backup_collection
from twinvec_qdrant.records.words.vocabulary import VOCABULARY, _unpacked
from twinvec_qdrant.stores.embedded import index_worker
from twinvec_qdrant.stores.embedded.backend import EmbeddedBackend
from twinvec_qdrant.stores.embedded.folder import CollectionFolder

SECRETS = ("zanzibar", "quetzal", "jabberwock", "wombat", "kumquat")
"""Words that have no part in common: the engine compresses texts, and shortens what it has met before."""
OTHERS = [(f"d{row}", f"a kept text with the number {row}") for row in range(40)]


def found_in(folder: Path) -> dict[str, list[str]]:
    """Which secrets the files below a folder hold."""
    found: dict[str, list[str]] = {secret: [] for secret in SECRETS}
    hole = bytes(2**16)
    for path in filter(Path.is_file, folder.rglob("*")):
        with open(path, "rb") as file:
            content = b"".join(block for block in iter(lambda: file.read(len(hole)), b"") if block != hole)
        for secret in SECRETS:
            if secret.encode() in content:
                found[secret].append(path.relative_to(folder).as_posix())
    return {secret: files for secret, files in found.items() if files}


def write_secrets(collection: Collection) -> None:
    person = Document("quetzal.md", "A text with the zanzibar of a person.", payload={"tag": "jabberwock"})
    collection.ingest([person, ("old", "The wombat version of a text.")], prune=False)
    collection.notes("app").put({"key": {"about": "kumquat"}})


def remove_secrets(collection: Collection) -> None:
    collection.ingest([("old", "The new version of a text.")], prune=False)
    assert collection.delete(["quetzal.md"]) == 1
    collection.notes("app").put({"key": {"about": "nothing"}})


@pytest.mark.parametrize("others", [0, len(OTHERS)])
@pytest.mark.parametrize("indexed", [slow("never"), "before", slow("before the deletion alone")])
def test_reindex_leaves_nothing_of_what_was_deleted_or_replaced(tmp_path, others, indexed):
    with open_notes(tmp_path / "store") as collection:
        collection.ingest([*OTHERS[:others], ("kept", "a kept text")])
        if indexed == "before":
            assert collection.reindex().erased
        write_secrets(collection)
        if indexed == "before the deletion alone":
            collection.reindex()
        remove_secrets(collection)
    assert {"zanzibar", "quetzal"} <= found_in(tmp_path).keys(), "the engine keeps them, or this test shows nothing"
    with open_notes(tmp_path / "store") as collection:
        assert collection.reindex().erased
        assert "zanzibar" not in _unpacked(collection._backend.retrieve([VOCABULARY])[VOCABULARY].payload)
        assert found_in(tmp_path) == {}, "while it is open"
    assert found_in(tmp_path) == {}
    backup_collection("notes", tmp_path / "backup", path=tmp_path / "store")
    with open_notes(tmp_path / "store", create=False) as collection:
        assert collection.count() == others + 2
        assert collection.get(["old"])[0].text == "The new version of a text."
        assert collection.verify().sound
    assert found_in(tmp_path) == {}


@pytest.mark.parametrize("change", ["replace", "delete"])
def test_reindex_leaves_nothing_that_a_killed_writer_had_yet_to_remove(tmp_path, monkeypatch, change):
    """A killed writer has committed a change, but has not removed the old chunks yet."""

    class Killed(BaseException):
        pass

    def killed(self, ids, revisions=None):
        if change == "replace" or removed:  # a deletion removes the records first
            raise Killed
        removed.append(ids)
        delete(self, ids, revisions)

    delete, removed = EmbeddedBackend.delete, []
    with open_notes(tmp_path) as collection:
        collection.ingest(OTHERS)
        write_secrets(collection)
        collection.notes("app").delete(["key"])
        monkeypatch.setattr(EmbeddedBackend, "delete", killed)
        new = [("quetzal.md", "A text."), ("old", "The new version.")]
        with pytest.raises(Killed):
            collection.ingest(new, prune=False) if change == "replace" else collection.delete(["quetzal.md", "old"])
    monkeypatch.undo()
    with open_notes(tmp_path) as collection:
        kept = len(OTHERS) + (2 if change == "replace" else 0)
        assert collection.count() == kept + 2
        assert collection.reindex().erased
        assert collection.count() == kept
        assert found_in(tmp_path).keys() == ({"quetzal"} if change == "replace" else set())
        assert collection.verify().sound


def test_reindex_of_other_indexes_alone_erases_nothing_and_says_so(tmp_path):
    with open_notes(tmp_path) as collection:
        write_secrets(collection)
        remove_secrets(collection)
        assert not collection.reindex(payload_indexes={}).erased
    assert "zanzibar" in found_in(tmp_path)


@pytest.mark.slow
def test_what_is_written_after_the_log_was_emptied_is_there_after_a_kill(tmp_path):
    """The engine ignores an operation whose number is not above that of the point, and reads the log after a kill."""
    with open_notes(tmp_path / "store") as collection:
        for turn in range(5):
            collection.ingest((name, f"{text} in turn {turn}") for name, text in OTHERS)
        collection.notes("app").put({"key": {"turn": 0}})
        for turn in range(3):
            collection.reindex()
            collection.notes("app").put({"key": {"turn": turn}})
            collection.ingest((name, f"{text} after index {turn}") for name, text in OTHERS)
            assert collection.delete([f"d{turn}"]) == 1
            shutil.copytree(tmp_path / "store", tmp_path / f"killed{turn}")  # as a kill would leave the files
    for turn in range(3):
        with open_notes(tmp_path / f"killed{turn}", create=False) as collection:
            texts = {document.id: document.text for document in collection.get(collection.find())}
            assert texts == {name: f"{text} after index {turn}" for name, text in OTHERS if name != f"d{turn}"}
            assert collection.notes("app").get(["key"]) == {"key": {"turn": turn}}
            assert collection.verify().sound


def test_a_log_whose_numbers_do_not_go_on_is_an_error(tmp_path):
    with open_notes(tmp_path) as collection:
        collection.ingest(OTHERS)
    shard = CollectionFolder(tmp_path, "notes").shard
    shutil.rmtree(shard / "wal")  # the engine then counts from 0
    highest = max(int(each["segment_version"] or 0) for each in _manifest(shard).values())
    with pytest.raises(RuntimeError, match="counts operations from"):
        index_worker.check_log(shard, highest)
    index_worker.empty_log(shard, highest)
    index_worker.check_log(shard, highest)


def _manifest(shard: Path) -> dict:
    engine = index_worker.edge.EdgeShard.load(str(shard))
    found = engine.snapshot_manifest()
    engine.close()
    return found


def test_only_reindex_builds_a_segment_anew_in_which_little_is_outdated(tmp_path):
    with open_notes(tmp_path) as collection:
        collection.ingest(OTHERS)
        collection.reindex()
        collection.delete(["d0"])
    before = _segments(tmp_path)
    settings = {**IndexSettings().as_dict(), "with_index": True}
    shard = CollectionFolder(tmp_path, "notes").shard
    index_worker.build(shard, {**settings, "erase": False})
    assert _segments(tmp_path) == before, "though the engine keeps its configuration of the last build"
    index_worker.build(shard, {**settings, "erase": True})
    assert not before & _segments(tmp_path)


def _segments(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.rglob("id_tracker.mappings")}
