"""Calibration: what is measured, when it is measured again, and which collections are left as they are."""

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from cases import slow
from twinvec import Document, MaxSimReranker
from twinvec.errors import ConfigurationError
from twinvec.retrieval import analysis
from twinvec.retrieval.relevance import (
    _GROWTH,
    DEFAULT_MIN_RELEVANCE,
    DEFAULT_SPACE,
    LEAST_MEASURED,
    MANY,
    MODELS,
    Calibration,
    known_calibration,
    relevance,
    share_learnt,
    usual_words,
)
from twinvec_qdrant import Collection
from twinvec_qdrant.calibration import measuring
from twinvec_qdrant.calibration.excerpts import Excerpt, excerpts
from twinvec_qdrant.calibration.language import ENGLISH, NAMES, language_hint, languages_of
from twinvec_qdrant.calibration.measuring import _landmarks
from twinvec_qdrant.calibration.questions import QUESTIONS
from twinvec_qdrant.calibration.weight import BOUNDS, Observation, fitted_weight
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.stores.points import Point
from words import WordEncoder

PLACES = ("harbour", "castle", "garden", "market", "bridge", "school", "museum", "station")
DEEDS = ("was built", "burnt down", "opened again", "was painted", "was sold", "was closed")


def towns(count: int) -> list[Document]:
    """Documents of two sentences, each about other things."""
    return [
        Document(
            f"town-{number}",
            f"The {PLACES[number % 8]} of town{number} {DEEDS[number % 6]} in {1500 + number}. "
            f"Visitors{number} like its {PLACES[(number + 3) % 8]} and the old wall{number} beside the river.",
        )
        for number in range(count)
    ]


def stored(collection: Collection) -> Calibration | None:
    return stored_description(collection._backend).calibration


@pytest.fixture
def collection(tmp_path):
    with Collection.open("towns", tmp_path, encoder=WordEncoder(dim=64), chunking=False) as opened:
        yield opened


def test_an_ingest_calibrates_a_collection_when_it_has_doubled(collection):
    collection.ingest(towns(LEAST_MEASURED - 1))
    assert stored(collection) is None
    collection.ingest(towns(LEAST_MEASURED))
    first = stored(collection)
    assert first.chunks == LEAST_MEASURED
    assert 0 <= first.unrelated < first.near <= 1
    collection.ingest(towns(2 * LEAST_MEASURED - 1))
    assert stored(collection) == first
    collection.ingest(towns(2 * LEAST_MEASURED))
    assert stored(collection).chunks == 2 * LEAST_MEASURED


def test_of_ingests_that_end_at_the_same_time_one_measures(collection, monkeypatch):
    collection.ingest(towns(LEAST_MEASURED - 1))
    both, measured = Barrier(2, timeout=60), []

    def due_for_both(*arguments):
        found = measuring.is_due(*arguments)
        both.wait()
        return found

    measure = measuring.measured
    monkeypatch.setattr("twinvec_qdrant.collection.is_due", due_for_both)
    monkeypatch.setattr(measuring, "measured", lambda *given: measured.append(given) or measure(*given))
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda town: collection.ingest([town]), towns(LEAST_MEASURED + 1)[-2:]))
    assert len(measured) == 1
    assert stored(collection).chunks == LEAST_MEASURED + 1


def test_an_unchanged_ingest_and_a_dry_run_measure_nothing(collection, monkeypatch):
    collection.ingest(towns(LEAST_MEASURED))
    monkeypatch.setattr("twinvec_qdrant.collection.try_to_calibrate", None)
    assert collection.ingest(towns(LEAST_MEASURED)).unchanged == LEAST_MEASURED
    collection.ingest(towns(3 * LEAST_MEASURED), dry_run=True)


def test_a_failure_of_the_measurement_leaves_a_whole_collection(collection, monkeypatch, caplog):
    def fails(*_: object) -> bool:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("twinvec_qdrant.calibration.measuring.measured", fails)
    assert collection.ingest(towns(LEAST_MEASURED)).new == LEAST_MEASURED
    assert "was not calibrated: no such luck" in caplog.text
    assert stored(collection) is None
    assert collection.search("harbour of town0")[0].id == "town-0"
    assert collection.count() == LEAST_MEASURED


