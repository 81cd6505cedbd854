"""Pooling by hand, and rows without a token."""

from __future__ import annotations

import pytest
import torch

from twinvec.engines import pooling

STATES_BTD = torch.tensor([[[1.0, -2.0], [3.0, 0.0], [5.0, 8.0], [100.0, 100.0]]])
MASK_BT = torch.tensor([[1, 1, 1, 0]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("mean", [3.0, 2.0]),
        ("mean_sqrt_len_tokens", [9 / 3**0.5, 6 / 3**0.5]),
        ("weightedmean", [(1 + 6 + 15) / 6, (-2 + 0 + 24) / 6]),
        ("max", [5.0, 8.0]),
        ("cls", [1.0, -2.0]),
        ("lasttoken", [5.0, 8.0]),
    ],
)
def test_worked_example(mode, expected):
    torch.testing.assert_close(pooling.MODES[mode](STATES_BTD, MASK_BT), torch.tensor([expected]))


def test_prompt_is_left_out_but_keeps_its_positions():
    pooled_BD = pooling.pool(STATES_BTD, MASK_BT, ("cls", "mean", "weightedmean"), prompt_tokens=1)
    weighted = [(2 * 3 + 3 * 5) / 5, (2 * 0 + 3 * 8) / 5]
    torch.testing.assert_close(pooled_BD, torch.tensor([[3.0, 0.0, 4.0, 4.0, *weighted]]))


@pytest.mark.parametrize("mode", pooling.MODES)
def test_row_without_a_token_gives_zeros(mode):
    states_BTD = torch.full((2, 3, 4), 7.0)
    mask_BT = torch.tensor([[0, 0, 0], [1, 1, 0]])
    pooled_BD = pooling.MODES[mode](states_BTD, mask_BT)
    assert torch.equal(pooled_BD[0], torch.zeros(4))
    assert (pooled_BD[1] > 0).all()


@pytest.mark.parametrize("mode", pooling.MODES)
def test_prompt_as_long_as_the_text_gives_zeros(mode):
    assert torch.equal(pooling.pool(STATES_BTD, MASK_BT, (mode,), prompt_tokens=3), torch.zeros(1, 2))
