"""The index of an embedded collection: built while searches go on, exchanged as a whole; what it finds."""

from __future__ import annotations

import queue
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from cases import slow
from twinvec.errors import ConfigurationError, StoreError, StoreUnavailableError
from twinvec_qdrant import Collection, IndexSettings
from twinvec_qdrant.stores.embedded import index_build
from twinvec_qdrant.stores.embedded.folder import CollectionFolder, collection_names
from words import WordEncoder

SIZE = 8000  # the engine compares fewer vectors of 384 numbers one by one
IDS = [f"n{row}" for row in range(SIZE)]


@pytest.fixture(scope="module")
def vectors():
    """Vectors around some centres, as texts about some topics have."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(400, 384))[rng.integers(0, 400, SIZE)] + 0.6 * rng.normal(size=(SIZE, 384))).astype("f4")


@pytest.fixture(scope="module")
def filled(tmp_path_factory, vectors):
    """The folder of a collection with all ``vectors`` and without an index."""
    folder = tmp_path_factory.mktemp("filled")
    with Collection.open("notes", folder, encoder=WordEncoder(dim=384), chunking=False) as collection:
        given = dict(zip(IDS, vectors, strict=True))
        assert collection.ingest(((name, f"note {name}") for name in IDS), vectors=given).new == SIZE
        assert collection.info()["indexed"] == 0
    return folder


@pytest.fixture
def folder(filled, tmp_path):
    return shutil.copytree(filled, tmp_path / "store")


@pytest.fixture
def folder_on_disk(filled):
    """A copy where files have holes, as they may not have in the memory that other tests' folders are in."""
    with TemporaryDirectory() as place:
        yield shutil.copytree(filled, Path(place) / "store")


def opened(folder, **options) -> Collection:
    return Collection.open("notes", folder, encoder=WordEncoder(dim=384), **options)


def found(collection: Collection, vectors, **options) -> list[list[str]]:
    return [[hit.id for hit in collection.search_vector(vectors[row], 10, **options)] for row in range(0, SIZE, 800)]


@pytest.mark.slow
def test_an_index_is_built_while_searches_go_on_and_is_there_after_opening_again(folder, vectors, monkeypatch):
    with opened(folder) as collection:
        exact = found(collection, vectors, exact=True)
        assert found(collection, vectors) == exact
        answers, done = queue.SimpleQueue(), threading.Event()

        def search() -> None:
            while not done.is_set():
                answers.put(collection.search_vector(vectors[7], 1)[0].id)

        def build(*given, **options) -> None:
            index_build.build_index_of(*given, **options)
            for _ in range(answers.qsize() + 2):  # the last of them has begun meanwhile
                assert answers.get(timeout=60) == "n7"

        with ThreadPoolExecutor(1) as threads, monkeypatch.context() as patched:
            patched.setattr("twinvec_qdrant.stores.embedded.backend.build_index_of", build)
            searching = threads.submit(search)
            try:
                report = collection.reindex()
            finally:
                done.set()
            searching.result()
        while not answers.empty():
            assert answers.get() == "n7"
        assert (report.chunks, report.indexed) == (SIZE, SIZE)
        assert report.recall > 0.9
        assert found(collection, vectors, exact=True) == exact
        assert collection.verify().sound
    assert sorted(path.name for path in (folder / "notes").iterdir()) == ["collection.json", "lock", "owner", "shard"]
    with opened(folder) as collection:
        assert collection.info()["indexed"] == SIZE
        assert found(collection, vectors, exact=True) == exact
        collection.ingest([("fresh", "a fresh note")], vectors={"fresh": -vectors[0]})
        assert collection.search_vector(-vectors[0], 1)[0].id == "fresh"
        assert collection.delete(["fresh", "n7"]) == 2
        assert "n7" not in [hit.id for hit in collection.search_vector(vectors[7], 3)]


@pytest.mark.slow
def test_quantised_copies_are_searched_and_the_vectors_compared(folder_on_disk, vectors):
    with opened(folder_on_disk) as collection:
        exact = found(collection, vectors, exact=True)
        cosines = [hit.score for hit in collection.search_vector(vectors[0], 10, exact=True)]
        for quantization, least in (("int8", 0.95), ("turbo", 0.95), ("binary", 0.8), ("none", 0.95)):
            report = collection.reindex(IndexSettings(quantization))
            assert quantization in report.settings or quantization == "none"
            hits = found(collection, vectors)
            share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(hits, exact, strict=True)])
            assert share >= least, quantization
            assert report.recall >= least, quantization
            best = collection.search_vector(vectors[0], 1)[0]
            assert best.score == pytest.approx(cosines[0], abs=1e-5), "the score is that of the vector, not of its copy"
            assert found(collection, vectors, exact=True) == exact, quantization
            assert collection.info()["index"]["quantization"] == quantization
    used = sum(file.stat().st_blocks * 512 for file in (folder_on_disk / "notes" / "shard" / "segments").rglob("*"))
    assert used < 6000 * SIZE, "holes of the engine's files are no bytes of the copy"
    with opened(folder_on_disk, index=IndexSettings("none")) as collection:
        assert found(collection, vectors, exact=True) == exact
    with pytest.raises(ConfigurationError, match=r"indexed with no quantisation.*not with int8.*reindex"):
        opened(folder_on_disk, index=IndexSettings("int8"))


