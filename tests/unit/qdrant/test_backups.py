"""Backups of an embedded collection: complete or not there, of one moment, and restored as they were."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import pytest

from cases import slow
from holders import open_notes, started
from twinvec.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    StoreBusyError,
    StoreCorruptError,
    StoreUnavailableError,
)
from twinvec.support.locks import exclusive_lock
from twinvec_qdrant import backup_collection, list_collections, restore_collection
from twinvec_qdrant.stores.embedded import backups
from twinvec_qdrant.stores.embedded.folder import CollectionFolder

NOTES = {f"n{row:02}": f"note {row}" for row in range(20)}


@pytest.fixture
def store(tmp_path) -> Path:
    folder = tmp_path / "store"
    with open_notes(folder) as collection:
        collection.ingest(NOTES.items())
    return folder


def check(folder: Path, notes: dict[str, str], **options) -> None:
    """The collection holds these notes, whole, and ingests them as unchanged."""
    with open_notes(folder, create=False, **options) as collection:
        assert {each.id: each.text for each in collection.get(sorted(notes))} == notes
        assert collection.verify().sound
        assert collection.ingest(notes.items()).unchanged == len(notes)
        assert collection.count() == len(notes)


def test_a_backup_is_restored_as_it_was(store, tmp_path):
    made = backup_collection("notes", tmp_path / "backup", store)
    assert (made.collection, dict(made.points)) == ("notes", {"chunk": 20, "record": 20, "note": 1}), (
        "a note has the vocabulary"
    )
    with open_notes(store) as collection:
        collection.delete(["n00"])
    assert restore_collection(tmp_path / "backup", tmp_path / "elsewhere") == made
    check(tmp_path / "elsewhere", NOTES)
    assert list_collections(tmp_path / "elsewhere")[0].name == "notes"
    restore_collection(tmp_path / "backup", store, name="older notes")
    assert [each.name for each in list_collections(store)] == ["notes", "older notes"]
    assert sorted(each.name for each in (store / "older%20notes").iterdir()) == [
        "collection.json",
        "lock",
        "owner",
        "shard",
    ]


def test_an_existing_collection_is_replaced_only_on_request(store, tmp_path):
    backup_collection("notes", tmp_path / "backup", store)
    with open_notes(store) as collection:
        collection.ingest([("fresh", "a fresh note")])
    with pytest.raises(ConfigurationError, match=r"exists.*--overwrite"):
        restore_collection(tmp_path / "backup", store)
    check(store, {**NOTES, "fresh": "a fresh note"})
    with open_notes(store), pytest.raises(StoreBusyError, match="open in this process"):
        restore_collection(tmp_path / "backup", store, overwrite=True)
    restore_collection(tmp_path / "backup", store, overwrite=True)
    check(store, NOTES)


def test_an_older_backup_is_replaced_only_on_request_and_nothing_else_is(store, tmp_path):
    target = tmp_path / "backup"
    first = backup_collection("notes", target, store)
    with open_notes(store) as collection:
        collection.delete(["n00"])
    with pytest.raises(ConfigurationError, match="exists"):
        backup_collection("notes", target, store)
    assert backups.read_backup(target) == first
    assert backup_collection("notes", target, store, overwrite=True).points["record"] == 19
    assert backups.read_backup(target).points["record"] == 19
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("backup")] == ["backup"]
    with pytest.raises(ConfigurationError, match="not a backup"):
        backup_collection("notes", store, store, overwrite=True)
    with pytest.raises(ConfigurationError, match=r"store: not a backup: it has no backup\.json"):
        restore_collection(store, tmp_path / "elsewhere")
    (tmp_path / "archive.tar").write_bytes(b"a file")
    with pytest.raises(ConfigurationError, match="not a backup: it is a file, and a backup is a folder"):
        restore_collection(tmp_path / "archive.tar", tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"no such folder: .*nowhere; name the folder"):
        restore_collection(tmp_path / "nowhere", tmp_path / "elsewhere")
    with pytest.raises(CollectionNotFoundError):
        backup_collection("letters", tmp_path / "letters", store)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailableError, match=r"backup: the backup cannot be written: [A-Z][a-z ]+$"):
        backup_collection("notes", tmp_path / "file" / "backup", store)


def test_a_folder_that_holds_more_than_a_backup_is_not_replaced(store, tmp_path):
    target = tmp_path / "backup"
    backup_collection("notes", target, store)
    restore_collection(target, target, name="copy")
    with pytest.raises(ConfigurationError, match=r"copy is not part of .*would be lost"):
        backup_collection("notes", target, store, overwrite=True)
    assert [each.name for each in list_collections(target)] == ["copy"]
    (target / "copy").rename(target / "shard" / "copy")
    with pytest.raises(ConfigurationError, match=r"shard/copy/collection\.json is not part of .*would be lost"):
        backup_collection("notes", target, store, overwrite=True)
    assert [each.name for each in list_collections(target / "shard")] == ["copy"]


def test_a_backup_whose_files_are_not_known_is_not_replaced(store, tmp_path):
    backup_collection("notes", tmp_path / "backup", store)
    (tmp_path / "backup" / "shard" / "checksums.json").write_text("{")
    with pytest.raises(StoreCorruptError, match=r"checksums\.json.*remove the backup"):
        backup_collection("notes", tmp_path / "backup", store, overwrite=True)


def test_folders_next_to_a_backup_stay(store, tmp_path):
    backup_collection("notes", tmp_path / "backup", store)
    for name in ("backup.old", "backup.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "letter").write_text("mine")
    backup_collection("notes", tmp_path / "backup", store, overwrite=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "backup.old", "backup.partial", "store"]
    assert [(tmp_path / name / "letter").read_text() for name in ("backup.old", "backup.partial")] == ["mine"] * 2


@pytest.mark.parametrize("name", [slow("collection.json"), "backup.json", "segment.json", slow("checksums.json")])
def test_a_damaged_backup_is_refused_and_the_collection_stays(store, tmp_path, name):
    backup_collection("notes", tmp_path / "backup", store)
    next((tmp_path / "backup").rglob(name)).write_text("{")
    with pytest.raises(StoreCorruptError, match=name):
        restore_collection(tmp_path / "backup", store, overwrite=True)
    check(store, NOTES)
    with pytest.raises(StoreCorruptError):
        restore_collection(tmp_path / "backup", tmp_path / "elsewhere")
    assert not list_collections(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("format", 2, "made by a later version"),
        ("format", True, "format must be a whole number, got True"),
        ("format", None, "format must be a whole number, got None"),
        ("collection", ["notes"], r"collection must be a string, got \['notes'\]"),
        ("time", 5, "time must be a string, got 5"),
        ("time", "yesterday", "isoformat string: 'yesterday'"),
        ("points", None, "points: expected a mapping with strings as keys, got None"),
        ("points", [1], r"points: expected a mapping with strings as keys, got \[1\]"),
        ("points", {"record": "20"}, "points: 'record' must be a whole number, got '20'"),
        ("points", {"record": None}, "points: 'record' must be a whole number, got None"),
        ("points", {"record": 1.5}, "points: 'record' must be a whole number, got 1.5"),
        ("points", {"note": -1}, "points: 'note' must be at least 0, got -1"),
        ("author", "me", "a backup has no setting 'author'"),
    ],
)
def test_a_changed_field_of_the_description_of_a_backup_is_named(store, tmp_path, name, value, message):
    backup_collection("notes", tmp_path / "backup", store)
    path = tmp_path / "backup" / "backup.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, name: value}))
    with pytest.raises(StoreCorruptError, match=rf"backup.json: damaged backup: .*{message}.*; use another backup"):
        restore_collection(tmp_path / "backup", tmp_path / "elsewhere")
    if name in about:
        path.write_text(json.dumps({key: each for key, each in about.items() if key != name}))
        with pytest.raises(StoreCorruptError, match=rf"backup.json: damaged backup: {name} is missing"):
            restore_collection(tmp_path / "backup", tmp_path / "elsewhere")
    path.write_text(json.dumps({**about, "points": {**about["points"], "record": 10**30}}))
    with pytest.raises(StoreCorruptError, match=r"backup.json is missing or changed; use another backup"):
        restore_collection(tmp_path / "backup", tmp_path / "elsewhere")
    path.write_text("[" * 100_000)
    with pytest.raises(StoreCorruptError, match=r"backup.json: damaged backup: nested too deeply"):
        restore_collection(tmp_path / "backup", tmp_path / "elsewhere")
    assert not list_collections(tmp_path / "elsewhere")


@pytest.mark.parametrize("place", ["monday", "notes/deep/backup", "others/monday", "backups/monday"])
def test_a_backup_in_the_store_is_refused(store, tmp_path, place):
    """It would count as a collection, or be lost with one, such as a new collection "backups"."""
    backup_collection("notes", tmp_path / "backup", store)
    restore_collection(tmp_path / "backup", store, name="others")
    (tmp_path / "link").symlink_to(store)
    for folder in (store, tmp_path / "link"):
        with pytest.raises(ConfigurationError, match="is in the folder of the store"):
            backup_collection("notes", folder / place, store)
    assert sorted(each.name for each in store.iterdir()) == ["notes", "others"]


def test_a_damaged_collection_is_not_backed_up(store, tmp_path):
    next((store / "notes").rglob("version.info")).unlink()
    with pytest.raises(StoreCorruptError):
        backup_collection("notes", tmp_path / "backup", store)
    assert not (tmp_path / "backup").exists()
    with open_notes(tmp_path / "other") as collection:
        collection.ingest([("a", "b")])
    backup_collection("notes", tmp_path / "backup", tmp_path / "other")
    restore_collection(tmp_path / "backup", store, overwrite=True)
    check(store, {"a": "b"})


def test_a_collection_is_backed_up_while_it_is_open_and_written(store, tmp_path):
    with open_notes(store) as collection:

        def documents():
            for row in range(40):
                if row == 20:
                    backup_collection("notes", tmp_path / "backup", store)
                yield f"m{row:02}", f"more {row}"

        assert collection.ingest(documents()).new == 40
    restore_collection(tmp_path / "backup", tmp_path / "elsewhere")
    with open_notes(tmp_path / "elsewhere") as collection:
        assert set(collection.find()) >= NOTES.keys()
        assert collection.verify().sound
        assert collection.ingest((f"m{row:02}", f"more {row}") for row in range(40)).failed == 0
        assert collection.count() == 60


KILLED = """
    import sys
    from twinvec_qdrant import backup_collection, restore_collection
    from twinvec_qdrant.stores.embedded import backups, folder
    def stop(*_):
        print("stopped", flush=True)
        sys.stdin.read()
    step, work, store, backup = sys.argv[1:]
    home = folder if step == "put_restored_in_place" else backups
    if step == "put_restored_in_place":
        folder.CollectionFolder.put_restored_in_place = stop
    else:
        setattr(backups, step, stop)
    if work == "backup":
        backup_collection("notes", backup, store)
    else:
        restore_collection(backup, store, overwrite=True)
