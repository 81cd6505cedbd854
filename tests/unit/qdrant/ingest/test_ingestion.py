"""What an ingest writes, leaves alone, refuses and reports."""

from __future__ import annotations

import logging
import pickle
from contextlib import contextmanager

import numpy as np
import pytest

from twinvec import Document
from twinvec.errors import BadVectorError, DocumentError, IngestError
from twinvec_qdrant import Collection, Failure, Root, read_source
from twinvec_qdrant.ingest import ingestion
from twinvec_qdrant.report import IngestReport
from words import WordEncoder

NOTES = [
    {"id": "tea", "text": "green tea with mint", "year": 2020},
    {"id": "bread", "text": "bread from rye and wheat", "year": 2021},
    {"id": "rain", "text": "rain over the harbour", "year": 2022},
]


def state(collection: Collection) -> dict[str, tuple[str, dict]]:
    """Every document as the collection has it."""
    found = collection.get(["tea", "bread", "rain", "snow", "empty"])
    return {document.id: (document.text, dict(document.payload)) for document in found}


def test_the_same_documents_again_encode_and_write_nothing(collection, words):
    first = collection.ingest(NOTES)
    assert (first.new, first.chunks, first.encoded) == (3, 3, 3)
    words.encoded.clear()
    again = collection.ingest(reversed(NOTES))
    assert (again.unchanged, again.new, again.updated, again.chunks) == (3, 0, 0, 0)
    assert words.encoded == []


def test_only_what_changed_is_encoded(collection, words):
    collection.ingest(NOTES)
    words.encoded.clear()
    report = collection.ingest([NOTES[0], {**NOTES[1], "text": "bread from spelt"}, {"id": "snow", "text": "snow"}])
    assert (report.new, report.updated, report.unchanged) == (1, 1, 1)
    assert sorted(words.encoded) == ["bread from spelt", "snow"]
    assert state(collection)["bread"] == ("bread from spelt", {"year": 2021})
    assert collection.count() == 4


def test_another_payload_keeps_the_vector(collection, words):
    collection.ingest(NOTES)
    words.encoded.clear()
    report = collection.ingest([{**NOTES[0], "year": 1999}])
    assert (report.updated, report.chunks, report.encoded) == (1, 1, 0)
    assert words.encoded == []
    assert [hit.id for hit in collection.search("mint tea", filter={"year": 1999})] == ["tea"]
    assert collection.count() == 3


def test_text_that_moves_keeps_its_vector(tmp_path, encoder):
    parts = [f"# Part {number}\n\n" + f"Sentence about topic {number}. " * 60 for number in range(4)]
    with Collection.open("guide", tmp_path, encoder=encoder) as collection:
        first = collection.ingest([("guide.md", "\n\n".join(parts))])
        assert first.encoded >= 4
        moved = collection.ingest([("guide.md", "\n\n".join([parts[2], parts[0], parts[1], parts[3]]))])
        assert (moved.updated, moved.encoded) == (1, 0)
        assert collection.count() == first.chunks
        hit = collection.search("topic 2", group=False)[0]
        assert hit.payload["heading"] == "Part 2"


def test_prune_removes_what_is_missing_and_nothing_else_does(collection):
    collection.ingest(NOTES)
    assert collection.ingest(NOTES[:2]).deleted == 0
    assert collection.count() == 3
    report = collection.ingest(NOTES[:2], prune=True)
    assert (report.deleted, report.unchanged) == (1, 2)
    assert set(state(collection)) == {"tea", "bread"}
    assert collection.info()["sources"] == 2


def test_nothing_at_all_prunes_nothing_unless_that_is_said(collection):
    assert collection.ingest([], prune=True).deleted == 0, "there is nothing to lose"
    collection.ingest(NOTES)
    for dry_run in (True, False):
        with pytest.raises(DocumentError, match=r"remove all 3 .*allow_empty=True"):
            collection.ingest(iter([]), prune=True, dry_run=dry_run)
    assert collection.count() == 3
    assert collection.ingest([], prune=True, allow_empty=True, dry_run=True).deleted == 3
    assert collection.ingest([], prune=True, allow_empty=True).deleted == 3
    assert collection.count() == 0


