"""The overview of a collection: what ``Collection.info`` tells."""

from __future__ import annotations

import pytest

from deaths import Died, die_at
from twinvec_qdrant import Collection
from words import WordEncoder

TEXTS = {"a": "tea with mint", "b": "old bread", "c": "rain and snow"}


def test_documents_of_an_interrupted_ingest_are_counted_until_the_next_one(place, monkeypatch):
    with Collection.open("notes", encoder=WordEncoder(), chunking=False, **place) as collection:
        collection.ingest([("a", TEXTS["a"])])
        assert "unfinished_documents" not in collection.info()
        with monkeypatch.context() as patched:
            die_at(1, done=True, backend=collection._backend, monkeypatch=patched)
            with pytest.raises(Died):
                collection.ingest(TEXTS.items())
        interrupted = collection.info()
        assert (interrupted["sources"], interrupted["points"], interrupted["unfinished_documents"]) == (1, 3, 2)
        assert collection.verify().chunks == 1
        collection.ingest(TEXTS.items())
        finished = collection.info()
        assert (finished["sources"], finished["points"]) == (3, 3)
        assert "unfinished_documents" not in finished
