"""An opening after a kill notices a loss of records, by their number and a sum outside the engine's files."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from cases import few_quick, slow
from holders import left_by_a_kill, open_notes, started
from twinvec.errors import StoreCorruptError, StoreError
from twinvec_qdrant import Collection
from twinvec_qdrant.records.schema import record_id
from twinvec_qdrant.report import RepairReport
from twinvec_qdrant.stores.embedded.checksums import Records
from twinvec_qdrant.stores.embedded.folder import copied_tree
from twinvec_qdrant.stores.embedded.repair.expected_records import ExpectedRecords, read_expected
from twinvec_qdrant.stores.points import Point

FIRST = {f"n{row:02}": f"note {row}" + " word" * 20 for row in range(20)}
LATER = {f"n{row:02}": f"note {row} again" + " word" * 20 for row in range(15, 40)}

LEAVE = """
    import os, signal, sys
    from words import WordEncoder
    from twinvec_qdrant import Collection

    place = {"path": sys.argv[1], "encoder": WordEncoder(), "chunking": False}
    with Collection.open("notes", **place) as collection:
        collection.ingest((f"n{row:02}", f"note {row}" + " word" * 20) for row in range(20))
    os.system(f"cp -r {sys.argv[1]}/notes {sys.argv[1]}-before")
    collection = Collection.open("notes", **place)
    collection.ingest((f"n{row:02}", f"note {row} again" + " word" * 20) for row in range(15, 40))
    collection.delete(["n00", "n39"])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Path:
    """A store whose writer was killed after a close, changes and removals; next to it, the store of that close."""
    folder = tmp_path_factory.mktemp("killed") / "store"
    folder.mkdir()
    return left_by_a_kill(LEAVE, folder)


@pytest.fixture
def folder(killed, tmp_path) -> Path:
    copied_tree(killed, tmp_path / "store")
    return tmp_path / "store"


def texts(collection: Collection) -> dict[str, str]:
    return {each.id: each.text for each in collection.get(collection.find())}


WANTED = {name: text for name, text in {**FIRST, **LATER}.items() if name not in ("n00", "n39")}


def the(folder: Path, name: str) -> Path:
    """The only file whose path ends so, in the engine's files."""
    (found,) = (folder / "notes" / "shard" / "segments").glob(f"*/{name}")
    return found


def test_an_undamaged_store_opens_after_a_kill_and_its_state_is_in_the_list_of_its_close(folder):
    shard = folder / "notes" / "shard"
    (state,) = read_expected(shard)
    assert state.number == len(WANTED)
    with open_notes(folder) as collection:
        assert texts(collection) == WANTED
        assert collection.verify().sound
        collection.ingest([("tea", "green tea")])
    assert not (shard / "records.open.json").exists()
    closed = json.loads((shard / "checksums.json").read_text())["records"]
    assert closed[0] == len(WANTED) + 1
    assert closed[1] != state.sum


def test_documents_that_damage_has_taken_are_missed_and_counted_by_the_repair(folder):
    cut_to_the_last_close(the(folder, "mutable_id_tracker.mappings"))
    with pytest.raises(
        StoreCorruptError, match=r"(?s)notes: 19 documents are missing that .* killed; .*verify --repair"
    ):
        open_notes(folder)
    with open_notes(folder, repair=True) as collection:
        report = collection.verify(repair=True)
        assert isinstance(report, RepairReport)
        there = {*collection.find(), *report.forgotten}
        assert report.lost == len(WANTED) - len(there) > 0
    with open_notes(folder) as collection:
        collection.ingest(WANTED.items(), prune=True)
        assert texts(collection) == WANTED
        assert collection.verify().sound


def cut_to_the_last_close(file: Path) -> None:
    """Cut a file that only grows to its length at the last close."""
    shard = next(each for each in file.parents if each.name == "shard")
    known = json.loads((shard / "checksums.open.json").read_text())["files"]
    os.truncate(file, known[str(file.relative_to(shard))][0])


