"""Batches of any datasets: parts, uniqueness and determinism."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twinvec.training.data.batch_sampler import BatchPlan, dataset_weights

DATASETS = st.lists(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=40), min_size=1, max_size=4
)


@given(DATASETS, st.integers(1, 12), st.integers(1, 4), st.integers(0, 5), st.booleans())
def test_every_plan_keeps_its_word(rows, size, datasets, seed, unique):
    hashes = [np.array(texts, dtype=np.int64) for texts in rows]
    datasets = min(datasets, len(hashes), size)
    weights = dataset_weights([len(texts) for texts in hashes])
    plan = BatchPlan(hashes, size, weights=weights, datasets=datasets, unique_texts=unique, seed=seed)
    batches = list(plan)
    assert batches == list(plan)
    assert len(batches) == len(plan)
    ends = np.cumsum([len(texts) for texts in hashes])
    together = np.concatenate(hashes)
    for batch in batches:
        assert len(batch) <= size
        owners = np.searchsorted(ends, batch, side="right")
        assert len(set(owners.tolist())) <= datasets
        if unique:
            texts = [text for row in batch for text in set(together[row].tolist())]
            assert len(texts) == len(set(texts))
    if len(hashes) == 1:
        drawn = [row for batch in batches for row in batch]
        assert len(drawn) == len(set(drawn))
        if not unique:
            assert sorted(drawn) == list(range(len(together)))
