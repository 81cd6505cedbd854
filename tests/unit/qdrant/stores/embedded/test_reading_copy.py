"""A store on a full disk or in a read-only folder: it is read from a copy, and the copy goes."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import slow
from holders import holding, started, with_helpers
from small_disks import HELPERS, on_ext4, on_small_disk, without_rights
from twinvec.errors import StoreUnavailableError
from twinvec_qdrant import Collection, drop_collection, restore_collection
from twinvec_qdrant.stores.embedded.folder import CollectionFolder, copied_tree
from twinvec_qdrant.stores.embedded.room import OPEN_ROOM, Obstacle
from words import WordEncoder

NOTES = [{"id": f"n{number:02}", "text": f"note {number} of tea"} for number in range(40)]
READ_ONLY = "this process may not write to the folder"
COPIES = "twinvec-read-*"


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """The folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def place(tmp_path) -> Path:
    """The place of a small disk."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.fixture(params=["tmpfs", slow("ext4")])
def on_disk(request, place) -> Callable[..., object]:
    """A function that runs a program on a disk of 128 MB, in memory or with ext4."""

    def run(program: str, **arguments: object) -> None:
        if request.param == "ext4":
            on_ext4(program, place, 128, **arguments)
        else:
            on_small_disk(program, place, "size=128m", **arguments)

    return run


@pytest.fixture
def store(tmp_path) -> Path:
    """A store with notes."""
    with opened(tmp_path / "store") as collection:
        collection.ingest(NOTES)
    return tmp_path / "store"


@pytest.fixture
def closed_to_us(monkeypatch):
    """Let this process take every folder for one that it may not write to."""
    monkeypatch.setattr(CollectionFolder, "obstacle", lambda _: Obstacle(READ_ONLY, "ask"))


def opened(folder: Path) -> Collection:
    return Collection.open("notes", folder, encoder=WordEncoder(), chunking=False)


def everything(folder: Path) -> dict[str, tuple]:
    """All files below a folder with what tells a change, and the rights of all folders."""
    found = {}
    for path in sorted(folder.rglob("*")):
        stat = path.stat()
        found[str(path)] = (stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return found


def holds_files_of(folder: Path) -> bool:
    """Whether this process has a file below the folder open."""
    opened = {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}
    return any(folder in Path(each).parents for each in opened)


def test_a_full_disk_is_read_and_no_process_dies(on_disk, temporary, tmp_path):
    program = """
        warnings = Warnings()
        with opened(place) as collection:
            collection.ingest(json.loads(notes))
            wanted = [(hit.id, hit.score) for hit in collection.search("note 7", 5)]
        fill(place)
        for room in (0, 3 * 2**20):  # with some room, the engine would begin, and die when it finds a page too little
            give_back(place, room)
            warnings.told.clear()
            with opened(place) as collection:
                assert [(hit.id, hit.score) for hit in collection.search("note 7", 5)] == wanted
                assert collection.count() == 40
                assert collection.get(["n07"])[0].text == "note 7 of tea"
                assert collection.verify().sound
                assert collection.info()["sources"] == 40
                assert collection.ingest(json.loads(notes), source="notes", dry_run=True).unchanged == 40
                for call in (lambda: collection.delete(["n07"]), lambda: collection.ingest([("new", "new")])):
                    assert "the disk is full" in refusal(call) and "twinvec drop" in refusal(call)
            assert len(warnings.told) == 1, warnings.told
            assert "reading from a copy" in warnings.told[0]
            assert "are seen when that process has closed the collection" in warnings.told[0]
        backup_collection("notes", backup, place)
        assert [each.name for each in list_collections(place)] == ["notes"]
        assert "the disk is full" in refusal(lambda: opened(Path(place, "other")))
    """
    on_disk(program, notes=json.dumps(NOTES), backup=tmp_path / "backup")
    assert list(temporary.iterdir()) == []
    restore_collection(tmp_path / "backup", tmp_path / "restored")
    with opened(tmp_path / "restored") as collection:
        assert collection.verify().sound
        assert collection.ingest(NOTES).unchanged == len(NOTES)


@pytest.mark.slow
def test_when_there_is_room_again_the_same_object_writes_and_nothing_is_lost(on_disk, temporary):
    program = """
        with opened(place) as collection:
            collection.ingest(json.loads(notes))
        fill(place)
        with opened(place) as collection:
            assert collection.search("note 7", 1)[0].id == "n07"
            os.unlink(Path(place, "filler"))
            assert collection.ingest([("new", "a new note")]).new == 1
            assert collection.delete(["n07"]) == 1
            assert collection.search("a new note", 1)[0].id == "new"
            assert collection.verify().sound
        with opened(place) as collection:
            assert collection.count() == 40
            assert collection.verify().sound
    """
    on_disk(program, notes=json.dumps(NOTES))
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_a_disk_that_fills_up_while_a_collection_is_open_closes_with_a_warning_and_loses_nothing(on_disk, temporary):
    program = """
        warnings = Warnings()
        with opened(place) as collection:
            collection.ingest(json.loads(notes))
            fill(place)
            assert collection.search("note 7", 1)[0].id == "n07"
            assert "the disk is full" in refusal(lambda: collection.delete(["n07"]))
        assert len(warnings.told) == 1 and "nothing is lost" in warnings.told[0], warnings.told
        with opened(place) as collection:  # reads the engine's log, in the copy
            assert collection.count() == 40
            assert collection.verify().sound
        os.unlink(Path(place, "filler"))
        with opened(place) as collection:
            assert collection.ingest(json.loads(notes)).unchanged == 40
            fill(place)
            assert collection.verify().sound  # closes the engine, and reads a copy
            assert collection.search("note 7", 1)[0].id == "n07"
    """
    on_disk(program, notes=json.dumps(NOTES))
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_an_open_collection_is_verified_however_much_room_the_disk_has(on_disk, temporary):
    program = """
        with opened(place) as collection:
            collection.ingest(json.loads(notes))
        for room in (0, 3, 4, 5, 6, 8, 9):  # MB: between those to keep the engine open and those to open it again
            with opened(place) as collection:
                fill(place)
                give_back(place, room * 2**20 + 100_000)
                assert collection.verify().sound
                assert collection.search("note 7", 1)[0].id == "n07"
            os.unlink(Path(place, "filler"))
    """
    on_disk(program, notes=json.dumps(NOTES))
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_a_writer_that_is_killed_and_then_a_full_disk_lose_nothing(on_disk, temporary):
    program = """
        import signal
        if not os.fork():
            collection = opened(place)
            collection.ingest(json.loads(notes))
            collection.delete(["n07"])
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        fill(place)
        wanted = {f"n{number:02}" for number in range(40)} - {"n07"}
        for _ in range(2):
            with opened(place) as collection:
                assert set(collection.find()) == wanted
                assert collection.verify().sound
        os.unlink(Path(place, "filler"))
        with opened(place) as collection:
            assert set(collection.find()) == wanted
            report = collection.ingest(json.loads(notes))
            assert (report.unchanged, report.new) == (39, 1)
            assert collection.verify().sound
    """
    on_disk(program, notes=json.dumps(NOTES))
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "free"), [("size=64m", 0), ("size=64m,nr_inodes=150", 1), ("size=64m,nr_inodes=150", 2)]
)
def test_a_collection_is_dropped_from_a_full_disk(place, temporary, options, free):
    """Without inodes, as on other file systems without room, the locks cannot be made either, or not all of them."""
    program = """
        with opened(place) as collection:
            collection.ingest(json.loads(notes))
        fill(place)
        if few_files:
            try:
                for number in range(1000):
                    Path(place, str(number)).touch()
            except OSError:
                pass
            os.unlink(Path(place, "filler"))
            with opened(place) as collection:
                assert collection.search("note 7", 1)[0].id == "n07"
            for number in range(int(free) - 1):
                os.unlink(Path(place, str(number)))
        drop_collection("notes", place)
        assert not Path(place, "notes").exists()
        assert list_collections(place) == []
    """
    on_small_disk(program, place, options, notes=json.dumps(NOTES), few_files=free > 0, free=free)


def test_a_read_only_folder_is_read_and_left_as_it_is(store, temporary, tmp_path):
    for path in (store, *store.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = everything(store)
    program = """
        warnings = Warnings()
        with opened(store) as collection:
            assert collection.search("note 7", 1)[0].id == "n07"
            assert collection.verify().sound
            for call in (lambda: collection.delete(["n07"]), lambda: collection.reindex()):
                assert "may not write to the folder" in refusal(call)
        assert len(warnings.told) == 1 and "reading from a copy" in warnings.told[0], warnings.told
        backup_collection("notes", backup, store)
        assert "cannot be opened for writing" in refusal(lambda: drop_collection("notes", store))
        assert "may not write" in refusal(lambda: Collection.open("notes", store, encoder=WordEncoder(), repair=True))
    """
    without_rights(program, store=store, backup=tmp_path / "backup")
    assert everything(store) == before
    assert list(temporary.iterdir()) == []
    for path in (store, *store.rglob("*")):
        path.chmod(0o755)
    restore_collection(tmp_path / "backup", store, overwrite=True)
    with opened(store) as collection:
        assert collection.verify().sound


def test_a_copy_can_be_written_whatever_its_original_permits(tmp_path):
    (tmp_path / "source" / "inner").mkdir(parents=True)
    for folder in (tmp_path / "source" / "inner", tmp_path / "source"):
        folder.chmod(0o555)
    copied_tree(tmp_path / "source", tmp_path / "copy")
    assert [each.stat().st_mode & 0o777 for each in (tmp_path / "copy", tmp_path / "copy" / "inner")] == [0o755] * 2


def test_a_copy_follows_its_original(store, temporary, closed_to_us):
    with opened(store) as collection:
        assert collection.count() == 40
        first = list(temporary.glob(COPIES))
        assert len(first) == 1
        with holding(store) as holder:
            assert collection.count() == 40, "as before: the writer has not closed"
            holder.communicate("")
        assert collection.search("green tea", 1)[0].id == "tea"
        assert collection.count() == 41
        assert len(list(temporary.glob(COPIES))) == 1
        assert list(temporary.glob(COPIES)) != first
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_a_process_that_has_the_turn_gives_it_to_one_that_copies(store, temporary, closed_to_us):
    with holding(store) as holder:
        with opened(store) as collection:
            assert collection.search("green tea", 1)[0].id == "tea"
        holder.communicate("")
    assert holder.returncode == 0


@pytest.mark.slow
def test_a_collection_that_another_process_has_open_needs_no_room_as_after_a_kill(
    store, temporary, monkeypatch, caplog
):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.room.free_room", lambda _: OPEN_ROOM)
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.room.is_in_memory", lambda _: False)
    with holding(store) as holder:
        assert CollectionFolder(store, "notes").obstacle() is not None
        with opened(store) as collection:
            assert collection.search("green tea", 1)[0].id == "tea"
            assert list(temporary.glob(COPIES)) == []
        holder.communicate("")
    assert caplog.messages == [], "no copy was made, not even for one call"
    assert holder.returncode == 0


def test_a_writer_between_its_turns_needs_no_room_as_after_a_kill(store, monkeypatch):
    folder = CollectionFolder(store, "notes")
    with opened(store) as collection, collection._backend.writing:
        collection.ingest([("tea", "green tea")])
        monkeypatch.setattr("twinvec_qdrant.stores.embedded.room.free_room", lambda _: OPEN_ROOM)
        monkeypatch.setattr("twinvec_qdrant.stores.embedded.room.is_in_memory", lambda _: False)
        assert folder.obstacle() is not None, "a kill would need room"
        collection._backend.give()
        assert not folder.closed.exists(), "the writer goes on"
        assert folder.obstacle() is None
        assert collection.count() == 41


@pytest.mark.parametrize("attempt", ["open", "drop"])
def test_an_attempt_after_a_kill_that_fails_leaves_the_need_for_room(store, monkeypatch, attempt):
    program = """
        collection = opened(sys.argv[1])
        collection.ingest([("tea", "green tea")])
        os.kill(os.getpid(), 9)
    """
    with started(HELPERS + textwrap.dedent(program), store) as process:
        assert process.wait() == -signal.SIGKILL
    call, fails = {
        "open": (lambda: opened(store), "mark_opened"),
        "drop": (lambda: drop_collection("notes", store), "remove"),
    }[attempt]
    with monkeypatch.context() as patched:
        patched.setattr(CollectionFolder, fails, _fail)
        with pytest.raises(OSError, match="a fault"):
            call()
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.room.free_room", lambda _: OPEN_ROOM)
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.room.is_in_memory", lambda _: False)
    assert CollectionFolder(store, "notes").obstacle() is not None


def _fail(*_: object) -> None:
    raise OSError("a fault")


@pytest.mark.slow
def test_the_next_reader_removes_the_copy_of_a_killed_one(store, temporary, closed_to_us):
    program = """
        from twinvec_qdrant.stores.embedded.folder import CollectionFolder
        from twinvec_qdrant.stores.embedded.room import Obstacle
        CollectionFolder.obstacle = lambda _: Obstacle("read-only", "ask")
        opened(sys.argv[1])
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", HELPERS + textwrap.dedent(program), str(store)]
    done = subprocess.run(command, env={**with_helpers(), "TMPDIR": str(temporary)}, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = list(temporary.glob(COPIES))
    assert len(left) == 1
    with opened(store), opened(store):
        assert len(list(temporary.glob(COPIES))) == 1
        assert not left[0].exists()
    assert list(temporary.iterdir()) == []


def test_without_room_for_a_copy_the_error_says_where_and_how_much(store, temporary, closed_to_us, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.reading_copy.free_room", lambda _: 2**20)
    with pytest.raises(StoreUnavailableError, match=f"{READ_ONLY}.*{temporary}: 1 of [0-9]+ MB.*TMPDIR"):
        opened(store)
    assert list(temporary.iterdir()) == []


def test_a_copy_of_damaged_files_is_refused(store, temporary, closed_to_us):
    from twinvec.errors import StoreCorruptError

    file = next(store.rglob("mutable_id_tracker.mappings"))
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(StoreCorruptError, match="missing or changed"):
        opened(store)
    assert list(temporary.iterdir()) == []


def test_a_fork_leaves_the_copy_to_its_parent(store, temporary, closed_to_us, caplog):
    caplog.set_level(logging.WARNING)
    with opened(store) as collection:
        child = os.fork()
        if not child:
            try:
                code = 3 if holds_files_of(temporary) else 0
                with opened(store) as own:
                    code = code if own.count() == 40 else 1
            except BaseException:
                code = 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert collection.verify().sound
        assert collection.count() == 40
    assert list(temporary.iterdir()) == []
