"""Searches cut into requests and batches that a server permits."""

from __future__ import annotations

import numpy as np

from twinvec_qdrant.stores.points import Query
from twinvec_qdrant.stores.server.limits import search_parts
from twinvec_qdrant.stores.server.limits.permitted import Limits
from twinvec_qdrant.stores.server.limits.search_parts import batches, cost, requests_for


def test_the_cost_of_each_request_is_counted_once(monkeypatch):
    """A thousand searches took a second when every batch was counted again for each of its requests."""
    limits = Limits(reads=70, wait_seconds=61.0, searches=50)
    query = Query(np.ones(3, np.float32), 10)
    requests = [request for _ in range(300) for request in requests_for(query, limits, indexed=True)]
    counted, count = [], search_parts._cost
    monkeypatch.setattr(search_parts, "_cost", lambda request: counted.append(request) or count(request))
    assert [len(batch) for batch in batches(requests, limits)] == [50] * 6
    assert [len(batch) for batch in batches(requests, Limits(reads=40, wait_seconds=61.0))] == [40] * 7 + [20]
    assert len(counted) == 2 * len(requests)
    assert cost(requests) == 300
