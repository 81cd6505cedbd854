"""Tuning: what is chosen, what it is worth, and that it does no harm."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from twinvec import Encoder, MaxSimReranker, MemoryIndex
from twinvec import encoder as encoders
from twinvec.errors import InputError, StoreBusyError
from twinvec.evaluation import serving
from twinvec.evaluation.beir import BeirSet, load_beir, pseudo_queries
from twinvec.evaluation.ir import as_run, evaluate_retriever, measure_ir
from twinvec.evaluation.serving import evaluate_collection, evaluate_reranked
from twinvec.evaluation.statistics import assured_gains
from twinvec.evaluation.tuning import (
    CANDIDATE_COUNTS,
    FEEDBACK_COUNTS,
    FEEDBACK_WORDS,
    MIXES,
    PLAIN,
    WORDS,
    by_passages,
    choose,
    cross_validated,
    measure_settings,
    tune,
    tune_by_documents,
    tune_collection,
    tuned,
)
from twinvec.export import export_model
from twinvec.retrieval.base import Hit
from twinvec.retrieval.documents import Document
from twinvec.retrieval.tuned_search import NOTES, Setting, TunedSearch, save, saved
from twinvec_qdrant import Collection
from words import StateEncoder

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


@pytest.mark.slow
def test_the_choice_from_few_noisy_queries_does_no_harm():
    """Settings all alike but for noise: the best mean would be luck, and plain hybrid search stays, however many."""
    random = np.random.default_rng(0)
    for count in (7, 70):
        kept = 0
        for _ in range(60):
            values = {Setting("hybrid", mix=n / 100, candidates=20): random.normal(50, 20, 30) for n in range(count)}
            kept += choose({PLAIN: random.normal(50, 20, 30), **values}) == PLAIN
        assert kept > 50, f"{count} settings: at most one choice in ten is by chance"
    better = {PLAIN: np.full(30, 50.0), Setting("dense"): random.normal(60, 10, 30)}
    assert choose(better) == Setting("dense")


def test_settings_that_are_much_worse_do_not_hide_the_one_that_is_better():
    random = np.random.default_rng(1)
    plain = random.normal(50, 20, 40)
    better = Setting("hybrid", 2.0)
    worse = {Setting("dense", mix=n / 100, candidates=20): plain - 30 + random.normal(0, 20, 40) for n in range(300)}
    values = {PLAIN: plain, better: plain + random.normal(4, 10, 40)}
    alone, among = (
        assured_gains(np.stack([each - plain for each in measured.values()])) for measured in (values, values | worse)
    )
    assert alone[1] == among[1] > 0
    assert np.isneginf(among[2:]).sum() > 290
    assert choose(values | worse) == better


def test_a_choice_that_does_not_gain_in_cross_validation_is_not_kept():
    """A setting may beat plain hybrid search over all queries, and no fold of them shows it."""
    random = np.random.default_rng(5)
    taken = left = 0
    for _ in range(200):
        values = {
            PLAIN: np.full(20, 50.0),
            **{Setting("hybrid", n): 50 + random.normal(2.2, 8, 20) for n in (0.5, 2.0)},
        }
        gained = (cross_validated(values) - values[PLAIN]).mean() > 0
        chosen = choose(values)
        assert chosen == PLAIN or gained
        taken += chosen != PLAIN
        left += bool((assured_gains(np.stack([values[each] - 50 for each in values])) > 0).any()) and not gained
    assert taken > 20
    assert left > 0


def test_similar_settings_cost_little():
    """A hundred copies of a setting are one setting: the correction knows how they go together."""
    random = np.random.default_rng(2)
    gains = random.normal(3, 10, 50)
    copies = gains + random.normal(0, 0.1, (100, 50))
    assert assured_gains(copies).max() == pytest.approx(assured_gains(gains[None])[0], abs=0.3)
    strangers = np.concatenate([gains[None], random.normal(0, 10, (100, 50))])
    assert assured_gains(strangers)[0] < assured_gains(gains[None])[0] - 1


def test_the_gain_over_plain_hybrid_search_is_told_and_what_the_choice_costs():
    found = tune(Ranks(dense=[1] * 30, sparse=[9] * 30, hybrid=[3] * 30), DATA, **FAST)
    assert found.setting == Setting("dense")
    assert found.gain_over_plain.difference == pytest.approx(found.expected - found.figures[PLAIN])
    assert found.gain_over_plain.interval.low > 0
    assert set(found.milliseconds) == {"plain", "chosen"}
    assert all(figure > 0 for figure in found.milliseconds.values())
    told = json.loads(json.dumps(found.as_json()))
    assert told["gain_over_plain"]["difference"] == found.gain_over_plain.difference
    assert told["milliseconds"] == found.milliseconds


def test_feedback_is_tried_where_the_retriever_has_it(words_matter):
    """And is measured as the index then searches."""
    index, data = words_matter
    measured = measure_settings(index, data, None, "ndcg@10")
    setting = Setting("hybrid", 2.0, feedback=2)
    direct = evaluate_retriever(index, data, measures=["ndcg@10"], **setting.first_stage)
    assert direct.figures["ndcg@10"] == pytest.approx(measured[setting].mean())
    assert {each.feedback for each in measured} == {0, *FEEDBACK_COUNTS}
    without = measure_settings(Ranks(dense=[1] * 30, sparse=[1] * 30, hybrid=[1] * 30), DATA, None, "ndcg@10")
    assert {each.feedback for each in without} == {0}


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


@pytest.mark.slow
def test_maxsim_is_mixed_as_the_reranker_does(encoder, beir):
    data = load_beir(beir)
    queries = {f"q{row}": text for row, text in enumerate(list(data.queries.values()) * 4)}
    qrels = {query: dict(list(data.qrels.values())[row % 3]) for row, query in enumerate(queries)}
    data = BeirSet("repeated", data.documents, queries, qrels)
    index = MemoryIndex(encoder, data.documents)
    found = tune(index, data, encoder=encoder, measure="mrr@5", **FAST)
    alone = (2 + len(WORDS)) * (1 + len(MIXES) * len(CANDIDATE_COUNTS))
    assert len(found.figures) == alone + len(FEEDBACK_COUNTS) * (1 + len(FEEDBACK_WORDS))
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
    assert all(setting.words <= 1 and not setting.feedback for setting in found.figures)
    assert {Setting("dense"), Setting("sparse")} < set(found.figures)  # to be compared with


def test_passages_do_not_choose_what_only_judged_queries_can_tell():
    told = [PLAIN, Setting("dense"), Setting("hybrid", 0.5)]
    others = [Setting("sparse"), Setting("hybrid", 2.0), Setting("dense", feedback=2), Setting("hybrid", mix=0.5)]
    assert list(by_passages(dict.fromkeys([*told, *others], np.zeros(10)))) == told


def test_a_retriever_of_other_documents_is_refused():
    class Elsewhere:
        def search(self, query, limit=10, **options):
            return [Hit("x", "text", 1.0)]

    with pytest.raises(InputError, match="made: the collection finds none of its documents"):
        tune(Elsewhere(), DATA, **FAST)


def test_a_collection_is_tuned_on_a_set_with_judgements():
    collection = SimpleNamespace(find=list, search=lambda *_, **__: [], encoder=None)
    with pytest.raises(InputError, match="data: expected a BeirSet"):
        tune_collection(collection, "scifact")
    with pytest.raises(InputError, match="x: 0 judged queries; choosing a setting needs at least 10"):
        tune_collection(collection, BeirSet("x", [], {"q": "a query"}, {}))


def test_a_measure_is_taken_at_its_full_depth():
    """The answer of each query lies at rank 150, behind all candidates that MaxSim reranks."""
    deep = Ranks(**{mode: dict.fromkeys(range(30), 150) for mode in ("hybrid", "dense", "sparse")})
    assert measure_settings(deep, DATA, None, "recall@200")[PLAIN].tolist() == [100] * 30


@pytest.mark.slow
def test_a_choice_that_cannot_be_stored_is_shown(twinvec, tiny_model, tmp_path, monkeypatch):
    def busy(*_):
        raise StoreBusyError("another process is writing")

    with Collection.open("c", tmp_path, encoder=Encoder(tiny_model("bert"))) as collection:
        collection.ingest([(f"d{row}", text_of(row)) for row in range(15)])
    monkeypatch.setattr("twinvec.retrieval.tuned_search.save", busy)
    done = twinvec("tune", "--collection", "c", "--path", tmp_path)
    assert done.code == 1
    assert "another process is writing" in done.err
    assert "chosen: " in done.out
    assert "stored with the collection" not in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--wait", -1), "Invalid value for '--wait'"), (("--grpc-port", 6334), "--grpc-port needs --url")],
)
def test_tuning_takes_the_options_of_a_connection(twinvec, tmp_path, options, said):
    done = twinvec("tune", "--collection", "c", "--path", tmp_path, *options)
    assert (done.code, said in " ".join(done.err.split())) == (2, True), done.err


def test_an_unknown_measure_is_wrong_usage(twinvec, tmp_path):
    done = twinvec("tune", "--collection", "c", "--path", tmp_path, "--measure", "foo")
    assert done.code == 2
    assert "foo" in done.err


def test_too_few_queries_are_refused(beir):
    with pytest.raises(InputError, match="small: 3 judged queries; choosing a setting needs at least 10"):
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


def test_a_saved_setting_of_an_older_version_is_read_and_a_new_one_without_feedback_looks_like_it(tmp_path):
    with Collection.open("c", tmp_path, encoder=StateEncoder(), chunking=False) as collection:
        old = {"mode": "hybrid", "words": 0.5, "mix": 0.4, "candidates": 50, "measure": "ndcg@10"}
        collection.notes(NOTES).put({"setting": old})
        assert saved(collection) == Setting("hybrid", 0.5, 0.4, 50)
        save(collection, Setting("hybrid", 0.5, 0.4, 50), "ndcg@10")
        assert dict(collection.notes(NOTES).find()) == {"setting": old}


def test_a_search_goes_by_the_feedback_that_was_chosen(tmp_path):
    with Collection.open("c", tmp_path, encoder=StateEncoder(), chunking=False) as collection:
        collection.ingest([(f"d{row}", f"note {row} about topic {row % 4}") for row in range(12)])
        save(collection, Setting("hybrid", 2.0, 0.5, 20, feedback=2), "ndcg@10")
        tuned = TunedSearch(collection)
        assert str(tuned.setting) == "hybrid, words x 2, feedback of 2, maxsim 0.5 over 20"
        (hit, *_) = tuned.search("topic 3", 3)
        assert list(hit.scores) == ["dense", "feedback", "sparse", "fused", "maxsim"]
        assert tuned.search("topic 3", 3, words="note 7")[0].scores["sparse"] > hit.scores["sparse"] / 2
        save(collection, Setting("dense", feedback=2), "ndcg@10")
        assert TunedSearch(collection).search("topic 3", 3) == collection.search("topic 3", 3, "dense", feedback=2)


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
    passages = "15 passages, each cut out of a document; the search had to find the rest"
    for said in (
        "chosen: ",
        passages,
        "gain over plain hybrid search: ",
        "a search takes ",
        f"stored with the collection: twinvec search -c c --path {tmp_path} uses it",
    ):
        assert said in shown.out
    assert (" ms by plain hybrid search" in shown.out) == (figures["setting"] != asdict(PLAIN))
    if figures["setting"] == asdict(PLAIN):
        assert figures["milliseconds"]["plain"] == figures["milliseconds"]["chosen"]
    assert set(figures["gain_over_plain"]) == {"difference", "interval", "p_value"}
    assert set(figures["milliseconds"]) == {"plain", "chosen"}
    assert twinvec("tune", "--collection", "none", "--path", tmp_path).code == 1


@pytest.mark.slow
def test_a_terminal_shows_how_far_tuning_is(on_terminal, tiny_model, tmp_path, make_beir):
    exported = export_model(tiny_model("bert"), tmp_path / "exported").folder  # is loaded without torch
    texts = {f"d{row}": text_of(row) for row in range(15)}
    with Collection.open("c", tmp_path / "store", encoder=Encoder(exported)) as collection:
        collection.ingest(texts.items())
    judged = make_beir(
        "made",
        documents={name: ("", text) for name, text in texts.items()},
        queries={f"q{name}": text[:40] for name, text in texts.items()},
        qrels={f"q{name}": {name: 1} for name in texts},
    )
    shown = on_terminal(120, "tune", "--collection", "c", "--path", tmp_path / "store", "--ir", judged)
    assert "Measuring" in shown
    assert "15/15 queries" in shown
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
    plain = json.loads(twinvec("evaluate", *place, "--rerank", "none").out)
    assert (plain["setting"], "reranked" in plain) == ("hybrid", False)
    shown = " ".join(twinvec("evaluate", *place[:-1]).out.split())  # a title may wrap
    assert "Retrieval: c, hybrid, words x 2 " in shown
    assert "Retrieval, reranked: c, hybrid, words x 2, maxsim 0.5 over 20 " in shown


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_a_collection_is_measured_and_tuned_in_the_given_precision(
    twinvec, tiny_model, tmp_path, make_beir, monkeypatch, precision
):
    documents = {f"d{row}": ("", text_of(row)) for row in range(15)}
    queries = {f"q{row}": f"topic {row}" for row in range(10)}
    judged = make_beir("made", documents=documents, queries=queries, qrels={f"q{n}": {f"d{n}": 1} for n in range(10)})
    model = tiny_model("bert")
    with Collection.open("c", tmp_path / "store", encoder=Encoder(model)) as collection:
        collection.ingest([(name, text) for name, (_, text) in documents.items()])
    load, loaded = encoders.load_engine, []

    def spied(choice, model):
        loaded.append(choice.precision)
        return load(choice, model)

    monkeypatch.setattr(encoders, "load_engine", spied)
    place = ("--collection", "c", "--path", tmp_path / "store")
    for command in (("evaluate", *place), ("evaluate", model), ("tune", *place)):
        loaded.clear()
        assert twinvec(*command, "--ir", judged, "--precision", precision).code == 0
        assert set(loaded) == {precision}, command


@pytest.mark.parametrize("model", ["bm25", "mean:MODEL"])
def test_a_precision_is_refused_for_what_computes_in_none(twinvec, tiny_model, beir, monkeypatch, model):
    model = model.replace("MODEL", str(tiny_model("bert")))
    refused = twinvec("evaluate", model, "--ir", beir, "--precision", "float32")
    assert (refused.code, "--precision is for models and collections" in refused.err) == (2, True)
    monkeypatch.setenv("TWINVEC_PRECISION", "float32")
    assert twinvec("evaluate", model, "--ir", beir).code == 0


@pytest.mark.slow
def test_a_tuned_setting_is_measured_at_the_depth_at_which_it_serves(twinvec, tmp_path, make_beir):
    """With recall@100 among the measures, a search for 10 hits still reranks 20, and finds the others behind them."""
    documents = {f"d{row}": ("", text_of(row)) for row in range(40)}
    queries = {f"q{row}": f"Sentence {row} speaks of topic {7 * row + 2}" for row in range(8)}
    judged = make_beir("deep", documents=documents, queries=queries, qrels={f"q{n}": {f"d{n}": 1} for n in range(8)})
    with Collection.open("c", tmp_path / "store", encoder=StateEncoder(max_tokens=600)) as collection:
        collection.ingest([(name, text) for name, (_, text) in documents.items()])
        save(collection, Setting("dense", mix=1.0, candidates=20), "ndcg@10")
        tuned, data = TunedSearch(collection), load_beir(judged)
        served = as_run({query: tuned.search(text, 10) for query, text in queries.items()})
        deep = as_run({query: tuned.search(text, 40) for query, text in queries.items()})
        expected = measure_ir(served, data, measures=["ndcg@10"], **FAST).figures["ndcg@10"]
        assert expected != measure_ir(deep, data, measures=["ndcg@10"], **FAST).figures["ndcg@10"]
        before = evaluate_collection(collection, data, measures=["ndcg@10", "recall@100"], mode="dense", **FAST)
        found = evaluate_reranked(collection, tuned.reranker, before, candidates=20, mode="dense", **FAST)
    assert found.result.figures["ndcg@10"] == pytest.approx(expected)
    assert found.result.figures["recall@100"] == before.figures["recall@100"] == 100


def test_the_token_states_of_a_text_are_computed_once_for_all_queries(monkeypatch):
    """However many queries there are; only the searches that are timed compute them for themselves."""
    monkeypatch.setattr(serving, "TIMED", 2)
    hits = [Hit(f"d{row}", f"note {row}", 1 - row / 100) for row in range(15)]
    documents = [Document(hit.id, hit.text) for hit in hits]
    queries = {f"q{row}": f"note {row}" for row in range(1100)}
    data = BeirSet("many", documents, queries, {query: {"d1": 1} for query in queries})

    class Everything:
        def search(self, query, limit=10, filter=None):
            return hits[:limit]

    encoder, retriever = StateEncoder(states_dim=4), Everything()
    before = evaluate_retriever(retriever, data, measures=["mrr@5"], resamples=9)
    evaluate_reranked(retriever, MaxSimReranker(encoder), before, candidates=12, resamples=9)
    once, timed = encoder.states_of[:12], encoder.states_of[12:]
    assert once == [hit.text for hit in hits[:12]]
    assert len(timed) == 3 * 12  # the first search is to load, and two are timed


def test_short_documents_give_no_queries(tiny_model, tmp_path):
    with Collection.open("c", tmp_path, encoder=Encoder(tiny_model("bert"))) as collection:
        collection.ingest([("a", "short"), ("b", "also short")])
        with pytest.raises(InputError, match=r"only 0 of 2 documents are long enough \(340 characters\)"):
            tune_by_documents(collection)
