"""What a search finds, in which order, and with which scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twinvec import Document, RetrieveRerank
from twinvec.errors import BadVectorError, ConfigurationError, FilterError, TextError
from twinvec.retrieval.feedback import moved
from twinvec_qdrant import Collection
from words import WordEncoder

RECIPES = [
    {"id": "soup", "text": "soup of red lentils and cumin", "year": 2020, "tags": ["vegan", "hot"], "rated": True},
    {"id": "salad", "text": "salad of lentils and lemon", "year": 2021, "tags": ["vegan"], "rated": False},
    {"id": "steak", "text": "steak with pepper sauce", "year": 2022, "tags": [], "price": 19.5},
    {"id": "cake", "text": "cake with lemon", "year": 2023, "cooks": [{"name": "Ada"}, {"name": "Bo"}]},
]


@pytest.fixture
def recipes(collection):
    collection.ingest(RECIPES)
    return collection


def test_every_mode_keeps_the_scores_of_its_stages(recipes):
    for mode, stages in (("dense", ["dense"]), ("sparse", ["sparse"]), ("hybrid", ["dense", "sparse", "fused"])):
        hits = recipes.search("lentils and lemon", mode=mode)
        assert hits[0].id == "salad", mode
        assert list(hits[0].scores) == stages
        assert all(hit.score == hit.scores[stages[-1]] for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_stage_scores_the_candidates_of_the_other_too(recipes):
    dense = {hit.id: hit.score for hit in recipes.search("lentils", mode="dense")}
    sparse = {hit.id: hit.score for hit in recipes.search("lentils", mode="sparse")}
    assert set(sparse) == {"soup", "salad"}
    for hit in recipes.search("lentils", mode="hybrid"):
        assert hit.scores["dense"] == pytest.approx(dense[hit.id], abs=1e-6)
        assert hit.scores["sparse"] == pytest.approx(sparse.get(hit.id, 0.0), abs=1e-6)


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_feedback_moves_the_query_towards_its_first_hits(recipes, mode):
    """As a search with the moved vector does; only the dense scores stay those of the query as it was asked."""
    query, encoder = "lentils and lemon", recipes.encoder
    first = [hit.text for hit in recipes.search(query, 2, mode=mode)]
    vector = moved(encoder.encode_query([query])[0], encoder.encode_document(first))
    expected = recipes.search_vector(vector, words=None if mode == "dense" else query)
    asked = {hit.id: hit.score for hit in recipes.search(query, mode="dense")}
    found = recipes.search(query, mode=mode, feedback=2)
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    for hit, other in zip(found, expected, strict=True):
        assert hit.score == pytest.approx(other.score, abs=1e-5)
        assert hit.scores.pop("feedback") == pytest.approx(other.scores["dense"], abs=1e-5)
        assert hit.scores == pytest.approx({**other.scores, "dense": asked[hit.id]}, abs=1e-5)
    pages = [recipes.search(query, 1, mode=mode, feedback=2, offset=page)[0].id for page in range(2)]
    assert pages == [hit.id for hit in found[:2]]
    assert recipes.search_many([query, "steak"], mode=mode, feedback=2)[0][0].id == found[0].id
    assert recipes.search("no such", mode="sparse", feedback=2) == []


def test_feedback_of_a_filter_that_nothing_satisfies_finds_nothing(recipes):
    assert recipes.search("lentils", filter={"year": 1999}, feedback=5) == []
    assert [hit.id for hit in recipes.search("lentils", filter={"year": 2023}, feedback=5)] == ["cake"]


def test_candidates_of_one_stage_alone_are_scored_by_the_other(recipes, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.search.searcher.CANDIDATES", 1)
    recipes.ingest([{"id": "far", "text": "pepper " + "unrelated words about something else " * 5}])
    hits = recipes.search("steak pepper sauce", limit=1)
    all_dense = {hit.id: hit.score for hit in recipes.search("steak pepper sauce", mode="dense", limit=9)}
    assert hits[0].scores["dense"] == pytest.approx(all_dense[hits[0].id], abs=1e-6)


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({"id": "soup"}, {"soup"}),
        ({"id": ["soup", "cake", "gone"]}, {"soup", "cake"}),
        ({"tags": "vegan"}, {"soup", "salad"}),
        ({"tags": ["hot", "cold"]}, {"soup"}),
        ({"rated": True}, {"soup"}),
        ({"rated": False}, {"salad"}),
        ({"rated": 1}, set()),
        ({"year": 2021}, {"salad"}),
        ({"year": 2021.0}, {"salad"}),
        ({"year": {"gte": 2021, "lt": 2023}}, {"salad", "steak"}),
        ({"price": 19.5}, {"steak"}),
        ({"price": {"gt": 19.5}}, set()),
        ({"cooks.name": "Ada"}, {"cake"}),
        ({"cooks.name": "Cy"}, set()),
        ({"tags": "vegan", "year": {"gt": 2020}}, {"salad"}),
        ({"missing": "x"}, set()),
        ({'we"ird': "x"}, FilterError),
        ({"a..b": "x"}, FilterError),
        ({"year": {"near": 3}}, FilterError),
        ({"year": None}, FilterError),
        ("year = 3", FilterError),
        ({"year": math.inf}, FilterError),
        ({"year": [2021, -math.inf]}, FilterError),
        ({"year": math.nan}, FilterError),
        ({"year": {"gte": math.inf}}, FilterError),
        ({"year": {"lt": -math.inf}}, FilterError),
        ({"year": {"lt": math.nan}}, FilterError),
        ({"year": {"lt": 10**400}}, FilterError),
        ({"year": 2**63}, FilterError),
        ({"year": 2**63 - 1}, set()),
        ({"year": {"lt": 1e300}}, {"soup", "salad", "steak", "cake"}),
        ({"tags": "\ud800"}, FilterError),
        ({"\ud800": "x"}, FilterError),
        ({"a\\b": "x"}, FilterError),
    ],
)
def test_filters(recipes, filter, found):
    if found is FilterError:
        with pytest.raises(FilterError):
            recipes.search("lentils", filter=filter)
        return
    for mode in ("dense", "hybrid"):
        assert {hit.id for hit in recipes.search("lentils", mode=mode, filter=filter)} == found


def test_what_hits_show_can_be_filtered_and_the_users_keys_win(place):
    documents = [
        Document("guide", "# Water\n\nAs hot as it gets.\n\n# Tea\n\nGreen.", "How to", {"format": "markdown"}),
        Document("mine", "water and tea", "", {"source": "a book", "heading": "Water", "title": "mine", "position": 9}),
    ]
    with Collection.open("notes", encoder=WordEncoder(max_tokens=16), **place) as collection:
        collection.ingest(documents)

        def found(**wanted):
            return sorted(hit.id for hit in collection.search("water tea", filter=wanted, group=False))

        assert found(source="guide") == ["guide#0", "guide#1"]
        assert found(source="a book") == ["mine#0"]
        assert found(source="mine") == [], "that hit shows another source"
        assert found(position=1) == ["guide#1"]
        assert found(position={"gte": 1}) == ["guide#1", "mine#0"]
        assert found(heading="How to > Water") == ["guide#0"]
        assert found(heading=["Water", "How to > Tea"]) == ["guide#1", "mine#0"]
        assert found(title=["How to", "mine"]) == ["guide#0", "guide#1", "mine#0"]
        assert collection.find({"title": "How to"}) == ["guide"]
        for hit in collection.search("water tea", group=False):
            for key in ("source", "position", "heading", "title"):
                assert hit.id in found(**{key: hit.payload[key]})


def test_keys_that_are_no_plain_names_can_be_filtered(collection):
    keys = ["with space", "Größe", "a-b", "0", "[]", "a[0]", "'", "$"]
    collection.ingest([Document(f"d{row}", "tea", "", {key: row}) for row, key in enumerate(keys)])
    for row, key in enumerate(keys):
        assert [hit.id for hit in collection.search("tea", filter={key: row})] == [f"d{row}"], key


def test_equal_scores_come_in_the_order_of_ids(collection):
    collection.ingest([(name, "the same text") for name in ("b", "c", "a", "d")])
    for mode in ("dense", "sparse", "hybrid"):
        assert [hit.id for hit in collection.search("same text", mode=mode)] == ["a", "b", "c", "d"], mode
    assert [hit.id for hit in collection.search("same text", limit=2)] == ["a", "b"]


def test_many_queries_at_once_find_what_each_finds_alone(recipes):
    queries = ["lemon", "pepper", "", "lemon", "nothing known"]
    together = recipes.search_many(queries, limit=2)
    assert together == [recipes.search(query, limit=2) if query else [] for query in queries]
    assert recipes.search_many([]) == []


@pytest.mark.parametrize("query", ["", "  \n"])
def test_a_blank_query_finds_nothing(recipes, query):
    assert recipes.search(query) == []
    assert recipes.search_diverse(query) == []


def test_an_empty_collection_finds_nothing(collection):
    for mode in ("dense", "sparse", "hybrid"):
        assert collection.search("lentils", mode=mode) == []
    assert collection.search_diverse("lentils") == []


def test_pages_follow_one_another(recipes, words):
    whole = recipes.search("lentils lemon", 4)
    vector = words.encode_query(["lentils lemon"])[0]
    assert len(whole) == 4
    for size in (1, 2, 3):
        pages = [recipes.search("lentils lemon", size, offset=start) for start in range(0, 6, size)]
        assert [hit for page in pages for hit in page] == whole
    dense = recipes.search("lentils lemon", mode="dense", passages=False)
    assert recipes.search_vector(vector, 2, offset=1) == dense[1:3]
    assert recipes.search_many(["lentils lemon"], 2, "dense", offset=3, passages=False) == [dense[3:]]
    for offset in (-1, 1.5, True, 10**30):
        with pytest.raises(ConfigurationError, match="offset"):
            recipes.search("lentils", offset=offset)


@pytest.mark.parametrize("mode", ["dense", "sparse", "hybrid"])
def test_pages_of_many_documents_with_equal_scores_follow_one_another(collection, mode):
    kinds = [
        f"quick brown fox {word}" for word in ("note", "moon note", "moon", "sun", "fox fox", "note on a quick cat")
    ]
    collection.ingest([(f"d{row}", kinds[row * row % 11 % 6]) for row in range(250)])
    whole = collection.search("quick fox note", 300, mode)
    assert len({hit.id for hit in whole}) == 250
    assert [hit.score for hit in whole] == sorted((hit.score for hit in whole), reverse=True)
    for size in (20, 90, 130):
        pages = [collection.search("quick fox note", size, mode, offset=start) for start in range(0, 300, size)]
        assert [hit for page in pages for hit in page] == whole, size


def test_arguments_are_checked(recipes):
    for limit in (0, 10**30):
        with pytest.raises(ConfigurationError, match="limit"):
            recipes.search("x", limit=limit)
    assert len(recipes.search("lentils", limit=2**31 - 1, offset=2)) == 2
    with pytest.raises(ConfigurationError, match="mode"):
        recipes.search("x", mode="both")
    with pytest.raises(TextError, match="surrogate"):
        recipes.search("\ud800")
    with pytest.raises(TextError, match="query 1"):
        recipes.search_many(["a", 3])
    for diversity in (2, "x", float("nan")):
        with pytest.raises(ConfigurationError, match="diversity"):
            recipes.search_diverse("x", diversity=diversity)
    with pytest.raises(ConfigurationError, match="index"):
        recipes.reindex(3)
    with pytest.raises(TextError, match="namespace"):
        recipes.notes("\ud800")
    ragged = [[1.0], *[1.0] * 63]
    for vector in (np.full(64, np.nan), np.zeros(64), np.ones(3), ["a"] * 64, ragged, [10**400] * 64, [None, {}], None):
        for search in (recipes.search_vector, recipes.search_diverse):
            with pytest.raises(BadVectorError):
                search(vector)


def test_a_query_without_a_usable_vector_is_an_error(place, words):
    class Broken(type(words)):
        def encode_query(self, texts):
            return super().encode_query(texts) * np.nan

    with Collection.open("notes", encoder=Broken(), chunking=False, **place) as collection:
        collection.ingest(RECIPES)
        with pytest.raises(BadVectorError, match="finite"):
            collection.search("lentils")
        assert collection.search("lentils", mode="sparse")[0].id in ("soup", "salad")


def test_search_by_vector_finds_what_search_by_text_finds(recipes, words):
    vector = words.encode_query(["lentils and lemon"])[0]
    assert recipes.search_vector(vector) == recipes.search("lentils and lemon", mode="dense", passages=False)
    assert recipes.search_vector(vector, exact=True) == recipes.search_vector(vector)  # few points have no index
    for mode in ("dense", "sparse", "hybrid"):
        assert recipes.search("lentils", mode=mode, exact=True) == recipes.search("lentils", mode=mode) != []


def test_diverse_search_passes_over_likenesses(collection):
    collection.ingest([("a", "red lentils soup"), ("b", "red lentils soup hot"), ("c", "red wine")])
    assert [hit.id for hit in collection.search_diverse("red lentils soup", 2, diversity=0.0)] == ["a", "b"]
    assert [hit.id for hit in collection.search_diverse("red lentils soup", 2, diversity=0.6)] == ["a", "c"]


def chapter(topic: str) -> str:
    return "\n\n".join(f"## Section {number}\n\n{topic} in section {number}. " * 20 for number in range(6))


@pytest.fixture
def chapters(tmp_path, encoder):
    with Collection.open("book", tmp_path, encoder=encoder) as opened:
        opened.ingest([(f"{topic}.md", chapter(topic)) for topic in ("gardens", "engines", "oceans")])
        yield opened


def test_grouped_hits_are_one_a_source_and_as_many_as_there_are(chapters, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.search.searcher.CANDIDATES", 1)
    for mode in ("dense", "sparse", "hybrid"):
        hits = chapters.search("gardens in section", limit=3, mode=mode)
        assert hits[0].id == "gardens.md", mode
        assert len(hits) == 3, mode
        assert len({hit.id for hit in hits}) == len(hits), mode


def test_without_grouping_chunks_carry_source_position_and_heading(chapters):
    hits = chapters.search("gardens in section 3", limit=5, group=False)
    assert len(hits) == 5
    for hit in hits:
        assert hit.id == f"{hit.payload['source']}#{hit.payload['position']}"
        assert hit.text.startswith(hit.payload["heading"])


def test_a_collection_is_a_retriever(recipes):
    class Shortest:
        def rerank(self, query, hits, limit=None):
            return sorted(hits, key=lambda hit: len(hit.text))[:limit]

    assert RetrieveRerank(recipes, Shortest()).search("lemon", limit=1)[0].id == "cake"