def test_the_calibration_is_used_by_the_handle_that_measured_and_by_later_ones(collection, tmp_path):
    collection.ingest(towns(LEAST_MEASURED))
    found = collection.search("The harbour of town0")
    assert found[0].id == "town-0"
    assert found[0].relevance > DEFAULT_MIN_RELEVANCE
    collection.close()
    with Collection.open("towns", tmp_path, encoder=WordEncoder(dim=64)) as again:
        assert again.search("The harbour of town0") == found
        for mode in ("dense", "sparse", "hybrid"):
            assert all(0 <= hit.relevance <= 1 for hit in again.search("The harbour of town0", mode=mode))


def test_hits_below_the_least_relevance_are_left_out(collection):
    query = "The old wall beside the river"
    collection.ingest(towns(LEAST_MEASURED))
    everything = collection.search(query, limit=30)
    least = sorted(hit.relevance for hit in everything)[10]
    kept = [hit for hit in everything if hit.relevance >= least]
    assert 0 < len(kept) < len(everything)
    assert collection.search(query, limit=30, min_relevance=least) == kept
    assert collection.search_many([query], 30, min_relevance=least) == [kept]


def test_a_collection_of_before_keeps_its_scores_until_reindex(tmp_path, monkeypatch):
    monkeypatch.setattr(analysis, "NEWEST_ANALYSIS", 1)
    with Collection.open("towns", tmp_path, encoder=WordEncoder(dim=64), chunking=False) as old:
        old.ingest(towns(2))
    monkeypatch.undo()
    with Collection.open("towns", tmp_path, encoder=WordEncoder(dim=64)) as old:
        before = old.search("The harbour of town0")
        old.ingest(towns(LEAST_MEASURED))
        assert stored(old) is None
        assert all(hit.relevance is None for hit in [*before, *old.search("The harbour of town0")])
        old.reindex()
        assert stored(old).chunks == LEAST_MEASURED
        assert old.search("The harbour of town0")[0].relevance > DEFAULT_MIN_RELEVANCE


def test_a_migration_measures_the_scores_of_the_new_model(collection):
    collection.ingest(towns(LEAST_MEASURED))
    before = stored(collection)
    collection.migrate(WordEncoder(dim=32))
    now = stored_description(collection._backend)
    assert now.calibration not in (None, before)
    assert now.previous.calibration == before