@pytest.mark.parametrize(
    ("name", "said"),
    [  # all but the last lost documents or vectors, or mixed points up, without a word
        ("mutable_id_tracker.mappings", "documents are missing"),
        slow("mutable_id_tracker.versions", "documents are missing"),
        ("vector_storage-dense/vectors/chunk_0.mmap", "the vector of a chunk is missing"),
        slow("vector_storage-dense/vectors/status.dat", "the vector of a chunk is missing"),
        ("vector_storage-dense/deleted/flags_a.dat", "a point that is not a chunk has a vector"),
        slow("vector_storage-dense/deleted/status.dat", "a point that is not a chunk has a vector"),
        ("vector_storage-sparse/store/page_0.dat", "the word weights of a chunk are missing"),
        slow("payload_storage/page_0.dat", "could not open"),
    ],
)
def test_a_file_in_its_version_of_the_last_close_is_noticed(folder, killed, name, said):
    file = the(folder, name)
    whole = file.read_bytes()
    shutil.copyfile(killed.with_name("store-before") / file.relative_to(folder / "notes"), file)
    for _ in range(2):
        with pytest.raises(StoreCorruptError, match=rf"(?s)notes: .*{said}.*verify --repair"):
            open_notes(folder)
    file.write_bytes(whole)
    with open_notes(folder) as collection:
        assert texts(collection) == WANTED
        assert collection.verify().sound


@pytest.mark.slow
def test_no_file_in_its_version_of_the_last_close_brings_back_a_former_document(killed, tmp_path):
    refused = 0
    for former in sorted((killed.with_name("store-before") / "shard" / "segments").rglob("*.*")):
        file = tmp_path / "store" / "notes" / former.relative_to(killed.with_name("store-before"))
        copied_tree(killed, tmp_path / "store")
        shutil.copyfile(former, file)
        try:
            with open_notes(tmp_path / "store") as collection:
                assert texts(collection) == WANTED, file
                for mode in ("dense", "sparse"):
                    assert all(collection.search(WANTED[name], 1, mode)[0].id == name for name in ("n15", "n38")), file
        except StoreCorruptError:
            refused += 1
        shutil.rmtree(tmp_path / "store")
    assert refused > 1


WRITE = """
    import os, signal, sys
    from words import WordEncoder
    from twinvec_qdrant import Collection
    from twinvec_qdrant.stores.embedded.backend import EmbeddedBackend
    from twinvec_qdrant.stores.embedded.repair.expected_records import ExpectedRecords

    where, number = sys.argv[2], int(sys.argv[3])
    steps = {"_expect": ExpectedRecords, "_update": EmbeddedBackend, "flushed": ExpectedRecords}
    name = where.split()[1]
    place = steps[name]
    real, calls = getattr(place, name), []

    def dying(*arguments):
        calls.append(arguments)
        if where.startswith("before") and len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(*arguments)
        if where.startswith("after") and len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(place, name, dying)
    with Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False) as collection:
        collection.ingest((f"n{row:02}", f"note {row} at last") for row in range(10, 45))
        collection.delete([f"n{row:02}" for row in range(30, 35)])
        collection.ingest([("tea", "green tea")])
        os.kill(os.getpid(), signal.SIGKILL)
"""
STEPS = [
    *(
        f"{when} {what} {number}"
        for when in ("before", "after")
        for what in ("_expect", "flushed")
        for number in (1, 2)
    ),
    *(f"after _update {number}" for number in range(1, 9)),
]


@pytest.mark.parametrize("step", few_quick(STEPS, ["after _expect 1", "after _update 3", "before flushed 2"]))
def test_a_kill_at_no_step_of_a_write_is_taken_for_a_loss(folder, step):
    when, what, number = step.split()
    with started(WRITE, folder, f"{when} {what}", number) as process:
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
    later = {f"n{row:02}": f"note {row} at last" for row in range(10, 45)}
    removed = [f"n{row:02}" for row in range(30, 35)]
    with open_notes(folder) as collection:
        assert read_expected(folder / "notes" / "shard"), "no state is expected"
        found = texts(collection)
        for name in WANTED.keys() | later.keys():
            before = WANTED.get(name)
            assert found.get(name) in (before, later.get(name, before), None if name in removed else before), name
        collection.ingest(later.items())
        assert collection.verify().sound


