"""Skip typer's conversion of command-line values that already have the right type, and refuse empty paths.

typer converts values with pydantic, and importing pydantic is slow. A command whose values are strings, paths and
defaults starts without it. Pydantic's messages about wrong values are put in plain words. Empty paths are refused,
because an empty text would become the path of the current folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

_PATH_SETTINGS = ("exists", "file_okay", "dir_okay", "writable", "readable", "resolve_path", "allow_dash", "path_type")

_PARSED = re.compile(r", unable to parse string as an? \w+$")


class _NotPlainError(Exception):
    """A value needs typer's own conversion."""


def convert_only_where_needed(parameter: Any) -> None:
    """Let a parameter of typer convert only values that need it.

    A later typer may lack ``get_runtime_param``; it then converts all values.
    """
    own = getattr(parameter, "get_runtime_param", None)
    if own is not None and not isinstance(own, _Conversion):
        parameter.get_runtime_param = _Conversion(own)


class _Conversion:
    """The conversion of a parameter; ``own`` is a function that returns typer's own conversion."""

    def __init__(self, own: Callable[[], Any]) -> None:
        self._own = own

    def __call__(self) -> _Conversion:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in the parameter's type; if it has another type, typer's own conversion takes over."""
        given = value if isinstance(value, (list, tuple)) else [value]
        if "" in given and _takes_paths(param):
            raise typer.BadParameter("a path cannot be an empty text; '.' names the current folder", ctx, param)
        try:
            return _plain(value, param)
        except (AttributeError, _NotPlainError):  # a later typer may describe its parameters in another way
            pass
        try:
            return self._own().coerce(value, param=param, ctx=ctx)
        except typer.BadParameter as error:
            error.message = _in_plain_words(error.message, value)
            raise


def _takes_paths(param: Any) -> bool:
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    return Path in (kind, *get_args(kind))


def _in_plain_words(message: str, value: Any) -> str:
    """Return pydantic's message about a value in plain words."""
    named = "each value" if isinstance(value, (list, tuple)) else repr(value)
    return _PARSED.sub("", message.removeprefix("Value error, ")).replace("Input should", f"{named} should", 1)


def _plain(value: Any, param: Any) -> Any:
    kind = param.type_descriptor.annotation
    if value is None:
        return () if param.multiple or param.nargs == -1 else None
    if kind is Path and isinstance(value, str) and _is_accepted(value, param.type_descriptor.parameter_info):
        return Path(value)
    if not _fits(value, kind):
        raise _NotPlainError
    return list(value) if isinstance(value, tuple) else value


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value has the type: str, int, float, a Literal, or a list of these; False for any other type."""
    if get_origin(kind) is list:
        return isinstance(value, (list, tuple)) and all(_fits(each, get_args(kind)[0]) for each in value)
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return kind in (str, int, float) and type(value) is kind


def _is_accepted(path: str, option: Any) -> bool:
    """Return whether typer would accept a path: the option sets no conditions, and the path is missing or readable."""
    usual = type(option)()
    takes_any = all(getattr(option, name) == getattr(usual, name) for name in _PATH_SETTINGS)
    return takes_any and (os.access(path, os.R_OK) or not os.path.lexists(path))
