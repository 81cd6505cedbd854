"""Import the packages of a distribution's extras, such as those of ``twinvec[eval]``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from twinvec.errors import EngineError, MissingExtraError

_INSTALLED_AS = {"sklearn": "scikit-learn", "yaml": "PyYAML"}
"""Package -> name by which pip installs it, if this name differs by more than hyphens."""


def require_training() -> None:
    """Raise MissingExtraError if torch, which training imports, is not installed; do not import it."""
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "train", "training")


def import_torch(purpose: str) -> Any:
    """Import transformers and torch, and return torch; errors as for ``import_extra``."""
    import_extra("transformers", "torch", purpose)
    return import_extra("torch", "torch", purpose)


def import_extra(module: str, extra: str, purpose: str, distribution: str = "twinvec") -> Any:
    """Import an optional package, or one of its modules by dotted path; errors begin with ``purpose``.

    Raise MissingExtraError, with the command that installs ``extra``, if the package is missing, and EngineError if it
    is installed and cannot be imported.
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
