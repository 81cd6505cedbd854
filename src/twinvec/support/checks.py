"""Whole numbers that callers give: 3.0 and True are none, those of numpy are."""

from __future__ import annotations

from numbers import Integral

from twinvec.errors import ConfigurationError


def is_whole(value: object) -> bool:
    """Whether it is one."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole_number(value: int, name: str) -> int:
    """As Python's own.

    Raises:
        ConfigurationError: it is none.
    """
    if not is_whole(value):
        raise ConfigurationError(f"{name} must be a whole number, got {value!r}")
    return int(value)
