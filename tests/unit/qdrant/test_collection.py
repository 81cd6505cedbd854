"""Opening, closing and refusing: a collection and its model, its settings, its store."""

from __future__ import annotations

import copy
import json
import pickle
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from holders import holding, stopped
from twinvec import Encoder, MemoryIndex
from twinvec.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    IngestError,
    ModelNotFoundError,
    SpaceMismatchError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    TextError,
)
from twinvec_qdrant import ChunkSettings, Collection
from words import WordEncoder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_ingested_is_there_after_opening_again(place, words):
    with Collection.open("notes", encoder=words, chunking=False, **place) as collection:
        collection.ingest([("tea", "green tea")])
        info = collection.info()
    with Collection.open("notes", encoder=words, **place) as collection:
        assert collection.info() == info
        assert [hit.id for hit in collection.search("tea")] == ["tea"]
    assert (info["points"], info["sources"], info["model"], info["dim"]) == (1, 1, "words-0", 64)
    assert info["chunking"] == ChunkSettings(enabled=False).as_dict()
    json.dumps(info)


def test_another_model_is_refused_and_nothing_is_written(place, words, tmp_path):
    with Collection.open("notes", encoder=words, chunking=False, **place) as collection:
        collection.ingest([("tea", "green tea")])
    before = files(tmp_path)
    with pytest.raises(SpaceMismatchError) as caught:
        Collection.open("notes", encoder=WordEncoder(seed=1), **place)
    for name in ("words-0", "words-1", "words-0-64", "words-1-64", "own model"):
        assert name in str(caught.value)
    assert files(tmp_path) == before
    with Collection.open("notes", encoder=words, **place) as collection:
        assert collection.count() == 1


def test_an_error_shows_the_first_digits_of_spaces(place, words):
    words.space, other = "0123456789ab" + "c" * 52, WordEncoder(seed=1)
    other.space = "ba9876543210" + "c" * 52
    with Collection.open("notes", encoder=words, chunking=False, **place):
        pass
    with pytest.raises(SpaceMismatchError, match=r"space 0123456789ab\).*space ba9876543210\)"):
        Collection.open("notes", encoder=other, **place)


def test_a_model_whose_vectors_have_moved_is_caught_by_the_probes(place, words):
    class Moved(WordEncoder):
        def encode_document(self, texts):
            return super().encode_document(texts)[:, ::-1]

    class Rounded(WordEncoder):
        def encode_document(self, texts):
            vectors = super().encode_document(texts)
            return np.round(vectors / np.abs(vectors).max() * 127)

    Collection.open("notes", encoder=words, chunking=False, **place).close()
    with pytest.raises(SpaceMismatchError, match="cosine"):
        Collection.open("notes", encoder=Moved(), **place)
    Collection.open("notes", encoder=Rounded(), **place).close()


def test_without_an_encoder_the_recorded_model_is_loaded_when_needed(tmp_path, encoder):
    with Collection.open("notes", tmp_path, encoder=encoder) as collection:
        collection.ingest([("tea", "green tea")])
    with Collection.open("notes", tmp_path) as collection:
        assert collection.info()["sources"] == 1
        assert collection.search("tea", mode="sparse")[0].id == "tea"
        assert collection.search("a hot drink", mode="dense")[0].id == "tea"
        assert collection.encoder.space == encoder.space


@pytest.mark.slow
def test_a_model_with_settings_of_its_own_is_loaded_with_them(tmp_path, encoder):
    short = Encoder("default", dim=128, max_tokens=64, prompts={"document": "note: "})
    with Collection.open("notes", tmp_path, encoder=short) as collection:
        collection.ingest([("tea", "green tea")])
    with Collection.open("notes", tmp_path) as collection:
        assert collection.search("a hot drink", mode="dense")[0].id == "tea"
        assert collection.encoder.space == short.space != encoder.space
        collection.migrate(Encoder("default", dim=64))
    with Collection.open("notes", tmp_path) as collection:
        assert collection.encoder.dim == 64