def test_a_document_that_comes_again_in_a_later_group_is_unchanged(collection, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.ingest.document_gate.GROUP_DOCUMENTS", 1)
    report = collection.ingest([NOTES[0], NOTES[1], NOTES[0]])
    assert (report.new, report.unchanged, report.chunks) == (2, 1, 2)


def test_an_empty_document_is_a_source_without_chunks(collection):
    report = collection.ingest([{"id": "empty", "text": " \n", "year": 1}])
    assert (report.new, report.failed, report.chunks) == (1, 0, 0)
    assert collection.ingest([{"id": "empty", "text": " \n", "year": 1}]).unchanged == 1
    assert state(collection) == {"empty": ("", {"year": 1})}
    assert collection.info()["sources"] == 1


@pytest.mark.parametrize(
    ("broken", "source", "reason"),
    [
        pytest.param({"id": "tea", "text": "half a \ud800 pair"}, "tea", "surrogate", id="surrogate"),
        pytest.param({"id": "tea", "text": 5}, "tea", "expected a string", id="not a text"),
        pytest.param({"id": "tea", "text": "x", "note": float("nan")}, "tea", "JSON", id="nan in the payload"),
        pytest.param({"id": "tea", "text": "x", "note": 2**70}, "tea", "64 bits", id="large integer"),
        pytest.param({"id": "tea", "text": "x", "note": "\udcff"}, "tea", "surrogate", id="surrogate in the payload"),
        pytest.param({"id": "tea", "text": "x", "note": {1, 2}}, "tea", "JSON", id="set in the payload"),
        pytest.param({"id": "tea", "text": "x", "note": "y" * 5_000_000}, "tea", "payload", id="huge payload"),
        pytest.param({"id": "tea"}, "tea", "no 'text'", id="no text"),
        pytest.param(Failure("tea", "cannot be read"), "tea", "cannot be read", id="failure"),
        pytest.param(7, "document 1", "expected a Document", id="no document"),
    ],
)
def test_a_broken_document_fails_alone_and_its_older_version_stays(collection, broken, source, reason):
    collection.ingest(NOTES)
    report = collection.ingest([NOTES[1], broken, {"id": "snow", "text": "snow"}], prune=source == "tea")
    assert (report.failed, report.new, report.unchanged) == (1, 1, 1)
    assert report.failures[0][0] == source
    assert reason in report.failures[0][1]
    assert state(collection)["tea"] == ("green tea with mint", {"year": 2020})
    assert ("rain" in state(collection)) == (source != "tea")


@pytest.mark.parametrize("hiding", [7, Failure("notes.jsonl:3", "no JSON", hides=True)])
def test_nothing_is_pruned_when_a_failure_may_hide_documents(collection, hiding, caplog):
    collection.ingest(NOTES)
    with caplog.at_level(logging.WARNING):
        report = collection.ingest([NOTES[0], hiding], prune=True)
    assert (report.deleted, report.failed, collection.count()) == (0, 1, 3)
    told = "not pruned: 2 missing documents, which 1 failure may hide: bread, rain"
    assert told in caplog.text
    assert report.warnings == [told]


def test_failures_are_logged_once_unless_the_caller_gives_a_report(collection, caplog):
    with caplog.at_level(logging.WARNING):
        collection.ingest([("a", "tea"), ("b", None), ("c", None)])
        collection.ingest([("a", "tea"), ("b", None)], dry_run=True)
        collection.ingest([("b", None)], allow_all_failed=True)
        first = [record.getMessage() for record in caplog.records]
        assert [message.split(": document")[0] for message in first] == [
            "notes: 2 documents failed: the first: b",
            "notes: 1 document would fail: b",
            "notes: 1 document failed: b",
        ]
        caplog.clear()
        assert collection.ingest([("a", "tea"), ("b", None)], report=IngestReport()).failed == 1
        with pytest.raises(IngestError):
            collection.ingest([("b", None)])
    assert caplog.records == []


def test_texts_without_ids_that_replace_others_are_warned_of(collection, caplog):
    told = "texts without ids replace another stored text"
    with caplog.at_level(logging.WARNING):
        assert collection.ingest(["red", "green", "blue"], source="one").warnings == []
        assert collection.ingest(["red", "green", "blue"]).unchanged == 3
        assert collection.ingest(["red", "green"], source="other").new == 2
        assert collection.ingest([("0", "pink"), {"id": "1", "text": "grey"}]).updated == 2
        assert caplog.records == []
        (warning,) = collection.ingest(["red", "black", "blue", "white"], dry_run=True).warnings
        assert warning.startswith("2 texts without ids would replace another stored text")
        report = collection.ingest(["red", "black", "blue", "white"])
    assert (report.updated, report.unchanged, report.new) == (2, 1, 1)
    (warning,) = report.warnings
    assert warning.startswith(f"2 {told}")
    assert "give ids" in warning
    assert [record.getMessage() for record in caplog.records][1:] == [warning]


def test_a_text_without_an_id_that_is_written_again_replaces_nothing(collection, caplog):
    collection.ingest(["red", "green"])
    (lost,) = collection._catalog.records(["0"])["0"].chunks
    collection._backend.delete([lost])
    assert collection.verify(repair=True).incomplete == ["0"]
    with caplog.at_level(logging.WARNING):
        assert collection.ingest(["red", "green"]).updated == 1
    assert caplog.records == []


def test_a_failure_keeps_only_the_documents_that_it_may_hide(place, words, tmp_path, caplog):
    for name in ("guides", "minutes"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "t.csv").write_text("id,text\n" + "".join(f"{row},tea\n" for row in range(6)))
        (folder / "t.csv.md").write_text("rain")
        (folder / "gone.md").write_text("secret bread")
    with Collection.open("notes", encoder=words, chunking=False, **place) as collection:
        for name in ("guides", "minutes"):
            collection.ingest(Root(str(tmp_path / name)))
            (tmp_path / name / "t.csv").write_text("id,text\n0,tea\n1,tea,green\n")
            (tmp_path / name / "gone.md").unlink()
        rows = [f"t.csv/{row}" for row in range(6)]
        for name, prefix in (("minutes", "minutes:"), ("guides", "")):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                report = collection.ingest(Root(str(tmp_path / name)), prune=True)
            assert (report.deleted, report.unchanged, report.failed) == (1, 2, 1)
            first = ", ".join(prefix + row for row in rows[1:4])
            assert f"not pruned: 5 missing documents, which 1 failure may hide: {first} and 2 more" in caplog.text
        expected = {prefix + each for prefix in ("", "minutes:") for each in [*rows, "t.csv.md"]}
        assert set(collection.find()) == expected
        caplog.clear()
        (tmp_path / "guides" / "t.csv").write_text("id,text\n0,tea\n")
        assert collection.ingest(Root(str(tmp_path / "guides")), prune=True).deleted == 5
        assert "not pruned" not in caplog.text


def test_chunks_that_the_model_does_not_know_are_counted_and_told_once(place, encoder, caplog):
    notes = [("th", "# สวัสดี\n\nผมชื่อสมชาย\n\n# ราคา\n\nวันนี้"), ("ka", "გამარჯობა მსოფლიო"), ("en", "green tea")]
    with Collection.open("notes", encoder=encoder, **place) as collection, caplog.at_level(logging.WARNING):
        foreseen = collection.ingest(notes, dry_run=True)
        caplog.clear()
        report = collection.ingest(notes)
        assert (report.new, report.chunks, report.truncated) == (3, 3, 0)
        assert foreseen.unknown == report.unknown == 2
        assert [each.message.partition(",")[0] for each in caplog.records] == [
            "2 chunks consist mostly of words that the model does not know"
        ]
        caplog.clear()
        more = collection.ingest([("am", "ሰላም ለዓለም"), *notes], report=report)
        assert (more.unknown, more.unchanged) == (3, 3)
        assert caplog.messages[0].startswith("1 chunk consists mostly")
        caplog.clear()
        assert collection.ingest(notes).unknown == 0
        assert not caplog.messages


def test_of_two_documents_with_one_id_the_first_is_kept(collection):
    report = collection.ingest([NOTES[0], {"id": "tea", "text": "black tea"}, NOTES[0]])
    assert (report.new, report.failed, report.unchanged) == (1, 1, 1)
    assert "same id" in report.failures[0][1]
    assert state(collection)["tea"][0] == "green tea with mint"


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_bad_vector_fails_its_document_and_writes_nothing_of_it(place, words, value):
    class Broken(type(words)):
        def encode_document(self, texts):
            vectors = super().encode_document(texts)
            for row, text in enumerate(texts):
                if "rye" in text:
                    vectors[row] = value
            return vectors

    with Collection.open("notes", encoder=words, chunking=False, **place) as collection:
        collection.ingest([{**NOTES[1], "text": "old bread"}])
    with Collection.open("notes", encoder=Broken(), **place) as collection:
        report = collection.ingest(NOTES)
        assert (report.new, report.failed) == (2, 1)
        assert report.failures[0][0] == "bread"
        assert "not finite" in report.failures[0][1]
        assert state(collection)["bread"][0] == "old bread"
        assert collection.count() == 3


def test_an_encoder_that_gives_only_nan_writes_nothing(place, words):
    class Broken(type(words)):
        broken = False

        def encode_document(self, texts):
            return super().encode_document(texts) * (np.nan if self.broken else 1)

    encoder = Broken()
    with Collection.open("notes", encoder=encoder, chunking=False, **place) as collection:
        encoder.broken = True
        report = collection.ingest(NOTES, allow_all_failed=True)
        assert [source for source, _ in report.failures] == ["tea", "bread", "rain"]
        assert (collection.count(), collection.info()["sources"]) == (0, 0)


def test_vectors_of_another_size_are_refused(place, words):
    class Wrong(type(words)):
        cut = None

        def encode_document(self, texts):
            return super().encode_document(texts)[:, : self.cut]

    encoder = Wrong()
    with Collection.open("notes", encoder=encoder, chunking=False, **place) as collection:
        encoder.cut = 5
        assert collection.ingest(NOTES, allow_all_failed=True).failed == 3
        with pytest.raises(BadVectorError, match="shape"):
            collection.search_vector(np.ones(5))


def test_an_encoder_that_dies_ends_the_ingest_and_what_was_committed_stays(place, words, monkeypatch):
    class Dying(type(words)):
        def encode_document(self, texts):
            if any("rain" in text for text in texts):
                raise RuntimeError("out of memory")
            return super().encode_document(texts)

    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 1)
    with Collection.open("notes", encoder=Dying(), chunking=False, **place) as collection:
        with pytest.raises(RuntimeError, match="out of memory") as caught:
            collection.ingest(NOTES)
        assert "2 new" in caught.value.__notes__[0]
        assert set(state(collection)) == {"tea", "bread"}


