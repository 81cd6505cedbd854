"""A writer that dies between any two of its steps leaves every document whole, and the next ingest makes up for it.

The process that is really killed is in ``tests/crash``; here every single step has its turn.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import count

import pytest

from deaths import Died, die_at
from twinvec_qdrant import Collection
from twinvec_qdrant.records.bm25_weights import DRIFT
from twinvec_qdrant.stores.conditions import field_is
from words import StateEncoder

BEFORE = {"same": "tea with mint", "changed": "old bread\n\n" + "rye " * 20, "gone": "rain", "emptied": "snow"}
AFTER = {"same": "tea with mint", "changed": "new bread\n\n" + "rye " * 20, "added": "a harbour", "emptied": ""}


def contents(collection: Collection) -> set[tuple[str, str]]:
    """Every point: its kind and its id."""
    kinds = ("chunk", "record", "intent")
    return {
        (kind, point.id) for kind in kinds for point in collection._backend.scroll([field_is("kind", kind)], ["kind"])
    }


def scores(collection: Collection) -> dict[str, float]:
    """The BM25 scores of all chunks that a query finds."""
    return {hit.id: hit.score for hit in collection.search("rye tea harbour bread", 50, "sparse", group=False)}


ATEXIT = """
import atexit, sys
from twinvec import Encoder
from twinvec_qdrant import Collection
encoder = Encoder(sys.argv[1])
notes = Collection.open("notes", sys.argv[2], encoder=encoder)
notes.ingest([("a", "fox")])
def store_the_rest():
    notes.ingest((str(row), "fox " * (1 + row % 40) + str(row)) for row in range(200))
    with Collection.open("others", sys.argv[2], encoder=encoder) as others:
        others.ingest([("b", "sun")])
        print(notes.count() > 200, others.count())
    notes.close()
atexit.register(store_the_rest)
"""


@pytest.mark.slow
def test_a_function_that_runs_when_the_interpreter_ends_stores_documents(tiny_model, tmp_path):
    command = [sys.executable, "-c", ATEXIT, str(tiny_model("bert")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, "Error" in done.stderr) == ("True 1\n", False), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_every_step_may_be_the_last(place, done, monkeypatch):
    encoder = StateEncoder(max_tokens=16)
    with Collection.open("plain", encoder=encoder, late_interaction=True, **place) as undisturbed:
        undisturbed.ingest(AFTER.items())
        expected, weights = contents(undisturbed), scores(undisturbed)
    assert len(expected) == 4 + 5
    with Collection.open("notes", encoder=encoder, late_interaction=True, **place) as collection:
        for step in count():
            collection.ingest(BEFORE.items(), prune=True)
            with monkeypatch.context() as patched:
                die_at(step, done=done, backend=collection._backend, monkeypatch=patched)
                try:
                    collection.ingest(AFTER.items(), prune=True)
                except Died:
                    finished = False
                else:
                    finished = True
            check_whole(collection)
            collection.ingest(AFTER.items(), prune=True)
            assert contents(collection) == expected, step
            assert collection.verify().sound, step
            assert scores(collection) == pytest.approx(weights, rel=2 * DRIFT), step
            if finished:
                break
        assert step > 8


def check_whole(collection: Collection) -> None:
    """Every document is there in its old or its new version, and search shows no part of another."""
    found = {document.id: document.text for document in collection.get([*BEFORE, *AFTER])}
    for name in {*BEFORE, *AFTER}:
        versions = {BEFORE.get(name, ""), AFTER.get(name, "")}
        assert found.get(name, "").split() in [version.split() for version in versions]
    hits = collection.search("old new bread rye", 50, group=False)
    shown = sorted((hit.payload["position"], hit.text) for hit in hits if hit.payload["source"] == "changed")
    assert "\n\n".join(text for _, text in shown) == found["changed"]