def test_a_recorded_model_that_cannot_be_found_is_named(tmp_path, words):
    Collection.open("notes", tmp_path, encoder=words, chunking=False).close()
    with Collection.open("notes", tmp_path) as collection, pytest.raises(ModelNotFoundError) as caught:
        collection.ingest([("a", "b")])
    assert "encoder=" in caught.value.__notes__[0]


def test_other_chunking_is_refused(place, words):
    Collection.open("notes", encoder=words, chunking=False, **place).close()
    with pytest.raises(ConfigurationError, match="holds whole documents, not chunks of at most 50 tokens"):
        Collection.open("notes", encoder=words, chunking=ChunkSettings(max_tokens=50), **place)


def test_another_language_is_refused(place, words):
    def languages(*given):
        for each in given:
            with Collection.open("notes", encoder=words, chunking=False, **place, **each) as collection:
                yield collection.info()["language"]

    german = {"language": "german"}
    assert set(languages(german, german, {}, {"language": "english"})) == {"german"}
    for wrong in ("french", "klingon"):
        with pytest.raises(
            ConfigurationError, match=f"its language is 'german', not '{wrong}', .*: leave language out"
        ):
            Collection.open("notes", encoder=words, chunking=False, language=wrong, **place)


def test_settings_that_cannot_work_leave_nothing_behind(tmp_path, words):
    with pytest.raises(ConfigurationError, match="tokenizer"):
        Collection.open("notes", tmp_path, encoder=words)
    with pytest.raises(ConfigurationError, match="stemmer"):
        Collection.open("notes", tmp_path, encoder=words, chunking=False, language="klingon")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_collection_is_named_with_those_there_are(tmp_path, words):
    Collection.open("notes", tmp_path, encoder=words, chunking=False).close()
    with pytest.raises(CollectionNotFoundError, match=r"'nots'.*notes"):
        Collection.open("nots", tmp_path, create=False)
    with pytest.raises(CollectionNotFoundError, match="nots"):
        Collection.open("nots", client=QdrantClient(":memory:"), create=False)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("name", ["../up", ".hidden", "..", "a/b", "naïve café", "a%2Fb", "con", "x" * 80])
def test_names_stay_below_the_path(tmp_path, words, name):
    with Collection.open(name, tmp_path / "store", encoder=words, chunking=False) as collection:
        collection.ingest([("tea", name)])
    assert [path.parent for path in (tmp_path / "store").iterdir()] == [tmp_path / "store"]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    with Collection.open(name, tmp_path / "store", create=False) as collection:
        assert collection.get(["tea"])[0].text == name


@pytest.mark.parametrize("name", ["", None, 3, "x" * 300, "\ud800"])
def test_names_that_cannot_be_are_refused(tmp_path, words, name):
    with pytest.raises(ConfigurationError):
        Collection.open(name, tmp_path, encoder=words, chunking=False)


def test_arguments_that_contradict_one_another_are_refused(tmp_path):
    client = QdrantClient(":memory:")
    for options in (
        {"path": tmp_path, "url": "http://localhost"},
        {"path": tmp_path, "client": client},
        {"api_key": "secret"},
        {"path": tmp_path, "wait_seconds": -1},
    ):
        with pytest.raises(ConfigurationError):
            Collection.open("notes", **options)


def test_one_process_may_open_a_collection_several_times(tmp_path, words):
    first = Collection.open("notes", tmp_path, encoder=words, chunking=False)
    second = Collection.open("notes", tmp_path, encoder=words)
    first.ingest([("tea", "green tea")])
    first.close()
    first.close()
    assert second.search("tea")[0].id == "tea"
    second.close()
    Collection.open("notes", tmp_path, encoder=words, wait_seconds=0).close()


def test_a_collection_that_is_pickled_or_copied_says_what_to_do(collection):
    for copied in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(ConfigurationError, match=r"^Collection\(.* cannot be pickled or copied, .* open it again"):
            copied(collection)


