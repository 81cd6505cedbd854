"""Ingests into a store that a process serves: the command reads documents, and the process encodes and stores them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import chain
from operator import length_hint
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from twinvec.cli.terminal import complain
from twinvec.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    DocumentError,
    IngestError,
    InputError,
    StoreBusyError,
    StoreUnavailableError,
)
from twinvec.support.progress import progress_bar
from twinvec_qdrant.cli.served.connecting import NO_CLUSTER, WorkEvents
from twinvec_qdrant.ingest.lines import written_line
from twinvec_qdrant.ingest.reading.root import Root
from twinvec_qdrant.ingest.registration import stored_root
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.serving.client import ServerClient
from twinvec_qdrant.serving.names import collection_path
from twinvec_qdrant.settings import NEWEST_READING, ChunkSettings
from twinvec_qdrant.stored_roots import StoredRoot

logger = logging.getLogger(__name__)

_STORED = "documents that the process has stored are kept; run the same command again to ingest the rest"
_GOES_ON = "the process that serves the store has received all documents of this source, and goes on to ingest them"
_MAY_END = "the process that serves the store keeps stored documents, and may not have received the others"


class ServedCollection:
    """A collection of a served store, with the methods that ``twinvec ingest`` and ``twinvec update`` call."""

    def __init__(self, client: ServerClient, name: str) -> None:
        self.name = name
        self._client = client
        self._path = collection_path(name)

    @classmethod
    def made(
        cls, client: ServerClient, name: str, model: str | None, *, keep_model: bool, settings: Mapping[str, Any]
    ) -> ServedCollection:
        """Return a collection; if it does not exist, create it with ``settings``, arguments of ``Collection.open``.

        ``model`` is a model that the process serves; with ``keep_model``, an existing collection keeps its own model.

        Raises:
            ConfigurationError: the settings contradict the collection, or need a Qdrant server.
            SpaceMismatchError: the collection has another model.
        """
        wanted = {"name": name, "model": model, "keep_model": keep_model, "exists_ok": True, **_wanted(settings)}
        client.post("/v1/collections", {key: each for key, each in wanted.items() if each is not None})
        return cls(client, name)

    def __enter__(self) -> ServedCollection:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__()

    def count(self) -> int:
        """Return the number of stored chunks."""
        return int(self._client.get(self._path)["points"])

    def roots(self) -> list[StoredRoot]:
        """Return the sources of the collection's documents, the first source first.

        Raises:
            CollectionNotFoundError: the store has no such collection.
        """
        return [StoredRoot.of_fields(each) for each in self._client.get(f"{self._path}/roots")["data"]]

    def ingest(
        self,
        root: Root,
        *,
        report: IngestReport,
        source: str | None,
        progress: bool,
        allow_all_failed: bool,
        describe: Mapping[str, str] = MappingProxyType({}),
        **switches: bool,
    ) -> None:
        """Send the documents of a root to the process, and add the counts that it returns to ``report``.

        The other arguments are those of ``Collection.ingest``.

        Raises:
            DocumentError: the root cannot be read, or the process refuses its documents.
            TwinvecError: the process could not go on; committed documents stay.
        """
        reading = root.read()
        reading.read_by(self._reading_version())
        number = length_hint(reading)
        asked = {name: "true" for name, value in switches.items() if value}
        query = urlencode({**asked, **({"total": number} if number else {})})
        first = {"root": stored_root(root, source, describe).as_fields(), "named": source is not None}
        if switches.get("prune"):
            first["empty"] = list(reading.empty_folders())
        with progress_bar("Ingesting", number or None, "documents", shown=progress) as advance:
            work = WorkEvents("waiting: the process that serves the store finishes other ingests first", advance)
            try:
                lines = chain([first], map(written_line, reading))
                self._client.stream(f"{self._path}/documents?{query}", lines, work.on_event)
            except KeyboardInterrupt:
                complain(f"twinvec: {_GOES_ON if work.received else _MAY_END}")
                raise
            except (StoreUnavailableError, StoreBusyError) as error:
                error.add_note(_STORED)
                raise
            except InputError as error:
                raise DocumentError(str(error)) from error
            finally:
                report.add(work.report)
        for warning in work.report.get("warnings", ()):
            logger.warning(warning)
        if report.all_failed and not allow_all_failed:
            raise IngestError("every document failed", report)

    def _reading_version(self) -> int:
        """Return the collection's reading version: 1 if the collection has documents and no recorded version.

        Raise ConfigurationError if only a later version of twinvec has it.
        """
        info = self._client.get(self._path)
        version = int(info.get("reading") or (1 if info["sources"] else NEWEST_READING))
        if version > NEWEST_READING:
            raise ConfigurationError(
                f"the collection {self.name!r} has the reading version {version}, and this version of twinvec reads "
                f"files by versions up to {NEWEST_READING}: install the version of the process that serves the store"
            )
        return version


def _wanted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the HTTP request for the settings of a new collection."""
    given = {name: value for name, value in settings.items() if value is not None}
    if given.pop("cluster", None) is not None:
        raise ConfigurationError(NO_CLUSTER)
    chunking, index = given.pop("chunking", None), given.pop("index", None)
    if chunking is False:
        given["chunking"] = False
    elif isinstance(chunking, ChunkSettings):
        given["chunk_tokens"] = chunking.max_tokens
        given |= {"overlap": chunking.overlap, "surroundings": chunking.surroundings}
    if index is not None:
        given["quantization"] = index.quantization
    return given


def exists(client: ServerClient, name: str) -> bool:
    """Return whether the store has the collection."""
    try:
        client.get(collection_path(name))
    except CollectionNotFoundError:
        return False
    return True
