"""Cases of a test of which ``make test`` runs a few, and ``make test-all`` runs all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """Return one case of a test, of one or several arguments, that only the slow tests run."""
    return pytest.param(*values, marks=pytest.mark.slow)


def few_quick(values: Iterable[Any], quick: Iterable[Any]) -> list[Any]:
    """Return ``values`` as cases of a test; all but those in ``quick`` are left to the slow tests."""
    kept = list(quick)
    return [value if value in kept else slow(value) for value in values]
