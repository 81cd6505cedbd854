"""Work that a request begins and that goes on without its client: ingests, migrations, tuning, rebuilds of indexes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Generic, TypeVar

from twinvec import Encoder
from twinvec.errors import TwinvecError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.measures import import_ir_measures
from twinvec.evaluation.tuning import tune_collection
from twinvec.retrieval.tuned_search import save
from twinvec_qdrant import Collection, IngestReport
from twinvec_serve.errors import RequestError

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass
class Work(Generic[T]):
    """Work that is under way or done.

    Attributes:
        waits: Whether the work waits for other work.
        done: A future of the report, or of the error that ends the work.
    """

    waits: bool = field(default=True, init=False)
    done: asyncio.Future[T] = field(init=False)

    @property
    def progress(self) -> dict[str, Any]:
        """How far the work is: the fields of a progress event, None for unknown values."""
        return {}

    @property
    def so_far(self) -> dict[str, Any]:
        """The fields of the last event besides ``error``, if the work fails."""
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
class BackgroundWork(Work[Any]):
    """A migration or tuning, which runs beside the ingests. ``step`` is its present step, such as "measuring".

    In the step, ``finished`` of ``total`` queries or chunks (``unit``) are done.
    """

    step: str | None = field(default=None, kw_only=True)
    finished: int = field(default=0, kw_only=True)
    total: int | None = field(default=None, kw_only=True)
    unit: ClassVar[str]

    @property
    def progress(self) -> dict[str, Any]:
        return {"step": self.step, "done": self.finished, "total": self.total}

    @property
    def state(self) -> str:
        """How far the work is, such as " (measuring: 3 of 20 queries)"; "" before the first step."""
        return "" if self.total is None else f" ({self.step}: {self.finished:,} of {self.total:,} {self.unit})"


@dataclass
class Tuning(BackgroundWork):
    """A choice of search settings. ``warnings`` are about the judged queries."""

    warnings: list[str] = field(default_factory=list, kw_only=True)
    unit = "queries"

    def run(self, opened: Collection, data: BeirSet | None, measure: str) -> dict[str, Any]:
        """Choose a setting, and store it with the collection.

        Return the report that ``twinvec tune --json`` prints, with ``warnings``.
        """
        import_ir_measures()  # before the searches, which take long

        def advance(finished: int, total: int) -> None:
            opened.count()  # raises an error if the collection was dropped
            self.step, self.finished, self.total = "measuring", finished, total

        def warn(message: str) -> None:
            logger.warning(message)
            self.warnings.append(message)

        found = tune_collection(opened, data, measure=measure, on_progress=advance, warn=warn)
        save(opened, found.setting, measure)
        return {**found.as_json(), "warnings": self.warnings}


@dataclass
class Migrating(BackgroundWork):
    """A migration. Its steps are "measuring" and "migrating"; ``given_up`` says whether a client has ended it."""

    model: str
    given_up: bool = False
    unit = "chunks"

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
