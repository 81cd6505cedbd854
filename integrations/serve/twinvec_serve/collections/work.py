"""Work that a request begins and that goes on without its client: an ingest, a migration, a rebuild of indexes."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Generic, TypeVar

from twinvec import Encoder
from twinvec.errors import TwinvecError
from twinvec_qdrant import Collection, IngestReport
from twinvec_serve.errors import RequestError

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


@dataclass
class Ingest(Work[IngestReport]):
    """One ingest.

    Attributes:
        report: Report of the work done so far.
        total: Number of documents; None if it is unknown.
        current: The id of the document that was read last.
    """

    report: IngestReport = field(default_factory=IngestReport)
    total: int | None = None
    current: str | None = None

    @property
    def counted(self) -> int:
        """Number of documents that are finished: written, unchanged, failed or empty."""
        now = self.report
        return now.new + now.updated + now.unchanged + now.failed + now.empty

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the report so far, without its lists."""
        found = ((each.name, getattr(self.report, each.name)) for each in fields(self.report))
        return {name: value for name, value in found if isinstance(value, int)}

    @property
    def progress(self) -> dict[str, Any]:
        return {"done": self.counted, "total": self.total, "file": self.current, "report": self.counts}

    @property
    def so_far(self) -> dict[str, Any]:
        return {"report": asdict(self.report)}


@dataclass
class Migrating(Work[Any]):
    """One migration. In the ``step`` "measuring" or "migrating", ``finished`` of ``total`` chunks are done.

    ``given_up`` says whether a client has ended the migration.
    """

    model: str
    given_up: bool = False
    step: str | None = None
    finished: int = 0
    total: int | None = None

    @property
    def progress(self) -> dict[str, Any]:
        return {"step": self.step, "done": self.finished, "total": self.total}

    def run(self, opened: Collection, encoder: Encoder, **options: Any) -> Any:
        """Migrate, and return the report; raise RequestError (409) if a client gives the migration up meanwhile."""
        try:
            return opened.migrate(encoder, on_progress=self._advance, **options)
        except (TwinvecError, _GivenUpError) as error:
            if not self.given_up:
                raise
            raise RequestError(
                f"the migration of {opened.name!r} to {self.model!r} was given up (drop_others)",
                code="migration_given_up",
                status=409,
            ) from error

    def _advance(self, step: str, finished: int, total: int) -> None:
        if self.given_up:
            raise _GivenUpError
        self.step, self.finished, self.total = step, finished, total


class _GivenUpError(Exception):
    """Ends a migration that a client gives up."""
