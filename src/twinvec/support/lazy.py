"""Lazy public names: a package lists its names and imports the module of a name at its first use.

The modules are attributes, too: type checkers regard each module that a package imports names from as an attribute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, str], *, modules: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``.

    ``names`` maps each module to its names, split by spaces, and ``modules`` has the public modules without names.
    A module whose extra is not installed raises AttributeError, so that ``hasattr`` returns False.
    """
    homes = {name: module for module, own in names.items() for name in own.split()}
    found = {*modules.split(), *(module.partition(".")[0] for module in names)}.difference(homes)

    def load(name: str) -> Any:
        if name in found:
            try:
                return import_module(f"{package}.{name}")
            except ImportError as error:
                from twinvec.errors import MissingExtraError

                if not isinstance(error, MissingExtraError):
                    raise
                raise AttributeError(f"module {package!r} has no attribute {name!r}: {error}") from error
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes, *found})
