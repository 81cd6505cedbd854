"""What is quicker on a CPU means the same: dropout by its distribution, attention and gradients by their values."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from cases import slow
from twinvec.training.losses.cpu_ops import FastCpuOps, attention, dropout, embedding

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
    with FastCpuOps(sparse=True):
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


@pytest.mark.parametrize("kind", ["none", slow("truths"), slow("numbers")])
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


@pytest.mark.parametrize("padding_idx", [None, 0, -1])
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


def sparse_gradient(lookup, weight, **options):
    """Whether the gradient that reaches the table is sparse; it is kept from it."""
    seen = []
    handle = weight.register_hook(lambda grad: seen.append(grad.is_sparse))
    lookup(torch.tensor([1]), weight, **options).sum().backward()
    handle.remove()
    return seen == [True]


def test_large_tables_only_get_the_rows_that_were_looked_up():
    large, small = torch.randn(50, 3, requires_grad=True), torch.randn(1, 3, requires_grad=True)
    assert sparse_gradient(embedding, large)
    assert not sparse_gradient(embedding, large, scale_grad_by_freq=True)
    assert not sparse_gradient(embedding, large, max_norm=1.0)
    assert not sparse_gradient(lambda ids, weight: embedding(ids - 1, weight), small)
    module = nn.Embedding(50, 3)
    for sparse in (True, False):
        with FastCpuOps(sparse=sparse):
            assert sparse_gradient(lambda ids, _: module(ids), module.weight) == sparse


def test_a_table_that_is_not_taken_backward_gets_nothing():
    large, frozen = torch.randn(50, 3, requires_grad=True), torch.randn(50, 3)
    embedding(torch.tensor([1]), large)
    embedding(torch.tensor([1]), frozen)
    with torch.no_grad():
        embedding(torch.tensor([1]), large)
    assert large.grad is None
    assert frozen.grad is None


def test_gradients_may_be_dropped_between_the_passes():
    large = torch.randn(50, 3, requires_grad=True)
    rows = embedding(torch.tensor([1, 1]), large)
    large.grad = None
    rows.sum().backward()
    assert not large.grad.is_sparse
    assert large.grad[1].tolist() == [2, 2, 2]


def test_attention_of_a_model_is_replaced_too():
    states = torch.randn(2, 2, 3, 4)
    torch.manual_seed(0)
    expected = attention(states, states, states, dropout_p=0.2)
    torch.manual_seed(0)
    with FastCpuOps(sparse=False):
        found = functional.scaled_dot_product_attention(states, states, states, dropout_p=0.2)
    assert torch.equal(found, expected)
