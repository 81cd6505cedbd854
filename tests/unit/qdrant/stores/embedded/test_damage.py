"""A damaged file of an embedded store: opening refuses it, and a repair brings back what the next ingest completes."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import slow
from holders import holding, left_by_a_kill, started
from twinvec import Document
from twinvec.errors import ConfigurationError, StoreCorruptError, StoreUnavailableError
from twinvec.retrieval.documents import HiddenKeys
from twinvec_qdrant import Collection, Root
from twinvec_qdrant.report import RepairReport
from twinvec_qdrant.stores.embedded.checksums import Checksums, checksum
from twinvec_qdrant.stores.embedded.folder import copied_tree
from twinvec_qdrant.stores.embedded.room import Obstacle, file_system
from twinvec_qdrant.stores.points import Point
from words import WordEncoder

DOCUMENTS = {
    f"n{row:02}": {
        "id": f"n{row:02}",
        "text": f"note {row} one\n\n" + "word " * 9 + f"\n\ntail {row} " + "x " * 9,
        "team": "ab"[row % 2],
    }
    for row in range(40)
}


def flipped(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(max(1, len(bytes(data).rstrip(b"\0"))))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def cut(file: Path, rng: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(max(1, len(data.rstrip(b"\0"))))])


def zeroed(file: Path, rng: random.Random) -> None:
    del rng
    file.write_bytes(bytes(file.stat().st_size))


def inverted(file: Path, rng: random.Random) -> None:
    del rng
    file.write_bytes(file.read_bytes().translate(bytes(reversed(range(256)))))


def deleted(file: Path, rng: random.Random) -> None:
    del rng
    file.unlink()


def halved(file: Path, rng: random.Random) -> None:
    del rng
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path, rng: random.Random) -> None:
    del rng
    os.truncate(file, 0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A store with several batches, changed and removed documents."""
    folder = tmp_path_factory.mktemp("whole")
    with opened(folder) as collection:
        collection.ingest(list(DOCUMENTS.values())[:30])
        collection.ingest([{**DOCUMENTS["n03"], "text": "changed"}, *list(DOCUMENTS.values())[20:]])
        collection.ingest([DOCUMENTS["n03"], {"id": "gone", "text": "soon gone"}])
        collection.delete(["gone"])
    return folder


@pytest.fixture(scope="module")
def wanted(whole) -> list:
    """What the whole store answers."""
    with opened(whole) as collection:
        return answers(collection)


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    return copied(whole, tmp_path / "store")


def copied(whole: Path, folder: Path) -> Path:
    """Copy a store, whose files are ten times as long as what they occupy."""
    copied_tree(whole, folder)
    return folder


def opened(folder: Path, **options) -> Collection:
    return Collection.open("notes", folder, encoder=WordEncoder(max_tokens=16), **options)


def answers(collection: Collection) -> list:
    found = [collection.count(), sorted(collection.find()), sorted(collection.find({"team": "a"}))]
    for query in ("note 3", "tail 20", "word"):
        for mode in ("dense", "sparse"):
            hits = collection.search(query, 200, mode, group=False)
            found.append(sorted((hit.id, hit.text, round(hit.score, 3)) for hit in hits))
    return [*found, sorted((each.id, each.text) for each in collection.get(list(DOCUMENTS)))]


