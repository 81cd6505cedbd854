"""Relevance: what it depends on, its meaning in every mode, and the landmarks that it needs."""

from types import SimpleNamespace

import pytest

from twinvec import Encoder
from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.retrieval.bm25 import TermCounts
from twinvec.retrieval.relevance import (
    DEFAULT_MIN_RELEVANCE,
    DEFAULT_SPACE,
    MANY,
    MODELS,
    STATES,
    UNMEASURED_WORDS,
    Calibration,
    completed,
    known_calibration,
    logistic,
    model_calibration,
    relevance,
    relevance_by_states,
    share_learnt,
    states_calibration,
    usual_words,
)

SCALE = Calibration(unrelated=0.25, near=0.65)


def test_a_near_text_is_relevant_and_an_unrelated_one_is_not_in_every_mode():
    near, unrelated = {"dense": 0.65, "sparse": 7.0}, {"dense": 0.25, "sparse": 1.0}
    for stages in ({"dense", "sparse"}, {"dense"}, {"sparse"}):
        high, low = (relevance({each: scores[each] for each in stages}, 20, SCALE) for scores in (near, unrelated))
        assert 0 <= low < 0.2 < DEFAULT_MIN_RELEVANCE < 0.8 < high <= 1, stages


def test_relevance_grows_with_each_score_and_falls_with_the_weight_of_the_query():
    for cosine in (0.2, 0.4, 0.6):
        found = [relevance({"dense": cosine, "sparse": each}, 20, SCALE) for each in (0, 1, 4, 9)]
        assert found == sorted(set(found))
    assert relevance({"dense": 0.5, "sparse": 2}, 20, SCALE) > relevance({"dense": 0.4, "sparse": 2}, 20, SCALE)
    assert relevance({"dense": 0.4, "sparse": 4}, 10, SCALE) > relevance({"dense": 0.4, "sparse": 4}, 50, SCALE)


def test_a_rare_word_alone_makes_a_hit_relevant_and_a_common_word_of_a_query_does_not():
    counts = TermCounts(1000, {"tax": 400, "year": 300})
    for mode in ({"dense": 0.18}, {}):
        rare = relevance({**mode, "sparse": 2.9}, counts.weight(["nasuwt"]), SCALE, terms=1)
        common = relevance({**mode, "sparse": 0.4}, counts.weight(["penguin", "year"]), SCALE, terms=2)
        assert rare > DEFAULT_MIN_RELEVANCE > 0.1 > common


def test_a_far_vector_does_not_count_against_a_hit_with_the_only_term_of_a_query():
    def of_one(cosine, sparse):
        return relevance({"dense": cosine, "sparse": sparse}, 4, SCALE, terms=1)

    assert of_one(0.05, 2.0) == of_one(0.25, 2.0) > 0.6
    assert relevance({"dense": 0.05, "sparse": 4.0}, 10, SCALE, terms=2) < 0.1
    assert of_one(0.6, 0.5) > 0.9
    assert of_one(0.05, 0.0) < 0.1


def test_the_less_of_a_language_is_learnt_the_more_words_decide():
    known = MODELS["default"]
    shares = [share_learnt(Calibration(unrelated=low, near=0.7), known) for low in (0.1, 0.25, 0.35, 0.5, 0.64)]
    assert shares[:2] == [1.0, 1.0]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0.0
    for unmeasured in (None, Calibration()):
        assert share_learnt(unmeasured, known) == share_learnt(unmeasured) == share_learnt(SCALE, Calibration()) == 1.0
    assert share_learnt(Calibration(unrelated=0.5, near=0.7)) == 1.0, "without the model's own landmarks"
    measured = Calibration(unrelated=0.5, near=0.7, learnt=0.9)
    assert share_learnt(measured, known) == share_learnt(measured) == 0.9
    found = {"dense": 0.4, "sparse": 3.0}
    scale = Calibration(unrelated=0.5, near=0.65)
    by_words = relevance({"sparse": 3.0}, 8, scale)
    grown = [relevance(found, 8, scale, learnt=share) for share in (1.0, 0.5, 0.2, 0.0)]
    assert grown == sorted(grown)
    assert grown[0] < 0.1 < DEFAULT_MIN_RELEVANCE < grown[-1] == by_words