@pytest.mark.slow
def test_an_ingest_that_brings_much_builds_the_index(folder, vectors, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.backend.WORTHWHILE", 100)
    with opened(folder) as collection:
        collection.ingest([("fresh", "a fresh note")], vectors={"fresh": -vectors[0]})
        assert collection.info()["indexed"] == SIZE + 1
        shard = collection._backend._shard
        collection.ingest([("fresher", "a fresher note")], vectors={"fresher": -vectors[1]})
        assert collection._backend._shard is shard, "one more is no reason"


@pytest.mark.slow
def test_short_vectors_are_indexed_once_and_not_tried_again_by_every_ingest(tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.backend.WORTHWHILE", 500)
    with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8), chunking=False) as collection:
        collection.ingest((name, f"note {name}") for name in IDS[:1000])
        assert collection.info()["indexed"] == 1000
        shard = collection._backend._shard
        collection.ingest([("fresh", "a fresh note")])
        assert collection._backend._shard is shard


@pytest.mark.slow
def test_what_is_outdated_gives_its_room_back(tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.backend.OUTDATED", 600)

    def counted() -> int:
        return collection._backend._shard.info().indexed_vectors_count

    with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8), chunking=False) as collection:
        most = []
        for turn in range(20):
            collection.ingest((name, f"note {name} of turn {turn}") for name in IDS[:200])
            most.append(counted())
            assert collection.info()["indexed"] == 0, "few chunks are compared one by one"
        assert max(most) <= 200 + 600 + 200 + 200
        assert collection.count() == 200
        assert [hit.id for hit in collection.search(f"note {IDS[7]} of turn 19", limit=1)] == [IDS[7]]
        assert collection.verify().sound
    with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8)) as collection:
        assert collection.count() == 200


@pytest.mark.slow
def test_what_is_outdated_gives_its_room_back_however_often_the_collection_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.backend.OUTDATED", 600)
    outdated = []
    for turn in range(12):
        with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8), chunking=False) as collection:
            collection.ingest((name, f"note {name} of turn {turn}") for name in IDS[:200])
        last = index_build.LastBuild.read(tmp_path / "notes" / "shard")
        outdated.append(last.chunks + last.written - 200)
    assert outdated == [0, 200, 400] * 4
    with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8)) as collection:
        assert collection.count() == 200
        assert collection.verify().sound


def test_a_count_of_what_was_written_that_is_damaged_stops_nothing(tmp_path):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8), chunking=False) as collection:
        with collection._backend.at_rest() as folder:
            (folder.shard / "built.json").write_text('{"chunks": ')
            folder.write_checksums({"chunk": 0, "record": 0, "note": 0}, None, None)
        collection.ingest([("tea", "a note about tea")])
        assert collection.info()["indexed"] == 0


@pytest.mark.slow
def test_an_index_that_was_asked_for_stays_when_room_is_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.backend.OUTDATED", 300)
    with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8), chunking=False) as collection:
        collection.ingest((name, f"note {name}") for name in IDS[:200])
        assert collection.reindex().indexed == 200
        for turn in ("memo", "letter"):
            collection.ingest((name, f"{turn} {name}") for name in IDS[:200])
        assert collection.info()["indexed"] == 200
        assert collection._backend._shard.info().indexed_vectors_count == 400


@pytest.mark.slow
def test_the_vectors_of_a_new_model_are_not_taken_for_indexed(tmp_path, monkeypatch):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8), chunking=False) as collection:
        collection.ingest((name, f"note {name}") for name in IDS[:200])
        assert collection.reindex().indexed == 200
        collection.migrate(WordEncoder(seed=1, dim=16))
        assert collection.info()["indexed"] == 0
        collection.drop_others()
        assert collection.info()["indexed"] == 0
        monkeypatch.setattr("twinvec_qdrant.stores.embedded.backend.WORTHWHILE", 100)
        collection.ingest([("fresh", "a fresh note")])
        assert collection.info()["indexed"] == 201