def test_a_closed_collection_says_so(place, words):
    collection = Collection.open("notes", encoder=words, chunking=False, **place)
    collection.check_open()
    with Collection.open("notes", encoder=words, **place) as other:
        other.ingest([("tea", "green tea")])
        collection.close()
        for use in (
            lambda: collection.search("tea"),
            lambda: collection.ingest([("a", "b")]),
            lambda: collection.get(["tea"]),
            lambda: collection.delete(["tea"]),
            collection.check_open,
            collection.count,
            collection.info,
        ):
            with pytest.raises(StoreError, match="closed"):
                use()
        assert "notes" in repr(collection)
        assert repr(collection).endswith(", closed)")
        assert other.count() == 1


@pytest.mark.slow
def test_closing_ends_the_ingest_of_another_thread_which_continues_later(place, words):
    collection = Collection.open("notes", encoder=words, chunking=False, **place)
    texts = [(f"n{row}", f"note {row}") for row in range(3000)]

    def documents() -> Iterator[tuple[str, str]]:
        yield from texts[:2500]
        closing = threading.Thread(target=collection.close)
        closing.start()
        closing.join()
        yield from texts[2500:]

    with pytest.raises(StoreError, match="the collection has been closed"):
        collection.ingest(documents())
    with Collection.open("notes", encoder=words, wait_seconds=0, **place) as again:
        report = again.ingest(texts)
        assert 0 < report.unchanged < len(texts)
        assert report.new == len(texts) - report.unchanged
        assert again.verify().sound
        assert again.count() == len(texts)


