"""The memory of a watch: changed files are read again, unchanged ones are not, and nothing else is different."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinvec_qdrant import Collection, Root
from twinvec_qdrant.ingest.reading.results import Empty
from twinvec_qdrant.updates import file_memory
from twinvec_qdrant.updates.file_memory import FileMemory, RememberingRoot
from twinvec_qdrant.updates.updating import update_collection

LONG_SETTLED = -(10**9)
FILES = {
    "a.md": "---\ntitle: Tea\n---\nGreen tea.",
    "deep/b.txt": "Black tea.",
    "rows.csv": "id,text\n1,Oolong\n2,Assam\n",
    "lines.jsonl": '{"id": "x", "text": "Sencha", "price": 3}\n{"id": "y", "text": "Matcha"}\n',
    "empty.txt": "",
}


@pytest.fixture
def settled(monkeypatch):
    """Files count as settled at once, so that a test need not wait for two seconds."""
    monkeypatch.setattr(file_memory, "_SETTLED_NS", LONG_SETTLED)


@pytest.fixture
def read(monkeypatch):
    """The names of the files that were read."""
    names, read_one = [], Root._read_one

    def spy(self, found, version):
        names.append(found.place)
        return read_one(self, found, version)

    monkeypatch.setattr(Root, "_read_one", spy)
    return names


def written(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def taken(names: list[str]) -> list[str]:
    found = sorted(names)
    names.clear()
    return found


def test_only_changed_files_are_read_again(tmp_path, collection, settled, read):
    docs, memory = written(tmp_path / "docs"), FileMemory()
    collection.ingest(Root(str(docs)))
    read.clear()
    first = update_collection(collection, memory=memory)
    assert taken(read) == sorted(FILES)
    assert update_collection(collection, memory=memory) == first
    assert taken(read) == []
    (docs / "rows.csv").write_text("id,text\n1,Oolong\n2,Ceylon\n")
    (docs / "new.md").write_text("New.")
    (docs / "deep" / "b.txt").unlink()
    report = update_collection(collection, memory=memory)
    assert (report.new, report.updated, report.unchanged, report.deleted) == (1, 1, 4, 1)
    assert taken(read) == ["new.md", "rows.csv"]
    assert collection.get(["rows.csv/2", "a.md"])[0].text == "Ceylon"


def test_a_file_that_keeps_its_size_and_time_is_read_again(tmp_path, settled, read):
    docs = written(tmp_path / "docs")
    root = RememberingRoot.of(Root(str(docs)), FileMemory())
    list(root)
    old = (docs / "a.md").stat()
    taken(read)
    time.sleep(0.02)
    (docs / "a.md").write_text(FILES["a.md"].upper())
    os.utime(docs / "a.md", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert "GREEN TEA." in next(iter(root)).text
    assert taken(read) == ["a.md"]


def test_a_file_just_written_is_not_trusted(tmp_path, read):
    root = RememberingRoot.of(Root(str(written(tmp_path / "docs"))), FileMemory())
    for _ in range(2):
        list(root)
        assert taken(read) == sorted(FILES)
    time.sleep(2.1)
    list(root)
    assert taken(read) == sorted(FILES)
    list(root)
    assert taken(read) == []


def test_documents_that_the_collection_lost_or_that_another_writer_changed_are_stored_again(
    tmp_path, collection, settled
):
    docs, memory = written(tmp_path / "docs"), FileMemory()
    collection.ingest(Root(str(docs)))
    update_collection(collection, memory=memory)
    collection.delete(["a.md"])
    collection.ingest([("deep/b.txt", "Something else.")])
    report = update_collection(collection, memory=memory)
    assert (report.new, report.updated) == (1, 1)
    assert [each.text for each in collection.get(["a.md", "deep/b.txt"])] == ["Tea\n\nGreen tea.", "Black tea."]


def test_failures_are_reported_each_time_and_hide_what_they_hid(tmp_path, collection, settled, read):
    docs, memory = written(tmp_path / "docs"), FileMemory()
    collection.ingest(Root(str(docs)))
    (docs / "rows.csv").write_text("id,text\n1,Oolong\n2,Assam,and more\n")
    (docs / "bad.bin").write_bytes(bytes(range(256)))
    reports = []
    for _ in range(3):
        taken(read)
        reports.append(update_collection(collection, memory=memory))
    assert taken(read) == ["bad.bin", "rows.csv"]  # the reason may have gone
    assert [each.failed for each in reports] == [2, 2, 2]
    assert reports[0].failures == reports[1].failures == reports[2].failures
    assert {"rows.csv/1", "rows.csv/2"} <= set(collection.find())  # the broken row may be the second one
    assert reports[2].empty == 1


def test_files_beyond_the_limit_are_read_each_time(tmp_path, settled, read):
    root = RememberingRoot.of(Root(str(written(tmp_path / "docs"))), FileMemory(limit=2500))
    expected = list(root)
    taken(read)
    for _ in range(2):
        assert list(root) == expected
        assert len(taken(read)) == 3


def test_another_reading_version_and_other_options_are_read_anew(tmp_path, settled, read):
    docs, memory = written(tmp_path / "docs"), FileMemory()
    list(RememberingRoot.of(Root(str(docs)), memory))
    taken(read)
    older = RememberingRoot.of(Root(str(docs)), memory).read()
    older.read_by(5)
    list(older)
    assert taken(read) == sorted(FILES)
    list(RememberingRoot.of(Root(str(docs), records=False), memory))
    assert taken(read) == sorted(FILES)


STEPS = st.tuples(
    st.sampled_from(["write", "in place", "remove", "rename", "touch", "swap"]),
    st.sampled_from([*FILES, "b.md"]),
    st.sampled_from([*FILES, "b.md"]),
    st.sampled_from(["", "id,text\n1,a\n1,b\n", '{"id": "x", "text": "Sencha"}\n{broken', "Other.", "Green tea!"]),
)


def step(docs: Path, kind: str, one: Path, other: Path, text: str) -> None:
    if kind == "write":
        (docs / "made").write_text(text)
        one.parent.mkdir(exist_ok=True)
        (docs / "made").replace(one)
    elif kind == "remove":
        one.unlink(missing_ok=True)
    elif one.exists():
        if kind == "in place":
            one.write_text(text)
        elif kind == "touch":
            os.utime(one)
        elif one != other and other.parent.exists():
            if kind == "swap" and other.exists():
                other.replace(docs / "kept")
                one.replace(other)
                (docs / "kept").replace(one)
            else:
                one.replace(other)


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(STEPS, max_size=8))
def test_the_documents_are_those_of_a_reading_without_memory(steps, tmp_path_factory):
    docs = written(tmp_path_factory.mktemp("memory") / "docs")
    root = Root(str(docs))
    remembering = RememberingRoot.of(root, FileMemory())
    before, file_memory._SETTLED_NS = file_memory._SETTLED_NS, LONG_SETTLED
    try:
        for each in (None, *steps):
            if each is not None:
                time.sleep(0.01)  # longer than a tick of the times of files
                kind, one, other, text = each
                step(docs, kind, docs / one, docs / other, text)
            plain, remembered = root.read(), remembering.read()
            assert list(remembered) == list(plain)
            assert (remembered.done, remembered.size) == (plain.done, plain.size)
    finally:
        file_memory._SETTLED_NS = before
        shutil.rmtree(docs)


def test_an_empty_file_is_remembered_as_empty(tmp_path, settled, read):
    root = RememberingRoot.of(Root(str(written(tmp_path / "docs"))), FileMemory())
    first = [each for each in root if isinstance(each, Empty)]
    taken(read)
    assert [each for each in root if isinstance(each, Empty)] == first
    assert (len(first), taken(read)) == (1, [])


def test_every_collection_of_a_source_gets_its_documents(tmp_path, words, settled, read):
    docs, memory = written(tmp_path / "docs"), FileMemory()
    for name in ("one", "two"):
        with Collection.open(name, tmp_path / "store", encoder=words, chunking=False) as collection:
            collection.ingest(Root(str(docs)), source="docs")
            read.clear()
            assert update_collection(collection, memory=memory).unchanged == 6
    assert taken(read) == []
