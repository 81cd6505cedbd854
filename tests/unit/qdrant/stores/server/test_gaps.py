"""What is missing between two pages of a search, by worked examples."""

from __future__ import annotations

from types import SimpleNamespace

from qdrant_client import models

from twinvec_qdrant.stores.server.limits.gaps import gaps
from twinvec_qdrant.stores.server.limits.permitted import Limits

MANY = [models.FieldCondition(key="lang", match=models.MatchValue(value="en"))]


def request(offset: int | None, limit: int = 2) -> models.QueryRequest:
    return models.QueryRequest(query=[1.0], offset=offset, limit=limit, filter=models.Filter(must_not=MANY))


def points(**scores: float) -> list[SimpleNamespace]:
    return [SimpleNamespace(id=name, score=score) for name, score in scores.items()]


def excluded(asked: models.QueryRequest) -> list[list[str]]:
    return [each.has_id for each in asked.filter.must_not if isinstance(each, models.HasIdCondition)]


def test_missing_points_are_asked_for_without_those_of_their_score_that_were_found():
    asked = [request(None), request(2)]
    (gap,) = gaps(asked, [points(a=0.9, b=0.5), points(b=0.5, d=0.5)])
    again = gap.request(Limits())
    assert (gap.row, again.offset, again.limit, excluded(again)) == (1, 1, 1, [["b", "d"]])
    assert again.filter.must_not[:1] == MANY
    assert asked[1].filter.must_not == MANY
    assert list(gaps(asked, [points(a=0.9, b=0.5), points(c=0.5, d=0.5)])) == []


def test_points_of_one_score_that_three_pages_repeat_are_one_gap():
    asked = [request(None), request(2), request(4), request(None)]
    pages = [points(a=0.9, b=0.5), points(b=0.5, c=0.5), points(c=0.5, d=0.1), points(a=0.9)]
    (gap,) = gaps(asked, pages)
    assert (gap.row, gap.start, list(gap.known), gap.missing) == (1, 1, ["b", "c"], 2)


def test_ids_are_excluded_within_the_limits():
    (gap,) = gaps([request(None), request(2)], [points(a=0.5, b=0.5), points(b=0.5, c=0.5)])
    assert excluded(gap.request(Limits(values=2, conditions=3))) == [["a", "b"], ["c"]]
    page = gap.request(Limits(values=2, conditions=2))  # too few for one that excludes: the page from this score on
    assert (page.offset, page.limit, excluded(page)) == (None, 2, [])


def test_points_that_fit_on_no_page_are_asked_for_again():
    asked = [request(None, 3), request(3, 3)]
    (gap,) = gaps(asked, [points(a=0.5, b=0.5, c=0.5), points(c=0.5, b=0.5, a=0.5)])
    assert (gap.missing, gap.request(Limits()).limit) == (3, 3)
    rest = gap.without(points(d=0.5, e=0.5))
    assert (rest.missing, excluded(rest.request(Limits()))) == (1, [["a", "b", "c", "d", "e"]])
    assert rest.without(points(f=0.5)) is None
    assert rest.without(points(a=0.5)) is None, "a server that gives nothing new is not asked for ever"


def test_scores_that_a_writer_changes_between_two_pages_end_no_search():
    asked = [request(None), request(2)]
    assert list(gaps(asked, [points(a=0.9, b=0.5), points(b=0.4, d=0.3)])) == []
