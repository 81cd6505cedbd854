"""Closing collections of one process in several threads."""

from __future__ import annotations

import threading
import time

from twinvec_qdrant import Collection
from twinvec_qdrant.stores.embedded.backend import ending
from words import WordEncoder


def opened(name, folder):
    return Collection.open(name, folder, encoder=WordEncoder(), chunking=False)


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
