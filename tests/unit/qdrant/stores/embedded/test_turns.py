"""Several processes and one embedded collection: searches take turns, also beside an ingest; one process writes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock

from holders import HOLDER, started, with_helpers
from twinvec.errors import StoreBusyError, StoreError, StoreUnavailableError
from twinvec_qdrant import Collection, drop_collection
from twinvec_qdrant.stores.embedded.engine import TURN_SECONDS
from twinvec_qdrant.stores.embedded.folder import CollectionFolder
from twinvec_qdrant.stores.embedded.turns import Turns
from words import WordEncoder

SEARCHER = """
    import json, sys, threading
    from words import WordEncoder
    from twinvec_qdrant import Collection
    folder, turns = sys.argv[1], int(sys.argv[2])
    begun, number, wrong, over = [], 0, [], threading.Event()
    options = {"chunking": False, "create": False, "wait_seconds": 60}
    with Collection.open("notes", folder, encoder=WordEncoder(), **options) as collection:
        print("open", flush=True)
        sys.stdin.readline()
        threading.Thread(target=lambda: [sys.stdin.read(), over.set()], daemon=True).start()
        while not over.is_set():
            number += 1
            name = f"n{number % 30:02}"
            hits = collection.search(f"note {name}", 3, "sparse")
            if [hit.id for hit in hits][:1] != [name] or len({hit.id for hit in hits}) != 3:
                wrong.append((name, [hit.id for hit in hits]))
            if begun[-1:] != [collection._backend._began]:
                begun.append(collection._backend._began)
                if len(begun) == turns:
                    print("enough", flush=True)
    print(json.dumps(wrong), flush=True)
"""
"""Searches from the first line of its input to the end; says when it has had a number of turns, and what was wrong."""

INGESTER = """
    import sys, threading
    from words import WordEncoder
    from twinvec_qdrant import Collection
    from twinvec_qdrant.ingest import planned
    planned.BATCH_CHUNKS = 5
    edition, over = 0, threading.Event()
    with Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False, wait_seconds=60) as collection:
        threading.Thread(target=lambda: [sys.stdin.read(), over.set()], daemon=True).start()
        while not over.is_set():
            edition += 1
            report = collection.ingest((f"n{row:02}", f"note n{row:02} edition{edition}") for row in range(30))
            assert report.failed == 0
            if edition == 1:
                print("open", flush=True)
    print(edition, flush=True)
