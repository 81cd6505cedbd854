"""The vocabulary of a collection: every writer counts it, also after a kill, and queries are corrected by it."""

from itertools import chain

import pytest
from qdrant_client import QdrantClient

from stand_in import StandIn
from twinvec import Document
from twinvec.retrieval.analysis import Analyzer, written_words
from twinvec_qdrant import Collection
from twinvec_qdrant.records.words import spelling, vocabulary
from twinvec_qdrant.records.words.spelling import Speller, corrected
from twinvec_qdrant.records.words.vocabulary import VOCABULARY
from words import WordEncoder

DOCUMENTS = [
    Document("path", "An environment variable names the folders."),
    Document("shell", "The shell reads its environment when it starts."),
    Document("tea", "Green tea is brewed at eighty degrees."),
    Document("games", "Pokémon is a series of games."),
]


def opened(folder, **settings) -> Collection:
    return Collection.open("notes", folder, encoder=WordEncoder(), chunking=False, **settings)


def stored(collection: Collection) -> tuple[int, dict[str, int]]:
    """The number of chunks that the vocabulary has seen, and its words."""
    payload = collection._backend.retrieve([VOCABULARY])[VOCABULARY].payload
    return payload["chunks"], vocabulary._unpacked(payload)


def counted(documents) -> dict[str, int]:
    return Analyzer("english", 2).word_counts(written_words(each.text for each in documents))


def test_a_vocabulary_counts_the_chunks_of_each_word(tmp_path):
    with opened(tmp_path) as collection:
        collection.ingest(DOCUMENTS[:2])
        collection.ingest(DOCUMENTS[2:])
        chunks, words = stored(collection)
        assert chunks == 4
        assert (words["environment"], words["tea"], words["pokémon"]) == (2, 1, 1)
        assert "the" not in words
        collection.delete(["shell"])
        assert stored(collection)[0] == 3
        collection.reindex()  # forgets the words of what was removed
        assert stored(collection) == (3, counted(DOCUMENTS[n] for n in (0, 2, 3)))
        assert list(collection.notes("twinvec.vocabulary").find({"words": {"exists": True}})) == []


def test_terms_that_no_chunk_has_weigh_most(tmp_path):
    with opened(tmp_path) as collection:
        collection.ingest([*DOCUMENTS, ("water", "水 и чай на столе")])
        weights = collection._catalog.weights
        collection._backend.run(weights.vocabulary.read())
        rare, common, absent = weights.weights(["pokemon", "environment", "penguins"])
        assert absent > rare > common
        assert weights.weights(["水", "на"]) == [rare, rare]
        assert weights.weights(["火", "по"]) == [absent, absent]
        assert weights.weights(["tea penguins"]) == pytest.approx([rare + absent])
        (half,) = collection.search("tea penguins", 1, mode="sparse")
        (whole,) = collection.search("tea", 1, mode="sparse")
        assert half.score == pytest.approx(whole.score, abs=1e-5)
        assert half.relevance < whole.relevance


def test_short_words_have_a_medium_weight_until_this_version_has_counted_all_chunks(tmp_path):
    texts = [f"green tea {row}" for row in range(200)]
    with opened(tmp_path) as collection:
        collection.ingest([*texts, "水"])
        chunks, words = stored(collection)
        older = {word: count for word, count in words.items() if len(word) > 2}
        collection._backend.upsert([vocabulary._point(older, chunks, has_short=False)])
    with opened(tmp_path) as collection:
        collection.ingest([("new", "火")])
        absent, old, new = collection._catalog.weights.weights(["penguins", "水", "木"])
        assert absent > old == new == 4.5
        collection.reindex()
        absent, old, new = collection._catalog.weights.weights(["penguins", "水", "木"])
        assert absent == new > old > 4.5


def test_a_vocabulary_that_another_writer_has_changed_is_read_again_after_a_while(tmp_path, monkeypatch):
    with opened(tmp_path) as collection:
        collection.ingest(DOCUMENTS)
        weights = collection._catalog.weights
        (before,) = weights.weights(["penguins"])
        collection._backend.upsert([vocabulary._point({"penguins": 2000}, 3000)])
        collection.search("penguins", mode="sparse")
        assert weights.weights(["penguins"]) == [before]
        monkeypatch.setattr(vocabulary, "_FRESH_SECONDS", 0.0)
        collection.search("penguins", mode="sparse")
        (common,), (absent,) = weights.weights(["penguins"]), weights.weights(["tea"])
        assert common == 2
        assert absent > before


