"""An ingest with helpers gives the collection, and the report, that one process gives; whatever helpers die of.

``test_reading_ahead`` tests how helpers parse files.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from qdrant_client import QdrantClient

import office_files
from cases import few_quick
from deaths import Died, die_at
from reading_ahead import read_ahead
from twinvec.errors import ConfigurationError
from twinvec_qdrant import Collection, HelperCall, Root
from twinvec_qdrant.ingest import helped
from twinvec_qdrant.records.words.vocabulary import VOCABULARY, _unpacked
from words import WordEncoder, sentences


@pytest.fixture
def client():
    opened = QdrantClient(":memory:")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(helped, "BATCH_CHUNKS", 64)


class Handles:
    """Helpers that are other handles of this process; ``dies`` says which of their calls end in death."""

    def __init__(self, client, name: str, dies=lambda call, part: None, number: int = 3) -> None:
        self._open = lambda: opened(client, name)
        self._dies = dies
        self._handles = [self._open() for _ in range(number)]
        self.encoded = 0
        self.calls = 0
        self.deaths = 0
        self.parsed = 0

    def with_results(self, items):
        return read_ahead(map(self._noted, items))

    def _noted(self, item):
        self.parsed += isinstance(item, HelperCall)
        return item

    def encoder(self, encoder):
        self.encoded += 1
        return encoder

    def written(self, parts, encoder):
        waiting: list[Any] = []
        for part in parts:  # the last is written first
            waiting.append(part)
            if len(waiting) == len(self._handles):
                yield self._write(waiting.pop())
        while waiting:
            yield self._write(waiting.pop())

    def _write(self, part):
        row = self.calls % len(self._handles)
        handle, step = self._handles[row], self._dies(self.calls, part)
        self.calls += 1
        try:
            with pytest.MonkeyPatch.context() as patch:
                if step is not None:
                    die_at(step, done=bool(step % 2), backend=handle._backend, monkeypatch=patch)
                return part, handle.write_part(part)
        except Died:
            self.deaths += 1
            self._handles[row] = self._open()
            return part, None

    def idle(self):
        return ()


def opened(client, name, **settings) -> Collection:
    return Collection.open(name, client=client, encoder=WordEncoder(max_tokens=8), **settings)


def corpus(version: int = 0) -> list[dict[str, Any]]:
    texts = sentences(40, seed=1)
    documents = [{"id": f"d{row}", "text": text, "row": row} for row, text in enumerate(texts) if row % 7 != version]
    for document in documents[:: version or 100]:
        document["text"] += f" in version {version}"
    documents += [{"id": "code.py", "text": "def f():\n    return 1\n", "path": "code.py"}]
    documents += [documents[3], {"id": "d5", "text": "another text of d5"}, {"id": "broken", "text": 7}]
    return documents


def contents(client, name: str) -> dict[Any, Any]:
    """All points with their vectors and words, without what differs from ingest to ingest."""
    points, _ = client.scroll(name, limit=10_000, with_payload=True, with_vectors=True)
    return {
        point.id: (rounded(point.vector), {key: each for key, each in point.payload.items() if key != "revision"})
        for point in points
        if point.id != VOCABULARY
    }


def rounded(vectors) -> tuple[list[float], str]:
    """Vectors; the store normalises one that is taken over from it once more."""
    return [round(each, 6) for each in vectors.get("dense", ())], str(vectors.get("sparse", ""))


def words_of(collection: Collection) -> dict[str, int]:
    """The vocabulary."""
    return _unpacked(collection._backend.retrieve([VOCABULARY])[VOCABULARY].payload)


def counts(report) -> dict[str, Any]:
    """The report; parts of it may encode the same text each."""
    return {**asdict(report), "failures": sorted(report.failures), "encoded": bool(report.encoded)}


def test_the_collection_is_that_of_one_process(client):
    with opened(client, "alone") as alone, opened(client, "led") as led:
        for version in (0, 3):
            wanted = alone.ingest(corpus(version), prune=True)
            helpers = Handles(client, "led")
            report = led.ingest(corpus(version), prune=True, helpers=helpers)
            assert counts(report) == counts(wanted)
            assert helpers.calls > 2
            assert contents(client, led.name) == contents(client, alone.name)
            assert words_of(led) == words_of(alone)
        again = led.ingest(corpus(3), prune=True, helpers=(idle := Handles(client, "led")))
        assert again.unchanged == wanted.new + wanted.updated + wanted.unchanged
        assert idle.calls == 0


@pytest.mark.parametrize("step", few_quick(range(8), [2]))
def test_the_documents_of_a_helper_that_dies_are_written_by_another(client, step):
    name = f"deaths{step}"
    with opened(client, f"{name}-alone") as alone, opened(client, name) as led:
        for version in (0, 3):
            wanted = alone.ingest(corpus(version), prune=True)
            helpers = Handles(client, name, lambda call, part: step if call % 3 == 1 else None)
            report = led.ingest(corpus(version), prune=True, helpers=helpers)
            assert counts(report) == counts(wanted)
            assert helpers.deaths or step > 5
            assert contents(client, led.name) == contents(client, alone.name)
            assert led.verify().sound


def test_a_document_of_which_every_helper_dies_fails_alone(client):
    def dies(call, part):
        return 0 if any(each.document.id == "d20" for each in part.changed) else None

    with opened(client, "poison") as led:
        report = led.ingest(corpus(), helpers=Handles(client, "poison", dies))
        assert ("d20", "every process that worked on the document died") in report.failures
        assert report.failed == 3
        assert report.new == len({each["id"] for each in corpus()}) - 2


def test_files_are_parsed_by_helpers(client, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for row, text in enumerate(sentences(12, seed=2)):
        office_files.write_docx(folder / f"{row}.docx", [text])
    (folder / "5.docx").write_text("broken")
    (folder / "plain.md").write_text("# Plain\n\nA text that the leader reads.")
    with opened(client, "read-alone") as alone, opened(client, "read-led") as led:
        wanted = alone.ingest(Root(str(folder)), prune=True)
        helpers = Handles(client, "read-led")
        report = led.ingest(Root(str(folder)), prune=True, helpers=helpers)
        assert helpers.parsed == 12
        assert counts(report) == counts(wanted)
        assert (report.new, report.failed) == (12, 1)
        assert contents(client, led.name) == contents(client, alone.name)


def test_an_embedded_store_gets_the_encoder_of_the_helpers(tmp_path, client):
    encoder = WordEncoder(max_tokens=8)
    with Collection.open("here", tmp_path, encoder=encoder) as collection:
        helpers = Handles(client, "unused", number=0)
        assert collection.ingest(corpus(), helpers=helpers).new > 20
        assert helpers.encoded
        with pytest.raises(ConfigurationError, match="leave helpers out"):
            collection.ingest([("a", "b")], vectors={"a": [1.0] * 64}, helpers=helpers)


def test_texts_without_ids_that_replace_others_are_warned_of(client):
    with opened(client, "texts") as led:
        first = led.ingest(["red", "green"], helpers=Handles(client, "texts"))
        report = led.ingest(["red", "blue", "grey"], helpers=Handles(client, "texts"))
        assert (report.new, report.updated, report.unchanged) == (1, 1, 1)
        assert [each[:33] for each in report.warnings if "model" not in each] == ["1 text without an id replaces ano"]
        assert all("model" in each for each in first.warnings)


def test_few_documents_with_most_of_the_chunks_are_warned_of_as_by_one_process(client):
    documents = [(f"d{row}", "tea " * (3000 if row % 9 == 4 else 3)) for row in range(22)]
    with opened(client, "alone") as alone, opened(client, "led") as led:
        wanted = alone.ingest(documents).warnings
        assert any(each.startswith("2 of 22 documents hold") for each in wanted)
        assert led.ingest(documents, helpers=Handles(client, "led")).warnings == wanted