def test_documents_may_come_from_a_generator_that_fails(collection, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.ingest.document_gate.GROUP_DOCUMENTS", 1)
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 1)

    def documents():
        yield NOTES[0]
        yield NOTES[1]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk is gone"):
        collection.ingest(documents(), prune=True)
    assert set(state(collection)) == {"tea", "bread"}


@pytest.mark.parametrize("documents", ["a text", b"bytes", {"id": "a"}, None, 3])
def test_what_is_no_iterable_of_documents_is_refused(collection, documents):
    with pytest.raises(DocumentError, match="iterable of documents"):
        collection.ingest(documents)


@pytest.mark.slow
def test_a_five_megabyte_line_is_taken_in(tmp_path, words):
    line = "word " * 1_000_000
    with Collection.open("large", tmp_path, encoder=words, chunking=False) as collection:
        assert collection.ingest([("large", line)]).new == 1
        assert collection.get(["large"])[0].text == line


def test_strange_texts_and_ids_come_back_as_they_were(collection):
    strange = ["a\0b", "שלום עולם", "🦊" * 50, "#", "../etc/passwd", "x" * 2000, "' OR 1=1", "metadata"]
    report = collection.ingest([(text, text) for text in strange])
    assert (report.new, report.failed) == (len(strange), 0)
    assert [document.id for document in collection.get(strange)] == strange
    assert [document.text for document in collection.get(strange)] == strange
    for text in strange:
        assert [hit.id for hit in collection.search("x", mode="dense", filter={"id": text})] == [text]


