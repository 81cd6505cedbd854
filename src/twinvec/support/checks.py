"""Checks of arguments: choices, integers and unknown names. Errors name the argument, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, get_args

from twinvec.errors import ConfigurationError


def check_choice(value: object, choices: Any, what: str) -> None:
    """Raise ConfigurationError, which names ``what``, if a value is none of ``choices`` (values, or a ``Literal``)."""
    known: Iterable[object] = get_args(choices) or tuple(choices)
    if value not in known:
        raise ConfigurationError(f"{what} {value!r} is not one of {', '.join(map(str, known))}")


def refuse_unknown(arguments: Mapping[str, object]) -> None:
    """Raise ConfigurationError, which names them all, if unknown keyword arguments are left over."""
    if arguments:
        raise ConfigurationError(f"unknown arguments: {', '.join(sorted(arguments))}")


def is_integer(value: object) -> bool:
    """Return whether a value is an int or a NumPy integer, but not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def integer(value: int, name: str, least: int | None = None) -> int:
    """Return an int or NumPy integer as an int; raise ConfigurationError for another type or less than ``least``."""
    if not is_integer(value):
        raise ConfigurationError(f"{name} must be a whole number, got {value!r}")
    if least is not None and value < least:
        raise ConfigurationError(f"{name} must be at least {least}, got {value}")
    return int(value)