KILLED = """
    import os, signal, sys
    from words import WordEncoder
    from twinvec_qdrant import Collection

    with Collection.open("notes", sys.argv[1], encoder=WordEncoder(max_tokens=16)) as collection:
        collection.reindex()
        collection.delete(["n05"])
        collection.ingest([{"id": "tea", "text": "green tea", "team": "a"}])
    collection = Collection.open("notes", sys.argv[1], encoder=WordEncoder(max_tokens=16))
    collection.ingest([{"id": "milk", "text": "cold milk", "team": "b"}, {"id": "n06", "text": "changed"}])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed(whole, tmp_path_factory) -> Path:
    """A store with an indexed and a growing segment, whose writer was killed."""
    return left_by_a_kill(KILLED, copied(whole, tmp_path_factory.mktemp("killed") / "store"))


@pytest.fixture(scope="module")
def killed_wanted(killed, tmp_path_factory) -> list:
    with opened(copied(killed, tmp_path_factory.mktemp("opened") / "store")) as collection:
        return answers(collection)


def files(folder: Path) -> list[Path]:
    """The files that a test may damage: all but the locks, the files of checksums and of expected records."""
    own = (path for path in sorted((folder / "notes").rglob("*")) if path.is_file())
    others = {"lock", "owner", "turns", "checksums.json", "records.open.json"}
    return [path for path in own if others.isdisjoint(path.parts)]


CHOSEN = [  # the first seven emptied a collection, lost documents or changed ranks without a word
    (deleted, "version.info"),
    (deleted, "mutable_id_tracker.versions"),
    (cut, "mutable_id_tracker.versions"),
    (flipped, "mutable_id_tracker.mappings"),
    (deleted, "vector_storage-dense/vectors/status.dat"),
    (flipped, "vector_storage-dense/deleted/flags_a.dat"),
    (flipped, "vector_storage-dense/vectors/chunk_0.mmap"),
    (zeroed, "payload_storage/page_0.dat"),
    (flipped, "vector_storage-sparse/store/page_0.dat"),
    (cut, "wal/open-1"),
    (flipped, "collection.json"),
    (deleted, "segment.json"),
]


@pytest.mark.parametrize(("damage", "name"), CHOSEN, ids=[f"{damage.__name__} {name}" for damage, name in CHOSEN])
def test_a_damaged_file_is_refused_by_name_with_what_to_do(folder, damage, name):
    (file,) = (path for path in files(folder) if path.as_posix().endswith(name))
    damage(file, random.Random(0))
    with pytest.raises(StoreCorruptError, match=rf"(?s){name}.*twinvec restore.*verify --repair"):
        opened(folder)


def repaired(folder: Path, wanted: list, damaged: Path) -> None:
    """Repair a store, ingest its documents again, and compare it with the undamaged one.

    A damaged description is replaced whole, by the one of the last close; then there is nothing else to report.
    """
    is_description = damaged.name == "collection.json"
    with opened(folder, repair=True) as collection:
        report = collection.verify(repair=True)
        assert report.repaired
        assert isinstance(report, RepairReport) is not is_description
        assert report.sound is is_description
    with opened(folder) as collection:
        after = collection.ingest(DOCUMENTS.values())
        assert after.updated + after.new >= (0 if is_description else report.lost)
        assert collection.verify().sound
        assert answers(collection) == wanted


def test_a_repair_counts_notes_that_are_lost(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("a note about tea")
    with opened(tmp_path / "store") as collection:
        collection.ingest(Root(str(tmp_path / "docs")))
    (page,) = (tmp_path / "store").rglob("payload_storage/page_0.dat")
    content = page.read_bytes()
    assert content.count(b'"twinvec.roots"') == 1
    page.write_bytes(content.replace(b'"twinvec.roots"', b"x" * 15))  # as long, and no JSON
    with opened(tmp_path / "store", repair=True) as collection:
        report = collection.verify(repair=True)
        assert isinstance(report, RepairReport)
        assert (report.sources, report.lost, report.lost_notes) == (1, 0, 1)
        assert not collection.roots()


@pytest.mark.parametrize("damage", [flipped, slow(cut), slow(zeroed), deleted])
def test_a_damaged_description_is_replaced_by_that_of_the_last_close(folder, wanted, damage):
    file = folder / "notes" / "collection.json"
    damage(file, random.Random(0))
    repaired(folder, wanted, file)


@pytest.mark.slow
def test_what_a_repair_cannot_save_is_encoded_again(folder, wanted):
    (file,) = (path for path in files(folder) if path.as_posix().endswith("dense/vectors/chunk_0.mmap"))
    flipped(file, random.Random(0))
    repaired(folder, wanted, file)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (deleted, "vector_storage-sparse/store/page_0.dat"),
        slow(inverted, "vector_storage-sparse/store/page_0.dat"),
        slow(zeroed, "vector_storage-sparse/store/tracker.dat"),
        slow(inverted, "payload_index/config.json"),
        (deleted, "mutable_id_tracker.versions"),
        slow(cut, "mutable_id_tracker.versions"),
        slow(inverted, "segment.json"),
        slow(deleted, "payload_storage/config.json"),
        slow(deleted, "payload_storage/bitmask.dat"),
        slow(inverted, "payload_storage/gaps.dat"),
    ],
)
def test_damage_to_what_can_be_made_anew_costs_no_document(folder, wanted, damage, name):
    (file,) = (path for path in files(folder) if path.as_posix().endswith(name))
    damage(file, random.Random(0))
    with opened(folder, repair=True) as collection:
        report = collection.verify(repair=True)
        assert (report.lost, report.incomplete, report.forgotten) == (0, [], [])
        assert answers(collection) == wanted


def test_a_repair_keeps_documents_that_hide_keys(tmp_path):
    document = Document("pay", "paid monthly", payload={"team": "hr"}, hidden=HiddenKeys(llm=("team",)))
    with opened(tmp_path) as collection:
        collection.ingest([document])
    (file,) = (path for path in files(tmp_path) if path.as_posix().endswith("sparse/store/page_0.dat"))
    file.unlink()
    with opened(tmp_path, repair=True) as collection:
        report = collection.verify(repair=True)
        assert isinstance(report, RepairReport)
        assert (report.lost, report.incomplete, report.forgotten) == (0, [], [])
        assert collection.get(["pay"]) == [document]
        assert collection.ingest([document]).unchanged == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["id_tracker.versions", "segment.json", "vector_index-dense/graph.bin", "payload_index/config.json"]
)
def test_damage_to_an_indexed_segment_costs_no_document(folder, wanted, name):
    with opened(folder) as collection:
        collection.reindex()
    (indexed,) = (path.parent for path in files(folder) if path.name == "id_tracker.mappings")
    cut(indexed / name, random.Random(0))
    with opened(folder, repair=True) as collection:
        assert collection.verify(repair=True).lost == 0
        assert answers(collection) == wanted


def test_a_folder_of_a_segment_without_files_does_not_stop_a_repair(folder, wanted):
    (file,) = (path for path in files(folder) if path.as_posix().endswith("sparse/store/page_0.dat"))
    deleted(file, random.Random(0))
    (folder / "notes" / "shard" / "segments" / "left-over").mkdir()
    with opened(folder, repair=True) as collection:
        assert collection.verify(repair=True).lost == 0
        assert answers(collection) == wanted


def occupied(folder: Path) -> int:
    """What the files of a folder occupy of the disk, in bytes."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def test_a_repair_keeps_the_holes_of_files(folder):
    (file,) = (path for path in files(folder) if path.as_posix().endswith("sparse/store/page_0.dat"))
    deleted(file, random.Random(0))
    before = occupied(folder)
    with opened(folder, repair=True) as collection:
        assert collection.verify(repair=True).lost == 0
    whole = sum(path.stat().st_size for path in files(folder))
    assert before < whole / 20
    assert occupied(folder) < whole / 2  # the engine fills a part of the holes while it writes


