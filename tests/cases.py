"""Cases of a test of which ``make test`` runs a few, and ``make test-all`` runs all."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import pytest
from packaging.version import Version

as_sentence_transformers_6_2 = pytest.mark.skipif(
    Version(version("sentence-transformers")) < Version("6.2"),
    reason="older versions of sentence-transformers do it otherwise",
)
"""Marks a comparison with what sentence-transformers itself does since 6.2."""

as_llama_index_core_0_14_23 = pytest.mark.skipif(
    Version(version("llama-index-core")) < Version("0.14.23"),
    reason="in older versions, filters with != and nin leave out nodes without the key",
)
"""Marks a comparison with LlamaIndex' own store since 0.14.23."""


def slow(*arguments: Any) -> Any:
    """Return a case of a test, with these arguments, that ``make test`` leaves out."""
    return pytest.param(*arguments, marks=pytest.mark.slow)


def few_quick(values: Iterable[Any], quick: Iterable[Any]) -> list[Any]:
    """Return a case of a test for each value; ``make test`` leaves out all but those in ``quick``."""
    cases, kept = list(values), list(quick)
    assert all(value in cases for value in kept), f"{kept} are not all among {cases}"
    return [value if value in kept else slow(value) for value in cases]