@pytest.mark.parametrize(
    "content", ["", "{", '{"records": 3}', '{"records": [[1]]}', '{"records": [[9, 1]], "sum": 7}']
)
def test_expected_records_that_cannot_be_read_stop_nothing(folder, content):
    (folder / "notes" / "shard" / "records.open.json").write_text(content)
    with open_notes(folder) as collection:
        assert texts(collection) == WANTED


def test_a_loss_after_the_kill_of_a_process_that_wrote_nothing_is_noticed(folder):
    open_notes(folder).close()
    reading = """
        import os, signal, sys
        from words import WordEncoder
        from twinvec_qdrant import Collection

        assert Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False).count() == 38
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with started(reading, folder) as process:
        assert process.wait() == -signal.SIGKILL
    with the(folder, "mutable_id_tracker.mappings").open("r+b") as file:
        file.seek(100)
        file.write(bytes(100))
    with pytest.raises(StoreCorruptError, match=r"(?s)notes: .*verify --repair"):
        open_notes(folder)


def test_what_an_older_version_has_changed_after_a_kill_is_no_loss(folder):
    """Version 0.2.0 knows neither expected records nor checksums, and leaves its id alone in ``owner``."""
    ExpectedRecords(folder / "notes" / "shard", [Records(99, 1)])._write()
    with pytest.raises(StoreCorruptError, match="61 documents are missing"):
        open_notes(folder)
    (folder / "notes" / "owner").write_text("1234")
    with open_notes(folder) as collection:
        assert texts(collection) == WANTED


def test_a_collection_of_an_older_version_is_added_up_at_its_first_write(folder):
    open_notes(folder).close()
    checksums = folder / "notes" / "shard" / "checksums.json"
    values = json.loads(checksums.read_text())
    del values["records"]
    checksums.write_text(json.dumps(values))
    open_notes(folder).close()
    assert not json.loads(checksums.read_text())["records"]
    with open_notes(folder) as collection:
        collection.delete(["n01"])
    assert json.loads(checksums.read_text())["records"][0] == len(WANTED) - 1


def test_changes_by_the_iterable_that_an_ingest_reads_are_taken_for_no_loss(folder):
    """A commit then expects a record that is gone."""
    change = """
        import os, signal, sys
        from words import WordEncoder
        from twinvec_qdrant import Collection

        collection = Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False)

        def documents():
            yield from ((f"n{row:02}", "note 10 at last") for row in range(10, 12))
            yield from ((f"more{row:03}", f"note {row}") for row in range(256))
            collection.delete(["n10"])

        assert collection.ingest(documents()).failed == 0
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with started(change, folder) as process:
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
    with open_notes(folder) as collection:
        assert len(collection.find()) == len(WANTED) + 256
        assert [each.text for each in collection.get(["n10", "n11"])] == ["note 10 at last"] * 2
        assert collection.verify().sound


@pytest.mark.parametrize("fails", ["the file", "the engine"])
def test_without_expected_records_documents_are_written_all_the_same(folder, monkeypatch, fails):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_notes(folder) as collection, monkeypatch.context() as patched:
        if fails == "the file":
            patched.setattr(ExpectedRecords, "_write", full)
        else:
            with pytest.raises(StoreError):
                collection._backend.upsert([Point(record_id("tea"), {"kind": "record"}, np.ones(3, np.float32))])
        assert collection.ingest([("tea", "green tea")]).new == 1
        assert not (folder / "notes" / "shard" / "records.open.json").exists()
    with open_notes(folder) as collection:
        assert texts(collection) == {**WANTED, "tea": "green tea"}
        collection.ingest([("milk", "cold milk")])
    assert json.loads((folder / "notes" / "shard" / "checksums.json").read_text())["records"]
