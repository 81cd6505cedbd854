"""A writer that dies at a chosen step of its work on a store."""

from __future__ import annotations

from itertools import count
from typing import Any

STEPS = ("add_vector", "upsert", "commit", "delete", "update_dense", "update_sparse", "write_metadata", "flush")


class Died(BaseException):
    """Stands for the end of the process."""


def die_at(step: int, *, done: bool, backend: Any, monkeypatch: Any) -> None:
    """Let the writer die at a step: before the store does anything, or after it has (``done``)."""
    steps = count()

    def dying(method):
        def call(*args, **options):
            last = next(steps) == step
            if last and not done:
                raise Died
            method(*args, **options)
            if last:
                raise Died

        return call

    for name in STEPS:
        monkeypatch.setattr(backend, name, dying(getattr(backend, name)))