def test_what_no_repair_can_read_is_reported_and_missing_and_its_files_are_kept(folder, caplog):
    (file,) = (path for path in files(folder) if path.name == "mutable_id_tracker.mappings")
    inverted(file, random.Random(0))
    damaged, before = file.read_bytes(), occupied(folder)
    with opened(folder, repair=True) as collection:
        report = collection.verify(repair=True)
        assert (report.sources, report.lost, report.sound) == (0, len(DOCUMENTS), False)
        assert report.damaged == [file.relative_to(folder / "notes" / "shard").as_posix()]
    (kept,) = (folder / "notes" / "unreadable").rglob("mutable_id_tracker.mappings")
    assert kept.read_bytes() == damaged
    assert occupied(folder / "notes" / "unreadable") <= before
    assert f"cannot be read; their files are kept in {kept.parent}" in caplog.text
    with opened(folder) as collection:
        assert (collection.count(), collection.find()) == (0, [])
        assert collection.ingest(DOCUMENTS.values()).failed == 0
        assert collection.verify().sound


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_random_damage_goes_unnoticed_and_every_one_is_repaired(whole, wanted, tmp_path, seed):
    rng = random.Random(seed)
    for number in range(50):
        folder = copied(whole, tmp_path / "store")
        file, damage = rng.choice(files(folder)), rng.choice([flipped, cut, zeroed, deleted])
        before = file.read_bytes()
        damage(file, rng)
        if not file.exists() or file.read_bytes() != before:
            with pytest.raises(StoreCorruptError):
                opened(folder)
            if number % 5 == 0:
                repaired(folder, wanted, file)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_repair_that_did_not_end_is_not_taken_for_a_whole_collection(folder):
    next(path for path in files(folder) if path.name == "version.info").unlink()
    opened(folder, repair=True).close()
    with pytest.raises(StoreCorruptError, match="repair has begun"):
        opened(folder)
    with opened(folder, repair=True) as collection:
        assert collection.verify(repair=True).damaged
    opened(folder).close()


