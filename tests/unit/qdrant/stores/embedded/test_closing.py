"""Closing collections: in several threads of one process, and after a kill."""

from __future__ import annotations

import threading
import time

import pytest

from twinvec.errors import StoreError, StoreUnavailableError
from twinvec_qdrant import Collection
from twinvec_qdrant.stores.embedded import folder as folders
from twinvec_qdrant.stores.embedded.backend import ending
from twinvec_qdrant.stores.embedded.checksums import CLOSED, Checksums
from twinvec_qdrant.stores.embedded.engine import engine_errors
from words import WordEncoder


def opened(name, folder):
    return Collection.open(name, folder, encoder=WordEncoder(), chunking=False)


class TimeLimitError(Exception):
    """Stands for the error that a task queue's signal handler raises to end a task at its time limit."""


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (TimeLimitError(), TimeLimitError),
        (type("Interrupt", (BaseException,), {})(), BaseException),
        (TimeoutError(), TimeoutError),
        (TimeoutError(110, "Connection timed out"), StoreUnavailableError),
        (OSError(5, "Input/output error"), StoreUnavailableError),
        (Exception("Service runtime error"), StoreError),
        (ValueError("not JSON"), StoreError),
        (type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})("panic"), StoreError),
    ],
    ids=repr,
)
def test_only_errors_of_the_engine_become_errors_of_the_store(raised, expected):
    with pytest.raises(expected) as caught, engine_errors("notes", "write"):
        raise raised
    assert isinstance(caught.value, StoreError) == issubclass(expected, StoreError)


def test_a_collection_that_another_thread_closes_is_not_gone(tmp_path, monkeypatch):
    collection = opened("notes", tmp_path)
    backend = collection._backend
    identity = backend._original.identity()
    monkeypatch.setattr(type(backend._original), "identity", lambda _: collection.close() or identity)
    assert not backend.is_gone()


def test_a_close_that_takes_long_holds_up_its_own_collection_only(tmp_path):
    slow, other = opened("slow", tmp_path), opened("other", tmp_path)
    slow.ingest([("1", "green tea")])
    found = []
    closing = threading.Thread(target=slow.close)
    again = threading.Thread(target=lambda: found.append(opened("slow", tmp_path)))
    with slow._backend.undisturbed():  # a call of the engine that takes long
        closing.start()
        while not ending:
            time.sleep(0.01)
        again.start()
        other.close()
        opened("other", tmp_path).close()
        assert not found
        assert closing.is_alive()
    closing.join()
    again.join()
    with found[0] as collection:
        assert collection.count() == 1
    assert not ending


def test_a_close_removes_files_that_a_killed_engine_has_left_half_written(tmp_path, monkeypatch):
    with opened("notes", tmp_path) as collection:
        collection.ingest([("1", "green tea")])
    shard = tmp_path / "notes" / "shard"
    segment = next((shard / "segments").iterdir())
    half_written = [shard / ".atomicwriteABCDEF", segment / ".atomicwriteGHIJKL"]
    for each in half_written:
        each.mkdir()
        (each / "tmpfile.tmp").write_text("{")
    known = Checksums.read(shard / CLOSED)
    Checksums.taken(shard, known.counts, known.description, None).write(shard / CLOSED)  # as by version 0.2.0

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(folders.Checksums, "taken", killed)
        with pytest.raises(KeyboardInterrupt), opened("notes", tmp_path):
            pass
    with opened("notes", tmp_path) as collection:
        assert collection.verify().sound
        assert collection.count() == 1
    assert not any(each.exists() for each in half_written)