def test_many_documents_are_removed_some_at_a_time(collection, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.records.commits._REMOVED", 3)
    names = [f"n{row}" for row in range(8)]
    collection.ingest((name, f"note {name}") for name in names)
    written = []
    upsert = collection._backend.upsert
    monkeypatch.setattr(collection._backend, "upsert", lambda points: written.extend(points) or upsert(points))
    assert collection.delete([*names[1:], "none"]) == 7
    intents = [point for point in written if point.payload["kind"] == "intent"]
    assert [len(point.payload["sources"]) for point in intents] == [3, 3, 1], "an intent fits into a request"
    assert collection.find() == names[:1]


def test_ids_that_are_none_find_and_remove_nothing(collection):
    collection.ingest([("1", "one"), ("2", "two"), ("12", "twelve")])
    for wrong in ("12", b"12", 12, [1.0], [True], ["1", "\ud800"], None):
        for use in (collection.get, collection.delete):
            with pytest.raises(TextError):
                use(wrong)
    assert sorted(collection.find()) == ["1", "12", "2"]
    assert collection.delete(iter(["12", "12", "gone"])) == 1
    assert [each.id for each in collection.get(("2", "1"))] == ["2", "1"]


def test_a_wrong_id_is_named(collection):
    for wrong, named in (("tea\udce9", r"id 'tea\\udce9': lone surrogate U\+DCE9"), (5.5, "id 5.5: expected a string")):
        with pytest.raises(TextError, match=named):
            collection.get(["tea", wrong])


def test_whole_numbers_and_uuids_are_ids_everywhere(collection):
    key = UUID(int=7)
    documents = [{"id": 5, "text": "five"}, {"id": np.int64(6), "text": "six"}, (key, "seven"), ("a", "letter")]
    assert collection.ingest(documents).new == 4
    assert collection.ingest([(each["id"], each["text"]) for each in documents[:2]]).unchanged == 2
    for wanted, found in (
        ({"id": 5}, ["5"]),
        ({"id": [5, np.int64(6)]}, ["5", "6"]),
        ({"id": {"ne": 5}}, ["6", str(key), "a"]),
        ({"id": {"not_in": [5, 6, key]}}, ["a"]),
        ({"id": {"in": [5, "a"]}}, ["5", "a"]),
        ({"id": 5.0}, []),
    ):
        assert sorted(collection.find(wanted)) == sorted(found), wanted
        index = MemoryIndex(collection.encoder, documents)
        assert {hit.id for hit in index.search("five", 9, wanted, mode="dense")} == set(found), wanted
    assert [each.text for each in collection.get([np.int64(6), 5, key])] == ["six", "five", "seven"]
    assert collection.delete([5, key, 12]) == 2
    assert sorted(collection.find()) == ["6", "a"]


def test_a_long_id_is_cut_in_messages(collection):
    long = "x" * 100_000
    report = collection.ingest([(long, "tea"), (long[:60_000], 5), ("ok", "tea")])
    assert [(len(source), len(reason) < 600) for source, reason in report.failures] == [(100_000, True), (60_000, True)]
    for wrong, told in ((("x" * 100_000, "tea"), "100,000 bytes"), (("x" * 60_000, 5), "expected a string")):
        with pytest.raises(IngestError, match=told) as caught:
            collection.ingest([wrong])
        assert len(str(caught.value)) < 1000


def test_a_second_process_waits_and_is_then_told_who_has_it(tmp_path, words):
    with holding(tmp_path) as holder:
        with stopped(holder), pytest.raises(StoreBusyError, match=rf"(?s){tmp_path}.*process {holder.pid}"):
            Collection.open("notes", tmp_path, encoder=words, wait_seconds=0)
        release = threading.Timer(0.2, holder.stdin.close)
        release.start()
        with Collection.open("notes", tmp_path, encoder=words, wait_seconds=60) as collection:
            assert collection.search("tea")[0].id == "tea"
        release.join()


@pytest.mark.slow
def test_searches_in_threads_beside_an_ingest(collection):
    collection.ingest([("tea", "green tea"), ("bread", "rye bread")])
    found: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    over = threading.Event()

    def search() -> None:
        while not over.is_set():
            found.put([hit.id for hit in collection.search("tea", limit=1)])

    def documents(version: int) -> Iterator[tuple[str, str]]:
        """Go on when some searches have begun and ended while the ingest is under way."""
        for _ in range(found.qsize() + 6):
            assert found.get(timeout=60) == ["tea"]
        yield "bread", f"rye bread {version}"

    with ThreadPoolExecutor(3) as threads:
        searches = [threads.submit(search) for _ in range(3)]
        try:
            for version in range(10):
                assert collection.ingest(documents(version)).updated == 1
        finally:
            over.set()
        for each in searches:
            each.result()
    while not found.empty():
        assert found.get() == ["tea"]


@pytest.mark.parametrize(
    ("damaged", "content"),
    [
        ("shard/edge_config.json", "{"),
        ("shard/segments/*/*.json", "\0"),
        ("collection.json", "{"),
        ("collection.json", "[]"),
        ("collection.json", '{"twinvec": 2}'),
        ("collection.json", {"chunking": {"foo": 1}}),
        ("collection.json", {"probes": []}),
        ("collection.json", {"probes": [{"text": "a", "vector": [1.0]}]}),
        ("collection.json", {"language": "klingon"}),
        ("collection.json", {"dim": "many"}),
        ("collection.json", None),
    ],
)
def test_what_cannot_be_read_is_a_typed_error(tmp_path, words, damaged, content):
    Collection.open("notes", tmp_path, encoder=words, chunking=False).close()
    files = list((tmp_path / "notes").glob(damaged))
    assert files
    for file in files:
        if isinstance(content, dict):
            content = json.dumps({**json.loads(file.read_text()), **content})
        file.unlink()
        if content is not None:
            file.write_text(content)
    with pytest.raises(StoreCorruptError, match="notes"):
        Collection.open("notes", tmp_path, encoder=words)


def test_a_path_that_cannot_be_written_is_a_typed_error(tmp_path, words):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailableError, match="file"):
        Collection.open("notes", tmp_path / "file", encoder=words, chunking=False)


def test_a_half_made_collection_is_made_again(tmp_path, words):
    aside = tmp_path / "notes" / "shard.new" / "segments"
    aside.mkdir(parents=True)
    (aside / "part").write_text("x")
    with Collection.open("notes", tmp_path, encoder=words, chunking=False) as collection:
        assert collection.ingest([("tea", "green tea")]).new == 1
    assert not aside.exists()


