"""What keeps an open collection in order: verification, another model, another index, a copy in another store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.ingest.chunking import Chunker
from twinvec_qdrant.maintenance.migration import Migration, drop_others
from twinvec_qdrant.maintenance.push import Push, open_target
from twinvec_qdrant.maintenance.reindex import reindex
from twinvec_qdrant.maintenance.verification import verify
from twinvec_qdrant.opening_store import find_store
from twinvec_qdrant.records.bm25_weights import Lexicon
from twinvec_qdrant.records.catalog import Catalog
from twinvec_qdrant.records.description import Description, read_description
from twinvec_qdrant.report import IndexReport, MigrationReport, PushReport, VerifyReport
from twinvec_qdrant.search.searcher import Searcher
from twinvec_qdrant.settings import ChunkSettings, IndexSettings
from twinvec_qdrant.stores.base import Backend

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from twinvec_qdrant.collection import Collection


class Maintained:
    """The maintenance of a ``Collection``, which is one."""

    name: str
    _backend: Backend
    _description: Description
    _settings: ChunkSettings
    _lexicon: Lexicon
    _catalog: Catalog
    _searcher: Searcher

    def verify(self, *, repair: bool = False) -> VerifyReport:
        """Look at every source: whether all its chunks are there with their vectors, and whether there are others.

        Args:
            repair: Remove chunks that their source does not list, and mark incomplete sources, so that the next ingest
                of their documents writes them again. A source whose record is lost gets one of the chunks that are
                there, and is marked too.
        """
        with self._backend.writing:
            return verify(self._backend, self._description, repair=repair)

    def migrate(
        self,
        encoder: SpaceEncoder,
        *,
        check: Callable[[Collection], bool] | None = None,
        chunks_per_second: float | None = None,
        progress: bool = False,
    ) -> MigrationReport:
        """Bring the collection over to another model while it goes on serving.

        Every chunk gets a second vector beside the one it has; when all have it, one write switches the collection
        over. Killed at any moment, the collection is of the old model or of the new one, complete, and the next call
        goes on. What others write meanwhile is brought over too. The old vectors stay until ``drop_others``: to go
        back, migrate to the old model, which has to encode only what is new. A migration to a third model drops them.

        This object goes on searching with the old model; open the collection again for the new one.

        Args:
            encoder: Of the new model.
            check: Called before the switch with the collection as it would be; False leaves the old model in force.
            chunks_per_second: How fast at most.
            progress: Show a progress bar on a terminal.

        Raises:
            ConfigurationError: it is of this model, with nothing left to encode, a migration to a third model is under
                way, or the new one cannot read chunks of the size that the collection cuts.
            BadVectorError: the encoder gives vectors that cannot be used; the old model stays in force.
        """
        Chunker(encoder, self._settings)
        migration = Migration(self._backend, encoder, chunks_per_second)
        migration.fill(progress=progress)
        if check is not None:
            candidate = cast(Any, type(self))(self.name, self._backend, migration.target(), encoder)
            candidate._closed = True  # the store stays this object's to close
            if not check(candidate):
                return migration.report
        migration.switch()
        return migration.report

    def reindex(self, index: IndexSettings | Mapping[str, Any] | None = None) -> IndexReport:
        """Build the index of the vectors now, with other settings where they are given, and say what it finds.

        Settings can be given by their fields, as ``info`` has them.

        An ingest does it unasked where it has brought many. Searches go on meanwhile; writers wait. Embedded, it needs
        about as much room on the disk as the collection has, twice.

        Raises:
            ConfigurationError: settings that there are not, or that cannot work.
            StoreUnavailableError: the server does not answer, or the disk has no room; all is as before.
        """
        settings = IndexSettings.from_dict(index) if isinstance(index, Mapping) else index
        if not isinstance(settings, IndexSettings | None):
            raise ConfigurationError(f"index: expected IndexSettings or their fields, got {type(index).__name__}")
        report = reindex(self._backend, settings)
        self._description = read_description(self._backend.read_metadata(), self._backend.location)
        self._searcher = Searcher(self._catalog, self._lexicon, self._description)
        return report

    def drop_others(self) -> list[str]:
        """Remove the vectors of all models but the one in force; the names of those models.

        They are those of the model before the last migration, to which there is no way back then, and those of a
        migration that was not finished, which is given up.
        """
        return drop_others(self._backend)

    def push(
        self,
        path: str | Path | None = None,
        *,
        name: str | None = None,
        url: str | None = None,
        client: QdrantClient | None = None,
        api_key: str | None = None,
        prune: bool = False,
        allow_empty: bool = False,
        progress: bool = False,
        wait_seconds: float = 10.0,
    ) -> PushReport:
        """Copy the collection to another store, or bring a copy there up to date: vectors as they are, nothing encoded.

        Killed at any moment, the next call goes on; the other collection can be searched and written meanwhile.

        Args:
            path: Folder of the other store; or ``url``, or ``client``, as for ``open``.
            name: The collection's name there; the same unless given.
            url: Address of a Qdrant server.
            client: A ``QdrantClient`` of the caller's.
            api_key: For ``url``.
            prune: Remove the documents and notes there that are not here. A document that has lost its record here, and
                has chunks left, is missed and not removed.
            allow_empty: Let ``prune`` remove everything where there are no documents here; an error unless given.
            progress: Show a progress bar on a terminal.
            wait_seconds: As for ``open``.

        Raises:
            SpaceMismatchError: the collection there is of another model.
            ConfigurationError: it cuts or divides documents differently, or is this one.
            DocumentError: there are no documents here, and ``prune`` would remove all that are there.
            StoreError: one of the stores failed; what was copied stays.
        """
        if path is None and url is None and client is None:
            raise ConfigurationError("push where to? give one of path, url and client")
        store = find_store(name or self.name, path, url, client, api_key, wait_seconds)
        try:
            now = read_description(self._backend.read_metadata(), self._backend.location)
            target = open_target(store, now)
        except BaseException:
            store.close()
            raise
        try:
            return Push(self._backend, now, target).run(prune=prune, allow_empty=allow_empty, progress=progress)
        finally:
            target.close()
