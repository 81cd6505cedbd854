"""The totals that BM25 weights depend on, counted in the store."""

from __future__ import annotations

import tracemalloc

from twinvec_qdrant.stores.points import Point

RECORDS = 20_000


def test_records_are_counted_one_by_one(collection, monkeypatch):
    collection.ingest([("tea", "green tea")])
    weights = collection._catalog.weights

    def scroll(conditions, fields=None):
        return (Point(f"point {row}", {"terms": 3, "size": 2}) for row in range(RECORDS))

    monkeypatch.setattr(collection._backend, "scroll", scroll)
    tracemalloc.start()
    try:
        assert weights._counted() == (2 * RECORDS, 3 * RECORDS)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000, "a list of all takes megabytes"
    finally:
        tracemalloc.stop()