@pytest.mark.slow
def test_a_repair_without_room_says_so_and_the_next_one_goes_on(folder, wanted, monkeypatch):
    damage, name = CHOSEN[0]
    (file,) = (path for path in files(folder) if path.as_posix().endswith(name))
    damage(file, random.Random(0))

    def full(*_, **__) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("twinvec_qdrant.stores.embedded.repair.salvage.shutil.copytree", full)
        with pytest.raises(StoreUnavailableError, match=r"cannot be repaired: .*No space left"):
            opened(folder, repair=True)
    with opened(folder, repair=True) as collection:
        collection.verify(repair=True)
        collection.ingest(DOCUMENTS.values())
        assert answers(collection) == wanted


def test_a_collection_that_is_whole_is_opened_for_repair_as_it_is(folder, whole):
    with opened(folder, repair=True) as collection, opened(whole) as other:
        report = collection.verify(repair=True)
        assert report.sound
        assert not isinstance(report, RepairReport)
        assert answers(collection) == answers(other)
    with pytest.raises(ConfigurationError, match="server"):
        Collection.open("notes", url="http://localhost:1", repair=True)


def test_after_a_kill_nothing_is_called_damaged(tmp_path):
    with holding(tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
    assert not (tmp_path / "notes" / "shard" / "checksums.json").exists()
    with Collection.open("notes", tmp_path, encoder=WordEncoder()) as collection:
        assert collection.find() == ["tea"]
        assert collection.verify().sound


AFTER_A_KILL = [  # each of these changed answers in silence, or raised a KeyError
    (zeroed, "/id_tracker.deleted"),
    (halved, "/id_tracker.deleted"),
    (zeroed, "/id_tracker.mappings"),
    (halved, "/id_tracker.versions"),
    (zeroed, "vector_storage-dense/deleted.dat"),
    (flipped, "vector_storage-dense/matrix.dat"),
    (deleted, "vector_storage-dense/matrix.dat"),
    (zeroed, "vector_index-sparse/inverted_index.dat"),
    (zeroed, "-kind-map/point_to_values.bin"),
    (zeroed, "edge_config.json"),
]


@pytest.mark.parametrize(
    ("damage", "name"), AFTER_A_KILL, ids=[f"{damage.__name__} {name}" for damage, name in AFTER_A_KILL]
)
def test_damage_after_a_kill_is_refused_by_name_with_what_to_do(killed, tmp_path, damage, name):
    folder = copied(killed, tmp_path / "store")
    (file,) = (path for path in files(folder) if path.as_posix().endswith(name))
    damage(file, random.Random(0))
    with pytest.raises(StoreCorruptError, match=rf"(?s)notes.*{name}.*twinvec restore.*verify --repair"):
        opened(folder)


@pytest.mark.slow
def test_each_damaged_file_after_a_kill_is_refused_or_changes_no_answer(killed, killed_wanted, tmp_path):
    rng = random.Random(0)
    refusals = []
    for original in files(killed):
        folder = copied(killed, tmp_path / "store")
        file = folder / original.relative_to(killed)
        rng.choice([zeroed, halved, emptied, deleted])(file, rng)
        try:
            with opened(folder) as collection:
                found, is_sound = answers(collection), collection.verify().sound
                # these grow with every write: what a kill has kept from being written cannot be told from a loss
                assert found == killed_wanted or ("mutable_id_tracker" in file.name and not is_sound), file
                assert collection.ingest(DOCUMENTS.values()).failed == 0
        except StoreCorruptError as error:
            refusals.append(str(error))
        shutil.rmtree(folder)
    assert len(refusals) > 40
    assert all("notes" in said and "verify --repair" in said for said in refusals)


KILLED_BEFORE_A_FLUSH = """
    import os, signal, sys
    from words import WordEncoder
    from twinvec_qdrant import Collection
    from twinvec_qdrant.stores.embedded.backend import EmbeddedBackend

    with Collection.open("notes", sys.argv[1], encoder=WordEncoder(max_tokens=16)) as collection:
        collection.reindex()
        collection.ingest([{"id": "tea", "text": "green tea", "team": "a"}])
    collection = Collection.open("notes", sys.argv[1], encoder=WordEncoder(max_tokens=16))
    changed = [{"id": name, "text": "changed\\n\\n" + "word " * 9} for name in ("n05", "n06", "n07", "tea")]
    collection.ingest([{"id": "milk", "text": "cold milk", "team": "b"}, *changed[:2]])
    EmbeddedBackend.flush = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    collection.ingest([{"id": "cocoa", "text": "hot cocoa", "team": "b"}, *changed[2:]])
"""


@pytest.fixture(scope="module")
def unflushed(whole, tmp_path_factory) -> Path:
    """A store whose writer was killed while its last documents were in the engine's log only."""
    return left_by_a_kill(KILLED_BEFORE_A_FLUSH, copied(whole, tmp_path_factory.mktemp("unflushed") / "store"))


@pytest.fixture(scope="module")
def unflushed_wanted(unflushed, tmp_path_factory) -> list:
    with opened(copied(unflushed, tmp_path_factory.mktemp("opened") / "store")) as collection:
        assert {"milk", "cocoa"} <= set(collection.find())
        return answers(collection)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """The size and the checksum of each file of a collection, except those that only say who uses the collection."""
    own = (path for path in sorted((folder / "notes").rglob("*")) if path.is_file())
    kept = (path for path in own if not {"lock", "owner", "turns"} & set(path.parts))
    return {str(path): (path.stat().st_size, checksum(path)) for path in kept}


REFUSED = [  # the first two destroyed documents: the next opening was refused even if the file had been put back
    (zeroed, "payload_storage/bitmask.dat"),
    (inverted, "payload_storage/page_0.dat"),
    (inverted, "payload_storage/tracker.dat"),
    (flipped, "wal/first-index"),
]


@pytest.mark.parametrize(("damage", "name"), REFUSED, ids=[f"{damage.__name__} {name}" for damage, name in REFUSED])
def test_a_refused_opening_after_a_kill_changes_no_file(unflushed, unflushed_wanted, tmp_path, damage, name):
    folder = copied(unflushed, tmp_path / "store")
    file = growing(folder, name)
    whole = file.read_bytes()
    damage(file, random.Random(0))
    before = contents(folder)
    with pytest.raises(StoreCorruptError, match=r"(?s)notes.*verify --repair") as refusal:
        opened(folder)
    assert "shard.copy" not in str(refusal.value)
    assert contents(folder) == before
    file.write_bytes(whole)
    with opened(folder) as collection:
        assert answers(collection) == unflushed_wanted
        assert collection.verify().sound


def growing(folder: Path, name: str) -> Path:
    """The file with this name in the engine's log or in the growing segment, which has no index."""
    found = [path for path in files(folder) if path.as_posix().endswith(name)]
    (file,) = (path for path in found if not any((each / "id_tracker.mappings").exists() for each in path.parents))
    return file


@pytest.mark.slow
def test_after_many_refused_openings_a_killed_store_is_as_it_was(unflushed, unflushed_wanted, tmp_path):
    """Damage one file of a store, open the store, and put the file back; repeat this for 40 files.

    Files whose damage the checksums show are left out, because the engine never opens them.
    """
    rng, refused = random.Random(0), 0
    folder = copied(unflushed, tmp_path / "store")
    known = Checksums.read(folder / "notes" / "shard" / "checksums.open.json")
    for file in rng.sample(files(folder), 40):
        whole = file.read_bytes()
        rng.choice([flipped, halved, zeroed, inverted])(file, rng)
        if not known.contradicted(folder / "notes" / "shard"):
            before = contents(folder)
            try:
                opened(folder).close()
            except StoreCorruptError:
                assert contents(folder) == before, file
                refused += 1
            else:
                shutil.rmtree(folder)
                copied(unflushed, folder)
        file.write_bytes(whole)
    assert refused > 2
    with opened(folder) as collection:
        assert answers(collection) == unflushed_wanted


def test_a_repair_after_a_kill_keeps_what_the_log_would_make_unreadable(unflushed, unflushed_wanted, tmp_path):
    """With this damage, the engine overwrites other documents when it applies its log."""
    folder = copied(unflushed, tmp_path / "store")
    zeroed(growing(folder, "payload_storage/bitmask.dat"), random.Random(0))
    with opened(folder, repair=True) as collection:
        report = collection.verify(repair=True)
        assert isinstance(report, RepairReport)
        assert (report.lost, report.incomplete, report.forgotten) == (0, [], [])
        assert answers(collection) == unflushed_wanted
    assert not (folder / "notes" / "unreadable").exists()


@pytest.mark.parametrize("lacking", ["room", "links"])
def test_a_killed_store_opens_without_room_for_a_copy_or_without_links(
    unflushed, unflushed_wanted, tmp_path, monkeypatch, lacking
):
    folder = copied(unflushed, tmp_path / "store")

    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if lacking == "room":
        full = Obstacle("the disk is full", "make room")
        monkeypatch.setattr("twinvec_qdrant.stores.embedded.repair.undo.lacking_room", lambda *_: full)
    else:
        monkeypatch.setattr("twinvec_qdrant.stores.embedded.repair.undo.os.link", refused)
    with opened(folder) as collection:
        assert answers(collection) == unflushed_wanted
    assert not list((folder / "notes").glob("shard.copy*"))


@pytest.mark.parametrize(("name", "content"), [("id_tracker.deleted", b"\0"), ("matrix.dat", b"x")])
def test_damage_while_the_collection_is_open_is_found_by_verify(killed, tmp_path, name, content):
    folder = copied(killed, tmp_path / "store")
    opened(folder).close()
    with opened(folder) as collection:
        (path,) = (path for path in files(folder) if path.name == name)
        with open(path, "r+b") as file:
            file.write(content * path.stat().st_size)
        with pytest.raises(StoreCorruptError, match=rf"(?s)notes.*{name}.*verify --repair"):
            collection.verify()


def test_a_kill_after_files_were_dropped_is_no_damage(tmp_path):
    """Files that twinvec removes while the collection is open are missing after a kill."""
    program = """
        import os, signal, sys
        from words import WordEncoder
        from twinvec_qdrant import Collection

        place = {"path": sys.argv[1], "encoder": WordEncoder(), "chunking": False}
        with Collection.open("notes", **place, payload_indexes={"team": "keyword"}) as collection:
            collection.ingest([{"id": "tea", "text": "green tea", "team": "a"}])
            collection._backend.add_vector("other", 8, None)
        collection = Collection.open("notes", **place)
        collection._backend.drop_field_index("team")
        collection._backend.drop_vector("other")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with started(program, tmp_path) as killed:
        assert killed.wait() == -signal.SIGKILL
    with Collection.open("notes", tmp_path, encoder=WordEncoder()) as collection:
        assert collection.find() == ["tea"]
        assert collection.verify().sound


KILLED_WHILE_CLOSING = """
    import os, pathlib, signal, sys
    from words import WordEncoder
    from twinvec_qdrant import Collection

    real = pathlib.Path.replace

    def dying(self, target):
        if self.name == "checksums.json.partial":
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, target)

    with Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False) as collection:
        collection.ingest([("tea", "green tea")])
        pathlib.Path.replace = dying
