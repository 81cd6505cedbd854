"""Checks of arguments: choices and integers."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from twinvec.errors import ConfigurationError
from twinvec.support.checks import check_choice, integer, is_integer

Color = Literal["red", "green"]


@pytest.mark.parametrize("choices", [Color, ("red", "green"), ["red", "green"], {"red": 1, "green": 2}])
def test_choices(choices):
    for value in ("red", "green"):
        check_choice(value, choices, "color")
    for value in ("blue", "", "re", None, 1, ["red"]):
        with pytest.raises(ConfigurationError) as raised:
            check_choice(value, choices, "color")
        assert str(raised.value) == f"color {value!r} is not one of red, green"


def test_none_can_be_a_choice():
    check_choice(None, (None, "red"), "color")
    with pytest.raises(ConfigurationError, match="color 'blue' is not one of None, red"):
        check_choice("blue", (None, "red"), "color")


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_integers(value):
    assert is_integer(value)
    found = integer(value, "limit", 3)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("value", [3.0, np.float64(3), True, np.bool_(True), "3", None, [3]])
def test_other_values_are_not_integers(value):
    assert not is_integer(value)
    with pytest.raises(ConfigurationError) as raised:
        integer(value, "limit")
    assert str(raised.value) == f"limit must be a whole number, got {value!r}"


def test_an_integer_that_is_too_small():
    with pytest.raises(ConfigurationError, match="limit must be at least 1, got 0"):
        integer(0, "limit", 1)
    assert integer(-5, "offset") == -5