def test_a_collection_of_someone_else_is_left_alone(words):
    client = QdrantClient(":memory:")
    client.create_collection("theirs", models.VectorParams(size=3, distance=models.Distance.DOT))
    with pytest.raises(ConfigurationError, match="not a collection of twinvec"):
        Collection.open("theirs", client=client, encoder=words, chunking=False)
    assert client.count("theirs").count == 0


def test_of_the_description_only_what_changed_is_written(collection):
    def described() -> dict[str, object]:
        return {key: value for key, value in collection._backend.read_metadata().items() if value is not None}

    before = described()
    collection._backend.write_metadata({"average_length": 7.5, "previous": "a model"})
    assert described() == {**before, "average_length": 7.5, "previous": "a model"}
    collection._backend.write_metadata({"average_length": before["average_length"], "previous": None})
    assert described() == before


def test_a_string_names_the_model(tiny_model, tmp_path):
    folder = str(tiny_model("bert"))
    with Collection.open("notes", tmp_path, encoder=folder, chunking=False) as collection:
        assert collection.encoder.space == Encoder(folder).space
    with pytest.raises(ModelNotFoundError, match="this model is 'default'"):
        Collection.open("notes", tmp_path, encoder="all-MiniLM-L6-v2")
    with pytest.raises(SpaceMismatchError):
        Collection.open("notes", tmp_path, encoder="default")
    with Collection.open("default", tmp_path, encoder="default") as collection:
        assert collection.encoder.name == "default"


def test_the_models_of_a_collection_compute_in_a_given_precision(tiny_model, tmp_path):
    folder, other = str(tiny_model("bert")), str(tiny_model("roberta"))
    with Collection.open("notes", tmp_path, encoder=folder, precision="bfloat16") as collection:
        assert collection.encoder.engine.name == "torch, cpu, bfloat16"
        collection.ingest([("tea", "green tea")])
    with Collection.open("notes", tmp_path, precision="bfloat16") as collection:
        assert collection.encoder.engine.name == "torch, cpu, bfloat16"
        with Collection.open("notes", tmp_path) as migrating:
            migrating.migrate(Encoder(other))
        collection.ingest([("late", "a text after a migration")])
        assert (collection.encoder.name, collection.encoder.engine.name) == (other, "torch, cpu, bfloat16")
    with Collection.open("notes", tmp_path) as collection:
        assert collection.encoder.engine.name == "torch, cpu, float32"
    with pytest.raises(ConfigurationError, match=r"Encoder\(\.\.\., precision='float16'\)"):
        Collection.open("notes", tmp_path, encoder=Encoder(other), precision="float16")
    with pytest.raises(ConfigurationError, match="precision 'int3' is not one of auto, float32"):
        Collection.open("notes", tmp_path, precision="int3")


def test_the_first_error_is_told_if_closing_fails_after_it(tmp_path, words, monkeypatch):
    def fails(self) -> None:
        raise StoreError("the engine could not close")

    monkeypatch.setattr("twinvec_qdrant.stores.embedded.backend.EmbeddedBackend.close", fails)
    opened = Collection.open("notes", tmp_path, encoder=words, chunking=False)
    with pytest.raises(ValueError, match="the first") as told, opened:
        raise ValueError("the first")
    assert told.value.__notes__ == ["and then: the engine could not close"]
    other = Collection.open("others", tmp_path, encoder=words, chunking=False)
    with pytest.raises(StoreError, match="could not close"), other:
        pass


@pytest.mark.parametrize("wrong", [{"chunking": True}, {"index": "int8"}, {"cluster": {"shards": 2}}])
def test_settings_of_another_type_are_refused(tmp_path, words, wrong):
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=rf"{name}: expected \w+Settings\(\.\.\.\), got "):
        Collection.open("notes", tmp_path, encoder=words, **wrong)
    assert not list(tmp_path.iterdir())