def test_an_unchanged_ingest_writes_no_vocabulary(tmp_path, monkeypatch):
    with opened(tmp_path) as collection:
        collection.ingest(DOCUMENTS)
    with opened(tmp_path) as collection:
        monkeypatch.setattr(vocabulary, "_point", None)
        assert collection.ingest(DOCUMENTS).unchanged == len(DOCUMENTS)


@pytest.mark.parametrize("committed", [3, 4])
@pytest.mark.parametrize("before", [0, 2])
def test_a_writer_that_died_is_made_up_for(tmp_path, monkeypatch, before, committed):
    """Also where nothing is left to ingest, because it died after the last commit."""
    with opened(tmp_path) as collection:
        collection.ingest(DOCUMENTS[:before])
        with monkeypatch.context() as killed:
            killed.setattr(vocabulary.Vocabulary, "save", lambda *args, **options: None)
            collection.ingest(DOCUMENTS[:committed])
    with opened(tmp_path) as collection:
        assert collection.ingest(DOCUMENTS).unchanged == committed
        assert stored(collection) == (4, counted(DOCUMENTS))


def test_an_unchanged_ingest_beside_another_writer_spoils_nothing(tmp_path):
    with opened(tmp_path) as first, opened(tmp_path) as second:
        first.ingest(DOCUMENTS[:2])
        second.ingest(DOCUMENTS[2:])
        assert first.ingest(DOCUMENTS[:2]).unchanged == 2
        assert stored(first) == (4, counted(DOCUMENTS))


def test_writers_that_take_turns_count_no_words_again(tmp_path, monkeypatch):
    with opened(tmp_path) as first, opened(tmp_path) as second:
        documents = [Document(name, f"{name} and rice") for name in ("tea", "milk", "bread", "beans")]  # of one length
        first.ingest(documents[:1])
        second.ingest(documents[1:2])
        monkeypatch.setattr(vocabulary, "pages", None)  # which counting all words again takes
        first.ingest(documents[2:3])
        second.ingest(documents[3:])
        first.delete(["tea"])
        assert stored(first) == (3, counted(documents))
        assert first._catalog.weights.chunks == first.count() == 3


def test_a_full_vocabulary_keeps_the_most_frequent_words(tmp_path, monkeypatch):
    monkeypatch.setattr(vocabulary, "MAX_WORDS", 1)
    with opened(tmp_path) as collection:
        collection.ingest(DOCUMENTS)
        assert stored(collection)[1] == {"environment": 2}


def test_a_copy_counts_its_own_words(tmp_path):
    with opened(tmp_path / "a") as collection, opened(tmp_path / "b") as copy:
        collection.ingest(DOCUMENTS[:2])
        copy.ingest(DOCUMENTS[2:])
    with opened(tmp_path / "a") as collection:
        collection.push(tmp_path / "b", prune=False)
    with opened(tmp_path / "b") as copy:
        chunks, words = stored(copy)
        assert chunks == 4
        assert {"environment", "tea"} <= words.keys()


@pytest.fixture(scope="module", params=["embedded", "stand-in"])
def filled(request, tmp_path_factory):
    """A collection, opened again after its ingest."""
    if request.param == "embedded":
        place = {"path": tmp_path_factory.mktemp("vocabulary")}
        with Collection.open("notes", encoder=WordEncoder(), chunking=False, **place) as collection:
            collection.ingest(DOCUMENTS)
        with Collection.open("notes", encoder=WordEncoder(), chunking=False, **place) as collection:
            yield collection
        return
    with StandIn().running() as server:
        place = {"client": QdrantClient(server.url, timeout=60, check_compatibility=False)}
        for written in (False, True):
            with Collection.open("notes", encoder=WordEncoder(), chunking=False, **place) as collection:
                if written:
                    yield collection
                else:
                    collection.ingest(DOCUMENTS)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "sparse"])
@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("enviroment variable", "environment variable"),
        ("Envrionment", "environment"),
        ("the greeen tea", "the green tea"),
        ("a pokemno", "a pokémon"),
    ],
)
def test_a_misspelt_word_finds_what_the_right_one_finds(filled, mode, typed, right):
    found, expected = filled.search(typed, mode=mode), filled.search(right, mode=mode)
    assert expected
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    assert [hit.passage for hit in found] == [hit.passage for hit in expected]


