"""The number of chunks in the index, from the number of vectors that the engine counts."""

from __future__ import annotations

import pytest

from twinvec_qdrant.stores.base import indexed_chunks
from twinvec_qdrant.stores.conditions import LacksVector

OLD, NEW, STATES = "dense", "dense-words-1-384", "dense-states"


class Lacking:
    """A store that knows how many chunks lack which vector."""

    def __init__(self, **lacking):
        self._lacking = lacking

    def count(self, conditions):
        return sum(self._lacking.get(each.name, 0) for each in conditions if isinstance(each, LacksVector))


# the counts of qdrant-edge 0.9 in collections of these sizes
@pytest.mark.parametrize(
    ("vectors", "chunks", "names", "lacking", "indexed"),
    [
        (0, 0, [OLD], {}, 0),
        (8000, 8000, [OLD], {}, 0),
        (16000, 8000, [OLD], {}, 8000),
        (24000, 8000, [OLD, STATES], {}, 8000),
        (24000, 8000, [OLD, NEW], {}, 8000),
        (32000, 16000, [OLD, NEW], {OLD: 8000}, 8000),
        (40000, 16000, [OLD, NEW], {OLD: 8000}, 16000),
        (40001, 16001, [OLD, NEW], {OLD: 8001}, 16000),
    ],
)
def test_indexed_chunks(vectors, chunks, names, lacking, indexed):
    assert indexed_chunks(Lacking(**lacking), vectors, chunks, names) == indexed