"""


def killed(step: str, *arguments: object) -> None:
    """Kill a process at a step of its backup or its restoring."""
    with started(KILLED, step, *arguments) as process:
        assert process.stdout.readline() == "stopped\n", process.stderr.read()
        process.send_signal(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["copied_tree", "sync_files"])
def test_a_killed_backup_leaves_none_under_its_name(store, tmp_path, step):
    killed(step, "backup", store, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    check(store, NOTES)
    backup_collection("notes", tmp_path / "backup", store)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "store"]
    restore_collection(tmp_path / "backup", tmp_path / "elsewhere")
    check(tmp_path / "elsewhere", NOTES)


def test_of_two_backups_to_one_folder_at_once_the_second_is_refused(store, tmp_path, monkeypatch):
    to = tmp_path / "backup"
    backup_collection("notes", to, store)
    put_in_place, refused = backups._put_in_place, []

    def overtaken(partial, target):
        target.rename(backups._beside(target, "replaced"))  # the moment at which the backup has no name
        with pytest.raises(ConfigurationError, match="another process is writing this backup"):
            backup_collection("notes", to, store, overwrite=True)
        refused.append(target.exists())
        backups._beside(target, "replaced").rename(target)
        put_in_place(partial, target)

    monkeypatch.setattr(backups, "_put_in_place", overtaken)
    backup_collection("notes", to, store, overwrite=True)
    assert refused == [False]
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    restore_collection(to, tmp_path / "elsewhere")
    check(tmp_path / "elsewhere", NOTES)


def backup_again(store: Path, target: Path) -> None:
    with pytest.raises(ConfigurationError, match="exists"):
        backup_collection("notes", target, store)


def restore_again(store: Path, target: Path) -> None:
    restore_collection(target, store, overwrite=True)


def test_a_backup_killed_between_its_renames_leaves_the_old_one(store, tmp_path, monkeypatch):
    target = tmp_path / "backup"
    first = backup_collection("notes", target, store)
    with open_notes(store) as collection:
        collection.delete(["n00"])
    rename = Path.rename

    def killed_at_the_second(path, to):
        if to == target:
            raise KeyboardInterrupt
        return rename(path, to)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            backup_collection("notes", target, store, overwrite=True)
    assert not target.exists()
    assert restore_collection(target, tmp_path / "elsewhere") == first
    check(tmp_path / "elsewhere", NOTES)
    backup_collection("notes", target, store, overwrite=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "elsewhere", "store"]


@pytest.mark.parametrize("work", [backup_again, restore_again])
def test_what_a_kill_has_left_beside_a_complete_backup_is_removed(store, tmp_path, work):
    target = tmp_path / "backup"
    backup_collection("notes", target, store)
    new, replaced, lock = left = [tmp_path / f".backup.twinvec-{name}" for name in ("new", "replaced", "lock")]
    new.mkdir()
    replaced.mkdir()
    with exclusive_lock(lock, "in use"):
        work(store, target)
        assert all(each.exists() for each in left)
    lock.touch()
    work(store, target)
    assert not any(each.exists() for each in left)


@pytest.mark.parametrize(("step", "done"), [slow("sync_files", False), ("put_restored_in_place", True)])
def test_a_killed_restore_leaves_the_old_or_the_new_collection(store, tmp_path, step, done):
    backup_collection("notes", tmp_path / "backup", store)
    with open_notes(store) as collection:
        collection.delete(["n00"])
    killed(step, "restore", store, tmp_path / "backup")
    left = {name: text for name, text in NOTES.items() if name != "n00"}
    check(store, NOTES if done else left)
    assert sorted(each.name for each in (store / "notes").iterdir()) == ["collection.json", "lock", "owner", "shard"]


@pytest.mark.slow
@pytest.mark.parametrize("step", range(3))
def test_killed_between_the_renames_the_restored_collection_is_put_in_place(store, tmp_path, step):
    backup_collection("notes", tmp_path / "backup", store)
    with open_notes(store) as collection:
        collection.delete(["n00"])
    folder = CollectionFolder(store, "notes")
    backups.copied_tree(tmp_path / "backup", folder.restored)
    if step > 0:
        folder.shard.rename(folder.path / "shard.old")
    if step > 1:
        (folder.restored / "collection.json").replace(folder.path / "collection.json")
    check(store, NOTES)


def test_a_restore_that_fails_leaves_no_copy_on_the_full_disk(store, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    backup_collection("notes", tmp_path / "backup", store)
    with monkeypatch.context() as patched:
        patched.setattr(backups, "sync_files", full)
        with pytest.raises(StoreUnavailableError, match="cannot be restored: No space left"):
            restore_collection(tmp_path / "backup", store, overwrite=True)
    assert sorted(each.name for each in (store / "notes").iterdir()) == ["collection.json", "lock", "owner", "shard"]
    check(store, NOTES)


INGESTER = """
    import sys
    from words import WordEncoder
    from twinvec_qdrant import Collection
    from twinvec_qdrant.ingest import planned
    planned.BATCH_CHUNKS = 3
    with Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False, wait_seconds=60) as collection:
        edition = 0
        while True:
            edition += 1
            collection.ingest((f"n{row:02}", f"note {row} edition{edition}") for row in range(20))
            if edition == 1:
                print("goes on", flush=True)