def test_vectors_go_by_the_ids_as_the_documents_have_them(collection, words):
    vector = np.eye(words.dim, dtype=np.float32)[0]
    assert collection.ingest([{"id": 7, "text": "tea"}], vectors={7: vector}).encoded == 0
    assert collection.search_vector(vector, 1)[0].id == "7"


def test_vectors_of_ids_that_no_document_has_are_told(collection, words, caplog):
    vector = np.eye(words.dim, dtype=np.float32)[0]
    given = {"a": vector, 7: vector, "A": vector, "b": vector, "c": vector}
    report = collection.ingest([("a", "tea"), ("b", "")], vectors=given, source="notes")
    told = "3 vectors have the ids of no document in this ingest: '7', 'A', 'c'"
    assert report.warnings == caplog.messages == [told]
    assert report.encoded == 0
    again = collection.ingest([("a", "tea")], vectors={"a": vector}, source="notes")
    assert (again.unchanged, again.warnings) == (1, [])


def test_own_fields_and_the_users_do_not_collide(collection):
    payload = {"kind": "record", "source": "mine", "position": "x", "chunks": [1], "metadata": {"kind": "intent"}}
    collection.ingest([Document("a", "tea", "", payload)])
    assert collection.ingest([Document("a", "tea", "", payload)]).unchanged == 1
    hit = collection.search("tea")[0]
    assert {key: hit.payload[key] for key in payload} == payload
    assert hit.payload["heading"] == ""
    assert [hit.id for hit in collection.search("tea", filter={"metadata.kind": "intent", "source": "mine"})] == ["a"]
    assert collection.search("tea", filter={"kind": "chunk"}) == []
    assert collection.count() == 1


