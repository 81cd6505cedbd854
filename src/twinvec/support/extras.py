"""Importing the packages of a distribution's extras, such as those of ``twinvec[eval]``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from twinvec.errors import EngineError, MissingExtraError

_INSTALLED_AS = {"sklearn": "scikit-learn", "yaml": "PyYAML"}
"""Package -> name that pip installs it by, where the two differ by more than hyphens."""


def import_extra(module: str, extra: str, purpose: str, distribution: str = "twinvec") -> Any:
    """Import an optional package, or one of its modules.

    Args:
        module: Dotted path of the module.
        extra: The extra of ``distribution`` that installs the package.
        purpose: What needs the package; errors begin with it.
        distribution: Whose extra it is.

    Raises:
        MissingExtraError: the package is not installed; the error names the command that installs it.
        EngineError: the package is installed and cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        package = _INSTALLED_AS.get(package, package.replace("_", "-"))
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise MissingExtraError(package, extra, purpose, distribution) from error
        raise EngineError(
            f"{purpose} needs the package {package!r}, which is installed but cannot be imported: {error}"
        ) from error