"""


@pytest.mark.slow
def test_after_a_kill_between_the_writing_and_the_naming_of_checksums_nothing_is_called_damaged(tmp_path):
    with started(KILLED_WHILE_CLOSING, tmp_path) as process:
        assert process.wait() == -signal.SIGKILL
    assert (tmp_path / "notes" / "shard" / "checksums.json.partial").exists()
    for _ in range(2):  # the first one writes checksums again
        with Collection.open("notes", tmp_path, encoder=WordEncoder()) as collection:
            assert collection.find() == ["tea"]
            assert collection.verify().sound


def test_checksums_that_list_a_left_over_of_themselves_are_right(folder):
    """As versions before wrote them, when the process before was killed."""
    checksums = folder / "notes" / "shard" / "checksums.json"
    values = json.loads(checksums.read_text())
    values["files"]["checksums.json.partial"] = [3, 0, 7]
    checksums.write_text(json.dumps(values))
    with opened(folder) as collection:
        assert collection.verify().sound


def test_after_a_kill_a_file_that_is_gone_is_noticed(folder):
    shard = folder / "notes" / "shard"
    (shard / "checksums.json").rename(shard / "checksums.open.json")
    (folder / "notes" / "owner").write_text("1")
    killed = Path(shutil.copytree(folder, folder.with_name("killed")))
    opened(folder).close()
    next(path for path in files(killed) if path.name == "version.info").unlink()
    with pytest.raises(StoreCorruptError, match=r"version\.info"):
        opened(killed)


def test_a_collection_of_an_older_version_opens_and_gets_its_checksums(folder):
    checksums = folder / "notes" / "shard" / "checksums.json"
    checksums.unlink()
    (folder / "notes" / "owner").write_text("1")
    with opened(folder) as collection:
        assert collection.count() > 100
    assert checksums.exists()


def test_what_an_older_version_has_written_since_is_no_damage(folder):
    description = folder / "notes" / "collection.json"
    description.write_text(json.dumps(json.loads(description.read_text())))
    (folder / "notes" / "owner").write_text("1")  # which it leaves behind
    opened(folder).close()


def test_copies_of_a_store_open(folder, whole):
    copy = Path(shutil.copytree(folder, folder.with_name("copy"), copy_function=shutil.copyfile))  # without times
    with opened(copy) as collection, opened(whole) as other:
        assert answers(collection) == answers(other)


def test_large_files_are_read_where_their_time_has_changed_or_all_are(tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.checksums.CHECKED_BYTES", 0)
    file = tmp_path / "page.dat"
    file.write_bytes(b"a" * 100)
    time = file.stat().st_mtime_ns
    known = Checksums.taken(tmp_path, {}, "", None)
    assert known.damaged(tmp_path, thorough=True) == []
    file.write_bytes(b"b" * 100)
    os.utime(file, ns=(time, time + 10**9))  # a system may give two writes within milliseconds the same time
    assert known.damaged(tmp_path) == ["page.dat"]
    os.utime(file, ns=(time, time))
    assert known.damaged(tmp_path) == []
    assert known.damaged(tmp_path, thorough=True) == ["page.dat"]
    assert Checksums.taken(tmp_path, {}, "", known).files == known.files


@pytest.mark.parametrize("content", [b"", b"a", bytes(70_000), bytes(65_536) + b"a", b"a" + bytes(65_536)])
def test_every_change_changes_the_checksum(tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    before = checksum(file)
    changes: list[Callable[[bytes], bytes]] = [lambda old: old[:-1] + b"b", lambda old: bytes(len(old)) + b"c"]
    for change in changes:
        file.write_bytes(change(content))
        assert checksum(file) != before


@pytest.mark.parametrize("size", [13 * 65_536, 800_000, 300_003, 200_000 + 65_536, 100_002])
def test_a_hole_counts_as_the_zeros_that_it_stands_for(tmp_path, size):
    content = (bytes(100_000) + b"a" + bytes(200_000) + b"bc").ljust(size, b"\0")[:size]
    (tmp_path / "whole").write_bytes(content)
    with_holes(tmp_path / "sparse", content, size)
    assert (tmp_path / "sparse").read_bytes() == content
    assert checksum(tmp_path / "sparse") == checksum(tmp_path / "whole")


@pytest.mark.skipif(sys.platform != "linux", reason="only there are holes looked for")
def test_a_hole_is_not_read(tmp_path):
    content = (bytes(100_000) + b"a" + bytes(200_000) + b"bc").ljust(5 * 65_536, b"\0")
    (tmp_path / "whole").write_bytes(content)
    with_holes(tmp_path / "sparse", content, 2**43)  # hours, if it were read
    assert checksum(tmp_path / "sparse") == checksum(tmp_path / "whole") != 0


@pytest.mark.skipif(sys.platform != "linux", reason="only there are holes looked for")
def test_a_close_reads_no_hole_that_the_file_system_is_known_to_report_exactly(tmp_path):
    if file_system(tmp_path) not in ("ext4", "tmpfs", "xfs"):
        pytest.skip("elsewhere a close reads holes: data that was just written may be reported as one")
    (tmp_path / "whole").write_bytes(content := b"a".ljust(5 * 65_536, b"\0"))
    with_holes(tmp_path / "sparse", content, 2**43)  # hours, if it were read
    sums = Checksums.taken(tmp_path, {}, "", None).files
    assert sums["sparse"].sum == sums["whole"].sum != 0


def with_holes(path: Path, content: bytes, size: int) -> None:
    """Write only those pieces of the content that are not zeros, into a file of a size."""
    with open(path, "wb") as file:
        file.truncate(size)
        for place in range(0, len(content), 4096):
            if piece := content[place : place + 4096].rstrip(b"\0"):
                file.seek(place)
                file.write(piece)


def test_a_point_without_content_is_an_error_until_a_repair_removes_it(folder, wanted):
    """The engine may find deleted points again after damage."""
    lost = "00000000-0000-4000-8000-000000000000"
    with opened(folder) as collection:
        collection._backend.upsert([Point(lost)])
        with pytest.raises(StoreCorruptError, match=r"(?s)notes: the content of a stored point is missing.*--repair"):
            list(collection._backend.scroll(()))
    with opened(folder, repair=True) as collection:
        assert collection.verify(repair=True).sound
    with opened(folder) as collection:
        assert not collection._backend.retrieve([lost], [])
        assert answers(collection) == wanted
