"""What is quicker on a CPU means the same: dropout by its distribution, attention and gradients by their values."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from twinvec.training.on_cpu import QuickOnCpu, attention, dropout, embedding

ONES = torch.ones(1001, 999)


@pytest.mark.parametrize("p", [0.1, 0.25, 0.9])
def test_what_is_left_has_the_mean_of_what_was_there(p):
    torch.manual_seed(1)
    dropped = dropout(ONES, p)
    assert dropped.unique().tolist() == [0.0, pytest.approx(1 / (1 - p), rel=1e-3)]
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    zeros = (dropped.flatten()[:999_996].view(-1, 4) == 0).double()
    assert zeros.mean(0).tolist() == pytest.approx([p] * 4, abs=0.005), "each of the four numbers in a word"
    assert (torch.corrcoef(zeros.T) - torch.eye(4)).abs().max() < 0.01


def test_the_generator_decides_and_gradients_pass_where_values_did():
    values = torch.randn(7, 5, requires_grad=True)
    torch.manual_seed(3)
    first = dropout(values, 0.5)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(values, 0.5))
    assert not torch.equal(first, dropout(values, 0.5))
    first.sum().backward()
    assert torch.equal(values.grad, (first != 0) * 2.0)


def test_modules_use_it_while_it_is_entered_and_not_afterwards():
    module = nn.Dropout(0.5)

    def drawn():
        torch.manual_seed(0)
        return module(ONES)

    before = drawn()
    with QuickOnCpu(sparse_gradients=True):
        quick = drawn()
    assert not torch.equal(quick, before)
    assert torch.equal(drawn(), before)
    torch.manual_seed(0)
    assert torch.equal(quick, dropout(ONES, 0.5))


@pytest.mark.parametrize("options", [{"training": False}, {"p": 0.0}, {"p": 1.0}, {"p": 1e-9}, {"inplace": True}])
def test_what_is_torchs_own(options):
    torch.manual_seed(0)
    found = dropout(ONES.clone(), **options)
    torch.manual_seed(0)
    assert torch.equal(found, functional.dropout(ONES.clone(), **{"training": True, **options}))


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 1), (2, 0, 5)])
def test_shapes_of_all_kinds(shape):
    assert dropout(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_no_probability(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        dropout(ONES, p)


def test_half_precision_stays_so():
    assert dropout(ONES.bfloat16(), 0.1).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["none", "truths", "numbers"])
def test_attention_is_torchs_but_for_the_mask_that_is_drawn(kind):
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, 4, 6, 8, requires_grad=True) for _ in range(3))
    seen = torch.arange(6) < torch.tensor([6, 4, 1])[:, None, None, None]
    mask = {"none": None, "truths": seen, "numbers": torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)}[kind]
    expected = functional.scaled_dot_product_attention(query, key, value, mask, scale=0.3)
    torch.testing.assert_close(attention(query, key, value, mask, scale=0.3), expected)  # none: torch's own
    torch.testing.assert_close(attention(query, key, value, mask, 1e-9, scale=0.3), expected)  # rounded to none
    drawn = torch.stack([attention(query, key, value, mask, 0.2, scale=0.3) for _ in range(2000)])
    torch.testing.assert_close(drawn.mean(0), expected, atol=0.06, rtol=0)
    assert drawn.std(0).max() > 0.05
    drawn.sum().backward()
    assert all(each.grad.isfinite().all() for each in (query, key, value))


def test_a_row_that_sees_nothing_stays_finite():
    query = torch.randn(1, 1, 2, 4, requires_grad=True)
    for mask in (torch.tensor([[True, True], [False, False]]), torch.tensor([[0.0, 0.0], [-torch.inf, -torch.inf]])):
        found = attention(query, query, query, mask, 0.5)
        found.sum().backward()
        assert found.isfinite().all()
        assert query.grad.isfinite().all()


@pytest.mark.parametrize("padding_idx", [None, 0])
def test_gradients_of_embeddings_are_those_of_the_whole_table(padding_idx):
    torch.manual_seed(0)
    table = torch.randn(50, 3)
    batches = [torch.tensor(ids) for ids in ([[1, 2, 2], [0, 49, 1]], [[2, 0, 7]])]
    tables = [table.clone().requires_grad_() for _ in range(2)]
    for lookup, weight in zip((embedding, functional.embedding), tables, strict=True):
        for ids in batches:
            (lookup(ids, weight, padding_idx) ** 3).sum().backward()
    assert not tables[0].grad.is_sparse
    torch.testing.assert_close(tables[0].grad, tables[1].grad)


def test_embeddings_that_are_torchs_own():
    small = torch.randn(4, 3, requires_grad=True)
    embedding(torch.zeros(5, dtype=torch.int64), small).sum().backward()
    frozen = torch.randn(50, 3)
    embedding(torch.tensor([1]), frozen)
    assert frozen.grad is None
    large = torch.randn(50, 3, requires_grad=True)
    with torch.no_grad():
        embedding(torch.tensor([1]), large)
    assert large.grad is None
    embedding(torch.tensor([1]), large, scale_grad_by_freq=True).sum().backward()
    assert large.grad[1].tolist() == [1, 1, 1]


def test_whose_gradients_are_looked_after_by_others_keep_whole_ones():
    module = nn.Embedding(50, 3)
    with QuickOnCpu(sparse_gradients=False):
        module(torch.tensor([1]))
    assert module.weight.grad is None
    with QuickOnCpu(sparse_gradients=True):
        module(torch.tensor([1])).sum().backward()
    assert not module.weight.grad.is_sparse
