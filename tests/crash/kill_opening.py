"""Kill a process at each step of opening what a killed process has left, and look at what the next process finds.

    python tests/crash/kill_opening.py --every 1

A store is left by a kill, with documents that are in the engine's log only. Once it is whole, and once a file of it is
damaged, so that opening it is refused. A process opens it and is killed (SIGKILL) just before it changes a file or a
name, in one run after the other for each change. After each kill, the whole store must answer as if nothing had
happened. The damaged one must be refused, and answer like the whole one when the file is put back.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from twinvec.errors import StoreCorruptError
from twinvec_qdrant import Collection
from twinvec_qdrant.stores.embedded.backend import EmbeddedBackend
from twinvec_qdrant.stores.embedded.folder import copied_tree
from words import WordEncoder

CHANGES = ("os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")
DOCUMENTS = 30


def opened(folder: Path) -> Collection:
    return Collection.open("notes", folder, encoder=WordEncoder(max_tokens=16))


def answers(folder: Path) -> list[Any]:
    with opened(folder) as collection:
        assert collection.verify().sound
        hits = [(hit.id, hit.text) for hit in collection.search("note", 200, "sparse", group=False)]
        return [sorted(hits), sorted((each.id, each.text) for each in collection.get(collection.find()))]


def leave(folder: Path) -> None:
    """Fill a store, and kill this process before the engine has flushed the last documents from its log."""
    notes = [{"id": f"n{row:02}", "text": f"note {row}\n\n" + "word " * 9} for row in range(DOCUMENTS)]
    with opened(folder) as collection:
        collection.ingest(notes)
        collection.reindex()
        collection.ingest([{"id": "tea", "text": "green tea"}])
    collection = opened(folder)
    collection.ingest([{"id": "milk", "text": "note milk"}, {**notes[3], "text": "note changed"}])
    EmbeddedBackend.flush = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    collection.ingest([{"id": "cocoa", "text": "note cocoa"}, {**notes[4], "text": "note changed, too"}])


def in_process(work: Callable[[], Any]) -> tuple[int, Any]:
    """Do work in a process of its own, which nothing has used the engine in; return how it ended, and what it returned.

    How it ended is 0, or minus the signal that has killed it.
    """
    reading, writing = os.pipe()
    if not (child := os.fork()):
        code = 1
        try:
            os.close(reading)
            with open(writing, "w") as pipe:
                json.dump(work(), pipe)
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading) as pipe:
        said = pipe.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, -signal.SIGKILL), "the process has failed; its error stands above"
    return ended, json.loads(said) if said else None


def changes_of(work: Callable[[], object], last: int | None = None) -> list[str]:
    """Do work, and return what it changed, files and names; with ``last``, die before the change of this number."""
    changes: list[str] = []

    def see(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not writes and event not in CHANGES:
            return
        if len(changes) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        changes.append(f"{event} {arguments[:2]}")

    sys.addaudithook(see)
    work()
    return list(changes)


def is_refused(folder: Path) -> bool:
    try:
        opened(folder).close()
    except StoreCorruptError:
        return True
    return False


def growing(folder: Path) -> Path:
    """The segment that has no index."""
    segments = (folder / "notes" / "shard" / "segments").iterdir()
    (found,) = (path for path in segments if not (path / "id_tracker.mappings").exists())
    return found


def check(store: Path, damaged: Path | None, whole: Path, wanted: list[Any]) -> None:
    """The store answers, if a file is damaged when it is put back, and no copy is left over."""
    if damaged is not None:
        assert in_process(lambda: is_refused(store))[1]
        shutil.copyfile(whole / damaged, store / damaged)
    assert in_process(lambda: answers(store))[1] == wanted
    assert sorted(path.name for path in (store / "notes").glob("shard*")) == ["shard"], "copies are left over"


def run(folder: Path, every: int) -> dict[str, int]:
    """Kill at every n-th change, and around each renaming; return the number of kills for each state of the store."""
    whole, store, kills = folder / "whole", folder / "store", {}
    assert in_process(lambda: leave(whole))[0] == -signal.SIGKILL
    copied_tree(whole, folder / "wanted")
    wanted = in_process(lambda: answers(folder / "wanted"))[1]
    file = growing(whole).relative_to(whole) / "payload_storage" / "bitmask.dat"
    copied_tree(whole, folder / "damaged")
    (folder / "damaged" / file).write_bytes(bytes((whole / file).stat().st_size))
    for start in (whole, folder / "damaged"):
        copied_tree(start, store)
        changes = in_process(lambda: changes_of(lambda: is_refused(store)))[1]
        renamings = [row for row, change in enumerate(changes) if change.startswith("os.rename")]
        chosen = sorted({*range(0, len(changes), every), *renamings, *(row + 1 for row in renamings)})
        for last in (row for row in chosen if row < len(changes)):
            shutil.rmtree(store)
            copied_tree(start, store)
            ended, _ = in_process(lambda last=last: changes_of(lambda: is_refused(store), last))
            try:
                assert ended == -signal.SIGKILL
                check(store, None if start == whole else file, whole, wanted)
            except AssertionError as error:
                error.add_note(f"{start.name}, killed before change {last}: {changes[last]}")
                raise
            kills[start.name] = kills.get(start.name, 0) + 1
        shutil.rmtree(store)
    return kills


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="kill at every n-th change, and around every renaming")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        print(json.dumps(run(Path(temporary), options.every)))