"""
"""Ingests one edition after another until its input ends, and prints the number of the last one."""


@pytest.fixture
def folder(tmp_path):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as collection:
        collection.ingest((f"n{row:02}", f"note n{row:02} edition") for row in range(30))
    return tmp_path


def check_searchers(searchers: list[subprocess.Popen[str]]) -> None:
    """Let all search at the same time: until the last one has had its turns, the others go on."""
    for searcher in searchers:
        assert searcher.stdout.readline() == "open\n"
    for searcher in searchers:
        searcher.stdin.write("\n")
        searcher.stdin.flush()
    for searcher in searchers:
        assert searcher.stdout.readline() == "enough\n", searcher.stderr.read()
    for searcher in searchers:
        output, errors = searcher.communicate(timeout=200)
        assert searcher.returncode == 0, errors
        assert json.loads(output) == []


def opened(folder, **options) -> Collection:
    return Collection.open("notes", folder, encoder=WordEncoder(), chunking=False, **{"wait_seconds": 60, **options})


@pytest.mark.slow
def test_four_processes_search_at_once(folder):
    with ExitStack() as stack:
        check_searchers([stack.enter_context(started(SEARCHER, folder, 3)) for _ in range(4)])


@pytest.mark.slow
def test_two_processes_search_beside_one_that_ingests(folder):
    with ExitStack() as stack:
        ingester = stack.enter_context(started(INGESTER, folder))
        assert ingester.stdout.readline() == "open\n"
        check_searchers([stack.enter_context(started(SEARCHER, folder, 3)) for _ in range(2)])
        last, errors = ingester.communicate(timeout=200)
        assert ingester.returncode == 0, errors
    with opened(folder) as collection:
        assert collection.verify().sound
        assert {each.text for each in collection.get([f"n{row:02}" for row in range(30)])} == {
            f"note n{row:02} edition{int(last)}" for row in range(30)
        }


@pytest.mark.slow
def test_a_process_that_is_killed_in_its_turn_leaves_it_to_the_others(folder):
    with ExitStack() as stack:
        killed = stack.enter_context(started(SEARCHER, folder, 1))
        assert killed.stdout.readline() == "open\n"
        killed.send_signal(signal.SIGKILL)
        with opened(folder) as collection:
            assert collection.search("note n07", 1)[0].id == "n07"
            assert collection.verify().sound


def test_an_idle_process_lets_others_search_and_write_and_sees_what_they_wrote(folder):
    with opened(folder) as collection, ExitStack() as stack:
        assert collection.search("note n07", 1)[0].id == "n07"
        holder = stack.enter_context(started(HOLDER, folder))
        assert holder.stdout.readline() == "open\n", "it has written one document"
        assert collection.search("green tea", 1)[0].id == "tea"
        assert collection.count() == 31
        assert collection.delete(["tea"]) == 1
        holder.communicate("", timeout=60)
        assert holder.returncode == 0
        assert collection.count() == 30
    assert sorted(each.name for each in (folder / "notes").iterdir()) == ["collection.json", "lock", "owner", "shard"]


@pytest.mark.slow
def test_the_description_is_changed_within_a_turn(folder):
    with opened(folder) as collection:
        collection._backend.give()  # as a process does for which another one waits
        collection._backend.write_metadata({"average_length": 7.0})
        with ExitStack() as stack:
            check_searchers([stack.enter_context(started(SEARCHER, folder, 1))])
    with opened(folder) as collection:
        assert collection._backend.read_metadata()["average_length"] == 7.0
        assert collection.verify().sound


def test_writers_exclude_writers_and_the_error_names_the_process(folder, monkeypatch):
    writing = """
        import sys
        from words import WordEncoder
        from twinvec_qdrant import Collection
        with Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False) as collection:
            with collection._backend.writing:
                print("open", flush=True)
                sys.stdin.read()
    """
    with ExitStack() as stack:
        writer = stack.enter_context(started(writing, folder))
        assert writer.stdout.readline() == "open\n"
        with opened(folder) as collection:
            assert collection.search("note n07", 1)[0].id == "n07"
            monkeypatch.setattr(collection._backend.writer, "_wait_seconds", 0.1)
            for write in (
                lambda: collection.ingest([("fresh", "a fresh note")]),
                lambda: collection.delete(["n07"]),
            ):
                with pytest.raises(StoreBusyError, match=rf"written by process {writer.pid}"):
                    write()
            writer.communicate("", timeout=60)
            assert collection.ingest([("fresh", "a fresh note")]).new == 1


def test_turns_are_taken_in_order_and_the_wait_is_bounded(tmp_path):
    first, second, third = (Turns(tmp_path) for _ in range(3))
    for turns in (first, second, third):
        turns.enter()
    first.take(1)
    assert not first.wanted()
    start = time.monotonic()
    with pytest.raises(StoreBusyError, match="process"):
        second.take(0.1)
    assert time.monotonic() - start < 60
    waiter = threading.Thread(target=second.take, args=(60,))
    waiter.start()
    while not first.wanted():
        assert waiter.is_alive(), "nobody waits any more"
        time.sleep(0.001)
    with pytest.raises(StoreBusyError):
        third.take(0)
    first.give()
    waiter.join()
    with pytest.raises(StoreBusyError):
        first.take(0)
    second.give()
    for turns in (first, second, third):
        turns.leave()
    assert not (tmp_path / "turns").exists()


@pytest.fixture
def clock(monkeypatch):
    """Let every pause of a wait take a second, and call ``clock.happens[second]`` then; ``clock.now`` counts."""
    clock = SimpleNamespace(now=0, happens={}, time_ns=time.time_ns)

    def sleep(_: float) -> None:
        clock.now += 1
        clock.happens.pop(clock.now, lambda: None)()

    clock.monotonic, clock.sleep = lambda: clock.now, sleep
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.turns.time", clock)
    return clock


@pytest.fixture
def both(tmp_path):
    """Two users of one collection."""
    users = Turns(tmp_path), Turns(tmp_path)
    for turns in users:
        turns.enter()
    yield users
    for turns in users:
        turns.give()
        turns.leave()


def test_the_wait_for_a_turn_is_longer_while_the_engine_is_opened_and_closed(both, clock):
    first, second = both
    first.take(0)
    clock.happens = {30: first.opened, 38: first.closing, 70: first.give}
    second.take(10)
    assert clock.now == 70
    second.opened()
    with pytest.raises(StoreBusyError, match=f"process {os.getpid()} for more than 10 s"):
        first.take(10)
    assert clock.now == 80


def test_a_reader_without_a_turn_waits_as_long(both, clock):
    first, second = both
    first.take(0)
    clock.happens = {30: first.give}
    with second.held(10) as was_given:
        assert (was_given, clock.now) == (True, 30)


def test_a_process_of_an_older_version_is_waited_for_as_usual(both, clock, tmp_path):
    first, second = both
    first.take(0)
    (tmp_path / "owner").write_text("1234")
    with pytest.raises(StoreBusyError, match="process 1234 for more than 10 s"):
        second.take(10)
    assert clock.now == 10


def test_only_the_process_that_has_the_turn_says_that_it_closes(both, tmp_path):
    first, second = both
    first.take(0)
    first.opened()
    before = (tmp_path / "owner").read_bytes()
    second.closing()
    assert (tmp_path / "owner").read_bytes() == before == b"%d " % os.getpid()
    first.closing()
    assert (tmp_path / "owner").read_bytes() != before


def test_a_wait_for_a_turn_ends_when_the_collection_is_closed(both, clock):
    first, second = both
    first.take(0)

    def check() -> None:
        if clock.now == 3:
            raise LookupError

    with pytest.raises(LookupError):
        second.take(10, check)
    assert clock.now == 3
    assert not first.wanted()


def test_closing_a_collection_ends_the_waits_of_its_threads(folder):
    other = Turns(folder / "notes")
    with opened(folder, wait_seconds=600) as collection, ThreadPoolExecutor(1) as threads:
        collection._backend.give()
        other.take(1)
        search = threads.submit(collection.search, "note n07", 1)
        while not other.wanted():
            assert not search.done(), "nobody waits any more"
            time.sleep(0.01)
        collection.close()
        with pytest.raises(StoreError, match="has been closed"):
            search.result()
    other.give()
    other.leave()


def test_a_kill_in_a_turn_shows_although_the_disk_was_full(both, tmp_path, monkeypatch):
    first, second = both
    first.take(0)
    first.give()

    def full(path: Path, data: bytes) -> int:
        path.open("wb").close()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        second.take(0)
    second.give(is_settled=False)
    assert not first.take(0)


def test_a_ticket_that_was_removed_before_it_was_locked_is_made_again(both, clock, monkeypatch):
    first, second = both
    first.take(0)
    acquire, tries = FileLock.acquire, []

    def removed(lock: FileLock, *arguments: Any, **options: Any) -> Any:
        result = acquire(lock, *arguments, **options)
        if Path(lock.lock_file).name.startswith("wait-") and not tries:
            tries.append(lock)
            Path(lock.lock_file).unlink()
        return result

    with monkeypatch.context() as patched:
        patched.setattr(FileLock, "acquire", removed)
        seen = []
        with pytest.raises(StoreBusyError):
            second.take(5, lambda: seen.append(first.wanted()))
    assert tries
    assert any(seen)


def test_a_turn_on_a_collection_that_opens_slowly_ends_before_others_give_up(folder, monkeypatch):
    now = [0.0]
    with opened(folder, wait_seconds=10) as collection:
        engine = collection._backend
        engine.give()
        open_ = engine._open
        monkeypatch.setattr(engine, "_open", lambda **given: (open_(**given), now.append(now.pop() + 30)))
        monkeypatch.setattr("twinvec_qdrant.stores.embedded.engine.time", SimpleNamespace(monotonic=lambda: now[0]))
        engine._begin()
        assert TURN_SECONDS < engine._least < 10


@pytest.mark.parametrize("wait", ["take", "held"])
@pytest.mark.parametrize("seconds", [0, 5], ids=["for a moment", "and is then stopped for five seconds"])
def test_a_ticket_that_another_process_looks_at_before_it_is_locked_is_made_again(tmp_path, monkeypatch, wait, seconds):
    turns, make, tries = Turns(tmp_path), Turns._new_ticket, []
    monkeypatch.setattr(time, "perf_counter", lambda: seconds * len(tries))  # the clock of the lock

    def looked_at(self: Turns) -> object:
        ticket = make(self)
        acquire = ticket._acquire
        monkeypatch.setattr(ticket, "_acquire", lambda: tries.append(0) or (len(tries) > 1 and acquire()))
        return ticket

    monkeypatch.setattr(Turns, "_new_ticket", looked_at)
    turns.enter()
    if wait == "take":
        assert turns.take(10)
        turns.give()
    else:
        with turns.held(10):
            assert turns.wanted()
    assert len(tries) == 2
    turns.leave()


def test_a_writer_that_waits_for_long_says_for_whom(tmp_path, monkeypatch, caplog):
    first, second = Turns(tmp_path), Turns(tmp_path)
    for turns in (first, second):
        turns.enter()
    first.write(0)
    with pytest.raises(StoreBusyError):
        second.write(0)
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.turns._SILENT_SECONDS", 0.01)
    assert not caplog.messages, "a caller who does not wait gets the error only"
    with pytest.raises(StoreBusyError):
        second.write(0.02)
    told = f"{tmp_path}: waiting for process {os.getpid()}, which writes this collection"
    assert caplog.messages == [told]
    first.end_writing()
    second.write(0.02)
    assert caplog.messages == [told]
    second.end_writing()
    for turns in (first, second):
        turns.leave()


@pytest.mark.slow
def test_a_collection_that_another_process_has_open_is_not_dropped(folder):
    with opened(folder) as collection, ExitStack() as stack:
        holder = stack.enter_context(started(HOLDER, folder))
        assert holder.stdout.readline() == "open\n"
        assert collection.count() == 31, "the turn is ours again"
        collection.close()
        with pytest.raises(StoreBusyError, match=r"process.* still has the collection open after 0.3 s; to drop, "):
            drop_collection("notes", folder, wait_seconds=0.3)
        holder.communicate("", timeout=60)
    drop_collection("notes", folder)
    assert not (folder / "notes").exists()


@pytest.mark.parametrize("options", [{"mode": "dense"}, {"mode": "sparse"}, {}, {"feedback": 2}], ids=str)
def test_nobody_writes_between_the_steps_of_a_search(folder, monkeypatch, options):
    """What the first step has found would otherwise be replaced, and left out by the next."""
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.engine.TURN_SECONDS", 0)
    with opened(folder, wait_seconds=0) as collection:
        engine, turns = collection._backend, []

        def noted(step, name):
            def call(*given):
                answer = step(*given)
                turns.append((name, engine._began))
                return answer

            return call

        collection.search("note n07", 3, **options)  # reads the vocabulary
        monkeypatch.setattr(engine._turns, "wanted", lambda: True)
        monkeypatch.setattr(engine, "search", noted(engine.search, "search"))
        monkeypatch.setattr(engine, "retrieve", noted(engine.retrieve, "retrieve"))
        for search in (collection.search, collection.search_diverse):
            turns.clear()
            assert search("note n07", 3, **options if search == collection.search else {})[0].id == "n07"
            assert {name for name, _ in turns} == {"search", "retrieve"}
            assert len({began for _, began in turns}) == 1


def test_a_collection_that_is_removed_between_two_turns_is_said_to_be_gone(folder):
    with opened(folder) as collection:
        collection._backend.give()
        (folder / "notes" / "shard").rename(folder / "elsewhere")
        with pytest.raises(StoreUnavailableError, match="removed"):
            collection.count()
        (folder / "elsewhere").rename(folder / "notes" / "shard")
        assert collection.count() == 30


# --- A folder that is gone ---


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_collection_whose_folder_was_removed_can_be_made_again(tmp_path, is_closed):
    before = opened(tmp_path / "store")
    before.ingest([("old", "an old note")])
    shutil.rmtree(tmp_path / "store")
    if is_closed:
        before.close()
    with opened(tmp_path / "store") as after:
        assert after.find() == []
        after.ingest([("new", "a new note")])
        before.close()
        after.ingest([("newer", "a newer note")])
    with opened(tmp_path / "store") as again:
        assert (sorted(again.find()), again.verify().sound) == (["new", "newer"], True)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_collection_whose_folder_is_gone_refuses_every_call(tmp_path, is_replaced):
    store = tmp_path / "store"
    with opened(store) as collection:
        collection.ingest([("old", "an old note")])
        shutil.rmtree(store)
        if is_replaced:
            subprocess.run([sys.executable, "-c", textwrap.dedent(MAKER), store], env=with_helpers(), check=True)
        calls = [
            lambda: collection.search("note"),
            lambda: collection.ingest([("more", "a note")]),
            lambda: collection.delete(["old"]),
            collection.find,
            collection.verify,
            collection.reindex,
        ]
        for call in calls:
            with pytest.raises(StoreUnavailableError, match="folder has been removed or replaced; open the collection"):
                call()
    if is_replaced:
        with opened(store) as collection:
            assert (collection.find(), collection.verify().sound) == (["new"], True)
    else:
        assert not store.exists()


def test_a_folder_that_is_back_can_be_opened_again(tmp_path):
    store, away = tmp_path / "store", tmp_path / "away"
    with opened(store) as before:
        before.ingest([("old", "an old note")])
        store.rename(away)
        with pytest.raises(StoreUnavailableError, match="removed or replaced"):
            before.search("note")
        away.rename(store)
        with opened(store) as after:
            assert (after.find(), after.verify().sound) == (["old"], True)
            with pytest.raises(StoreUnavailableError, match="removed or replaced; open the collection again"):
                before.search("note")
            before.close()
            after.ingest([("new", "a new note")])
            assert [hit.id for hit in after.search("new", limit=1)] == ["new"]


def test_a_folder_that_is_removed_while_it_is_being_opened_is_said_to_be_gone(tmp_path, monkeypatch):
    Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False).close()
    look = CollectionFolder.obstacle

    def removed(self):
        shutil.rmtree(self.path)
        return look(self)

    monkeypatch.setattr(CollectionFolder, "obstacle", removed)
    with pytest.raises(StoreUnavailableError, match="notes: the collection has been removed by another process"):
        Collection.open("notes", tmp_path, encoder=WordEncoder())


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    with opened(tmp_path / "store") as collection:
        shutil.rmtree(tmp_path / "store")
        (tmp_path / "store").write_text("a file")
        with pytest.raises(StoreUnavailableError, match="removed or replaced"):
            collection.search("note")


def test_a_folder_that_nobody_can_look_at_for_a_while_is_not_taken_for_gone(tmp_path):
    store, away = tmp_path / "store", tmp_path / "away"
    with opened(store) as collection:
        collection.ingest([("old", "an old note")])
        store.rename(away)
        store.symlink_to(store)  # a link to itself: the system refuses to follow it, for root too
        with pytest.raises(OSError, match="symbolic links") as refused:
            (store / "notes").stat()
        assert not isinstance(refused.value, FileNotFoundError | NotADirectoryError)
        assert not collection._backend.is_gone()
        with suppress(StoreError):
            collection.search("note")
        store.unlink()
        away.rename(store)
        assert [hit.id for hit in collection.search("note")] == ["old"]
        collection.ingest([("new", "a new note")])
        assert sorted(collection.find()) == ["new", "old"]
        assert collection.verify().sound


MAKER = """
    import sys
    from words import WordEncoder
    from twinvec_qdrant import Collection
    with Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False) as collection:
        collection.ingest([("new", "a new note")])
"""
