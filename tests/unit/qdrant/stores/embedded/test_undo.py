"""An opening after a kill that is refused, fails or is killed leaves the files as they were; see also tests/crash."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from holders import left_by_a_kill, open_notes, started
from twinvec.errors import StoreCorruptError, StoreUnavailableError
from twinvec_qdrant.stores.embedded import folder as folders
from twinvec_qdrant.stores.embedded.checksums import checksum
from twinvec_qdrant.stores.embedded.folder import CollectionFolder, copied_tree

LEAVE = """
    import os, signal, sys
    from words import WordEncoder
    from twinvec_qdrant import Collection
    from twinvec_qdrant.stores.embedded.backend import EmbeddedBackend

    place = {"path": sys.argv[1], "encoder": WordEncoder(), "chunking": False}
    with Collection.open("notes", **place) as collection:
        collection.ingest((f"n{row:02}", f"note {row}") for row in range(20))
    collection = Collection.open("notes", **place)
    EmbeddedBackend.flush = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    collection.ingest([("n03", "note changed"), ("milk", "cold milk")])
"""
WANTED = {**{f"n{row:02}": f"note {row}" for row in range(20)}, "n03": "note changed", "milk": "cold milk"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Path:
    """A store whose writer was killed while its last documents were in the engine's log only."""
    return left_by_a_kill(LEAVE, tmp_path_factory.mktemp("killed") / "store")


@pytest.fixture
def folder(killed, tmp_path) -> Path:
    copied_tree(killed, tmp_path / "store")
    return tmp_path / "store"


def texts(folder: Path) -> dict[str, str]:
    with open_notes(folder) as collection:
        assert collection.verify().sound
        return {each.id: each.text for each in collection.get(collection.find())}


def contents(folder: Path) -> dict[str, int]:
    """The checksum of each of the engine's files, by its path below shard/ or below a copy that is to replace it."""
    place = folder / "notes" / "shard"
    kept = place.with_name("shard.indexed")
    place = kept if kept.is_dir() else place
    return {str(path.relative_to(place)): checksum(path) for path in place.rglob("*") if path.is_file()}


def damaged(folder: Path) -> Callable[[], None]:
    """Damage a file, so that opening is refused after the engine has changed others; return how to put it back."""
    (file,) = (folder / "notes" / "shard" / "segments").glob("*/payload_storage/bitmask.dat")
    whole = file.read_bytes()
    file.write_bytes(bytes(len(whole)))

    def put_back() -> None:
        file.write_bytes(whole)

    return put_back


@pytest.mark.parametrize("fails", ["sync_folder", "rename 1", "rename 2"])
def test_a_copy_that_cannot_be_put_back_stays_until_the_next_opening(folder, monkeypatch, fails):
    put_back = damaged(folder)
    before = contents(folder)
    put = CollectionFolder.put_kept_in_place
    rename, renamed = Path.rename, []

    def failing(*arguments: Path) -> Path:
        renamed.append(arguments)
        if fails == "sync_folder" or len(renamed) == int(fails[-1]):
            raise OSError(errno.EIO, "Input/output error")
        return rename(*arguments)

    def on_a_failing_disk(self: CollectionFolder) -> None:
        with monkeypatch.context() as patched:
            if fails == "sync_folder":
                patched.setattr(folders, "sync_folder", failing)
            else:
                patched.setattr(Path, "rename", failing)
            put(self)

    with monkeypatch.context() as patched:
        patched.setattr(CollectionFolder, "put_kept_in_place", on_a_failing_disk)
        with pytest.raises(StoreUnavailableError, match="notes: cannot be put back: Input/output error"):
            open_notes(folder)
    assert contents(folder) == before
    with pytest.raises(StoreCorruptError, match="verify --repair"):
        open_notes(folder)
    assert contents(folder) == before
    put_back()
    assert texts(folder) == WANTED


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_copy_that_cannot_be_forced_to_the_disk_is_no_copy(folder, monkeypatch, error):
    def failing(_: Path) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patched:
        patched.setattr(folders, "sync_files", failing)
        if error == errno.EIO:
            with pytest.raises(StoreUnavailableError, match="cannot be copied: Input/output error"):
                open_notes(folder)
        else:
            open_notes(folder).close()
    assert not list((folder / "notes").glob("shard.*"))
    assert texts(folder) == WANTED


def test_a_copy_that_cannot_be_removed_ends_the_opening_and_costs_nothing(folder, monkeypatch):
    def failing(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(CollectionFolder, "drop_kept", failing)
        with pytest.raises(StoreUnavailableError, match="cannot be opened: Input/output error"):
            open_notes(folder)
    assert (folder / "notes" / "shard.indexed").is_dir()
    assert texts(folder) == WANTED
    assert not list((folder / "notes").glob("shard.*"))


DIE_AT = """
    import os, signal, sys
    from words import WordEncoder
    from twinvec_qdrant import Collection
    from twinvec_qdrant.stores.embedded import folder

    setattr(folder.CollectionFolder, sys.argv[2], lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False)
"""


@pytest.mark.parametrize("step", ["settle", "checksums", "mark_opened"])
def test_after_a_kill_between_the_start_of_a_turn_and_the_opening_all_checksums_are_compared(folder, step):
    texts(folder)  # closes the store
    with started(DIE_AT, folder, step) as process:
        assert process.wait() == -signal.SIGKILL
    (file,) = (folder / "notes" / "shard" / "segments").glob("*/vector_storage-dense/vectors/chunk_0.mmap")
    whole = file.read_bytes()
    file.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    for _ in range(2):
        with pytest.raises(StoreCorruptError, match=r"chunk_0\.mmap is missing or changed"):
            open_notes(folder)
    file.write_bytes(whole)
    assert texts(folder) == WANTED


def test_a_copy_of_former_files_never_replaces_later_ones(folder, killed):
    """As a process of an older version may leave it, beside files that were closed since."""
    texts(folder)
    copied_tree(killed / "notes" / "shard", folder / "notes" / "shard.indexed")
    with open_notes(folder) as collection:
        collection.ingest([("tea", "green tea")])
    assert texts(folder) == {**WANTED, "tea": "green tea"}


def test_a_full_disk_reads_the_copy_that_a_killed_opening_has_left(folder, monkeypatch):
    put_back = damaged(folder)
    with started(DIE_AT, folder, "put_kept_in_place") as process:
        assert process.wait() == -signal.SIGKILL
    kept = folder / "notes" / "shard.indexed"
    (file,) = (kept / "segments").glob("*/payload_storage/bitmask.dat")
    put_back()
    file.write_bytes((folder / "notes" / "shard" / file.relative_to(kept)).read_bytes())
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.folder.lacking_room", lambda *_: folders.Obstacle("full", "-"))
    assert texts(folder) == WANTED