def test_progress_is_silent_off_a_terminal(collection, capsys):
    collection.ingest(NOTES, progress=True)
    assert capsys.readouterr() == ("", "")


def test_many_documents_are_taken_in_several_batches(collection, words, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.ingest.document_gate.GROUP_DOCUMENTS", 7)
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 10)
    documents = [(f"n{number}", f"note number {number}") for number in range(100)]
    assert collection.ingest(documents).new == 100
    assert collection.count() == 100
    assert collection.ingest(documents[50:], prune=True).deleted == 50
    assert {document.id for document in collection.get([name for name, _ in documents])} == {
        i for i, _ in documents[50:]
    }


def test_documents_of_the_same_text_keep_the_vectors_that_are_given_for_them(collection, words):
    vectors = np.eye(words.dim)
    documents = [("first", "the same"), ("second", "the same"), ("encoded", "the same")]
    collection.ingest(documents, vectors={"first": vectors[0], "second": vectors[1]})
    assert collection.search_vector(vectors[0], 1)[0].id == "first"
    assert collection.search_vector(vectors[1], 1)[0].id == "second"
    assert collection.search_vector(words.encode_document(["the same"])[0], 1)[0].id == "encoded"


class Bar:
    """Stands in for the progress bar: what it was made with, and every move."""

    def __init__(self) -> None:
        self.total = self.work = None
        self.note = ""
        self.moves: list[tuple[int, float]] = []

    @contextmanager
    def __call__(self, label, total, unit, *, work=None, shown):
        self.total, self.work, self.moves, self.note = total, work, [], ""

        def advance(count, *, failed=0, work=None, note=None):
            self.moves.append((count, work))
            self.note = self.note if note is None else note

        yield advance

    @property
    def documents(self) -> int:
        return sum(count for count, _ in self.moves)

    @property
    def worked(self) -> float:
        return sum(work for _, work in self.moves)


