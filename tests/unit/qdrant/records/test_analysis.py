"""The recorded analysis of words: new collections have the newest one, others keep theirs until reindex or migrate."""

import pytest
from qdrant_client import QdrantClient

from stand_in import StandIn
from twinvec import Document
from twinvec.retrieval import analysis
from twinvec_qdrant import Collection
from words import WordEncoder

DOCUMENTS = [
    Document("games", "Pokémon is a series of games.", "Jeux vidéo"),
    Document("code", "Call get_environment_variable() of the HTTPServer before it starts."),
    Document("flags", "The option --dry-run only shows the plan."),
    Document("union", "The NASUWT is a union of teachers."),
    Document("questions", "What is what? What, how and why: what questions are, and what they ask."),
]


@pytest.fixture(params=["embedded", "stand-in"])
def place(request, tmp_path):
    """Where the collection lies."""
    if request.param == "embedded":
        yield {"path": tmp_path}
        return
    with StandIn().running() as server:
        yield {"client": QdrantClient(server.url, timeout=60, check_compatibility=False)}


def opened(place: dict, seed: int = 0, **settings) -> Collection:
    return Collection.open("notes", encoder=WordEncoder(seed), chunking=False, **place, **settings)


def first(collection: Collection, query: str) -> str | None:
    found = collection.search(query, 1, mode="sparse")
    return found[0].id if found else None


def recorded(collection: Collection) -> int | None:
    return collection._backend.read_metadata().get("analysis")


@pytest.fixture
def old(place, monkeypatch):
    """The place of a collection that was ingested before version 2 of the analysis."""
    with monkeypatch.context() as past:
        past.setattr(analysis, "NEWEST_ANALYSIS", 1)
        with opened(place) as collection:
            collection.ingest(DOCUMENTS)
            assert recorded(collection) is None
    return place


def test_a_new_collection_finds_accents_and_identifiers(place):
    with opened(place) as collection:
        assert recorded(collection) is None  # the description of an empty collection is that of older versions
        collection.ingest(DOCUMENTS)
        assert recorded(collection) == analysis.NEWEST_ANALYSIS
    with opened(place) as collection:
        for query in ("pokemon", "POKÉMON", "jeux video"):
            assert first(collection, query) == "games"
        for query in ("environment variable", "getEnvironmentVariable", "http server", "httpserver"):
            assert first(collection, query) == "code"
        for query in ("--dry-run", "dry run"):
            assert first(collection, query) == "flags"
        assert [hit.id for hit in collection.search("What is the NASUWT?", mode="sparse")] == ["union"]


def test_a_handle_from_before_the_first_ingest_analyses_queries_alike(place):
    if "path" in place:
        pytest.skip("one handle at a time")
    with opened(place) as early, opened(place) as writer:
        writer.ingest(DOCUMENTS)
        assert first(early, "pokemon") == "games"


def test_an_old_collection_keeps_its_analysis(old):
    with opened(old) as collection:
        before = collection.search("Pokémon HTTPServer what", mode="sparse")
        report = collection.ingest([*DOCUMENTS, Document("late", "Another Pokémon, late.")])
        assert (report.new, report.unchanged) == (1, len(DOCUMENTS))
        assert recorded(collection) is None
        assert first(collection, "pokemon") is None
        assert first(collection, "environment variable") is None
        assert {hit.id for hit in collection.search("Pokémon", mode="sparse")} == {"games", "late"}
        assert {hit.id for hit in before} == {"games", "code", "questions"}


@pytest.mark.parametrize("change", ["reindex", "migrate"])
def test_a_change_of_the_index_or_model_brings_the_newest_analysis(old, change, tmp_path):
    with opened(old) as collection:
        collection.reindex(payload_indexes=False)  # leaves vectors and words as they are
        assert recorded(collection) is None
        if change == "reindex":
            collection.reindex()
        else:
            collection.migrate(WordEncoder(1))
        assert recorded(collection) == analysis.NEWEST_ANALYSIS
        assert first(collection, "pokemon") == "games"
        assert first(collection, "environment variable") == "code"
        renewed = [(hit.id, hit.scores) for hit in collection.search("Pokémon union what", mode="sparse")]
        assert collection.ingest(DOCUMENTS).unchanged == len(DOCUMENTS)
    fresh = Collection.open("notes", tmp_path / "fresh", encoder=WordEncoder(), chunking=False)
    with fresh:
        fresh.ingest(DOCUMENTS)
        found = fresh.search("Pokémon union what", mode="sparse")
        assert [hit.id for hit in found] == [each for each, _ in renewed]
        for hit, (_, scores) in zip(found, renewed, strict=True):
            assert scores["sparse"] == pytest.approx(hit.scores["sparse"], rel=0.05)  # DRIFT of the average
        terms = {each.source: each.terms for each in fresh._catalog.records([each.id for each in DOCUMENTS]).values()}
    with opened(old, seed=1 if change == "migrate" else 0) as collection:
        again = collection._catalog.records([each.id for each in DOCUMENTS]).values()
        assert {each.source: each.terms for each in again} == terms


@pytest.mark.parametrize(
    ("version", "text", "query"),
    [
        (2, "ルーを小さく割る。", "ルー"),
        (3, "Made in the U.S.A. since 1962.", "USA"),
        (4, "There are 1,000 places.", "1000"),
    ],
)
def test_a_collection_of_an_older_version_finds_more_after_reindex(place, monkeypatch, version, text, query):
    texts = [Document("new", text), *DOCUMENTS]
    with monkeypatch.context() as past:
        past.setattr(analysis, "NEWEST_ANALYSIS", version)
        with opened(place) as collection:
            collection.ingest(texts)
    with opened(place) as collection:
        assert collection.ingest(texts).unchanged == len(texts)
        assert (recorded(collection), first(collection, query)) == (version, None)
        assert first(collection, "pokemon") == "games"
        collection.reindex()
        assert (recorded(collection), first(collection, query)) == (analysis.NEWEST_ANALYSIS, "new")
        assert first(collection, "pokemon") == "games"
