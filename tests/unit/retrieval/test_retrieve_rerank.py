"""Passages in two stages: only the hits that are returned get one, by every stage that finds them."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from twinvec import Hit, RetrieveRerank
from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import search_all
from twinvec.retrieval.base import Passage
from twinvec.retrieval.documents import Document

TEXTS = ["ink", "paper", "glue", "string"]


class Reversed:
    """A reranker that turns the order round."""

    def rerank(self, query, hits, limit=None):
        return list(hits)[::-1][:limit]


class Finder:
    """A retriever that finds passages, and records for how many hits."""

    def __init__(self):
        self.found = 0

    def search(self, query, limit=10, filter=None, *, passages=True, mode="dense"):
        hits = [Hit(text, text, 1.0, {mode: 1.0}) for text in TEXTS][:limit]
        return self.with_passages(query, hits) if passages else hits

    def with_passages(self, query, hits):
        self.found += len(hits)
        return [replace(hit, passage=Passage(query, 0, 1)) for hit in hits]


class Nearer(Reversed):
    """A reranker that finds passages of its own."""

    def with_passages(self, query, hits):
        return [replace(hit, passage=Passage(hit.text, 0, len(hit.text))) for hit in hits]


class Judged(Reversed):
    """A reranker that finds the later texts more relevant."""

    def rerank(self, query, hits, limit=None):
        judged = [replace(hit, relevance=TEXTS.index(hit.id) / 4) for hit in hits]
        return super().rerank(query, judged, limit)


class Plain:
    """A retriever that knows no passages."""

    def search(self, query, limit=10, filter=None):
        return [Hit(text, text, 1.0) for text in TEXTS][:limit]


def passages(hits):
    return {hit.id: hit.passage and hit.passage.text for hit in hits}


def test_only_returned_hits_get_passages():
    finder = Finder()
    search = RetrieveRerank(finder, Reversed())
    assert passages(search.search("q", 2, mode="sparse")) == {"string": "q", "glue": "q"}
    assert finder.found == 2
    (hits,) = search.search_many(["many"], 1)
    assert passages(hits) == {"string": "many"}
    assert finder.found == 3


def test_what_is_no_retriever_is_refused_at_once():
    for wrong in (["ink"], object(), Plain, Reversed()):
        with pytest.raises(ConfigurationError, match="retriever: expected a retriever"):
            RetrieveRerank(wrong, Reversed())


@pytest.mark.parametrize("many", [False, True])
def test_passages_can_be_left_out(many):
    finder = Finder()
    search = RetrieveRerank(finder, Nearer())
    hits = search.search_many(["q"], passages=False)[0] if many else search.search("q", passages=False)
    assert set(passages(hits).values()) == {None}
    assert finder.found == 0


def test_a_reranker_that_finds_passages_has_the_last_word():
    assert passages(RetrieveRerank(Finder(), Nearer()).search("q", 2)) == {"string": "string", "glue": "glue"}


def test_a_retriever_without_passages_gets_no_option_for_them():
    search = RetrieveRerank(Plain(), Reversed())
    assert passages(search.search("q", 1)) == {"string": None}
    assert passages(search.search_many(["q"], 1)[0]) == {"string": None}


def test_measures_find_no_passages():
    finder = Finder()
    data = BeirSet("set", [Document(id="ink", text="ink")], {"1": "q"}, {"1": {"ink": 1}})
    assert len(search_all(finder, data, 3)["1"]) == 3
    assert len(search_all(RetrieveRerank(finder, Reversed()), data, 3)["1"]) == 3
    assert finder.found == 0


@pytest.mark.parametrize("many", [False, True])
def test_pages_are_of_the_reranked_hits(many):
    search = RetrieveRerank(Plain(), Judged())

    def found(limit, **options):
        hits = search.search_many(["q"], limit, **options)[0] if many else search.search("q", limit, **options)
        return [hit.id for hit in hits]

    assert found(4) == TEXTS[::-1] == [*found(3), *found(3, offset=3)]
    assert found(4, min_relevance=0.5) == ["string", "glue"]
    assert found(1, offset=1, min_relevance=0.5) == ["glue"]
    assert found(2, offset=2, min_relevance=0.5) == []
    for wrong in ({"offset": -1}, {"min_relevance": 2}):
        with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))} "):
            found(2, **wrong)


def test_candidates_reach_as_far_as_the_page():
    assert [hit.id for hit in RetrieveRerank(Plain(), Reversed(), candidates=1).search("q", 1, offset=2)] == ["ink"]


def test_what_is_no_reranker_is_refused_at_once():
    with pytest.raises(ConfigurationError, match="reranker: expected a reranker, such as MaxSimReranker"):
        RetrieveRerank(Plain(), None)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("answer", [None, ["a text"], "text", [None]])
def test_answers_that_are_not_hits_are_refused(many, answer):
    class Wrong:
        def search(self, query, limit=10, filter=None):
            return answer

        def rerank(self, query, hits, limit=None):
            return answer

    for stages, who in (((Wrong(), Reversed()), "retriever"), ((Plain(), Wrong()), "reranker")):
        search = RetrieveRerank(*stages)
        with pytest.raises(InputError, match=f"the {who}'s answer"):
            search.search_many(["q"]) if many else search.search("q")


def test_every_query_gets_a_list():
    class Short(Plain):
        def search_many(self, queries, limit=10, filter=None):
            return [self.search(query, limit) for query in queries[1:]]

    with pytest.raises(InputError, match="the retriever's answer: expected a list of hits for each of 2 queries"):
        RetrieveRerank(Short(), Reversed()).search_many(["q", "r"])


async def test_an_awaited_search_leaves_the_event_loop_free():
    went_on = threading.Event()

    class Waiting(Plain):
        def search(self, query, limit=10, filter=None):
            assert went_on.wait(60), "the event loop stood still"
            return super().search(query, limit)

    search = RetrieveRerank(Waiting(), Reversed())
    one, many = asyncio.create_task(search.asearch("q", 2)), asyncio.create_task(search.asearch_many(["q", "r"], 1))
    await asyncio.sleep(0)
    went_on.set()
    assert [hit.id for hit in await one] == ["string", "glue"]
    assert [[hit.id for hit in hits] for hits in await many] == [["string"], ["string"]]


def test_a_search_shows_its_stages():
    class Named(Plain):
        def __repr__(self):
            return "Named()"

    assert repr(RetrieveRerank(Named(), Judged(), 5)).startswith("RetrieveRerank(Named(), <")
    assert repr(RetrieveRerank(Named(), Judged(), 5)).endswith(", candidates=5)")
