"""Fusion, whatever the scores."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twinvec.retrieval.fusion import EVIDENCE, fuse

METHODS = st.sampled_from(["adaptive", "rrf", "distribution"])
SCORE = st.integers(-1000, 1000).map(lambda n: n / 1000)
PAIRS = st.lists(st.tuples(SCORE, st.integers(0, 500).map(lambda n: n / 10)), min_size=1, max_size=40)


def split(pairs):
    dense, sparse = zip(*pairs, strict=True)
    return np.array(dense), np.array(sparse)


@given(PAIRS, METHODS)
def test_finite_and_one_for_each_candidate(pairs, method):
    dense, sparse = split(pairs)
    fused = fuse(dense, sparse, method=method)
    assert fused.shape == dense.shape
    assert np.isfinite(fused).all()


@given(PAIRS, METHODS, st.randoms())
def test_the_order_of_the_candidates_does_not_matter(pairs, method, random):
    dense, sparse = split(pairs)
    order = list(range(len(pairs)))
    random.shuffle(order)
    turned = fuse(dense[order], sparse[order], method=method)
    np.testing.assert_allclose(turned, fuse(dense, sparse, method=method)[order], atol=1e-5)


@given(PAIRS, METHODS)
def test_better_in_both_stages_is_not_worse_fused(pairs, method):
    dense, sparse = split(pairs)
    fused = fuse(dense, sparse, method=method)
    better = (dense[:, None] >= dense) & (sparse[:, None] >= sparse)
    assert (fused[:, None] - fused)[better].min() >= -1e-5


@given(PAIRS, st.integers(1, 50), st.integers(-10, 10))
def test_the_scale_of_dense_scores_does_not_matter_to_the_default(pairs, scale, shift):
    dense, sparse = split(pairs)
    np.testing.assert_allclose(fuse(dense * scale + shift, sparse), fuse(dense, sparse), atol=1e-3)


@given(PAIRS)
def test_words_move_a_candidate_by_their_evidence_at_most(pairs):
    dense, sparse = split(pairs)
    np.testing.assert_allclose(fuse(dense, sparse) - fuse(dense, 0 * sparse), EVIDENCE * sparse, atol=1e-4)


@given(PAIRS, PAIRS, METHODS)
def test_candidates_that_come_behind_change_nothing(pairs, later, method):
    dense, sparse = split(pairs)
    more_dense, more_sparse = split([*pairs, *later, pairs[0]])
    fused = fuse(more_dense, more_sparse, method=method, first=len(pairs))
    np.testing.assert_array_equal(fused[: len(pairs)], fuse(dense, sparse, method=method))
    assert fused[-1] == fused[0], "one alike scores alike"
