"""Maintenance commands: they work on a collection that they open, or on a collection that another process serves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinvec.cli.terminal import complain
from twinvec.engines import Precision
from twinvec.errors import ConfigurationError, ModelNotFoundError, StoreUnavailableError
from twinvec.support.progress import Advance, progress_bar
from twinvec_qdrant.asking import reindex_as_asked
from twinvec_qdrant.cli.options import CollectionPlace
from twinvec_qdrant.cli.served.connecting import NO_CLUSTER, NO_DIM, WorkEvents, opened_or_served
from twinvec_qdrant.report import IndexReport, MigrationReport, RepairReport, VerifyReport, report_of
from twinvec_qdrant.serving.client import ServerClient
from twinvec_qdrant.serving.names import collection_path

if TYPE_CHECKING:
    from twinvec.evaluation.beir import BeirSet
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.maintenance.migration_check import JudgedCheck

logger = logging.getLogger(__name__)

_QRELS = ("query-id", "corpus-id", "score")
_GOES_ON = "the process that serves the store goes on with the work"
_AGAIN = "run the same command again; if no process serves the store any more, the command itself does the work"
_KEPT = "the work that the process had finished is kept; run the same command again to do the rest"


class OwnMaintenance:
    """The maintenance of a collection that this process has opened; new models compute in ``precision``."""

    def __init__(self, opened: Collection, precision: Precision = "auto") -> None:
        self._opened = opened
        self._precision = precision

    def migrate(
        self, to: str, *, dim: int | None, ir: Path | None, progress: bool, **options: Any
    ) -> tuple[MigrationReport, JudgedCheck | None]:
        """Migrate to a model, whose vectors are truncated to ``dim`` dimensions.

        Return the report, and the check by the judged queries in the folder ``ir``.
        """
        from twinvec.encoder import Encoder

        check = None if ir is None else _judged(self._opened, ir)
        rate = options.pop("rate")
        encoder = Encoder(to, dim=dim, precision=self._precision)
        report = self._opened.migrate(encoder, check=check, chunks_per_second=rate, progress=progress, **options)
        return report, check

    def drop_others(self) -> list[str]:
        """Delete the vectors of all other models, and return the models' names."""
        return self._opened.drop_others()

    def reindex(self, *, progress: bool, **wanted: Any) -> IndexReport:
        """Rebuild the indexes, as ``asking.reindex_as_asked`` does."""
        with progress_bar("Reindexing", None, "", shown=progress):
            return reindex_as_asked(self._opened, **wanted)

    def tune(self, data: BeirSet | None, *, measure: str) -> dict[str, Any]:
        """Choose a setting by judged queries, or by passages of documents (None); return ``Tuning.as_json``."""
        from twinvec.evaluation.tuning import tune_collection

        return tune_collection(self._opened, data, measure=measure, progress=True).as_json()

    def keep(self, found: Mapping[str, Any]) -> None:
        """Store the setting that ``tune`` chose."""
        from twinvec.retrieval.tuned_search import Setting, save

        save(self._opened, Setting(**found["setting"]), found["measure"])


class ServedMaintenance:
    """The maintenance of a collection of a store that a process serves; the methods are those of ``OwnMaintenance``."""

    def __init__(self, client: ServerClient, name: str) -> None:
        self._client = client
        self._path = collection_path(name)

    def migrate(
        self, to: str, *, dim: int | None, ir: Path | None, progress: bool, **options: Any
    ) -> tuple[MigrationReport, None]:
        if dim is not None:
            raise ConfigurationError(NO_DIM)
        if ir is not None:
            raise ConfigurationError(
                "--ir compares the models in the command's own process, which cannot open a store that another process "
                'serves: stop that process first; or migrate without --ir, compare with "twinvec evaluate --ir", and '
                "migrate back if the new model is worse"
            )
        try:
            report = self._done("/migrate", {"model": _as_recorded(to), **options}, progress=progress)
        except ModelNotFoundError as error:
            error.add_note(
                "the process that serves the store migrates to models that it was started with: start twinvec serve "
                f"with --model {to} as well as its present ones, and run the same command again"
            )
            raise
        return report_of(MigrationReport, report), None

    def drop_others(self) -> list[str]:
        found: list[str] = self._client.post(f"{self._path}/migrate", {"drop_others": True})["dropped"]
        return found

    def reindex(self, *, progress: bool, **wanted: Any) -> IndexReport:
        if wanted.pop("cluster", None) is not None:
            raise ConfigurationError(NO_CLUSTER)
        with progress_bar("Reindexing", None, "", shown=progress):
            return report_of(IndexReport, self._done("/reindex", wanted, progress=False))

    def tune(self, data: BeirSet | None, *, measure: str) -> dict[str, Any]:
        judged: dict[str, Any] = {}
        if data is not None:
            rows = [(query, *each) for query, grades in data.qrels.items() for each in grades.items()]
            judged["queries"] = [{"_id": query, "text": text} for query, text in data.queries.items()]
            judged["qrels"] = [dict(zip(_QRELS, each, strict=True)) for each in rows]
        report = self._done("/tune", {"measure": measure, **judged}, progress=True, unit="queries")
        for warning in report.pop("warnings", ()):
            logger.warning(warning)
        return report

    def keep(self, found: Mapping[str, Any]) -> None:
        """Do nothing: the process has stored the setting."""

    def repair(self) -> VerifyReport:
        """Let the process repair the collection, and return its report."""
        report = self._done("/repair", {}, progress=False)
        return report_of(RepairReport if "damaged" in report else VerifyReport, report)

    def _done(self, path: str, wanted: Mapping[str, Any], *, progress: bool, unit: str = "chunks") -> dict[str, Any]:
        """Let the process do the work, show its progress, and return its report."""
        body = {name: value for name, value in wanted.items() if value is not None}
        with ExitStack() as stack:

            def begin(step: str, total: int) -> Advance:
                stack.close()
                return stack.enter_context(progress_bar(step.capitalize(), total, unit, shown=progress))

            work = WorkEvents("waiting: the process that serves the store finishes ingests first", begin=begin)
            try:
                self._client.post_for_events(f"{self._path}{path}", body, work.on_event)
            except KeyboardInterrupt:
                complain(f"twinvec: {_GOES_ON}")
                raise
            except StoreUnavailableError as error:
                error.add_note(_KEPT if path == "/migrate" else _AGAIN)
                raise
        return work.report


def maintenance_of(place: CollectionPlace) -> AbstractContextManager[OwnMaintenance | ServedMaintenance]:
    """Give access to the maintenance of the collection that the options name, as ``opened_or_served`` does."""
    return opened_or_served(place, partial(OwnMaintenance, precision=place.precision), ServedMaintenance)


def _as_recorded(model: str) -> str:
    """Return the absolute path of a model's folder, under which collections record it; return other names unchanged."""
    try:
        path = Path(model).expanduser()
        return str(path.resolve()) if path.is_dir() else model
    except (OSError, RuntimeError):  # the text is too long for a path, or names an unknown user's home
        return model


def _judged(collection: Collection, folder: Path) -> JudgedCheck:
    from twinvec.evaluation.beir import load_beir
    from twinvec.evaluation.ir import check_answers_held
    from twinvec_qdrant.maintenance.migration_check import JudgedCheck

    data = load_beir(folder, corpus_optional=True)
    check_answers_held(collection, data)
    return JudgedCheck(collection, data)