@pytest.mark.slow
def test_an_index_is_built_where_much_is_outdated_too(tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.backend.WORTHWHILE", 500)
    with Collection.open("notes", tmp_path, encoder=WordEncoder(dim=8), chunking=False) as collection:
        for turn in range(3):
            collection.ingest((name, f"note {name} of turn {turn}") for name in IDS[:400])
        collection.ingest((name, f"note {name}") for name in IDS[:600])
        assert collection.info()["indexed"] == 600
        collection.ingest((name, f"memo {name}") for name in IDS[:450])
        assert collection.info()["indexed"] == 150
        collection.ingest((name, f"letter {name}") for name in IDS[:60])
        assert collection.info()["indexed"] == 600


@pytest.mark.parametrize("step", [slow("copied"), slow("indexed"), slow("between the renames"), "renamed"])
def test_killed_while_the_index_is_built_nothing_is_lost(folder, vectors, step):
    with opened(folder) as collection:
        exact = found(collection, vectors, exact=True)
    place = CollectionFolder(folder, "notes")
    copy = place.copy_shard()
    if step != "copied":
        copy.rename(place.path / "shard.indexed")
    if step in ("between the renames", "renamed"):
        place.shard.rename(place.path / "shard.old")
    if step == "renamed":
        (place.path / "shard.indexed").rename(place.shard)
    assert collection_names(folder) == ["notes"]
    with opened(folder, create=False) as collection:
        assert found(collection, vectors, exact=True) == exact
        assert collection.count() == SIZE
    assert sorted(path.name for path in place.path.iterdir()) == ["collection.json", "lock", "owner", "shard"]


def test_a_builder_that_outlives_its_process_has_a_copy_of_its_own(folder):
    place = CollectionFolder(folder, "notes")
    copies = {place.copy_shard(), place.copy_shard()}
    assert len(copies) == 2
    for copy in copies:
        assert sorted(path.name for path in copy.iterdir()) == sorted(path.name for path in place.shard.iterdir())
    place.settle(was_given=True)
    assert not any(copy.exists() for copy in copies)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process end with its parent")
def test_a_builder_ends_with_its_process():
    child = "import os, signal, sys; sys.path.insert(0, sys.argv[1]); from index_worker import die_with"
    child += "; die_with(int(sys.argv[2])); print('waiting', flush=True); signal.alarm(100); signal.pause()"
    parent = "import os, subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:], str(os.getpid())])"
    command = [sys.executable, "-c", parent, child, str(Path(index_build.__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waiting\n"
        process.kill()
        assert process.communicate(timeout=60)[0] == "", "the pipe is closed when the child is gone"


def test_an_index_that_cannot_be_built_leaves_all_as_it_was(folder, vectors, monkeypatch, tmp_path, caplog):
    broken = tmp_path / "worker.py"
    broken.write_text("raise SystemExit('out of memory')")
    with opened(folder) as collection:
        before = found(collection, vectors)
        with monkeypatch.context() as patched:
            patched.setattr("twinvec_qdrant.stores.embedded.index_build._WORKER", broken)
            with pytest.raises(StoreError, match="out of memory"):
                collection.reindex(IndexSettings("int8"))
        with monkeypatch.context() as patched:
            patched.setattr("twinvec_qdrant.stores.embedded.backend.WORTHWHILE", 100)
            patched.setattr(CollectionFolder, "copy_shard", _no_room)
            assert collection.ingest([("n0", "note n0")], vectors={"n0": vectors[0]}).unchanged == 1
        assert "no index was built" in caplog.text
        assert collection.info()["index"]["quantization"] == "none"
        assert found(collection, vectors) == before


def _no_room(folder: CollectionFolder) -> None:
    raise StoreUnavailableError("the disk is full")


@pytest.mark.parametrize(
    "options",
    [
        {"quantization": "int4"},
        {"m": 1},
        {"m": 16.0},
        {"ef_construct": 0},
        {"ef": 0},
        {"oversampling": 0.5},
        {"oversampling": "2"},
        {"edges": 16},
    ],
)
def test_settings_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        IndexSettings.from_dict(options)


def test_on_a_store_without_an_index_reindexing_records_the_settings(place, words):
    with Collection.open("notes", encoder=words, chunking=False, **place) as collection:
        collection.ingest([("tea", "green tea"), ("bread", "rye bread")])
        report = collection.reindex(IndexSettings("binary", m=8))
        assert (report.chunks, report.recall) == (2, 1.0)
        assert collection.info()["index"]["m"] == 8
        assert collection.search("tea", mode="dense")[0].id == "tea"
