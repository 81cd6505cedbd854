"""Watching, in a process of its own: changes of real files are taken in, and the store is closed meanwhile."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import watchfiles

from holders import with_helpers
from twinvec.errors import CollectionNotFoundError, StoreUnavailableError
from twinvec_qdrant import Collection, Root, drop_collection
from twinvec_qdrant.updates import file_memory
from twinvec_qdrant.updates import watching as watching_module
from twinvec_qdrant.updates.watching import Changes, watch
from words import WordEncoder

WATCHER = """
    import json, signal, sys
    from words import WordEncoder
    from twinvec_qdrant import Collection
    from twinvec_qdrant.updates.watching import watch

    def told(name, report):
        print(json.dumps([report.new, report.updated, report.unchanged, report.deleted, report.missing]), flush=True)

    def opened(name, encoder):
        return Collection.open(name, sys.argv[1], encoder=encoder or WordEncoder(), create=False, wait_seconds=1)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        watch(["notes"], opened, told)
    except KeyboardInterrupt:
        print("ended", flush=True)
"""


class Watcher:
    """A process that watches; ``told`` returns the next thing that it has told, ``warnings`` what it has warned of."""

    def __init__(self, process):
        self.process = process
        self.lines, self.warnings = queue.SimpleQueue(), queue.SimpleQueue()
        for pipe, lines in ((process.stdout, self.lines), (process.stderr, self.warnings)):
            threading.Thread(target=self._read, args=(pipe, lines), daemon=True).start()

    @staticmethod
    def _read(pipe, lines):
        for line in pipe:
            lines.put(line)

    def told(self):
        line = self.lines.get(timeout=60)
        return line.strip() if line.startswith("ended") else json.loads(line)

    def quiet(self, seconds=1.5):
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None


@contextmanager
def watching(store):
    command = [sys.executable, "-c", "import textwrap, sys; exec(textwrap.dedent(sys.stdin.read()))", str(store)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=with_helpers(), **pipes) as process:
        process.stdin.write(WATCHER)
        process.stdin.close()
        try:
            yield Watcher(process)
        finally:
            process.kill()


def write(path: Path, text: str = "text") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text} of {path.name}")


@pytest.fixture
def docs(tmp_path):
    """A folder with the store in it, and a single file beside it."""
    write(tmp_path / "docs" / "a.md")
    write(tmp_path / "docs" / "b.md")
    write(tmp_path / "single.md")
    with opened(tmp_path / "docs" / "store") as collection:
        for each in ("docs", "single.md"):
            collection.ingest(Root(str(tmp_path / each)))
    return tmp_path / "docs"


def again(docs: Path) -> None:
    """Make the folder and its files anew, at once."""
    for name in ("a.md", "b.md"):
        write(docs.parent / "made" / name)
    (docs.parent / "made").rename(docs)


def opened(store):
    return Collection.open("notes", store, encoder=WordEncoder(), chunking=False, wait_seconds=30)


def existing(store):
    """Return a function that opens a collection of the store by its name, as ``watch`` needs it."""

    def open_collection(name, encoder):
        return Collection.open(name, store, encoder=encoder or WordEncoder(), create=False, wait_seconds=30)

    return open_collection


@pytest.mark.slow
def test_changes_are_taken_in_as_they_come(docs):
    with watching(docs / "store") as watcher:
        assert watcher.told() == [0, 0, 3, 0, []]
        write(docs.parent / "made" / "er" / "c.md")
        (docs.parent / "made").rename(docs / "deep")  # at once: the process never sees an empty folder or file
        assert watcher.told() == [1, 0, 2, 0, []]
        (docs / "a.md").unlink()
        assert watcher.told() == [0, 0, 2, 1, []]
        write(docs.parent / "new", "changed")
        (docs.parent / "new").replace(docs.parent / "single.md")  # as editors do
        assert watcher.told() == [0, 1, 0, 0, []]
        with opened(docs / "store") as collection:  # the store is closed
            assert sorted(collection.find()) == ["b.md", "deep/er/c.md", "single.md:single.md"]
        for left_out in (".hidden", "node_modules/x.md", "__pycache__/y"):
            write(docs / left_out)
        assert watcher.quiet() is None
        os.kill(watcher.process.pid, signal.SIGTERM)
        assert watcher.told() == "ended"
        assert watcher.process.wait(timeout=60) == 0


@pytest.mark.slow
def test_watching_goes_on_after_a_file_whose_name_is_not_utf8(docs):
    with watching(docs / "store") as watcher:
        assert watcher.told() == [0, 0, 3, 0, []]
        bad = os.fsencode(docs) + b"/bad\xff.md"
        Path(os.fsdecode(bad)).write_text("text")
        assert watcher.told()[:4] == [0, 0, 3, 0]
        write(docs / "a.md", "changed")
        assert watcher.told()[:2] == [0, 1]


@pytest.mark.slow
def test_a_folder_that_goes_and_comes_again(docs):
    moved = docs.parent / "moved"
    shutil.move(docs / "store", docs.parent / "store")
    with watching(docs.parent / "store") as watcher:
        assert watcher.told() == [0, 0, 3, 0, []]
        for go, come in (
            (lambda: docs.rename(moved), lambda: moved.rename(docs)),
            (lambda: shutil.rmtree(docs.rename(docs.parent / "gone")), lambda: again(docs)),
        ):
            go()
            *counts, missing = watcher.told()
            assert (counts, [name for name, _ in missing]) == ([0, 0, 1, 0], ["docs"])
            come()
            assert watcher.told() == [0, 0, 3, 0, []]
        write(docs.parent / "new.md")
        (docs.parent / "new.md").rename(docs / "c.md")  # at once: there is nothing to tell twice
        while watcher.told()[0] != 1:
            pass
        os.kill(watcher.process.pid, signal.SIGINT)
        assert watcher.told() == "ended"


@pytest.mark.slow
def test_a_store_that_is_taken_is_tried_again(docs):
    with watching(docs / "store") as watcher:
        assert watcher.told() == [0, 0, 3, 0, []]

        def documents():
            yield "other", "document"
            write(docs / "c.md")
            while "trying again" not in watcher.warnings.get(timeout=60):
                pass
            assert watcher.lines.empty()

        with opened(docs / "store") as collection:
            collection.ingest(documents(), source="others")
        while (told := watcher.told()) != [1, 0, 2, 0, []]:
            assert told[0] == 0


@pytest.mark.slow
def test_a_store_that_fails_while_a_folder_comes_again_is_tried_again(docs):
    moved, store, failures, reports = docs.parent / "moved", docs.parent / "store", [], []
    shutil.move(docs / "store", store)
    docs.rename(moved)

    def open_collection(_name, _encoder):
        if failures:
            raise failures.pop()
        return opened(store)

    def told(_name, report):
        reports.append(report.unchanged)
        if len(reports) == 2:
            raise KeyboardInterrupt
        failures.append(StoreUnavailableError("the server is gone"))
        moved.rename(docs)

    with pytest.raises(KeyboardInterrupt):
        watch(["notes"], open_collection, told)
    assert reports == [1, 3]


def steps(*then):
    """Return ``told`` that records each report, and then does the next of ``then``; after the last, it ends."""
    reports, left = [], iter(then)

    def told(name, report):
        reports.append((name, report.new, report.unchanged))
        try:
            next(left)()
        except StopIteration:
            raise KeyboardInterrupt from None

    return reports, told


def test_a_source_that_is_added_later_is_watched(docs, monkeypatch):
    monkeypatch.setattr(watching_module, "_SOURCES_SECONDS", 0.1)
    more, store = docs.parent / "more", docs.parent / "store"
    shutil.move(docs / "store", store)
    write(more / "c.md")

    def added():
        with opened(store) as collection:
            collection.ingest(Root(str(more)))

    reports, told = steps(added, lambda: write(more / "d.md"))
    with pytest.raises(KeyboardInterrupt):
        watch(["notes"], existing(store), told)
    assert reports == [("notes", 0, 3), ("notes", 0, 4), ("notes", 1, 1)]


def test_a_change_reads_no_other_file(docs, monkeypatch):
    monkeypatch.setattr(file_memory, "_SETTLED_NS", -(10**9))
    names, read_one = [], Root._read_one
    store = docs.parent / "store"
    shutil.move(docs / "store", store)

    def spy(self, found, version):
        names.append(found.place)
        return read_one(self, found, version)

    monkeypatch.setattr(Root, "_read_one", spy)
    reports, told = steps(lambda: (names.clear(), write(docs / "c.md")))
    with pytest.raises(KeyboardInterrupt):
        watch(["notes"], existing(store), told)
    assert (reports, names) == ([("notes", 0, 3), ("notes", 1, 2)], ["c.md"])


def test_the_other_collections_stay_watched_after_one_was_dropped(docs, caplog):
    store, more = docs.parent / "store", docs.parent / "more"
    shutil.move(docs / "store", store)
    write(more / "c.md")

    with Collection.open("letters", store, encoder=WordEncoder(), chunking=False) as collection:
        collection.ingest(Root(str(more)))

    def dropped():
        drop_collection("letters", store)
        write(more / "d.md")

    reports, told = steps(lambda: None, dropped, lambda: write(docs / "c.md"))
    with pytest.raises(KeyboardInterrupt):
        watch(["letters", "notes"], existing(store), told)
    assert reports == [("letters", 0, 1), ("notes", 0, 3), ("notes", 0, 3), ("notes", 1, 2)]
    assert [each.getMessage().endswith("the others stay watched") for each in caplog.records] == [True]


def test_a_collection_that_was_never_there_ends_the_watch(docs):
    with pytest.raises(CollectionNotFoundError):
        watch(["notes", "missing"], existing(docs / "store"), lambda *_: None)


def test_a_change_is_told_from_the_beginning_on(docs, monkeypatch):
    """The operating system begins to watch late, and ``Changes`` waits for it before the block begins."""
    begun, watch = threading.Event(), watchfiles.watch

    def late(*paths, **options):
        begun.wait(0.1)
        return watch(*paths, **options)

    monkeypatch.setattr(watchfiles, "watch", late)
    with Changes({("notes", "docs"): Root(str(docs))}) as changes:
        (docs / "a.md").unlink()
        begun.set()
        assert changes.wait(60) == {("notes", "docs")}


@pytest.mark.parametrize("root", ["", "a.md"])
def test_a_folder_that_goes_just_before_it_is_watched_is_looked_for_again(docs, root, monkeypatch):
    watch = watchfiles.watch

    def late(*paths, **options):
        docs.rename(docs.parent / "moved")
        return watch(*paths, **options)

    monkeypatch.setattr(watchfiles, "watch", late)
    with Changes({("notes", "docs"): Root(str(docs / root))}) as changes:
        assert changes.stale
