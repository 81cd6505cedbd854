"""A disk that fills up: a typed error, what was committed stays, and with more room the ingest goes on."""

from __future__ import annotations

import subprocess
from random import Random

import pytest

from twinvec.errors import StoreUnavailableError
from twinvec_qdrant import Collection
from twinvec_qdrant.stores.embedded.folder import copied_tree
from words import WordEncoder

NOTES = {f"n{number:03}": f"note {number} " + Random(number).randbytes(80_000).hex() for number in range(200)}


@pytest.fixture
def disk(tmp_path):
    """A function that makes a small disk, or gives it another size in MB."""
    place = tmp_path / "disk"
    place.mkdir()

    def resize(megabytes: int) -> None:
        options = f"size={megabytes}m" if not place.is_mount() else f"remount,size={megabytes}m"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True, capture_output=True)

    try:
        resize(10)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small disk can be mounted by root only")
    yield place, resize
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_ingest_and_loses_nothing(disk, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.ingest.document_gate.GROUP_DOCUMENTS", 8)
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 8)
    place, resize = disk
    with pytest.raises(StoreUnavailableError, match="disk is full"):
        Collection.open("notes", place, encoder=WordEncoder(), chunking=False)
    resize(50)
    with Collection.open("notes", place, encoder=WordEncoder(), chunking=False) as collection:
        with pytest.raises(StoreUnavailableError, match="disk is full") as caught:
            collection.ingest(NOTES.items())
        assert "committed before the error" in caught.value.__notes__[0]
        committed = collection.find()
        assert 8 <= len(committed) < len(NOTES)
        assert collection.search("note", limit=3)
        assert collection.delete(committed[:1]) == 1
    resize(300)
    with Collection.open("notes", place, encoder=WordEncoder()) as collection:
        report = collection.ingest(NOTES.items())
        assert (report.unchanged, report.new) == (len(committed) - 1, len(NOTES) - len(committed) + 1)
        assert collection.verify().sound


def test_a_copy_that_fails_says_why_once(disk, tmp_path):
    place, _ = disk
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.bin").write_bytes(Random(number).randbytes(11 * 1024 * 1024))
    with pytest.raises(OSError, match=r"^\S+\.bin: \[Errno 28\] No space left on device[^()]*$"):
        copied_tree(source, place / "copy")