def test_cosines_are_judged_by_the_landmarks_of_the_collection():
    narrow = Calibration(unrelated=0.7, near=0.9)  # a model whose cosines are all high
    for place in (0.0, 0.5, 1.0):
        scores = [{"dense": each.unrelated + place * (each.near - each.unrelated)} for each in (SCALE, narrow)]
        assert relevance(scores[0], 0, SCALE) == pytest.approx(relevance(scores[1], 0, narrow), abs=1e-3)
    assert relevance({"dense": 0.6}, 0, SCALE) > 0.8 > 0.2 > relevance({"dense": 0.6}, 0, narrow)


def test_without_landmarks_only_words_alone_have_a_relevance():
    unknown = Calibration()
    assert relevance({"dense": 0.9}, 1, unknown) is None
    assert relevance({"dense": 0.9, "sparse": 5}, 1, unknown) is None
    assert relevance({"sparse": 5}, 10, unknown) == relevance({"sparse": 5}, 10, SCALE) > 0.9
    assert relevance({"sparse": 0}, 0, SCALE) is None  # a query without terms
    assert relevance({"dense": 0.9, "sparse": 5}, 1, None) is None  # a collection of before calibrations


def test_a_known_model_completes_a_calibration_that_has_not_been_measured():
    measured = Calibration(chunks=500, unrelated=0.3, near=0.7)
    default = known_calibration("default")
    by_length = known_calibration("default", terms=50)
    assert completed(Calibration(chunks=3), by_length) == Calibration(chunks=3, unrelated=0.25, near=0.65, words=2)
    assert completed(measured, default) is measured
    assert completed(Calibration(), known_calibration("an unknown model")) == Calibration()
    assert completed(None, default) is None
    assert MODELS["default"].place(0.25) == 0
    assert MODELS["default"].words == Calibration().words == UNMEASURED_WORDS


def test_words_tell_more_in_longer_texts_and_most_in_texts_that_the_model_does_not_read_whole():
    lengths = (1, 10, 25, 40, 100, 250, 500, 2500)
    weights = [usual_words(terms) for terms in lengths]
    assert weights == sorted(weights)
    assert weights == pytest.approx([0.6, 0.6, 1, 1.6, 2.5, 2.5, 5, 25])
    assert usual_words(0) == UNMEASURED_WORDS
    assert known_calibration("default", terms=40).words == known_calibration("unknown", terms=40).words == 1.6
    assert [known_calibration("default", terms=terms).words for terms in (100, 500)] == [2, 5]


def test_words_tell_less_in_texts_that_repeat_their_terms():
    assert [usual_words(100, different) for different in (100, 42, 21, 2)] == [2.5, 2, 1, 1]  # 1: by its length
    assert known_calibration("default", terms=84, different=25.2).words == 1.2
    assert usual_words(50, 42) == usual_words(50) == 2  # as in prose
    assert usual_words(0, 0) == UNMEASURED_WORDS


def test_a_cosine_tells_more_in_a_collection_of_few_texts():
    sizes = (0, 1, 4, 32, 300, MANY, 100 * MANY)
    landmarks = [known_calibration("default", texts).landmarks for texts in sizes]
    lows = [unrelated for unrelated, _ in landmarks]
    assert lows == sorted(lows)
    assert lows[0] == lows[1] == pytest.approx(0, abs=0.01)
    assert lows[-1] == lows[-2] == MODELS["default"].unrelated
    assert lows[3] == pytest.approx(0.12, abs=0.01)
    assert {near for _, near in landmarks} == {MODELS["default"].near}
    assert known_calibration("an unknown model", 3) == Calibration()


def test_an_encoder_with_another_space_than_its_models_has_no_known_landmarks():
    encoder = SimpleNamespace(name="default", overrides={})
    assert model_calibration(encoder) == MODELS["default"]
    encoder.overrides = {"dim": 64}
    assert model_calibration(encoder) == model_calibration(object()) == Calibration()


def test_an_encoder_of_a_known_space_has_the_landmarks_of_its_model():
    default = Encoder("default")
    assert default.space == DEFAULT_SPACE
    export = SimpleNamespace(name="/models/fast", overrides={}, space=DEFAULT_SPACE)
    cut = SimpleNamespace(name="/models/fast", overrides={"dim": 64}, space=Encoder("default", dim=64).space)
    whole = SimpleNamespace(name="default", overrides={"dim": 384}, space=DEFAULT_SPACE)
    for encoder in (export, whole):
        assert model_calibration(encoder, 7) == model_calibration(default, 7) == known_calibration("default", 7)
        assert states_calibration(encoder) == states_calibration(default) == STATES["default"]
    assert model_calibration(cut) == Calibration()


