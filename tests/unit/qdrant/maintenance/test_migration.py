"""From one model to another: complete, found, reversible, and never mixed."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from deaths import STEPS, Died, die_at
from interleaving import interrupted
from stand_in import Clock, StandIn
from twinvec.errors import BadVectorError, ConfigurationError, ModelNotFoundError, SpaceMismatchError
from twinvec_qdrant import ChunkSettings, Collection
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.records.recorded_space import RecordedSpace
from twinvec_qdrant.records.schema import CHUNKS
from twinvec_qdrant.stores.embedded.repair.salvage_worker import load_shard
from words import WordEncoder

TOPICS = ["tea", "bread", "rain"]
NOTES = {f"n{number:02}": f"note {number} about {TOPICS[number % 3]}" for number in range(8)}


@pytest.fixture
def new() -> WordEncoder:
    return WordEncoder(seed=1, dim=48)


@pytest.fixture
def filled(collection):
    collection.ingest(NOTES.items())
    return collection


class Interrupted(WordEncoder):
    """Lets ``action`` happen once, when it is asked for vectors for the ``call``th time."""

    def __init__(self, call: int, action, **options) -> None:
        super().__init__(**options)
        self._waits = call
        self._action = action

    def encode_document(self, texts):
        self._waits -= 1
        if not self._waits:
            self._action()
        return super().encode_document(texts)


SAMPLE = 3  # the third call is for the sample: the first is for the probes, the second for the chunks


def answers(collection: Collection) -> dict[str, float]:
    """All documents with their dense scores."""
    return {hit.id: hit.score for hit in collection.search("note about tea", 50, "dense")}


def expected(encoder: WordEncoder, documents: dict[str, str] = NOTES) -> dict[str, float]:
    """What a collection that was made with the encoder answers."""
    query = encoder.encode_query(["note about tea"])[0]
    vectors = encoder.encode_document(list(documents.values()))
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    return {name: pytest.approx(float(cosine), abs=1e-5) for name, cosine in zip(documents, cosines, strict=True)}


def test_after_a_migration_the_new_model_answers_and_the_old_one_is_refused(filled, place, words, new):
    sparse = filled.search("note about tea", mode="sparse")
    report = filled.migrate(new)
    assert (report.model, report.encoded, report.switched) == ("words-1", 8, True)
    assert answers(filled) == expected(new)
    assert filled.encoder is new
    with pytest.raises(SpaceMismatchError, match=r"words-1.*words-0"):
        Collection.open("notes", encoder=words, **place)
    with Collection.open("notes", encoder=new, **place) as collection:
        assert answers(collection) == expected(new)
        assert collection.search("note about tea", mode="sparse") == sparse
        assert collection.ingest(NOTES.items()).unchanged == 8
        assert collection.verify().sound
        info = collection.info()
        assert (info["model"], info["dim"], info["migrated_from"], info["migrating_to"]) == (
            "words-1",
            48,
            "words-0",
            None,
        )


def test_the_progress_is_told(filled, new):
    told = []
    filled.migrate(new, on_progress=lambda *each: told.append(each))
    assert (told[0], told[-1]) == (("measuring", 0, 8), ("migrating", 8, 8))
    assert ("measuring", 8, 8) in told
    assert ("migrating", 0, 8) in told


def test_the_way_back_encodes_only_what_is_new(filled, place, words, new):
    filled.migrate(new)
    words.encoded.clear()
    with Collection.open("notes", encoder=new, **place) as collection:
        collection.ingest([("late", "a late note about tea")])
        assert collection.migrate(words).encoded == 1
    assert "a late note about tea" in words.encoded
    with Collection.open("notes", encoder=words, **place) as collection:
        assert answers(collection) == expected(words, {**NOTES, "late": "a late note about tea"})


def test_without_the_old_vectors_the_way_back_encodes_everything(filled, place, words, new):
    filled.migrate(new)
    with Collection.open("notes", encoder=new, **place) as collection:
        assert collection.drop_others() == ["words-0"]
        assert collection.info()["migrated_from"] is None
        assert answers(collection) == expected(new)
        assert collection.migrate(words).encoded == 8
    with Collection.open("notes", encoder=words, **place) as collection:
        assert answers(collection) == expected(words)


def test_a_third_model_follows_the_second(filled, place, new):
    third = WordEncoder(seed=2, dim=64)
    filled.migrate(new)
    with Collection.open("notes", encoder=new, **place) as collection:
        collection.migrate(third)
    with Collection.open("notes", encoder=third, **place) as collection:
        assert answers(collection) == expected(third)
        assert collection.drop_others() == ["words-1"]


def test_what_is_written_before_the_switch_is_brought_over(filled, place, new):
    def check(candidate: Collection) -> bool:
        assert answers(candidate) == expected(new)
        filled.ingest([("late", "a late note"), ("n01", "changed"), *list(NOTES.items())[2:]], prune=True)
        return True

    assert filled.migrate(new, check=check).encoded == 10
    with Collection.open("notes", encoder=new, **place) as collection:
        assert answers(collection) == expected(
            new, {"late": "a late note", "n01": "changed", **dict(list(NOTES.items())[2:])}
        )
        assert collection.verify().sound


def test_a_check_that_fails_leaves_the_old_model_in_force(filled, place, words, new):
    report = filled.migrate(new, check=lambda candidate: False)
    assert (report.switched, report.encoded) == (False, 8)
    with Collection.open("notes", encoder=words, **place) as collection:
        assert answers(collection) == expected(words)
        assert collection.info()["migrating_to"] == "words-1"
        with pytest.raises(ConfigurationError, match="under way"):
            collection.migrate(WordEncoder(seed=2))
        assert collection.drop_others() == ["words-1"]
        assert collection.info()["migrating_to"] is None
        assert collection.migrate(WordEncoder(seed=2)).encoded == 8


def test_a_broken_encoder_leaves_the_old_model_in_force(filled, place, words):
    class Broken(WordEncoder):
        def encode_document(self, texts):
            vectors = super().encode_document(texts)
            vectors[[text == NOTES["n05"] for text in texts]] = np.nan
            return vectors

    with pytest.raises(BadVectorError, match="n05"):
        filled.migrate(Broken(seed=1))
    with Collection.open("notes", encoder=words, **place) as collection:
        assert answers(collection) == expected(words)
        assert collection.migrate(WordEncoder(seed=1)).switched


def test_an_index_that_finds_little_does_not_stop_a_migration(filled, place, new, monkeypatch, caplog):
    search = filled._backend.search

    def poor(queries):
        return [hits if query.exact else [] for query, hits in zip(queries, search(queries), strict=True)]

    monkeypatch.setattr(filled._backend, "search", poor)
    assert filled.migrate(new).switched
    monkeypatch.undo()
    assert "misses 8 of 8" in caplog.text
    with Collection.open("notes", encoder=new, **place) as collection:
        assert answers(collection) == expected(new)


def test_vectors_that_no_search_finds_leave_the_old_model_in_force(filled, words, new, monkeypatch):
    monkeypatch.setattr(filled._backend, "search", lambda queries: [[] for _ in queries])
    with pytest.raises(BadVectorError, match="searches do not find it; the collection keeps its old model"):
        filled.migrate(new)
    monkeypatch.undo()
    assert answers(filled) == expected(words)


def test_of_two_migrations_to_one_model_the_second_finds_the_work_done(filled, place, words, new):
    with Collection.open("notes", encoder=words, **place) as other:
        reports = []
        first = Interrupted(SAMPLE, lambda: reports.append(other.migrate(new)), seed=1, dim=48)
        reports.append(filled.migrate(first))
    assert [(report.encoded, report.switched) for report in reports] == [(0, True), (8, True)]
    with Collection.open("notes", encoder=new, **place) as collection:
        assert answers(collection) == expected(new)
        assert (collection.info()["migrated_from"], collection.info()["migrating_to"]) == ("words-0", None)
        assert collection.migrate(words).encoded == 0


@pytest.mark.parametrize("third", [None, WordEncoder(seed=2)], ids=["given up", "another"])
def test_a_migration_whose_place_another_took_is_an_error(filled, words, new, third):
    def instead(candidate: Collection) -> bool:
        filled.drop_others()
        if third is not None:
            assert not filled.migrate(third, check=lambda candidate: False).switched
        return True

    with pytest.raises(
        ConfigurationError, match="given up" if third is None else "a migration to 'words-2' took its place"
    ):
        filled.migrate(new, check=instead)
    assert filled.info()["model"] == "words-0"
    assert answers(filled) == expected(words)


@pytest.mark.parametrize("call", [2, SAMPLE])
def test_a_migration_that_is_given_up_meanwhile_is_an_error(filled, words, call):
    with pytest.raises(ConfigurationError, match="given up"):
        filled.migrate(Interrupted(call, filled.drop_others, seed=1, dim=48))
    assert answers(filled) == expected(words)


WRITES = (*STEPS, "read_metadata", "drop_vector")


@pytest.mark.slow
@pytest.mark.parametrize("back", [False, True], ids=["to a new model", "back"])
@pytest.mark.parametrize("paused", ["migration", "drop"])
def test_other_vectors_may_be_dropped_at_any_step_of_a_migration(paused, back, words, new, monkeypatch):
    """One process does all its work between any two steps of the other; searches find all documents in the end."""
    server = StandIn()
    models = {each.name: each for each in (words, new)}
    monkeypatch.setattr("twinvec_qdrant.opening.load_space_encoder", lambda name, *_, **__: models[name])
    switched = set()
    with server.running():
        for step in count():
            options = {"name": f"notes{step}", "url": server.url}
            with Collection.open(**options, encoder=words, chunking=False) as first:
                first.ingest(NOTES.items())
                target = words if back else new
                if back:
                    first.migrate(new)
                with Collection.open(**options) as other, monkeypatch.context() as patched:

                    def migrated(collection=first, target=target) -> bool:
                        with suppress(ConfigurationError):
                            return collection.migrate(target).switched
                        return False

                    jobs = {"migration": (first._backend, migrated), "drop": (other._backend, other.drop_others)}
                    backend, work = jobs.pop(paused)
                    [(_, meanwhile)] = jobs.values()
                    done = interrupted(backend, WRITES, step, meanwhile, patched)
                    work()
                if not done:
                    break
            with Collection.open(**options, create=False) as opened:
                is_switched = opened.info()["model"] == target.name
                switched.add(is_switched)
                there = target if is_switched else (new if back else words)
                assert answers(opened) == expected(there), step
                assert opened.verify().sound, step
                opened.drop_others()
                assert answers(opened) == expected(there), step
                assert list(opened._backend.shape().dense) == [stored_description(opened._backend).vector], step
    assert step > 3
    assert True in switched


def test_documents_may_change_while_the_sample_is_looked_at(filled, place, words, new):
    changed = {name: f"{text}, changed" for name, text in NOTES.items()}
    with Collection.open("notes", encoder=words, **place) as other:
        encoder = Interrupted(SAMPLE, lambda: other.ingest(changed.items()), seed=1, dim=48)
        assert filled.migrate(encoder).switched
    with Collection.open("notes", encoder=new, **place) as collection:
        assert answers(collection) == expected(new, changed)


class Export(WordEncoder):
    """The model of a seed in a folder of its own: the same space, another name, and vectors of less precision."""

    def __init__(self, folder: str, wrong: float = 1e-4, **options) -> None:
        super().__init__(**options)
        self.original, self.name, self._wrong = self.name, folder, wrong

    def _vectors(self, texts):
        self.name, folder = self.original, self.name  # the words are hashed with the name
        vectors = super()._vectors(texts)
        self.name = folder
        return vectors + self._wrong * np.arange(self.dim, dtype=np.float32)


def test_an_export_takes_the_place_of_its_model_by_one_write(filled, place, words, monkeypatch):
    before, written = filled._backend.read_metadata(), []
    write = filled._backend.write_metadata
    monkeypatch.setattr(filled._backend, "write_metadata", lambda changes: written.append(changes) or write(changes))
    export = Export("models/fast")
    with Collection.open("notes", encoder=words, **place) as other:
        report = filled.migrate(export)
        assert (report.model, report.encoded, report.switched) == ("models/fast", 0, True)
        assert written == [{"model": "models/fast"}]
        assert filled._backend.read_metadata() == {**before, "model": "models/fast"}
        assert not set(export.encoded) & set(NOTES.values())
        assert filled.encoder is export
        assert answers(other) == expected(words)
        assert other.encoder is words, "a handle goes on with the encoder that it has"
        assert other.ingest([("late", "a late note about tea")]).new == 1
    with Collection.open("notes", encoder=words, **place) as collection:
        assert collection.info()["model"] == "models/fast"
        assert collection.info()["migrated_from"] is None
        assert answers(collection) == expected(words, {**NOTES, "late": "a late note about tea"})
        theirs = RecordedSpace(Export("theirs"), words.space, {"a text": np.ones(words.dim, dtype=np.float32)})
        for encoder in (export, theirs):  # the second one cannot be loaded by its name
            with pytest.raises(ConfigurationError, match="'models/fast' already"):
                collection.migrate(encoder)


def test_an_export_whose_vectors_differ_does_not_take_the_place_of_its_model(filled):
    before = stored_description(filled._backend)
    with pytest.raises(SpaceMismatchError, match="its vectors have changed"):
        filled.migrate(Export("models/bad", wrong=0.5))
    with pytest.raises(ConfigurationError, match="under way, but a migration to 'words-1' took its place"):
        filled.migrate(Export("models/fast"), check=lambda candidate: filled.migrate(WordEncoder(seed=1)).switched)
    filled.migrate(WordEncoder())
    assert not filled.migrate(Export("models/fast"), check=lambda candidate: False).switched
    filled.drop_others()
    assert stored_description(filled._backend) == before


def test_the_way_back_to_an_export_records_the_export(filled, place, new):
    filled.migrate(new)
    report = filled.migrate(Export("models/fast"))
    assert (report.model, report.encoded, report.switched) == ("models/fast", 0, True)
    assert filled.info()["model"] == "models/fast"
    filled.migrate(new, check=lambda candidate: False)
    assert filled.migrate(Export("models/new", seed=1, dim=48)).model == "models/new"
    assert (filled.info()["model"], filled.info()["migrated_from"]) == ("models/new", "models/fast")


def test_a_handle_that_has_not_loaded_its_model_loads_it_by_the_new_name(filled, place, monkeypatch):
    def load(name, options=None, precision="auto"):
        if name != "models/fast":
            raise ModelNotFoundError(f"no folder {name!r}")
        return Export(name)

    monkeypatch.setattr("twinvec_qdrant.opening.load_space_encoder", load)
    with Collection.open("notes", **place) as other:
        filled.migrate(Export("models/fast"))
        assert other.search("note about tea", 1, "dense")
        assert other.encoder.name == "models/fast"
    filled.migrate(WordEncoder())
    with Collection.open("notes", **place) as other, pytest.raises(ModelNotFoundError, match="words-0"):
        other.search("note about tea", 1, "dense")


@pytest.fixture
def killed_after_switch(filled, place, words, new, monkeypatch):
    """A collection whose migration was killed after its switch, and missed what another process wrote just before."""
    with Collection.open("notes", encoder=words, **place) as other:
        write = filled._backend.write_metadata

        def last(changes):
            if "vector" in changes:
                other.ingest([("late", "a late note about tea")])
            write(changes)
            if "vector" in changes:
                raise Died

        monkeypatch.setattr(filled._backend, "write_metadata", last)
        with pytest.raises(Died):
            filled.migrate(new)
        monkeypatch.undo()
    with Collection.open("notes", encoder=new, **place) as collection:
        assert collection.verify().incomplete == ["late"]
        yield collection


LATE = {**NOTES, "late": "a late note about tea"}


@pytest.mark.parametrize("place", ["client"], indirect=True)
def test_killed_after_the_switch_what_came_just_before_it_is_brought_over_by_the_next(killed_after_switch, words, new):
    report = killed_after_switch.migrate(new)
    assert (report.encoded, report.switched) == (1, True)
    assert answers(killed_after_switch) == expected(new, LATE)
    assert killed_after_switch.verify().sound
    with pytest.raises(ConfigurationError, match="already"):
        killed_after_switch.migrate(new)
    assert killed_after_switch.migrate(words).encoded == 0, "the way back is kept"


@pytest.mark.parametrize("place", ["client"], indirect=True)
def test_killed_after_the_switch_what_came_just_before_it_is_brought_over_by_an_ingest(killed_after_switch, new):
    killed_after_switch.ingest([("more", "more about rain")], dry_run=True)
    assert killed_after_switch.verify().incomplete == ["late"]
    new.encoded.clear()
    killed_after_switch.ingest([("more", "more about rain")])
    assert new.encoded == ["a late note about tea", "more about rain"]
    assert answers(killed_after_switch) == expected(new, {**LATE, "more": "more about rain"})
    assert killed_after_switch.verify().sound


@pytest.mark.parametrize("place", ["client"], indirect=True)
def test_killed_after_the_switch_what_came_just_before_it_is_brought_over_before_the_old_vectors_go(
    killed_after_switch, new
):
    assert killed_after_switch.drop_others() == ["words-0"]
    assert answers(killed_after_switch) == expected(new, LATE)


@pytest.mark.parametrize("place", ["client"], indirect=True)
def test_killed_after_the_switch_what_came_just_before_it_is_brought_over_by_a_repair(killed_after_switch, new):
    assert killed_after_switch.verify(repair=True).sound
    assert killed_after_switch.get(["late"])[0].text == LATE["late"]
    assert answers(killed_after_switch) == expected(new, LATE)


@pytest.mark.parametrize("place", ["client"], indirect=True)
def test_an_ingest_brings_over_what_it_has_committed_itself_just_before_the_switch(
    filled, place, words, new, monkeypatch
):
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 1)
    monkeypatch.setattr("twinvec_qdrant.opening.load_space_encoder", lambda *_: new)
    committed, switched = Event(), Event()
    with Collection.open("notes", encoder=words, **place) as other, ThreadPoolExecutor(1) as pool:
        commit, write = other._backend.commit, filled._backend.write_metadata

        def commit_and_wait(*given):
            commit(*given)
            committed.set()
            assert switched.wait(60)

        def switch_and_die(changes):
            if "vector" not in changes:
                return write(changes)
            ingests.append(pool.submit(other.ingest, [("late", LATE["late"]), ("later", "a later note about tea")]))
            assert committed.wait(60)
            write(changes)
            raise Died

        ingests = []
        monkeypatch.setattr(other._backend, "commit", commit_and_wait)
        monkeypatch.setattr(filled._backend, "write_metadata", switch_and_die)
        with pytest.raises(Died):
            filled.migrate(new)
        switched.set()
        assert ingests[0].result().new == 2
        assert answers(other) == expected(new, {**LATE, "later": "a later note about tea"})
        assert other.verify().sound


@pytest.fixture
def slept(monkeypatch) -> list[float]:
    """The pauses of a migration, by a clock that only they move."""
    clock = Clock()
    pausing = SimpleNamespace(monotonic=clock, sleep=lambda seconds: clock.sleep(seconds) if seconds else None)
    monkeypatch.setattr("twinvec_qdrant.maintenance.migration.time", pausing)
    return clock.pauses


def test_a_rate_holds_from_the_first_chunk_and_keeps_nobody_waiting_for_the_switch(filled, place, new, slept):
    def check(candidate: Collection) -> bool:
        assert sum(slept) == 100 * (len(NOTES) - 1), "a pause between two chunks"
        slept.clear()
        filled.ingest([(f"late{number}", "a late note") for number in range(5)])
        return True

    assert filled.migrate(new, check=check, chunks_per_second=0.01).encoded == 13
    assert sum(slept) == 100 * 4
    assert max(slept) == 1
    with Collection.open("notes", encoder=new, **place) as collection:
        assert collection.verify().sound


def test_a_rate_is_that_of_each_second(filled, new, slept):
    assert filled.migrate(new, chunks_per_second=3).encoded == len(NOTES)
    assert slept == [1] * 2, "three, three and the rest"


def test_any_positive_rate_is_one(filled, new):
    assert filled.migrate(new, chunks_per_second=float("inf")).encoded == len(NOTES)


def test_chunks_are_read_once_and_not_once_a_page(filled, new, monkeypatch):
    filled.ingest((f"more{number}", f"more of note {number}") for number in range(20))
    scrolled = []
    scroll = filled._backend.scroll
    monkeypatch.setattr(filled._backend, "scroll", lambda *args: scrolled.append(args) or scroll(*args))
    monkeypatch.setattr("twinvec_qdrant.maintenance.migration._PAGE", 1)
    assert filled.migrate(new).encoded == len(NOTES) + 20
    assert len(scrolled) < 10


def test_the_same_model_is_refused(filled, words):
    with pytest.raises(ConfigurationError, match="already"):
        filled.migrate(WordEncoder())
    with pytest.raises(ConfigurationError, match="chunks_per_second"):
        filled.migrate(WordEncoder(seed=1), chunks_per_second=0)


@pytest.mark.parametrize("dropping", [False, True])
def test_an_engine_killed_while_it_adds_or_drops_a_vector_opens_again(tmp_path, words, new, dropping):
    configuration = tmp_path / "notes" / "shard" / "edge_config.json"
    with Collection.open("notes", tmp_path, encoder=words, chunking=False) as collection:
        collection.ingest(NOTES.items())
        one = configuration.read_text()
        collection.migrate(new)
        two = configuration.read_text()
        assert one != two
    with Collection.open("notes", tmp_path, encoder=new) as collection:
        if dropping:
            collection.drop_others()
    configuration.write_text(two if dropping else one)
    (tmp_path / "notes" / "shard" / "checksums.json").unlink()  # a killed process has written none
    with Collection.open("notes", tmp_path, encoder=new) as collection:
        assert answers(collection) == expected(new)
        assert collection.search("rain", mode="sparse")
        assert collection.migrate(words).switched


@pytest.mark.parametrize("killed", ["adding", "dropping", "removing"])
def test_an_engine_killed_while_one_of_its_segments_gets_or_loses_a_vector_opens_again(tmp_path, words, new, killed):
    segments = tmp_path / "notes" / "shard" / "segments"
    present, other = (words, new) if killed == "adding" else (new, words)
    with Collection.open("notes", tmp_path, encoder=words, chunking=False) as collection:
        collection.ingest(list(NOTES.items())[:4])
        if present is new:
            collection.migrate(new)
        collection.reindex()
        collection.ingest(NOTES.items())
    (indexed,) = (each.parent for each in segments.glob("*/vector_index-dense"))
    assert [each for each in segments.iterdir() if each != indexed], "there is a growing segment too"
    shutil.copytree(indexed, tmp_path / "before")
    with Collection.open("notes", tmp_path, encoder=present) as collection:
        if killed == "adding":
            collection._backend.add_vector("dense-words-1-48", 48, None)
        else:
            collection._backend.drop_vector("dense")
    if killed == "removing":  # the engine removes the files last
        for name in ("vector_index-dense", "vector_storage-dense"):
            shutil.move(tmp_path / "before" / name, indexed)
    else:
        shutil.rmtree(indexed)
        shutil.move(tmp_path / "before", indexed)
    (tmp_path / "notes" / "shard" / "checksums.json").unlink()  # a killed process has written none
    with Collection.open("notes", tmp_path, encoder=present) as collection:
        assert answers(collection) == expected(present)
    with Collection.open("notes", tmp_path, encoder=present) as collection:
        assert collection.migrate(other).encoded == len(NOTES)
        assert answers(collection) == expected(other)
        assert collection.verify().sound


def test_segments_without_a_common_vector_keep_their_vectors(tmp_path, words):
    """No kill leaves such files: they are damaged."""
    with Collection.open("notes", tmp_path, encoder=words, chunking=False) as collection:
        collection.ingest(list(NOTES.items())[:4])
        collection.reindex()
        collection.ingest(NOTES.items())
    segments = tmp_path / "notes" / "shard" / "segments"
    damaged, *others = sorted(segments.glob("*/segment.json"))
    state = json.loads(damaged.read_text())
    state["config"]["vector_data"] = {}
    damaged.write_text(json.dumps(state))
    before = [each.read_bytes() for each in others]
    with pytest.raises(BaseException, match="incompatible"):
        load_shard(str(segments.parent))
    assert others
    assert [each.read_bytes() for each in others] == before
    assert all(each.with_name("vector_storage-dense").is_dir() for each in others)


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_every_step_may_be_the_last(place, words, new, done, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.maintenance.migration._PAGE", 4)
    for step in count():
        name = f"notes{step}"
        with Collection.open(name, encoder=words, chunking=False, **place) as collection:
            collection.ingest(NOTES.items())
            with monkeypatch.context() as patched:
                die_at(step, done=done, backend=collection._backend, monkeypatch=patched)
                try:
                    collection.migrate(new)
                except Died:
                    finished = False
                else:
                    finished = True
        in_force = {"words-0": words, "words-1": new}[_model(name, place)]
        with Collection.open(name, encoder=in_force, **place) as collection:
            assert answers(collection) == expected(in_force), step
            if in_force is words:
                collection.migrate(new)
        with Collection.open(name, encoder=new, **place) as collection:
            assert answers(collection) == expected(new), step
            assert collection.verify().sound
        if finished:
            break
    assert step > 5


def _model(name: str, place: dict) -> str:
    with Collection.open(name, create=False, **place) as collection:
        return collection.info()["model"]


LONG = {f"l{row}": f"{'rye ' * (6 * row)}bread {row}" for row in range(9)}


@pytest.mark.parametrize("chunking", [ChunkSettings(), False], ids=["cut", "whole"])
def test_a_model_that_reads_less_is_refused_before_anything_changes(place, chunking):
    old, short = WordEncoder(max_tokens=40), WordEncoder(seed=1, dim=48, max_tokens=24)
    with Collection.open("long", encoder=old, chunking=chunking, **place) as collection:
        collection.ingest(LONG.items())
        chunks = {point.id: len(point.payload["text"].split()) for point in collection._backend.scroll([CHUNKS])}
        longer = sum(24 < length <= 40 for length in chunks.values())
        assert 1 < longer < len(chunks)
        before = collection._backend.read_metadata()
        message = (
            rf"{longer} of {len(chunks)} chunks.*24 tokens that 'words-1'.*NAME --model words-1.*--allow-truncation"
        )
        with pytest.raises(ConfigurationError, match=message):
            collection.migrate(short)
        assert collection._backend.read_metadata() == before
        assert not short.encoded
        report = collection.migrate(short, allow_truncation=True)
        assert report.truncated == sum(length > 24 for length in chunks.values())
        assert not collection.migrate(old).encoded, "the way back needs nothing"
        assert not collection.migrate(short).encoded, "nor does the way there again"
        assert collection.migrate(WordEncoder(seed=2, max_tokens=40)).switched, "it reads as much as the present one"


def test_what_the_present_model_truncates_too_is_no_reason_to_refuse(place):
    with Collection.open("long", encoder=WordEncoder(max_tokens=24), chunking=False, **place) as collection:
        collection.ingest(LONG.items())
        assert collection.migrate(WordEncoder(seed=1, max_tokens=40)).truncated == 2
    with (
        Collection.open("long", **place) as collection,  # its recorded model is not there
        pytest.raises(ConfigurationError, match="5 of 9 chunks"),
    ):
        collection.migrate(WordEncoder(seed=2, max_tokens=24))
