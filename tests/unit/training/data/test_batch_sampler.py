"""Which rows make a batch: shares, parts, no text twice, the same for a seed."""

from __future__ import annotations

import logging
from collections import Counter

import numpy as np
import pytest

from twinvec.errors import ConfigurationError
from twinvec.training.data.batch_sampler import BatchPlan, dataset_weights


def distinct(*sizes):
    """Datasets of pairs in which every text is another."""
    starts = np.cumsum([0, *sizes]) * 2
    return [
        np.arange(start, start + 2 * size, dtype=np.int64).reshape(size, 2)
        for start, size in zip(starts, sizes, strict=False)
    ]


def plan(hashes, size, *, weights=None, **options):
    given = weights if weights is not None else dataset_weights([len(rows) for rows in hashes])
    return BatchPlan(hashes, size, weights=np.array(given), **options)


def test_weights_follow_size_power_cap_and_what_is_given():
    sizes = [100, 400, 10_000]
    assert dataset_weights(sizes) == pytest.approx([100 / 10_500, 400 / 10_500, 10_000 / 10_500])
    assert dataset_weights(sizes, power=0.5) == pytest.approx([1 / 13, 2 / 13, 10 / 13])
    assert dataset_weights(sizes, power=0) == pytest.approx([1 / 3] * 3)
    assert dataset_weights(sizes, cap=500) == pytest.approx([0.1, 0.4, 0.5])
    assert dataset_weights(sizes, given=[1, 1, 2]) == pytest.approx([0.25, 0.25, 0.5])


@pytest.mark.parametrize("given", [[1, 2], [1, 2, 0], [1, 2, -1], [1, 2, float("nan")]])
def test_weights_must_be_positive_one_a_dataset(given):
    with pytest.raises(ConfigurationError, match="expected 3 positive weights, one for each dataset"):
        dataset_weights([1, 2, 3], given=given)


def test_an_epoch_of_one_dataset_shows_every_row_once():
    batches = list(plan(distinct(103), 10))
    assert len(batches) == len(plan(distinct(103), 10)) == 11
    assert [len(batch) for batch in batches] == [10] * 10 + [3]
    assert sorted(row for batch in batches for row in batch) == list(range(103))


def test_shares_hold_in_any_stretch_of_batches():
    batches = plan(distinct(4000, 2000, 2000), 8, weights=[0.5, 0.3, 0.2])
    owners = [np.searchsorted([4000, 6000], batch[0], side="right") for batch in batches]
    for start in range(0, len(owners) - 100, 37):
        counts = Counter(int(owner) for owner in owners[start : start + 100])
        assert [counts[0], counts[1], counts[2]] == pytest.approx([50, 30, 20], abs=2)


