"""Masks by text."""

from __future__ import annotations

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
        [True, True, False, False, False, False],  # a: x is a positive of "a" as a positive, not as a hard negative
    ]
    assert excluded(texts).tolist() == expected


def test_nothing_is_left_out_where_all_texts_differ(excluded):
    texts = PairTexts(text_hashes("abc"), text_hashes("defgh"))
    assert not excluded(texts).any()
    assert texts.tile(slice(0, 3), slice(0, 5)) is None


def test_needs_a_positive_for_each_anchor():
    with pytest.raises(ConfigurationError, match="B anchors"):
        PairTexts(torch.zeros(3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
