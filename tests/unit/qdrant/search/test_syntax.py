"""Searches with syntax: phrases must occur, excluded words must not, however deep the search has to go."""

import numpy as np
import pytest
from qdrant_client import QdrantClient

from stand_in import StandIn
from twinvec import Document
from twinvec.errors import TextError
from twinvec_qdrant import ChunkSettings, Collection
from words import WordEncoder

MANY = [Document(f"n{row:03}", f"late fees of member {row} are due") for row in range(160)]
DOCUMENTS = [
    *MANY,
    Document("exact", "Fees that are late: a late fee is due, and every member pays the late fee in May."),
    Document("other", "The fee was late."),
    Document("title", "Nothing of interest.", "Late fee"),
    Document(
        "long", "\n\n".join(["A late fee of ten is due for every member here.", "The refund of a late fee for you."])
    ),
]


@pytest.fixture(scope="module", params=["embedded", "stand-in"])
def filled(request, tmp_path_factory):
    """A collection of chunks."""
    with StandIn().running() as server:
        client = QdrantClient(server.url, timeout=60, check_compatibility=False)
        place = {"path": tmp_path_factory.mktemp("syntax")} if request.param == "embedded" else {"client": client}
        encoder = WordEncoder(max_tokens=32)
        with Collection.open("notes", encoder=encoder, chunking=ChunkSettings(max_tokens=12), **place) as collection:
            collection.ingest(DOCUMENTS)
            yield collection


@pytest.mark.parametrize("mode", ["hybrid", "dense", "sparse"])
def test_a_phrase_must_occur(filled, mode):
    found = filled.search('"late fee"', 100, mode=mode, syntax=True)
    assert {hit.id for hit in found} == {"exact", "title", "long"}
    assert len(filled.search('"late fee"', 100, mode=mode)) == 100  # all of the query is text
    assert filled.search('"fee late"', mode=mode, syntax=True) == []


@pytest.mark.parametrize("mode", ["hybrid", "dense", "sparse"])
def test_an_excluded_word_must_not_occur(filled, mode):
    found = filled.search("late fee -fees -refund", 100, mode=mode, syntax=True, group=False)
    texts = [hit.text for hit in found]
    assert {hit.id.partition("#")[0] for hit in found} == {"exact", "other", "title", "long"}
    assert texts
    assert not any("fees" in text.lower() or "refund" in text for text in texts)


def test_pages_neither_repeat_nor_miss_a_hit(filled):
    whole = [hit.id for hit in filled.search('due "member 7" -nothing', 5, syntax=True)]
    assert whole == ["n007"]
    ids = [hit.id for hit in filled.search("late fees -may", 40, syntax=True)]
    pages = [hit.id for start in range(0, 40, 10) for hit in filled.search("late fees -may", offset=start, syntax=True)]
    assert pages == ids
    assert len(set(ids)) == 40


def test_many_queries_have_their_own_conditions(filled):
    both, plain = filled.search_many(['"late fee" refund', "refund"], syntax=True)
    assert {hit.id for hit in both} == {"exact", "title", "long"}
    assert len(plain) == 10


def test_a_query_that_only_excludes_is_refused(filled):
    with pytest.raises(TextError, match="has only exclusions"):
        filled.search("-fees", syntax=True)
    assert filled.search("-fees")


@pytest.mark.parametrize(
    ("language", "query", "text", "word"),
    [("english", '"how to" pay', "how to resign", "pay"), ("french", '"été"', "un été", "été")],
)
def test_a_phrase_without_a_term_of_the_query_is_found_behind_all_others(tmp_path, language, query, text, word):
    encoder = WordEncoder()
    others = [f" w{row}" for row in range(999)]
    away = others[np.argmin(encoder.encode_query(others) @ encoder.encode_query([word])[0])] * 5
    with Collection.open("notes", tmp_path, encoder=encoder, chunking=False, language=language) as collection:
        collection.ingest([*(Document(f"n{row:03}", f"note {row}") for row in range(160)), Document("x", text + away)])
        assert [hit.id for hit in collection.search(query, syntax=True)] == ["x"]


def test_a_phrase_costs_no_search_of_everything(filled, monkeypatch):
    depths = []
    find = filled._serving.current.searcher.__class__._find

    def watched(self, searches, request, depth, fetched, **options):
        depths.append(depth)
        return find(self, searches, request, depth, fetched, **options)

    monkeypatch.setattr("twinvec_qdrant.search.searcher.Searcher._find", watched)
    filled.search('"refund of a late fee"', syntax=True)
    assert depths[0] == 100
    depths.clear()
    filled.search('"nothing of interest"', syntax=True)
    assert depths == [100]
