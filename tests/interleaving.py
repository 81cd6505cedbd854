"""One writer does all its work between two steps of another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any


def interrupted(
    backend: Any, names: Sequence[str], step: int, other: Callable[[], object], monkeypatch: Any
) -> list[bool]:
    """Let ``other`` work before a step of the backend. A step is a call of a method in ``names``.

    The returned list is empty until ``other`` has worked.
    """
    steps, done = count(), []

    def before(method):
        def call(*args, **options):
            if next(steps) == step:
                done.append(True)
                other()
            return method(*args, **options)

        return call

    for name in names:
        monkeypatch.setattr(backend, name, before(getattr(backend, name)))
    return done
