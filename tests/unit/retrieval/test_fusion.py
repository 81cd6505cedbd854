"""Fusion: worked examples of each method, what the default is for, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from twinvec.errors import ConfigurationError, InputError
from twinvec.retrieval.fusion import fuse
from twinvec.retrieval.relevance import Calibration

DENSE = np.array([0.9, 0.5, 0.1], dtype=np.float32)
SPARSE = np.array([0.0, 8.0, 4.0], dtype=np.float32)
METHODS = ["adaptive", "rrf", "distribution"]


def test_adaptive_standardises_dense_scores_and_takes_a_quarter_of_bm25():
    z = np.sqrt(1.5)  # (0.9 - 0.5) / the deviation of 0.9, 0.5, 0.1
    assert fuse(DENSE, SPARSE) == pytest.approx([z, 2.0, 1.0 - z], abs=1e-6)


def test_rrf_sums_reciprocal_ranks_and_ranks_no_zero():
    expected = [1 / 61, 1 / 62 + 1 / 61, 1 / 63 + 1 / 62]
    assert fuse(DENSE, SPARSE, method="rrf") == pytest.approx(expected)
    assert fuse(np.array([0.7, 0.7, 0.1]), np.zeros(3), method="rrf") == pytest.approx([1 / 61, 1 / 61, 1 / 63])


def test_distribution_puts_each_stage_between_its_three_sigma_bounds():
    z_dense, z_sparse = np.sqrt(1.5) * np.array([1, 0, -1]), np.sqrt(1.5) * np.array([-1, 1, 0])
    expected = (z_dense + 3) / 6 + (z_sparse + 3) / 6
    assert fuse(DENSE, SPARSE, method="distribution") == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_weights_scale_the_two_parts(method):
    dense_part = fuse(DENSE, SPARSE, method=method, weights=(1, 0))
    sparse_part = fuse(DENSE, SPARSE, method=method, weights=(np.int64(0), np.float32(1)))
    assert np.argsort(-dense_part).tolist() == [0, 1, 2]
    assert np.argsort(-sparse_part).tolist() == [1, 2, 0]
    assert fuse(DENSE, SPARSE, method=method, weights=(2, 3)) == pytest.approx(2 * dense_part + 3 * sparse_part)


def test_weak_evidence_of_words_does_not_overturn_the_vectors_as_equal_weights_do():
    # one common word matches: BM25 scores are small, but their order is as clear as that of large ones
    dense = np.array([0.80, 0.70, 0.45, 0.40, 0.35], dtype=np.float32)
    weak = np.array([0.0, 0.5, 0.9, 0.0, 0.0], dtype=np.float32)
    assert np.argmax(fuse(dense, weak)) == 0
    assert np.argmax(fuse(dense, weak, method="rrf")) != 0
    assert np.argmax(fuse(dense, weak * 20)) == 2


def test_few_words_that_a_document_has_weigh_as_much_as_vectors():
    dense = np.array([0.80, 0.70, 0.45, 0.40, 0.35], dtype=np.float32)
    words = np.array([0.0, 0.0, 0.0, 0.0, 6.0], dtype=np.float32)
    spread = words.std()
    assert fuse(dense, words, terms=1)[4] - fuse(dense, 0 * words)[4] == pytest.approx(6 * 0.1 * 36 / spread)
    assert np.argmax(fuse(dense, words, terms=1)) == 4
    for many in (None, 12):
        assert fuse(dense, words, terms=many) == pytest.approx(fuse(dense, words))
        assert np.argmax(fuse(dense, words, terms=many)) == 0
    assert fuse(dense, 0 * words, terms=3) == pytest.approx(fuse(dense, 0 * words))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [0, 1, 2])
def test_few_candidates(method, size):
    fused = fuse(DENSE[:size], SPARSE[:size], method=method)
    assert fused.shape == (size,)
    assert fused.dtype == np.float32
    assert np.isfinite(fused).all()


@pytest.mark.parametrize("method", METHODS)
def test_stages_that_tell_nothing_leave_the_order_to_the_other(method):
    assert np.argsort(-fuse(DENSE, np.zeros(3), method=method)).tolist() == [0, 1, 2]
    assert np.argsort(-fuse(np.full(3, 0.3), SPARSE, method=method)).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("dense", "sparse", "message"),
    [
        ([0.1, 0.2], [1.0], "got 2 and 1"),
        ([[0.1, 0.2]], [[1.0, 2.0]], r"shape \(1, 2\)"),
        ([0.1, np.nan], [1.0, 2.0], "dense scores: candidate 1 has nan"),
        ([0.1, 0.2], [np.inf, 2.0], "sparse scores: candidate 0 has inf"),
    ],
)
def test_scores_that_do_not_pair_up_or_are_not_finite_are_refused(dense, sparse, message):
    with pytest.raises(InputError, match=message):
        fuse(np.array(dense), np.array(sparse))


@pytest.mark.parametrize(
    "weights", [(1,), (-1, 1), (np.nan, 1), (np.inf, 1), (10**400, 1), ("a", 1), (1, 2, 3), 0.5, None]
)
def test_bad_weights_are_refused(weights):
    with pytest.raises(ConfigurationError, match="weights"):
        fuse(DENSE, SPARSE, weights=weights)


def test_the_dense_part_counts_by_the_share_of_terms_that_are_no_codes():
    dense, sparse = np.array([0.6, 0.3], dtype=np.float32), np.array([0.0, 2.0], dtype=np.float32)
    for calibration in (None, Calibration(unrelated=0.25, near=0.65)):
        by_vectors = fuse(dense, 0 * sparse, terms=2, calibration=calibration)
        by_words = fuse(0 * dense, sparse, terms=2, calibration=calibration)
        for codes, share in ((0.0, 1.0), (0.75, 0.25), (1.0, 0.01)):
            found = fuse(dense, 0 * sparse, terms=2, calibration=calibration, code_share=codes)
            assert found == pytest.approx(share * by_vectors, abs=1e-6)
            assert np.diff(
                fuse(0 * dense, sparse, terms=2, calibration=calibration, code_share=codes)
            ) == pytest.approx(np.diff(by_words), abs=1e-6)
    assert (fuse(dense, sparse, method="rrf", code_share=1.0) == fuse(dense, sparse, method="rrf")).all()


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigurationError, match="'sum' is not one of adaptive, rrf, distribution"):
        fuse(DENSE, SPARSE, method="sum")


SCALE = Calibration(unrelated=0.25, near=0.65, words=0.5)


def test_landmarks_make_both_parts_log_odds_that_no_other_candidate_changes():
    places = (0.65 / 0.4, 0.25 / 0.4, -0.15 / 0.4)
    above = [0.65 * math.log1p(math.exp(10 * place)) / 10 + 0.35 * place for place in places]
    assert above == pytest.approx([1.625, 0.625, -0.131], abs=0.003)
    expected = [4 * each + 0.5 * 0.25 * words for each, words in zip(above, (0, 8, 4), strict=True)]
    assert fuse(DENSE, SPARSE, terms=5, calibration=SCALE) == pytest.approx(expected, abs=1e-5)
    assert fuse(DENSE[1:], SPARSE[1:], terms=5, calibration=SCALE) == pytest.approx(expected[1:], abs=1e-5)
    assert fuse(DENSE, SPARSE, calibration=SCALE) == pytest.approx(expected, abs=1e-5)
    one = fuse(DENSE, SPARSE, terms=1, calibration=SCALE, weights=(0, 1))
    assert one == pytest.approx(0.5 * 0.75 * SPARSE)


def test_the_words_of_a_long_query_count_less_than_their_sum():
    usual, long = (fuse(DENSE, SPARSE, terms=terms, calibration=SCALE, weights=(0, 1)) for terms in (8, 32))
    assert usual == pytest.approx(0.5 * 0.25 * SPARSE)
    assert long == pytest.approx(usual / 2)


def test_vectors_of_which_none_is_near_do_not_get_the_usual_spread():
    """The only document with a rare word, among documents that are all far from the query."""
    far = np.array([0.18, 0.16, 0.15, 0.11, 0.10], dtype=np.float32)
    word = np.array([0.0, 0.0, 0.4, 0.0, 3.0], dtype=np.float32)
    assert np.argmax(fuse(far, word, terms=4)) == 0
    assert np.argmax(fuse(far, word, terms=4, calibration=Calibration(unrelated=0.25, near=0.65))) == 4
    assert np.argmax(fuse(4 * far, word, terms=4, calibration=SCALE)) == 0


def test_unrelated_texts_keep_the_order_of_their_cosines_unless_the_query_is_one_word():
    calibration = Calibration(unrelated=0.5, near=0.9)
    far = np.array([0.35, 0.3], dtype=np.float32)
    words = np.array([0.0, 0.8], dtype=np.float32)
    assert np.argmax(fuse(far, words, terms=4, calibration=calibration)) == 0
    assert np.argmax(fuse(far, words, terms=1, calibration=calibration)) == 1
    apart = np.diff(fuse(far, 0 * words, terms=4, calibration=calibration))
    assert 0.3 < apart / np.diff(fuse(far + 1, 0 * words, terms=4, calibration=calibration)) < 0.4


def test_vectors_count_by_how_much_the_model_has_learnt_of_the_language():
    known, little, nothing = (fuse(DENSE, 0 * SPARSE, calibration=replace(SCALE, learnt=each)) for each in (1, 0.2, 0))
    assert known == pytest.approx(fuse(DENSE, 0 * SPARSE, calibration=SCALE))
    assert little == pytest.approx(0.2**2 * known)
    assert nothing == pytest.approx(0.01 * known)


def test_without_landmarks_a_calibration_weighs_the_words_only():
    for terms, factor in ((8, 2), (32, 1)):
        found = fuse(DENSE, SPARSE, terms=terms, calibration=Calibration(words=2))
        only_words = fuse(DENSE, SPARSE, terms=terms, calibration=Calibration(words=2), weights=(0, 1))
        assert only_words == pytest.approx(factor * 0.25 * SPARSE)
        assert found - only_words == pytest.approx(fuse(DENSE, 0 * SPARSE), abs=1e-6)


def test_a_calibration_leaves_the_scores_of_other_methods_as_they_are():
    for method in ("rrf", "distribution"):
        assert (fuse(DENSE, SPARSE, method=method, calibration=SCALE) == fuse(DENSE, SPARSE, method=method)).all()


@pytest.mark.parametrize("calibration", [None, SCALE])
def test_words_decide_for_a_query_that_the_model_does_not_know(calibration):
    near = np.array([0.9, 0.8, 0.5, 0.4, 0.3], dtype=np.float32)
    words = np.array([0.0, 0.0, 0.6, 0.5, 0.0], dtype=np.float32)
    known, unknown = (fuse(near, words, terms=4, calibration=calibration, unknown=each) for each in (False, True))
    assert np.argsort(-known).tolist()[0] == 0
    assert np.argsort(-unknown).tolist() == [2, 3, 0, 1, 4], "the vectors order what the words leave equal"
    assert (fuse(near, words, method="rrf", unknown=True) == fuse(near, words, method="rrf")).all()
    words[3] = 0.62
    assert np.argsort(-fuse(near, words, terms=4, calibration=calibration, unknown=True)).tolist()[:2] == [3, 2]