"""


@pytest.mark.slow
def test_backups_beside_an_ingest_that_is_killed_are_all_whole(store, tmp_path):
    for attempt in range(3):
        with started(INGESTER, store) as ingester:
            assert ingester.stdout.readline() == "goes on\n"
            for number in range(2):
                backup_collection("notes", tmp_path / f"backup{attempt}{number}", store, wait_seconds=60)
            assert ingester.poll() is None
            ingester.send_signal(signal.SIGKILL)
        for number in range(2):
            restore_collection(tmp_path / f"backup{attempt}{number}", tmp_path / f"restored{attempt}{number}")
            with open_notes(tmp_path / f"restored{attempt}{number}") as collection:
                assert sorted(collection.find()) == sorted(NOTES)
                assert len(collection.search("note", 50, "sparse")) == 20
                assert collection.ingest(NOTES.items()).failed == 0
                assert collection.verify().sound
                assert collection.count() == 20


def test_the_commands(store, tmp_path, capsys):
    from twinvec.cli import main

    def run(*arguments: object) -> tuple[int, str]:
        try:
            main([*map(str, arguments)])
        except SystemExit as end:
            return int(end.code or 0), capsys.readouterr().out
        return 0, capsys.readouterr().out

    code, output = run("backup", tmp_path / "backup", "--collection", "notes", "--path", store, "--json")
    assert (code, json.loads(output)["points"]["record"]) == (0, 20)
    assert run("backup", tmp_path / "backup", "--collection", "notes", "--path", store)[0] == 1
    assert run("restore", tmp_path / "backup", "--path", store)[0] == 1
    code, output = run("restore", tmp_path / "backup", "-c", "copy", "--path", store)
    assert (code, output.split(" as of ")[0]) == (0, "restored copy")
    assert run("restore", tmp_path / "backup", "-c", "a/b", "--path", store) == (2, "")  # no server could serve it
    assert [each.name for each in list_collections(store)] == ["copy", "notes"]