def test_a_batch_has_one_dataset_unless_told_otherwise():
    for batch in plan(distinct(50, 50), 10):
        assert len({row // 50 for row in batch}) == 1


def test_a_batch_draws_from_k_datasets_in_equal_parts():
    seen = Counter()
    for batch in plan(distinct(60, 60, 60), 11, datasets=2):
        parts = Counter(row // 60 for row in batch)
        assert sorted(parts.values()) == [5, 6]
        seen.update(parts.keys())
    assert sorted(seen) == [0, 1, 2]


def test_no_text_comes_twice_in_a_batch_and_none_is_lost():
    generator = np.random.default_rng(3)
    hashes = [generator.integers(0, 150, (300, 2))]
    batches = list(plan(hashes, 16))
    for batch in batches:
        texts = [text for row in batch for text in set(hashes[0][row].tolist())]
        assert len(texts) == len(set(texts))
    rows = [row for batch in batches for row in batch]
    assert len(rows) == len(set(rows))
    assert len(rows) > 250
    allowed = list(plan(hashes, 16, unique_texts=False))
    assert sorted(row for batch in allowed for row in batch) == list(range(300))


def test_no_text_comes_twice_across_the_datasets_of_a_batch():
    shared = np.arange(40, dtype=np.int64).reshape(20, 2)
    for batch in plan([shared, shared.copy()], 8, datasets=2):
        assert len({row % 20 for row in batch}) == len(batch)


def test_rows_that_find_no_place_are_said_to_be_left_out(caplog):
    often = np.array([[n, min(n, 20)] for n in range(60)], dtype=np.int64)  # a positive of 40 rows
    with caplog.at_level(logging.WARNING, logger="twinvec.training.data.batch_sampler"):
        epochs = plan([often], 2)
        left = 60 - sum(map(len, epochs))
        list(epochs)
    assert left == 10, "30 batches have room for 30 of them"
    assert "rows left out of this epoch, because their texts repeat too often: 10" in caplog.text
    assert len(caplog.records) == 1, "once a run"


@pytest.mark.parametrize("datasets", [1, 2])
def test_a_batch_far_below_its_size_is_told_at_once(caplog, datasets):
    few = np.array([[n, 100 + n % 3] for n in range(30)], dtype=np.int64)
    other = np.array([[200 + n, 300 + n % 2] for n in range(30)], dtype=np.int64)
    names = ["faq", "mail"]
    hashes = [few, other][:datasets]
    with caplog.at_level(logging.WARNING, logger="twinvec.training.data.batch_sampler"):
        drawing = plan(hashes, 20, datasets=datasets, names=names[:datasets])
        batches = iter(drawing)
        first = next(batches)
        assert len(first) == [3, 5][datasets - 1] == drawing.drawn[0]
        assert len(caplog.records) == 1, "before the next batch"
        rest = [len(batch) for batch in batches]
    assert len(caplog.records) == 1, "once a run"
    assert drawing.drawn == [len(first), *rest]
    whole = [
        "a batch has 3 of 20 rows, because no text may occur twice in a batch, and texts repeat: "
        "30 rows have 30 different anchors and 3 different positives. ",
        "a batch has 5 of 20 rows, because no text may occur twice in a batch, and texts repeat: "
        "30 rows of 'faq' have 30 different anchors and 3 different positives; "
        "30 rows of 'mail' have 30 different anchors and 2 different positives. ",
    ]
    assert whole[datasets - 1] in caplog.text


@pytest.mark.parametrize(
    ("hashes", "size", "options"),
    [
        (distinct(21), 10, {}),
        (distinct(5, 200), 20, {"weights": [0.5, 0.5]}),
        ([np.zeros((30, 2), dtype=np.int64)], 10, {"unique_texts": False}),
    ],
    ids=["the last batch", "a dataset smaller than a batch", "texts may repeat"],
)
def test_batches_that_are_short_for_another_reason_are_not_told(caplog, hashes, size, options):
    drawing = plan(hashes, size, **options)
    with caplog.at_level(logging.WARNING, logger="twinvec.training.data.batch_sampler"):
        list(drawing)
    assert min(drawing.drawn) < size / 2 or not drawing.unique_texts
    assert not caplog.records


def drawn_row_by_row(hashes, size, seed):
    """The batches of one dataset, by the rule alone."""
    waiting, batches = np.random.default_rng((seed, 0, 0)).permutation(len(hashes)).tolist(), []
    for _ in range(-(-len(hashes) // size)):
        batch, seen, later = [], set(), []
        for row in waiting:
            texts = set(hashes[row].tolist())
            if len(batch) == size or texts & seen:
                later.append(row)
            else:
                batch.append(row)
                seen |= texts
        waiting = later
        batches.append(batch)
    return batches


@pytest.mark.parametrize("kinds", [1, 3, 20, 200, 5000])
def test_rows_that_wait_keep_their_order_in_long_runs_too(kinds):
    generator = np.random.default_rng(kinds)
    hashes = np.stack([np.arange(2000) + 10_000, generator.integers(0, kinds, 2000)], axis=1)
    assert list(plan([hashes], 100, seed=4)) == drawn_row_by_row(hashes, 100, 4)


class CountingHashes:
    """Hashes of one text a row, that count how often a row is read."""

    def __init__(self, hashes):
        self._hashes = hashes.reshape(-1, 1)
        self.T = self._hashes.T
        self.read = 0

    def __len__(self):
        return len(self._hashes)

    def __getitem__(self, rows):
        self.read += np.size(rows)
        return self._hashes[rows]


def test_an_epoch_reads_a_row_few_times_however_often_its_text_repeats():
    hashes = CountingHashes(np.append(np.zeros(3000, dtype=np.int64), np.arange(1, 3001)))
    assert len(list(plan([hashes], 32))) == 188
    assert hashes.read < 2 * len(hashes)


def test_a_small_dataset_comes_again_and_again():
    batches = list(plan(distinct(5, 200), 10, weights=[0.5, 0.5]))
    small = [row for batch in batches for row in batch if row < 5]
    assert set(small) == set(range(5))
    assert len(small) > 40


@pytest.mark.parametrize("small", [1, 3, 7, 12, 15])
def test_no_row_comes_twice_in_a_batch(small):
    batches = list(plan(distinct(small, 200), 10, weights=[0.5, 0.5], unique_texts=False))
    for batch in batches:
        assert len(set(batch)) == len(batch)
    parts = [[row for row in batch if row < small] for batch in batches]
    assert {len(part) for part in parts if part} == {min(small, 10)}
    times = Counter(row for part in parts for row in part)
    assert max(times.values()) - min(times.values()) <= 2, "every turn has every row"


def test_the_seed_and_the_epoch_decide():
    def drawn(seed, epoch):
        chosen = plan(distinct(90, 30), 8, datasets=2, seed=seed)
        chosen.epoch = epoch
        return list(chosen)

    assert drawn(1, 2) == drawn(1, 2)
    assert drawn(1, 2) != drawn(1, 3)
    assert drawn(1, 2) != drawn(2, 2)


@pytest.mark.parametrize(
    ("size", "datasets", "message"),
    [
        (1, 2, "batch_size must be at least 2, .* got 1"),
        (8, 3, "datasets must lie between 1 and 2, got 3"),
        (8, 0, "datasets must lie between 1 and 2, got 0"),
    ],
)
def test_impossible_batches_are_refused(size, datasets, message):
    with pytest.raises(ConfigurationError, match=message):
        plan(distinct(5, 5), size, datasets=datasets)
