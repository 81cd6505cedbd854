"""Masks by text."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import torch

from twinvec.errors import ConfigurationError
from twinvec.training.data.text_hash import text_hash
from twinvec.training.losses.negatives_mask import PairTexts, text_hashes


@pytest.mark.parametrize("other", ["  A  b\n", "a B", "ａ b"])
def test_case_spacing_and_form_do_not_matter(other):
    assert text_hash(other) == text_hash("a b")


@pytest.mark.parametrize("other", ["ab", "a c", "", "a b c"])
def test_other_texts_have_other_hashes(other):
    assert text_hash(other) != text_hash("a b")


@pytest.mark.slow
def test_a_hash_is_the_same_in_every_process():
    program = "from twinvec.training.losses.negatives_mask import text_hash; print(text_hash('straße 日本'))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert int(result.stdout) == text_hash("straße 日本")


def test_worked_example(excluded):
    #          anchors: a b a ; positives: x a x2 ; hard negatives: x, c, b
    texts = PairTexts(text_hashes(["a", "b", "a"]), text_hashes(["x", "a", "x2", "x", "c", "b"]))
    expected = [
        # x      a      x2     x      c      b
        [False, True, True, True, False, False],  # a: "a" is itself, x2 is another positive of "a", x its positive
        [False, False, False, False, False, True],  # b: "b" is itself
        [True, True, False, True, False, False],  # a: x is another positive of "a", also as a hard negative
    ]
    assert excluded(texts).tolist() == expected


def test_a_positive_of_another_row_with_the_same_anchor_is_excluded_wherever_it_comes_again(excluded):
    #          anchors: a a z ; positives: p0 p1 p1 ; hard negatives: p1, h
    texts = PairTexts(text_hashes(["a", "a", "z"]), text_hashes(["p0", "p1", "p1", "p1", "h"]))
    expected = [
        # p0    p1     p1     p1     h
        [False, True, True, True, False],
        [True, False, True, True, False],
        [False, True, False, True, False],
    ]
    assert excluded(texts).tolist() == expected


def test_tiles_exclude_what_the_definition_says():
    generator = torch.Generator().manual_seed(5)
    for rows, candidates, words in ((1, 1, 1), (7, 7, 3), (20, 45, 8), (30, 30, 60)):
        anchors, others = (torch.randint(words, (size,), generator=generator) for size in (rows, candidates))
        texts = PairTexts(anchors, others)
        pairs = set(zip(anchors.tolist(), others.tolist(), strict=False))
        for top, left in itertools.product(range(0, rows, 4), range(0, candidates, 5)):
            bottom, right = min(top + 4, rows), min(left + 5, candidates)
            whole = torch.zeros(bottom - top, right - left, dtype=torch.bool)
            found = texts.tile(slice(top, bottom), slice(left, right))
            if found is not None:
                whole[:, found[0]] = found[1]
            for row, column in itertools.product(range(top, bottom), range(left, right)):
                anchor, text = int(anchors[row]), int(others[column])
                expected = row != column and (anchor == text or (anchor, text) in pairs)
                assert bool(whole[row - top, column - left]) == expected


def test_nothing_is_left_out_where_all_texts_differ(excluded):
    texts = PairTexts(text_hashes("abc"), text_hashes("defgh"))
    assert not excluded(texts).any()
    assert texts.tile(slice(0, 3), slice(0, 5)) is None


def test_needs_a_positive_for_each_anchor():
    with pytest.raises(ConfigurationError, match="N >= B"):
        PairTexts(torch.zeros(3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
