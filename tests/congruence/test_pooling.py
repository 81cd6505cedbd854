"""Pooling functions against sentence-transformers' Pooling module, on random states and masks."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from twinvec.engines.pooling import MODES, pool

MODE_LISTS = [*((mode,) for mode in MODES), tuple(MODES), ("max", "cls")]


@pytest.mark.parametrize("modes", MODE_LISTS, ids="+".join)
@pytest.mark.parametrize("prompt_tokens", [0, 2])
def test_pooling_equals_the_module(modes, prompt_tokens):
    generator = torch.Generator().manual_seed(len(modes))
    states_BTD = torch.randn(7, 9, 6, generator=generator)
    lengths_B = torch.tensor([9, 8, 3, 4, 5, 9, 6])
    mask_BT = (torch.arange(9) < lengths_B[:, None]).long()
    module = Pooling(6, modes, include_prompt=False)
    features = {"token_embeddings": states_BTD.clone(), "attention_mask": mask_BT.clone()}
    if prompt_tokens:
        features["prompt_length"] = prompt_tokens
    theirs_BD = module(features)["sentence_embedding"]
    ours_BD = pool(states_BTD, mask_BT, modes, prompt_tokens)
    assert ours_BD.shape == (7, 6 * len(modes))
    torch.testing.assert_close(ours_BD, theirs_BD, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("modes", MODE_LISTS, ids="+".join)
def test_states_of_padding_do_not_matter(modes):
    states_BTD = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    mask_BT = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]])
    disturbed_BTD = states_BTD + 100 * (1 - mask_BT).unsqueeze(-1)
    torch.testing.assert_close(pool(disturbed_BTD, mask_BT, modes), pool(states_BTD, mask_BT, modes))