@pytest.fixture
def bar(monkeypatch):
    shown = Bar()
    monkeypatch.setattr(ingestion, "progress_bar", shown)
    return shown


def test_the_bar_follows_the_work_and_a_large_file_moves_it(place, bar, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"tea {name}")
    (folder / "large.txt").write_text("\n\n".join(f"bread {row} " + "rye " * 12 for row in range(400)))
    (folder / "broken.txt").write_bytes(b"\0" * 2000)
    size = sum(path.stat().st_size for path in folder.iterdir())
    with Collection.open("notes", encoder=WordEncoder(max_tokens=16), **place) as collection:
        collection.ingest(read_source(folder), progress=True)
        assert (bar.total, bar.work) == (5, size)
        assert (bar.documents, bar.worked) == (5, pytest.approx(size))
        parts = [work for count, work in bar.moves if not count and work]
        assert len(parts) > 4, "the large file moves the bar before it is done"
        assert all(work >= 0 for _, work in bar.moves)
        collection.ingest(read_source(folder), progress=True)
        assert (bar.documents, bar.worked) == (5, pytest.approx(size)), "unchanged documents are work that is done"
        collection.ingest(read_source(folder), progress=True, dry_run=True)
        assert bar.worked == pytest.approx(size)


def test_the_bar_says_that_vectors_are_indexed_when_all_documents_are_written(collection, bar, monkeypatch):
    notes = []
    monkeypatch.setattr(collection._backend, "build_index", lambda _: notes.append((bar.note, bar.documents)))
    collection.ingest(NOTES, progress=True)
    assert notes == [("indexing vectors", len(NOTES))], "an index of a million vectors takes many minutes"
    assert bar.note == ""


def test_the_bar_follows_the_length_of_texts_that_are_given(collection, bar):
    forms = ["tea", ("b", "bread " * 50), {"id": "r", "text": "rain"}, Document("s", "snow"), {"id": "none"}]
    collection.ingest(forms, progress=True)
    assert (bar.total, bar.documents, bar.work) == (5, 5, 5 * 64 + 3 + 300 + 4 + 4)
    assert bar.worked == bar.work - 64, "what was read for the last, broken one belongs to no document"
    collection.ingest(iter(NOTES), progress=True)
    assert (bar.work, bar.documents) == (None, len(NOTES)), "the length is not known before"


def test_an_ingest_whose_documents_all_fail_is_an_error_with_the_report(collection):
    broken = [("a", "fine \ud800"), {"id": "b"}]
    with pytest.raises(IngestError, match=r"all 2 documents failed, the first: .*a.*: .*surrogate") as raised:
        collection.ingest(broken)
    assert (raised.value.report.failed, len(raised.value.report.failures)) == (2, 2)
    assert pickle.loads(pickle.dumps(raised.value)).report == raised.value.report
    with pytest.raises(IngestError, match="the only document failed: "):
        collection.ingest(broken[:1])
    assert collection.ingest(broken, allow_all_failed=True).failed == 2
    assert collection.ingest(broken, dry_run=True).failed == 2
    assert collection.ingest([*broken, ("c", "fine")]).failed == 2
    assert collection.ingest([*broken, ("c", "fine")]).unchanged == 1
    report = IngestReport()
    with pytest.raises(IngestError):
        collection.ingest(broken, report=report)
    assert report.failed == 2
