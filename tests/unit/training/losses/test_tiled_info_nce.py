"""Tiled InfoNCE: value and gradients of the plain function, for every option and every way to cut the matrix."""

from __future__ import annotations

import itertools

import pytest
import torch

from twinvec.errors import ConfigurationError
from twinvec.training.losses.negatives_mask import PairTexts
from twinvec.training.losses.tiled_info_nce import InfoNCESettings, tiled_info_nce
from twinvec.training.objectives import info_nce

CASES = list(itertools.product([37, 60], ["cosine", "dot"], [False, True], [False, True], [None, 0.1, -0.05]))


def tiled(anchors, candidates, *, texts=None, tile=None, **settings):
    """Take the arguments of ``info_nce``."""
    return tiled_info_nce(anchors, candidates, InfoNCESettings(**settings), texts=texts, tile=tile)


@pytest.mark.parametrize(("candidates", "similarity", "symmetric", "masked", "margin"), CASES)
def test_equals_the_plain_function(excluded, candidates, similarity, symmetric, masked, margin):
    generator = torch.Generator().manual_seed(1)
    anchors = torch.randn(37, 8, dtype=torch.float64, generator=generator).requires_grad_()
    others = torch.randn(candidates, 8, dtype=torch.float64, generator=generator).requires_grad_()
    texts = None
    if masked:
        texts = PairTexts(
            torch.randint(0, 20, (37,), generator=generator), torch.randint(0, 30, (candidates,), generator=generator)
        )
    options = {"scale": 3.0, "similarity": similarity, "symmetric": symmetric, "false_negative_margin": margin}
    expected = info_nce(anchors, others, excluded_BN=excluded(texts) if texts else None, **options)
    gradients = torch.autograd.grad(expected, (anchors, others))
    for tile in [(7, 11), (37, 60), (1, 1000), (64, 5)]:
        value = tiled(anchors, others, texts=texts, tile=tile, **options)
        torch.testing.assert_close(value, expected, atol=1e-12, rtol=0)
        for mine, reference in zip(torch.autograd.grad(value, (anchors, others)), gradients, strict=True):
            torch.testing.assert_close(mine, reference, atol=1e-12, rtol=0)
    assert gradients[0].abs().max() > 1e-3


def test_its_gradient_is_that_of_its_value():
    inputs = [torch.randn(rows, 4, dtype=torch.float64, requires_grad=True) for rows in (5, 8)]
    assert torch.autograd.gradcheck(lambda a, c: tiled(a, c, symmetric=True, tile=(2, 3)), inputs)


def test_float32_stays_within_1e_5_at_a_few_thousand_rows():
    generator = torch.Generator().manual_seed(2)
    anchors = torch.randn(3000, 64, generator=generator)
    others = (anchors + torch.randn(3000, 64, generator=generator)).requires_grad_()
    anchors.requires_grad_()
    expected = info_nce(anchors, others)
    gradients = torch.autograd.grad(expected, (anchors, others))
    value = tiled(anchors, others)
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=0)
    for mine, reference in zip(torch.autograd.grad(value, (anchors, others)), gradients, strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-5, rtol=0)


def test_large_scores_do_not_overflow():
    anchors = (100 * torch.eye(4)).requires_grad_()
    value = tiled(anchors, 100 * torch.eye(4), scale=1.0, similarity="dot", tile=(2, 2))
    value.backward()
    assert value == 0
    assert torch.isfinite(anchors.grad).all()


def test_half_precision_is_summed_in_float32():
    anchors = torch.randn(50, 16, dtype=torch.bfloat16)
    value = tiled(anchors, anchors)
    assert value.dtype == torch.float32


@pytest.mark.parametrize("function", [info_nce, tiled])
@pytest.mark.parametrize(
    ("anchors", "candidates", "options", "message"),
    [
        ((3, 4), (2, 4), {}, "3 anchors and 2 candidates"),
        ((0, 4), (2, 4), {}, "0 anchors"),
        ((3, 4), (3, 5), {}, r"\(3, 4\) and \(3, 5\)"),
        ((3,), (3, 5), {}, "expected anchors"),
        ((3, 4), (3, 4), {"scale": 0}, "scale"),
        ((3, 4), (3, 4), {"scale": float("nan")}, "scale"),
        ((3, 4), (3, 4), {"similarity": "euclid"}, "euclid"),
    ],
)
def test_refuses_what_has_no_meaning(function, anchors, candidates, options, message):
    with pytest.raises(ConfigurationError, match=message):
        function(torch.zeros(anchors), torch.zeros(candidates), **options)