def test_the_space_of_an_encoder_of_another_library_is_not_asked_for():
    encoder = ExternalEncoder("theirs", None, None)  # a call would fail
    assert model_calibration(encoder) == Calibration()
    assert states_calibration(encoder) is None


def test_landmarks_out_of_order_are_refused_and_no_log_odds_overflow():
    with pytest.raises(ValueError, match="unrelated must be below near"):
        Calibration(unrelated=0.5, near=0.4)
    with pytest.raises(ValueError, match="unrelated must be below near"):
        Calibration(unrelated=0.5, near=0.5)
    assert (logistic(1e9), logistic(-1e9), logistic(0)) == (1.0, 0.0, 0.5)


def test_maxsim_moves_the_relevance_of_a_known_model_alone():
    default, cut = SimpleNamespace(name="default", overrides={}), SimpleNamespace(name="default", overrides={"dim": 64})
    known = states_calibration(default)
    assert relevance_by_states(0.6, 0.66, known) > 0.6 > relevance_by_states(0.6, 0.34, known)
    assert states_calibration(cut) is states_calibration(SimpleNamespace(name="another")) is None
    assert relevance_by_states(0.6, 0.36, None) == 0.6
    assert relevance_by_states(None, 0.6, known) is None
    assert 0 < relevance_by_states(0.0, 0.6, known) < relevance_by_states(1.0, 0.6, known) <= 1
    unit = Calibration(unrelated=0.0, near=1.0)  # log-odds by MaxSim: 10 times MaxSim, less 3.6
    assert relevance_by_states(0.5, 0.36, unit) == 0.5
    assert relevance_by_states(0.5, 0.76, unit) == logistic(2.0)
    assert relevance_by_states(0.9, 0.36, unit) == 0.75  # odds of 3, the mean of 9 and 1 as log-odds


def test_the_landmarks_of_maxsim_rise_with_those_of_the_cosine():
    encoder = SimpleNamespace(name="default", overrides={})
    english = states_calibration(encoder)
    for unmeasured in (None, Calibration(chunks=50), Calibration(unrelated=0.2, near=0.7), MODELS["default"]):
        assert states_calibration(encoder, unmeasured) == english
    chinese = states_calibration(encoder, Calibration(unrelated=0.56, near=0.69))
    assert chinese.landmarks == pytest.approx((0.61, 0.80), abs=0.005)
    assert states_calibration(encoder, Calibration(unrelated=0.98, near=0.99)).near < 1


def test_words_count_alone_by_the_share_of_codes():
    near, found = {"dense": 0.9, "sparse": 0.0}, {"dense": 0.3, "sparse": 4.0}
    for scores in (near, found):
        by_words = relevance({"sparse": scores["sparse"]}, 12, SCALE)
        shares = [relevance(scores, 12, SCALE, code_share=share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        assert shares[0] == relevance(scores, 12, SCALE)
        assert shares[-1] == pytest.approx(by_words)
        assert shares in (sorted(shares), sorted(shares, reverse=True))
    assert (
        relevance(near, 12, SCALE, code_share=1.0) < DEFAULT_MIN_RELEVANCE < relevance(found, 12, SCALE, code_share=1.0)
    )


def test_words_alone_make_a_hit_of_an_unknown_query_relevant():
    for sparse in (0.0, 2.0, 6.0):
        by_words = relevance({"sparse": sparse}, 12, SCALE)
        for calibration in (SCALE, Calibration()):
            assert relevance({"dense": 0.9, "sparse": sparse}, 12, calibration, unknown=True) == by_words
    nothing = relevance({"sparse": 0.0}, 12, SCALE)
    assert relevance({"dense": 1.0, "sparse": 0.0}, 0, SCALE, unknown=True) == nothing < 0.1, "a query without terms"
    assert relevance({"dense": 0.6}, 0, SCALE, unknown=True) == relevance({"dense": 0.6}, 0, SCALE) > 0.5
    assert relevance({"dense": 0.6, "sparse": 6}, 12, None, unknown=True) is None