def test_misspelt_words_beside_a_vector_find_what_the_right_ones_find(filled):
    (vector,) = WordEncoder().encode_query(["unrelated zebras"])
    found, expected = (filled.search_vector(vector, words=words) for words in ("the greeen tea", "the green tea"))
    assert expected[0].scores["sparse"] > 0
    assert [(hit.id, hit.passage) for hit in found] == [(hit.id, hit.passage) for hit in expected]


@pytest.mark.parametrize(
    "query", ["environment variable", "shells read", "te", "unrelated zebras", "getVariabel", "x1"]
)
def test_right_and_strange_words_stay(filled, query):
    speller = filled._run(filled._catalog.weights.speller())
    assert speller.corrections(query) == []


def test_blanks_and_case_change_nothing(filled):
    expected = filled.search("environment variable")
    for query in ("environment variable  ", "\n environment variable\t"):
        assert filled.search(query) == expected
    words = filled.search("environment variable", mode="sparse")
    assert filled.search("ENVIRONMENT Variable", mode="sparse") == words
    assert words


@pytest.mark.parametrize(
    ("language", "word", "near"),
    [
        ("german", "Wann", "wand"),
        ("german", "Wofür", "wofor"),
        ("french", "quand", "quant"),
        ("spanish", "dónde", "danda"),
        ("english", "when", "whey"),
    ],
)
def test_question_words_of_the_language_are_right(language, word, near):
    analyzer = Analyzer(language, 3)
    assert speller_of({near: 9}, analyzer).corrections(word) == []
    assert [each.instead for each in speller_of({near: 9}, analyzer).corrections(f"{near}x")] == [near]


def speller_of(words, analyzer=None):
    analyzer = analyzer or Analyzer("english", 2)
    return Speller(words, set(chain.from_iterable(analyzer.terms(list(words)))), analyzer)


def test_words_that_a_model_knows_are_right():
    speller = speller_of({"policy": 7, "leave": 3})
    found = speller.corrections("lease of leve")
    assert [(each.word, each.instead) for each in found] == [("lease", "leave"), ("leve", "leave")]
    assert corrected("lease of leve", found, lambda each: each.word == "lease") == "lease of leave"
    assert corrected("lease of leve", found, lambda each: False) == "leave of leave"


def test_a_part_of_a_joined_word_is_not_corrected_from_version_5_on():
    words = {"note": 9, "exempla": 9, "policy": 3}
    query = "pollcy of node.js on exemple.com. Node"
    (policy, node) = speller_of(words, Analyzer("english", 5)).corrections(query)
    assert [(each.word, each.start, each.instead) for each in (policy, node)] == [
        ("pollcy", 0, "policy"),
        ("Node", 34, "note"),
    ]
    assert len(speller_of(words, Analyzer("english", 4)).corrections(query)) == 4


def test_of_the_closest_words_the_most_frequent_is_taken():
    words = {"contact": 2, "contract": 9, "contracts": 1, "compact": 50}
    speller = speller_of(words)
    assert [each.instead for each in speller.corrections("contrakt")] == ["contract"]
    assert [each.instead for each in speller.corrections("contrct")] == ["contract"]
    assert speller.corrections("bontract") == []  # the first letter is right


def test_a_full_vocabulary_corrects_by_frequent_words_only(monkeypatch):
    monkeypatch.setattr(spelling, "MAX_WORDS", 2)
    speller = speller_of({"variable": 100, "smith": 1})
    assert [each.instead for each in speller.corrections("variabel smyth")] == ["variable"]


class CountingAnalyzer(Analyzer):
    """An analyzer that counts the texts that it is given one by one."""

    calls = 0

    def terms(self, texts):
        self.calls += 1
        return super().terms(texts)


def test_a_word_of_a_long_query_is_looked_at_once():
    analyzer = CountingAnalyzer("english", 2)
    speller = speller_of({"environment": 3, "variable": 1}, analyzer)
    before = analyzer.calls
    query = "enviroment variabel " * 5000
    found = speller.corrections(query)
    assert analyzer.calls == before + 2
    assert len(found) == 10_000
    asked = []
    assert corrected(query, found, lambda each: asked.append(each.word) or False) == "environment variable " * 5000
    assert asked == ["enviroment", "variabel"]
    assert corrected(query, found, lambda each: each.word == "variabel") == "environment variabel " * 5000


def test_of_a_long_query_the_first_words_are_corrected(monkeypatch):
    speller = speller_of({"environment": 3})
    monkeypatch.setattr(spelling, "_MOST_WORDS", 3)
    assert [each.start for each in speller.corrections("enviroment green brewed enviroment enviromemt")] == [0, 24]
