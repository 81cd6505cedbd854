"""What a stored description must hold."""

from __future__ import annotations

import math

import pytest

from twinvec.errors import StoreCorruptError
from twinvec_qdrant import Collection
from twinvec_qdrant.records.description import read_description


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_probe_that_is_not_finite_is_damage(place, words, number):
    """Its cosine with any vector is NaN, which is not below the least cosine of equal vectors."""
    with Collection.open("notes", encoder=words, chunking=False, **place) as collection:
        stored = collection._backend.read_metadata()
    stored["probes"][0]["vector"][0] = number
    with pytest.raises(StoreCorruptError, match="not finite"):
        read_description(stored, "notes")
