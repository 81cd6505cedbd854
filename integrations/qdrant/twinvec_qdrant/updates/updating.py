"""Updating a collection: ingests its sources again, each from its recorded path and with its recorded options."""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Protocol

from twinvec.errors import ConfigurationError, DocumentError, TwinvecError
from twinvec.interrupts import raise_of_handler
from twinvec.support.checks import check_flags, check_methods, check_settings
from twinvec_qdrant.ingest.reading.root import Root
from twinvec_qdrant.ingest.registration import root_at
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.stored_roots import StoredRoot
from twinvec_qdrant.updates.file_memory import FileMemory, RememberingRoot

logger = logging.getLogger(__name__)


class Updatable(Protocol):
    """The methods of ``Collection`` that an update uses."""

    def roots(self) -> list[StoredRoot]:
        """Return the sources of the collection's documents, beginning with the first source."""

    def ingest(
        self,
        documents: Root,
        /,
        *,
        source: str | None,
        prune: bool,
        progress: bool,
        report: IngestReport,
        allow_all_failed: bool,
    ) -> object:
        """Ingest a source, as ``Collection.ingest`` does."""


@dataclass(slots=True)
class UpdateReport(IngestReport):
    """The counts of an ingest, added up for all sources, and the names of the sources for each outcome.

    Attributes:
        roots: Names of the sources that were ingested.
        missing: (name, reason) of each source that could not be read, or whose ingest ended with an unexpected error;
            its documents stay.
        unexpected: Names of the sources in ``missing`` whose ingest ended with an unexpected error.
        placeless: Names of the sources that have no path, such as standard input, or a path on another machine.
    """

    roots: list[str] = field(default_factory=list, kw_only=True)
    missing: list[tuple[str, str]] = field(default_factory=list, kw_only=True)
    unexpected: list[str] = field(default_factory=list, kw_only=True)
    placeless: list[str] = field(default_factory=list, kw_only=True)

    @property
    def changed(self) -> bool:
        """Whether the collection has changed."""
        return bool(self.new or self.updated or self.deleted)


def update_collection(
    collection: Updatable,
    *,
    prune: bool = True,
    progress: bool = False,
    only: Container[str] | None = None,
    memory: FileMemory | None = None,
) -> UpdateReport:
    """Ingest the sources of a collection again.

    If the folder of a source is gone, or has become empty, the source's documents stay.

    Args:
        collection: The open collection.
        prune: Remove documents that their source no longer holds.
        progress: Show progress: bars on a terminal, a line a minute elsewhere.
        only: Names of the sources to ingest; default: all.
        memory: What earlier updates of this process have read, so that only changed files are read; default: read all.

    Returns:
        The counts of all sources together, and the names of the sources for each outcome.

    Raises:
        ConfigurationError: an argument has a wrong type.
        StoreError, EngineError, SpaceMismatchError: the errors of ``Collection.ingest``.
    """
    check_methods(collection, ("roots", "ingest"), "collection", "an open collection")
    check_flags(prune=prune, progress=progress)
    check_settings(memory, FileMemory, "memory")
    if only is not None and (isinstance(only, (str, bytes)) or not isinstance(only, Container)):
        raise ConfigurationError(f"only: expected a list of names of sources, got {only!r}")
    report = UpdateReport()
    for stored in collection.roots():
        if only is not None and stored.name not in only:
            continue
        root = root_at(stored) if stored.is_local() else None
        if root is None:
            report.placeless.append(stored.name)
            continue
        if memory is not None:
            root = RememberingRoot.of(root, memory)
        try:
            collection.ingest(
                root, source=stored.name, prune=prune, progress=progress, report=report, allow_all_failed=True
            )
            report.roots.append(stored.name)
        except DocumentError as error:
            report.missing.append((stored.name, str(error)))
        except TwinvecError:
            raise
        except Exception as error:  # a failed source must not stop the update of the others, or a watch
            raise_of_handler(error)
            logger.debug("%s: the ingest failed", stored.name, exc_info=True)
            report.missing.append((stored.name, f"unexpected {type(error).__name__}: {error}"))
            report.unexpected.append(stored.name)
    return report


def places(collection: Updatable) -> dict[str, Root]:
    """Return the sources whose recorded path is on this machine, by name; the path may be gone."""
    return {each.name: root for each in collection.roots() if each.is_local() and (root := root_at(each))}
