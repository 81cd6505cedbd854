"""Intervals and paired tests: they find what is there, and nothing where nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec.errors import ConfigurationError
from twinvec.evaluation.statistics import interval, paired_test, share
from twinvec.evaluation.sts import pearson, spearman


@pytest.fixture
def noise():
    return np.random.default_rng(7).normal(size=(3, 400))


def test_the_interval_of_a_mean_has_the_width_of_theory(noise):
    bounds = interval(noise[0])
    half = 1.96 * noise[0].std() / np.sqrt(400)
    assert bounds.low == pytest.approx(noise[0].mean() - half, abs=0.02)
    assert bounds.high == pytest.approx(noise[0].mean() + half, abs=0.02)


def test_the_same_data_gives_the_same_interval(noise):
    assert interval(noise[0], noise[1], statistic=spearman) == interval(noise[0], noise[1], statistic=spearman)


def test_pairs_are_drawn_together(noise):
    # resampled apart, x and 2x would lose their correlation
    bounds = interval(noise[0], 2 * noise[0], statistic=pearson)
    assert bounds.low == pytest.approx(100)


def test_a_real_difference_is_found_and_noise_is_not(noise):
    better = paired_test(noise[0], noise[0] + 0.3 + 0.5 * noise[1])
    assert better.difference == pytest.approx(0.3, abs=0.1)
    assert better.p_value < 0.01
    assert better.interval.low > 0
    same = paired_test(noise[0], noise[0] + 0.5 * (noise[1] - noise[1].mean()))
    assert same.p_value > 0.5
    assert same.interval.low < 0 < same.interval.high


def test_a_system_does_not_differ_from_itself(noise):
    found = paired_test(noise[0], noise[0])
    assert (found.difference, found.p_value) == (0, 1)


def test_correlations_are_compared_on_shared_gold_scores(noise):
    gold = noise[0]
    found = paired_test(gold + 2 * noise[1], gold + 0.5 * noise[2], gold, statistic=spearman)
    assert found.difference == pytest.approx(
        spearman(gold + 0.5 * noise[2], gold) - spearman(gold + 2 * noise[1], gold)
    )
    assert found.p_value < 0.01


def test_a_share_of_all_is_not_certain():
    percent, bounds = share(np.ones(60, dtype=bool))
    assert percent == 100
    assert bounds.high == 100
    assert bounds.low == pytest.approx(100 * 60 / (60 + 1.96**2), abs=0.01)  # Wilson's bound in closed form


def test_too_few_items_and_unequal_lengths_are_refused(noise):
    with pytest.raises(ConfigurationError, match="at least two items"):
        interval(noise[0][:1])
    with pytest.raises(ConfigurationError, match=r"samples of equal length .* got lengths \[400, 399\]"):
        interval(noise[0], noise[1][:399], statistic=spearman)
    with pytest.raises(ConfigurationError, match="400 and 399 items"):
        paired_test(noise[0], noise[1][:399])
