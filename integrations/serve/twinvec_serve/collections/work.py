"""Work that a request begins and that goes on without its client: an ingest, a migration, a rebuild of indexes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass
class Work(Generic[T]):
    """Work that is under way or done.

    Attributes:
        waits: Whether other work comes before it.
        done: Completes with the report, or with the error that ended the work.
    """

    waits: bool = field(default=True, init=False)
    done: asyncio.Future[T] = field(init=False)

    @property
    def progress(self) -> dict[str, Any]:
        """How far the work is: the fields of a progress event, None for unknown values."""
        return {}

    @property
    def so_far(self) -> dict[str, Any]:
        """Fields that the last event has besides the error if the work fails."""
        return {}
