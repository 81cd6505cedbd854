"""Checks of arguments: choices, integers and unknown names. Errors name the argument, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, get_args

from twinvec.errors import ConfigurationError, TwinvecError


def check_choice(value: object, choices: Any, what: str, error: type[TwinvecError] = ConfigurationError) -> None:
    """Refuse a value that is not one of the choices.

    Args:
        value: What the caller gave.
        choices: A ``Literal`` type, or the values themselves.
        what: Name of the argument, with the place that it comes from where the caller gave many.
        error: Type of the error.

    Raises:
        ConfigurationError: or ``error``; it names the value and all choices.
    """
    known: Iterable[object] = get_args(choices) or tuple(choices)
    if value not in known:
        raise error(f"{what} {value!r} is not one of {', '.join(map(str, known))}")


def refuse_unknown(arguments: Mapping[str, object]) -> None:
    """Refuse unknown keyword arguments: those left over after the known ones were taken.

    Raises:
        ConfigurationError: arguments are left over; the error names them.
    """
    if arguments:
        raise ConfigurationError(f"unknown arguments: {', '.join(sorted(arguments))}")


def is_integer(value: object) -> bool:
    """Whether a value is an int or a NumPy integer; a bool or a float is not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def integer(value: int, name: str, least: int | None = None) -> int:
    """Return an integer argument as a Python int; NumPy integers are accepted, bool and float are not.

    Raises:
        ConfigurationError: ``value`` is not an integer, or is smaller than ``least``.
    """
    if not is_integer(value):
        raise ConfigurationError(f"{name} must be a whole number, got {value!r}")
    if least is not None and value < least:
        raise ConfigurationError(f"{name} must be at least {least}, got {value}")
    return int(value)
