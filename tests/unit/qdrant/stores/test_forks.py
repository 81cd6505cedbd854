"""An embedded collection after ``os.fork()``: the child gets an error at once, and the parent goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import words

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

BEGIN = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(Path(words.__file__).parent)!r})
from words import WordEncoder
from twinvec.errors import StoreBusyError, StoreError
from twinvec_qdrant import Collection

def opened(**options):
    return Collection.open("notes", sys.argv[1], encoder=WordEncoder(), chunking=False, **options)

def forked(child):
    sys.stdout.flush()
    number = os.fork()
    if number == 0:
        signal.alarm(120)  # a call that hangs ends by a signal
        child()
        sys.exit(0)
    assert os.waitpid(number, 0)[1] == 0, "the child did not end by itself"

collection = opened()
collection.ingest([{{"id": f"n{{row}}", "text": f"note {{row}}"}} for row in range(50)])
collection.search("note 1")
"""


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(program), folder], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_use_in_the_child_is_a_clear_error_and_the_parent_goes_on(tmp_path) -> None:
    told = run(
        """
        def child():
            calls = {
                "search": lambda: collection.search("note"),
                "ingest": lambda: collection.ingest([{"id": "x", "text": "y"}]),
                "delete": lambda: collection.delete(["n1"]),
                "get": lambda: collection.get(["n1"]),
                "find": lambda: collection.find(),
                "count": lambda: collection.count(),
                "info": lambda: collection.info(),
            }
            for name, call in calls.items():
                try:
                    call()
                except StoreError as error:
                    assert "opened before this process was forked" in str(error), error
                    print(name)
            collection.close()

        forked(child)
        assert collection.search("note 7", 1)[0].id == "n7"
        assert collection.ingest([{"id": "later", "text": "later"}]).new == 1
        collection.close()
        assert opened(wait_seconds=0).count() == 51
        """,
        tmp_path,
    )
    assert told.split() == ["search", "ingest", "delete", "get", "find", "count", "info"]


@pytest.mark.slow
def test_a_lock_that_another_thread_held_does_not_matter(tmp_path) -> None:
    run(
        """
        from twinvec_qdrant.stores.embedded.backend import opening

        held, done = threading.Event(), threading.Event()

        def hold():
            with opening:
                held.set()
                done.wait()

        def child():
            Collection.open("others", sys.argv[1], encoder=WordEncoder(), chunking=False).close()

        threading.Thread(target=hold).start()
        held.wait()
        forked(child)
        done.set()
        """,
        tmp_path,
    )


@pytest.mark.slow
def test_the_child_opens_the_collection_itself_once_the_parent_has_closed_it(tmp_path) -> None:
    told = run(
        """
        read, write = os.pipe()
        number = os.fork()
        if number == 0:
            signal.alarm(120)
            os.read(read, 1)
            own = opened(wait_seconds=60)
            print(own.search("note 7", 1)[0].id)
            own.close()
            sys.exit(0)
        collection.close()
        os.write(write, b"x")
        assert os.waitpid(number, 0)[1] == 0
        """,
        tmp_path,
    )
    assert told.split() == ["n7"]


@pytest.mark.slow
def test_the_end_of_a_child_leaves_the_parents_lock(tmp_path) -> None:
    run(
        """
        import subprocess
        from twinvec_qdrant.stores.embedded.folder import CollectionFolder

        forked(lambda: None)
        lock = next(each for each in CollectionFolder(sys.argv[1], "notes").path.rglob("lock"))
        taken = "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        assert subprocess.run([sys.executable, "-c", taken, lock], stderr=subprocess.DEVNULL).returncode == 1
        """,
        tmp_path,
    )
