"""Tuning: what is chosen, what it is worth, and that it does no harm."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import numpy as np
import pytest

from twinvec import Encoder, MaxSimReranker, MemoryIndex
from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.ir import evaluate_retriever
from twinvec.evaluation.tuning import (
    CANDIDATE_COUNTS,
    MIXES,
    PLAIN,
    WORDS,
    choose,
    measure_settings,
    pseudo_queries,
    tune,
    tune_by_documents,
    tuned,
)
from twinvec.export import export_model
from twinvec.retrieval.base import Hit
from twinvec.retrieval.documents import Document
from twinvec.retrieval.tuned_search import NOTES, Setting, TunedSearch, save, saved
from twinvec_qdrant import Collection

FAST = {"resamples": 100}
QUERIES = {f"q{row}": f"query {row}" for row in range(30)}
DATA = BeirSet(
    "made", [Document(f"d{row}", "text") for row in range(30)], QUERIES, {f"q{n}": {f"d{n}": 1} for n in range(30)}
)


class Ranks:
    """A retriever that finds the answer at the rank that is written down for each mode and query.

    The ranks of hybrid search are of equal weights; with others it finds nothing.
    """

    def __init__(self, **ranks):
        self._ranks = ranks

    def search(self, query, limit=10, *, mode="hybrid", filter=None, weights=(1.0, 1.0)):
        if weights != (1.0, 1.0):
            return []
        number = int(query.split()[1])
        rank = self._ranks[mode][number]
        names = [f"other{place}" for place in range(limit)]
        names[rank - 1] = f"d{number}"
        return [Hit(name, "text", 1.0 - place / 1000) for place, name in enumerate(names)]


def test_the_better_mode_is_chosen_and_its_gain_told():
    found = tune(Ranks(dense=[4] * 30, sparse=[2] * 30, hybrid=[1] * 30), DATA, **FAST)
    assert found.setting == Setting("hybrid")
    assert (found.single, found.queries, found.pseudo) == (Setting("sparse"), 30, False)
    assert found.expected == pytest.approx(100)
    assert found.gain.difference == pytest.approx(100 - 100 / np.log2(3))
    assert found.gain.p_value < 0.05
    assert found.figures[Setting("dense")] == pytest.approx(100 / np.log2(5))
    assert json.loads(json.dumps(found.as_json()))["figures"]["hybrid"] == pytest.approx(100)


def test_a_fusion_that_loses_is_not_chosen():
    found = tune(Ranks(dense=[1] * 30, sparse=[9] * 30, hybrid=[3] * 30), DATA, **FAST)
    assert found.setting == found.single == Setting("dense")
    assert (found.gain.difference, found.gain.p_value) == (0, 1)


def test_what_wins_by_chance_only_is_not_chosen():
    """Vectors alone are better over all queries thanks to one of them: without it, they are not."""
    dense = [2] * 29 + [1]
    found = tune(Ranks(dense=dense, sparse=[9] * 30, hybrid=[2] * 30), DATA, **FAST)
    assert found.figures[Setting("dense")] > found.figures[Setting("hybrid")]
    assert found.setting == Setting("hybrid")
    assert found.gain.difference < 0
    assert found.gain.p_value > 0.05


def test_the_choice_from_few_noisy_queries_does_no_harm():
    """Settings all alike but for noise: the best mean would be luck, and plain hybrid search stays."""
    random = np.random.default_rng(0)
    kept = 0
    for _ in range(50):
        values = {Setting("hybrid", mix=n / 100, candidates=20): random.normal(50, 20, 30) for n in range(1, 8)}
        kept += choose({PLAIN: random.normal(50, 20, 30), **values}) == PLAIN
    assert kept > 25
    better = {PLAIN: np.full(30, 50.0), Setting("dense"): random.normal(60, 10, 30)}
    assert choose(better) == Setting("dense")


@pytest.fixture
def words_matter(table_model):
    """The word of a query stands in its answer and in one other document; its vector is nearest to a third."""
    random = np.random.default_rng(3)
    documents, queries, qrels, vectors = [], {}, {}, {}
    for row in range(20):
        answer, near, wrong = f"answer {row} w{row}", f"near {row}", f"also {row} w{row}"
        direction = random.normal(size=16)
        vectors |= {answer: direction + 0.9 * random.normal(size=16), near: direction, wrong: random.normal(size=16)}
        vectors[f"w{row}"] = direction
        documents += [Document(text.split()[0] + str(row), text) for text in (answer, near, wrong)]
        queries[f"q{row}"] = f"w{row}"
        qrels[f"q{row}"] = {f"answer{row}": 1}
    data = BeirSet("words", documents, queries, qrels)
    return MemoryIndex(table_model(vectors), documents), data


def test_maxsim_is_mixed_as_the_reranker_does(encoder, beir):
    data = load_beir(beir)
    queries = {f"q{row}": text for row, text in enumerate(list(data.queries.values()) * 4)}
    qrels = {query: dict(list(data.qrels.values())[row % 3]) for row, query in enumerate(queries)}
    data = BeirSet("repeated", data.documents, queries, qrels)
    index = MemoryIndex(encoder, data.documents)
    found = tune(index, data, encoder=encoder, measure="mrr@5", **FAST)
    assert len(found.figures) == (2 + len(WORDS)) * (1 + len(MIXES) * len(CANDIDATE_COUNTS))
    setting = Setting("dense", mix=0.75, candidates=20)
    from twinvec.evaluation.ir import as_run, measure_ir, search_all

    hits = search_all(index, data, 20, mode="dense")
    reranker = MaxSimReranker(encoder, mix=0.75)
    reranked = {query: reranker.rerank(queries[query], each) for query, each in hits.items()}
    assert found.figures[setting] == pytest.approx(
        measure_ir(as_run(reranked), data, measures=["mrr@5"]).figures["mrr@5"]
    )


def test_the_weight_of_words_is_chosen(words_matter):
    index, data = words_matter
    found = tune(index, data, **FAST)
    assert found.setting.mode == "hybrid"
    assert found.setting.words > 1
    for words in WORDS:
        direct = evaluate_retriever(index, data, measures=["ndcg@10"], mode="hybrid", weights=(1.0, words))
        assert found.figures[Setting("hybrid", words)] == pytest.approx(direct.figures["ndcg@10"])


def test_passages_cannot_say_that_words_weigh_too_little(words_matter):
    index, data = words_matter
    found = tuned(measure_settings(index, data, None, "ndcg@10"), "ndcg@10", pseudo=True, **FAST)
    assert found.setting == PLAIN
    assert all(setting.words <= 1 for setting in found.figures)
    assert {Setting("dense"), Setting("sparse")} < set(found.figures)  # to be compared with


def test_a_retriever_of_other_documents_is_refused():
    class Elsewhere:
        def search(self, query, limit=10, **options):
            return [Hit("x", "text", 1.0)]

    with pytest.raises(InputError, match="made: the collection finds none of its documents"):
        tune(Elsewhere(), DATA, **FAST)


def test_too_few_queries_are_refused(beir):
    with pytest.raises(InputError, match="small: 3 judged queries; choosing needs at least 10"):
        tune(Ranks(), load_beir(beir))


def text_of(row):
    return " ".join(f"Sentence {number} of document {row} speaks of topic {row * 7 + number}." for number in range(12))


def test_a_passage_is_taken_out_and_has_to_be_found_by_the_rest():
    documents = [Document(f"d{row}", text_of(row), title=f"T{row}") for row in range(15)] + [
        Document("short", "Short.")
    ]
    data = pseudo_queries(documents, count=12)
    assert len(data.queries) == len(data.qrels) == 12
    assert [document.id for document in data.documents] == [document.id for document in documents]
    texts = {document.id: document.text for document in data.documents}
    for query, passage in data.queries.items():
        ((source, relevance),) = data.qrels[query].items()
        original = text_of(int(source[1:]))
        assert relevance == 1
        assert passage in original
        assert passage not in texts[source]
        assert 60 <= len(passage) <= 240
        assert len(texts[source]) >= len(original) - len(passage) - 2
    assert texts["short"] == "Short."
    assert pseudo_queries(documents, count=12) == data


def test_the_choice_is_kept_with_the_collection(tiny_model, tmp_path):
    encoder = Encoder(tiny_model("bert"))
    with Collection.open("c", tmp_path, encoder=encoder) as collection:
        collection.ingest([(f"d{row}", text_of(row)) for row in range(15)])
        assert saved(collection) is None
        tuning = tune_by_documents(collection, **FAST)
        assert tuning.pseudo
        assert tuning.queries == 15
        save(collection, tuning.setting, tuning.measure)
    with Collection.open("c", tmp_path, encoder=encoder) as collection:
        assert saved(collection) == tuning.setting
        assert [key for key, _ in collection.notes(NOTES).find()] == ["setting"]
        tuned = TunedSearch(collection)
        assert tuned.setting == tuning.setting
        question = "What speaks of topic 14?"
        assert tuned.search(question, 3) == tuned.search_many([question], 3)[0]
        assert collection.count() >= 15


def test_a_search_goes_by_the_choice(tiny_model, tmp_path):
    encoder = Encoder(tiny_model("bert"))
    with Collection.open("c", tmp_path, encoder=encoder) as collection:
        collection.ingest([(f"d{row}", text_of(row)) for row in range(15)])
        assert TunedSearch(collection).setting == Setting("hybrid")
        for setting in (Setting("sparse"), Setting("dense", mix=0.5, candidates=20)):
            collection.notes(NOTES).put({"setting": asdict(setting)})
            (hit, *_) = TunedSearch(collection).search("topic 14", 3)
            assert list(hit.scores) == [setting.mode, *(["maxsim"] if setting.mix else [])]


@pytest.mark.slow
def test_the_command_prints_and_keeps_the_choice(twinvec, tiny_model, tmp_path):
    with Collection.open("c", tmp_path, encoder=Encoder(tiny_model("bert"))) as collection:
        collection.ingest([(f"d{row}", text_of(row)) for row in range(15)])
    place = ("--collection", "c", "--path", tmp_path)
    figures = json.loads(twinvec("tune", *place, "--json").out)
    assert figures["pseudo"]
    assert figures["gain"]["interval"]["low"] <= figures["gain"]["difference"] <= figures["gain"]["interval"]["high"]
    with Collection.open("c", tmp_path) as collection:
        assert saved(collection) == Setting(**figures["setting"])
    for setting in (Setting("sparse"), Setting("dense", mix=0.5, candidates=20)):
        with Collection.open("c", tmp_path) as collection:
            collection.notes(NOTES).put({"setting": asdict(setting)})
        hit = json.loads(twinvec("search", "topic 14", *place, "--json").out)["hits"][0]
        assert list(hit["scores"]) == [setting.mode, *(["maxsim"] if setting.mix else [])]
        hit = json.loads(twinvec("search", "topic 14", *place, "--mode", "dense", "--json").out)["hits"][0]
        assert list(hit["scores"]) == ["dense"]  # what is asked for comes first
    shown = twinvec("tune", *place)
    assert shown.err == ""
    for said in ("chosen: ", "15 passages, each cut out of a document; the search had to find the rest", "gain over "):
        assert said in shown.out
    assert twinvec("tune", "--collection", "none", "--path", tmp_path).code == 1


@pytest.mark.slow
def test_a_terminal_shows_how_far_tuning_is(on_terminal, tiny_model, tmp_path):
    exported = export_model(tiny_model("bert"), tmp_path / "exported").folder  # is loaded without torch
    with Collection.open("c", tmp_path / "store", encoder=Encoder(exported)) as collection:
        collection.ingest([(f"d{row}", text_of(row)) for row in range(15)])
    shown = on_terminal(120, "tune", "--collection", "c", "--path", tmp_path / "store")
    assert "Searching" in shown
    assert re.search(r"Reranking[^\r]*15/15 texts", shown)
    assert "chosen: " in shown


def test_a_collection_is_measured_as_it_was_tuned(twinvec, tiny_model, tmp_path, make_beir):
    documents = {f"d{row}": ("", text_of(row)) for row in range(15)}
    judged = make_beir("made", documents=documents, queries={"q": "topic 14"}, qrels={"q": {"d2": 1}})
    with Collection.open("c", tmp_path / "store", encoder=Encoder(tiny_model("bert"))) as collection:
        collection.ingest([(name, text) for name, (_, text) in documents.items()])
        save(collection, Setting("hybrid", words=2.0, mix=0.5, candidates=20), "ndcg@10")
    place = ("--collection", "c", "--path", tmp_path / "store", "--ir", judged, "--measures", "mrr@10", "--json")
    figures = json.loads(twinvec("evaluate", *place).out)
    assert figures["setting"] == "hybrid, words x 2, maxsim 0.5 over 20"
    assert set(figures["reranked"]) == {"made"}
    assert "reranked" not in json.loads(twinvec("evaluate", *place, "--mode", "dense").out)


def test_short_documents_give_no_queries(tiny_model, tmp_path):
    with Collection.open("c", tmp_path, encoder=Encoder(tiny_model("bert"))) as collection:
        collection.ingest([("a", "short"), ("b", "also short")])
        with pytest.raises(InputError, match=r"only 0 of 2 documents are long enough \(340 characters\)"):
            tune_by_documents(collection)
