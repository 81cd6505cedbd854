"""Two writers of one collection end with the exact union of what they brought."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from crash.killing import outcome
from stand_in import StandIn
from twinvec_qdrant import Collection, read_source
from words import WordEncoder


@pytest.fixture
def folders(tmp_path) -> list[Path]:
    """Two folders that share half of their files."""
    made = []
    for start in (0, 10):
        folder = tmp_path / f"from{start}"
        folder.mkdir()
        for number in range(start, start + 20):
            text = "\n\n".join(f"note {number} part {part} " + "word " * 9 for part in range(number % 4 + 1))
            (folder / f"{number}.txt").write_text(text)
        made.append(folder)
    return made


def check_union(collection: Collection, folders: list[Path]) -> None:
    """The collection holds every file of the folders, once, and nothing else."""
    expected = {document.id: document.text for folder in folders for document in read_source(folder)}
    assert len(expected) == 30
    assert sorted(collection.find()) == sorted(expected)
    found = collection.get(list(expected))
    assert {document.id: document.text.split() for document in found} == {
        name: text.split() for name, text in expected.items()
    }
    listed = sum(len(record.chunks) for record in collection._catalog.records(expected).values())
    assert collection.count() == listed > 30


@pytest.mark.slow
@pytest.mark.parametrize("store", ["embedded", "server"])
def test_two_processes_write_at_once(store, tmp_path):
    with StandIn().running() as server:
        place = ["--url", server.url] if store == "server" else []
        found = outcome("two_writers.py", "--rounds", "2", "--seed", "0", *place)
    assert found == {"rounds": 2, "documents": 16}


def test_two_threads_write_the_same_and_other_documents_through_clients(folders, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 4)
    client = QdrantClient(":memory:")
    collections = [
        Collection.open("notes", client=client, encoder=WordEncoder(max_tokens=16)) for _ in folders
    ]  # two writers that know nothing of one another
    reports = []

    def write(collection: Collection, folder: Path) -> None:
        reports.append(collection.ingest(read_source(folder)))

    for _ in range(5):
        threads = [threading.Thread(target=write, args=each) for each in zip(collections, folders, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        folders.reverse()
        check_union(collections[0], folders)
    assert sum(report.new for report in reports) == 30
    assert sum(report.failed for report in reports) == 0
