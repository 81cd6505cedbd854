"""Maintenance that clients request: migrations, tuning, repairs, rebuilds of indexes. It goes on without its client.

During a migration or tuning, searches and ingests go on. A collection has at most one migration or tuning at a time; a
drop of the collection ends both, and ``drop_others`` ends a migration. A rebuild of the indexes waits for the earlier
ingests, and later ingests wait for the rebuild.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from twinvec.evaluation.beir import BeirSet
from twinvec_qdrant import Collection, VerifyReport, reindex_as_asked
from twinvec_serve.collections.open_collections import OpenCollections
from twinvec_serve.collections.work import Migrating, Tuning, Work
from twinvec_serve.errors import RequestError
from twinvec_serve.models.served_models import ServedModels


class Maintenance:
    """Begins maintenance of the collections of one server."""

    def __init__(self, collections: OpenCollections, models: ServedModels) -> None:
        self._collections = collections
        self._models = models

    async def migrate(self, name: str, model: str, **options: Any) -> Migrating:
        """Begin a migration of a collection to a served model; ``options`` are those of ``Collection.migrate``.

        Raise UnknownModel if no such model is served, and CollectionNotFoundError if there is no such collection.
        Raise RequestError (409) while the collection is migrated or tuned, and TooManyMigrations while too many other
        collections are.
        """
        served = self._models.served_name(model)
        encoder = self._models.encoder(served)
        opened = await self._collections.open(name)
        self._check_no_background_work(name)
        work = Migrating(served)
        self._collections.ingests.begin_background(opened, work, partial(work.run, opened, encoder, **options))
        return work

    async def tune(self, name: str, data: BeirSet | None, measure: str) -> Tuning:
        """Begin to choose search settings by judged queries, or, if ``data`` is None, by passages of documents.

        Raise CollectionNotFoundError, RequestError and TooManyMigrations as ``migrate`` does.
        """
        opened = await self._collections.open(name)
        self._check_no_background_work(name)
        work = Tuning()
        self._collections.ingests.begin_background(opened, work, partial(work.run, opened, data, measure))
        return work

    async def drop_others(self, name: str) -> list[str]:
        """Do what ``Collection.drop_others`` does. A migration that is under way ends with an error.

        Raise CollectionNotFoundError if there is no such collection.
        """
        opened = await self._collections.open(name)
        return await asyncio.shield(self._collections.ingests.start(self._drop_others(opened)))

    async def reindex(self, name: str, **wanted: Any) -> Work[Any]:
        """Begin to rebuild the indexes of a collection, after its earlier ingests; see ``reindex_as_asked``.

        Raise CollectionNotFoundError if there is no such collection, and Overloaded if too many ingests wait.
        """
        opened = await self._collections.open(name)
        work = Work[Any]()
        self._collections.ingests.begin_in_turn(opened, work, partial(reindex_as_asked, opened, **wanted))
        return work

    async def repair(self, name: str) -> Work[VerifyReport]:
        """Begin to repair a collection; raise errors as ``OpenCollections.repair`` does.

        Raise RequestError (409) while the collection is migrated or tuned.
        """
        self._check_no_background_work(name)
        return await self._collections.repair(name)

    def _check_no_background_work(self, name: str) -> None:
        """Raise RequestError (409) while a collection is migrated or tuned."""
        other = self._collections.ingests.background_work(name)
        if isinstance(other, Migrating):
            raise RequestError(
                f"a migration of {name!r} to {other.model!r} is under way{other.state}; wait for its end, or give it "
                'up with {"drop_others": true} (twinvec migrate --drop-others)',
                code="migration_under_way",
                status=409,
            )
        if isinstance(other, Tuning):
            raise RequestError(
                f"{name!r} is being tuned{other.state}; wait for its end", code="tuning_under_way", status=409
            )

    async def _drop_others(self, opened: Collection) -> list[str]:
        under_way = self._collections.ingests.background_work(opened.name)
        if isinstance(under_way, Migrating):
            under_way.given_up = True
        dropped = await self._collections.call(opened, Collection.drop_others)
        if isinstance(under_way, Migrating):  # the migration may have added its vectors after this drop
            await asyncio.wait([under_way.done])
            if under_way.done.exception() is not None:
                dropped += await self._collections.call(opened, Collection.drop_others)
        return list(dict.fromkeys(dropped))
