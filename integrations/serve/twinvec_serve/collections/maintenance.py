"""Maintenance that clients request: migrations, and rebuilds of indexes. Each goes on if its client goes away.

Searches and ingests go on during a migration. A collection has at most one migration at a time. A drop of the
collection ends the migration, and so does ``drop_others``. A rebuild of the indexes waits for the ingests before it,
and later ingests wait for the rebuild.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from twinvec_qdrant import Collection, reindex_as_asked
from twinvec_serve.collections.open_collections import OpenCollections
from twinvec_serve.collections.work import Migrating, Work
from twinvec_serve.errors import RequestError
from twinvec_serve.models.served_models import ServedModels


class Maintenance:
    """Begins maintenance of the collections of one server."""

    def __init__(self, collections: OpenCollections, models: ServedModels) -> None:
        self._collections = collections
        self._models = models

    async def migrate(self, name: str, model: str, **options: Any) -> Migrating:
        """Begin a migration of a collection to a served model; ``options`` are those of ``Collection.migrate``.

        Raise UnknownModel if no such model is served, CollectionNotFoundError if there is no such collection,
        RequestError (409) while another migration of the collection is under way, and TooManyMigrations if too many
        other collections are being migrated.
        """
        served = self._models.served_name(model)
        encoder = self._models.encoder(served)
        opened = await self._collections.open(name)
        if (other := self._collections.ingests.migration(name)) is not None:
            finished = "" if other.total is None else f" ({other.step}: {other.finished:,} of {other.total:,} chunks)"
            raise RequestError(
                f"a migration of {name!r} to {other.model!r} is under way{finished}; wait for its end, or give it up "
                'with {"drop_others": true} (twinvec migrate --drop-others)',
                code="migration_under_way",
                status=409,
            )
        work = Migrating(served)
        self._collections.ingests.begin_migration(opened, work, partial(work.run, opened, encoder, **options))
        return work

    async def drop_others(self, name: str) -> list[str]:
        """Do what ``Collection.drop_others`` does; a migration that is under way is given up, and ends with an error.

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

    async def _drop_others(self, opened: Collection) -> list[str]:
        under_way = self._collections.ingests.migration(opened.name)
        if under_way is not None:
            under_way.given_up = True
        dropped = await self._collections.call(opened, Collection.drop_others)
        if under_way is not None:  # the migration may have added its vectors after this drop
            await asyncio.wait([under_way.done])
            if under_way.done.exception() is not None:
                dropped += await self._collections.call(opened, Collection.drop_others)
        return list(dict.fromkeys(dropped))