@pytest.mark.parametrize("step", ["BM25Weights.renew", "try_to_calibrate"])
def test_a_migration_that_was_killed_after_its_switch_is_finished_by_the_next_call(collection, step, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("twinvec.retrieval.analysis.NEWEST_ANALYSIS", 1)
        collection.ingest(towns(LEAST_MEASURED))
    with monkeypatch.context() as patched:
        patched.setattr(f"twinvec_qdrant.collection.{step}", killed)
        with pytest.raises(KeyboardInterrupt):
            collection.migrate(WordEncoder(dim=32))
    assert (collection.info()["dim"], stored(collection)) == (32, None)
    report = collection.migrate(WordEncoder(dim=32))
    assert (report.switched, report.encoded) == (True, 0)
    assert stored(collection).chunks == LEAST_MEASURED
    assert stored_description(collection._backend).analyzer.version == analysis.NEWEST_ANALYSIS
    with pytest.raises(ConfigurationError, match="already, so nothing is left to migrate"):
        collection.migrate(WordEncoder(dim=32))


def test_an_unmeasured_collection_is_judged_by_its_size_if_that_is_known(collection, tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, collection.encoder.name, Calibration(unrelated=0.25, near=0.65))
    monkeypatch.setitem(_GROWTH, collection.encoder.name, 0.03)
    query = "The harbour of town0"

    def judged(handle, size):
        known = known_calibration(collection.encoder.name, size)
        hits = handle.search(query, mode="dense")
        return hits and all(hit.relevance == relevance(hit.scores, 0, known) for hit in hits)

    with Collection.open("towns", tmp_path, encoder=WordEncoder(dim=64), chunking=False) as other:
        collection.ingest(towns(3))
        assert judged(collection, 3)
        assert judged(other, 3)
        collection.ingest(towns(30))
        assert judged(collection, 30)
        assert judged(other, MANY)  # it finds more than the three that it knows of


def test_a_small_collection_has_the_landmarks_of_its_model_if_they_are_known(collection):
    collection.ingest(towns(3))
    now = stored_description(collection._backend)
    assert now.scale == Calibration(words=usual_words(now.average_length)) == Calibration(words=0.6)
    of_default = now.model_copy(update={"model": "default", "average_length": 50.0})
    assert of_default.scale == replace(MODELS["default"], words=2)
    assert of_default.judged_by(3) == replace(known_calibration("default", 3), words=2)
    assert collection.search("harbour")[0].relevance is None
    assert collection.search("harbour", mode="sparse")[0].relevance is not None
    assert collection.search("harbour", min_relevance=1.0) == collection.search("harbour")  # not known to be below


def test_an_export_of_a_known_model_has_its_landmarks_and_fuses_as_it_did(collection):
    collection.ingest(towns(3))
    export = stored_description(collection._backend).model_copy(
        update={"model": "/models/fast", "space": DEFAULT_SPACE}
    )
    assert export.judged_by(3) == export.known(3) == known_calibration("default", 3, export.average_length)
    assert export.scale.landmarks is None
    assert export.model_copy(update={"space": "another"}).known(3).landmarks is None


def test_excerpts_are_parts_of_their_chunks_which_keep_the_rest():
    text = "A first sentence with some words. A second sentence that says more than that. And a third one, at the end."
    plain = " ".join(f"word{number}" for number in range(40))
    points = [
        Point("sentences", {"text": text}),
        Point("title", {"text": f"The title\n\n{plain}", "title": "The title"}),
        Point("plain", {"text": plain}),
        Point("short", {"text": "Only one sentence stands here, and nothing else."}),
        Point("embedded", {"text": text, "embedded": f"Heading\n\n{text}"}),
    ]
    found = {each.chunk: each for each in excerpts(points, 10)}
    assert found.keys() == {"sentences", "title", "plain", "embedded"}
    for point in points:
        if excerpt := found.get(point.id):
            whole = point.payload["text"]
            assert excerpt.text in whole
            assert excerpt.text not in excerpt.rest_text
            assert len(excerpt.rest_text) == len(whole) - len(excerpt.text) + 1
    assert found["embedded"].rest_embedded.startswith("Heading")
    assert [each.chunk for each in excerpts(points, 2)] == ["sentences", "title"]


def test_a_span_of_words_counts_no_blanks():
    lines = "\n".join(f"{' ' * 40}name{number}" for number in range(40))
    found = excerpts([Point(str(row), {"text": f"{row}\n{lines}"}) for row in range(8)], 8)
    assert [len(each.text.split()) for each in found] == [10] * 8


CODE = """def first_word(text, default=None):
    words_of_text = text.split()
    if not words_of_text and default is not None:
        return [default, default.upper()]
    for index, word in enumerate(words_of_text):
        yield index, word[:40], "a string, with blanks and a comma"
"""
"""Lines of at least four words, so that each can be an excerpt."""


def test_lines_of_source_code_are_told_from_sentences():
    (line,) = {each.is_code for each in excerpts([Point(str(row), {"text": CODE * row}) for row in range(1, 9)], 8)}
    assert line is True
    prose = (
        "The bridge (built in 1900) is old.",
        "Is it - or was it - 3.5 km long?",
        "Die Brücke, 42 % davon",
        "不让一个孩子掉队。",
    )
    assert [Excerpt("id", text, "", "").is_code for text in (*prose, "else:", "x = 1", "sort(values)", "a_b")] == [
        *[False] * 4,
        *[True] * 4,
    ]


def test_lines_of_source_code_say_nothing_about_the_weight_of_words(collection, monkeypatch):
    monkeypatch.setattr(measuring, "fitted_weight", lambda observations, usual: len(observations))
    collection.ingest([(str(row), CODE.replace("word", f"word{row}")) for row in range(LEAST_MEASURED)])
    assert stored(collection).words == 0
    collection.ingest(towns(2 * LEAST_MEASURED))
    assert stored(collection).words > 0


@pytest.mark.parametrize(("better", "expected"), [("dense", BOUNDS[0]), ("words", BOUNDS[1]), (None, 1.6)])
def test_the_weight_of_words_follows_the_stage_that_finds_the_answers(better, expected):
    drawn = np.random.default_rng(0)
    observations = []
    for _ in range(200 if better else 0):
        dense, words = drawn.normal(size=(2, 50))
        answer = int(np.argmax({"dense": dense, "words": words}[better]))
        observations.append(Observation(dense, words, answer))
    assert fitted_weight(observations, 1.6) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("times", [1, 2])
def test_the_usual_weight_of_words_is_that_of_the_different_terms_of_the_chunks(collection, monkeypatch, times):
    monkeypatch.setattr(measuring, "fitted_weight", lambda observations, usual: usual)
    collection.ingest(
        [(str(row), " ".join([f"town{row}street{n}" for n in range(30)] * times)) for row in range(LEAST_MEASURED)]
    )
    length = stored_description(collection._backend).average_length
    assert length == 30 * times
    assert stored(collection).words == usual_words(length, 30) == pytest.approx(30 / 21, abs=1e-4)


def test_every_language_has_different_questions():
    assert len(QUESTIONS[ENGLISH]) == 100
    for language, questions in QUESTIONS.items():
        assert len(set(questions)) == len(questions) >= 10
        assert language in NAMES


@pytest.mark.parametrize("language", QUESTIONS)
def test_the_language_of_texts_is_identified(language):
    assert languages_of([" ".join(QUESTIONS[language])]) == [language]


@pytest.mark.parametrize("texts", [[], [""], ["x"] * 9, ["def f(x):\n    return x[1:]"] * 9, ["\ud800"]])
def test_texts_without_a_language_count_as_english(texts):
    assert languages_of(texts) == [ENGLISH]


def test_the_languages_are_the_main_one_or_all_frequent_ones():
    german, english = " ".join(QUESTIONS["de"]), " ".join(QUESTIONS[ENGLISH][:20])
    french = " ".join(QUESTIONS["fr"])
    assert languages_of([german, german, english]) == ["de"]
    assert languages_of([english, german, english, french, german]) == [ENGLISH]
    assert languages_of([german, english, german, french]) == ["de", ENGLISH, "fr"]
    assert languages_of([*[german] * 5, *[french] * 5, english]) == ["de", "fr"]
    assert languages_of([german, french, "1 2 3", "4"]) == [ENGLISH]
    assert languages_of([*[german] * 45, *[french] * 9, *["1 2 3"] * 46]) == [ENGLISH]


def staedte(count: int) -> list[Document]:
    """Documents of two sentences in German."""
    return [
        Document(
            f"stadt-{number}",
            f"Die Brücke von Ort{number} wurde im Jahr {1500 + number} gebaut und später wieder abgerissen. "
            f"Besucher{number} mögen den Markt und die alte Mauer{number} neben dem Fluss.",
        )
        for number in range(count)
    ]


@pytest.fixture
def known(collection, monkeypatch):
    monkeypatch.setitem(MODELS, collection.encoder.name, Calibration(unrelated=0.25, near=0.65))
    return collection


def test_a_collection_is_asked_in_its_language_of_which_the_known_landmarks_say_nothing(known, caplog):
    asked = []
    encode = known.encoder.encode_query
    known.encoder.encode_query = lambda texts: asked.extend(texts) or encode(texts)
    known.ingest(staedte(LEAST_MEASURED))
    assert tuple(asked[:10]) == QUESTIONS["de"][:10]
    best = [known.search(question, 1, mode="dense")[0].scores["dense"] for question in asked[:10]]
    assert stored(known).unrelated == pytest.approx(np.median(best), abs=1e-3)
    assert "most of the texts are in German" in caplog.text
    assert "--language german" in caplog.text
    assert "migrate --to MODEL" in caplog.text


def test_a_small_collection_in_another_language_than_that_of_the_known_landmarks_is_measured(known):
    known.ingest(staedte(7))
    assert stored(known) is None
    known.ingest(staedte(8))
    assert stored(known).chunks == 8


def test_the_model_counts_as_having_learnt_english_however_near_its_texts_are(known, monkeypatch):
    monkeypatch.setitem(MODELS, known.encoder.name, Calibration(unrelated=0.01, near=0.65))
    known.ingest(towns(LEAST_MEASURED))
    description = stored_description(known._backend)
    by_landmarks = share_learnt(replace(description.calibration, learnt=None), description.known())
    assert (by_landmarks < 1, description.calibration.learnt) == (True, 1.0)


def test_how_much_of_another_language_is_learnt_is_stored(known, tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, known.encoder.name, Calibration(unrelated=0.01, near=0.65))
    known.ingest(staedte(LEAST_MEASURED))
    found = stored(known)
    by_landmarks = share_learnt(replace(found, learnt=None), MODELS[known.encoder.name])
    assert found.learnt == pytest.approx(by_landmarks, abs=1e-4)
    assert 0 <= found.learnt < 1
    written = json.loads((tmp_path / "towns" / "collection.json").read_text())
    assert written["calibration"]["learnt"] == found.learnt


def test_a_small_collection_that_has_become_english_has_the_known_landmarks_again(known):
    known.ingest(staedte(8))
    known.delete([each.id for each in staedte(8)])
    known.ingest(towns(12))
    known.reindex()
    assert stored(known) == Calibration(chunks=12)
    known.ingest(towns(LEAST_MEASURED))
    assert stored(known).landmarks is not None


def test_a_small_collection_in_the_language_of_the_known_landmarks_stays_unmeasured(known):
    known.ingest(towns(LEAST_MEASURED - 1))
    assert stored(known) is None


def test_a_small_collection_of_a_model_without_known_landmarks_stays_unmeasured(collection):
    collection.ingest(staedte(LEAST_MEASURED - 1))
    assert stored(collection) is None


@pytest.mark.slow
@pytest.mark.parametrize("late_interaction", [False, slow(True)])
def test_after_maxsim_hits_are_less_relevant_where_all_texts_are_near_each_other(encoder, tmp_path, late_interaction):
    asked = "Wie wirkt eine Impfung?"
    with Collection.open("orte", tmp_path, encoder=encoder, late_interaction=late_interaction) as collection:
        collection.ingest(staedte(12))
        hits = collection.search(asked)
        as_in_english, own = MaxSimReranker(encoder).rerank(asked, hits), collection.maxsim().rerank(asked, hits)
        assert [hit.id for hit in own] == [hit.id for hit in as_in_english]
        assert all(mine.relevance < other.relevance for mine, other in zip(own, as_in_english, strict=True))


def test_near_is_no_less_than_what_most_unrelated_texts_stay_below():
    near, unrelated = np.full(400, 0.5, np.float32), np.linspace(0.6, 0.8, 21, dtype=np.float32)
    found = _landmarks(unrelated, near, Calibration(), 300)
    assert found.landmarks == pytest.approx((0.7, 0.78))


@pytest.mark.parametrize(
    ("language", "stemmed", "said"),
    [("de", "german", False), (ENGLISH, "english", False), ("ja", "english", False), ("fr", "english", True)],
)
def test_the_hint_names_a_stemmer_that_there_is(language, stemmed, said):
    hint = language_hint(language, stemmed, learnt_english=False)
    assert (hint is not None) == said
    if said:
        assert "--language french" in hint
        assert "model" not in hint


@pytest.mark.parametrize(("language", "stemmed"), [("de", "german"), ("vi", "english"), ("fr", "english")])
def test_the_hint_names_the_model_whatever_the_stemmer(language, stemmed):
    assert f"a model that reads {NAMES[language]}" in language_hint(language, stemmed, learnt_english=True)
    assert language_hint(ENGLISH, "english", learnt_english=True) is None


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from words import WordEncoder
import twinvec_qdrant.calibration.measuring as module
from twinvec_qdrant import Collection
module.measured = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
texts = [f"The harbour of town{{number}} was built. Visitors{{number}} like its old wall." for number in range({count})]
with Collection.open("towns", {path!r}, encoder=WordEncoder(dim=64), chunking=False) as collection:
    collection.ingest([(f"town-{{number}}", text) for number, text in enumerate(texts)])
"""


ENDING = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, {tests!r})
from words import WordEncoder
from twinvec_qdrant import Collection
class Encoder(WordEncoder):
    def encode_query(self, texts):
        with ThreadPoolExecutor(1) as pool:
            while True:  # until the process ends
                pool.submit(measuring.set)
measuring = threading.Event()
texts = [f"The harbour of town{{number}} was built. Visitors{{number}} like its old wall." for number in range({count})]
collection = Collection.open("towns", {path!r}, encoder=Encoder(dim=64), chunking=False)
threading.Thread(target=collection.ingest, args=[[(str(number), text) for number, text in enumerate(texts)]]).start()
measuring.wait()
"""


def test_a_calibration_at_the_end_of_the_process_says_when_the_collection_will_be_calibrated(tmp_path):
    tests = str(Path(__file__).parents[2])
    code = ENDING.format(tests=tests, count=LEAST_MEASURED, path=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=500, capture_output=True, text=True)
    assert done.stderr.endswith(
        "was not calibrated: the process is ending; the next ingest that changes documents calibrates the collection\n"
    )


def test_a_kill_before_the_calibration_leaves_a_whole_collection_which_the_next_ingest_calibrates(tmp_path):
    tests = str(Path(__file__).parents[2])
    code = KILLED.format(tests=tests, count=LEAST_MEASURED, path=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=500)
    assert done.returncode == -signal.SIGKILL
    with Collection.open("towns", tmp_path, encoder=WordEncoder(dim=64), create=False) as found:
        assert found.count() == LEAST_MEASURED
        assert stored(found) is None
        assert found.search("The harbour of town7")[0].id == "town-7"
        found.ingest([("new", "The castle of town0 burnt down. It was not built again.")])
        assert stored(found).chunks == LEAST_MEASURED + 1
