"""What is lost between two pages of a search, by worked examples."""

from __future__ import annotations

from types import SimpleNamespace

from qdrant_client import models

from twinvec_qdrant.stores.server.limits.search_parts import lost


def request(offset: int | None) -> models.QueryRequest:
    return models.QueryRequest(query=[1.0], offset=offset, limit=2)


def points(**scores: float) -> list[SimpleNamespace]:
    return [SimpleNamespace(id=name, score=score) for name, score in scores.items()]


def test_a_page_from_the_first_point_of_a_score_that_two_pages_share_is_asked_for():
    asked = [request(None), request(2)]
    ((row, again),) = lost(asked, [points(a=0.9, b=0.5), points(b=0.5, d=0.5)])
    assert (row, again.offset, again.limit) == (1, 1, 2)
    assert list(lost(asked, [points(a=0.9, b=0.5), points(c=0.5, d=0.5)])) == []


def test_scores_that_a_writer_changes_between_two_pages_end_no_search():
    asked = [request(None), request(2)]
    assert list(lost(asked, [points(a=0.9, b=0.5), points(b=0.4, d=0.3)])) == []
