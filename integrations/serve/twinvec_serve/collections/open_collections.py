"""The collections of one store, which stay open while the server runs.

Each collection is opened at its first use, in a thread. All requests share an open collection: several threads search
while another thread ingests. Collections of a Qdrant server (``url``) stay open in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from twinvec.errors import CollectionNotFoundError, TwinvecError
from twinvec.support.cpu import available_cores
from twinvec_qdrant import (
    DEFAULT_PATH,
    Announcement,
    Answer,
    Asked,
    Collection,
    CollectionEntry,
    ServingProcess,
    VerifyReport,
    drop_collection,
    joined_answers,
    list_collections,
    open_with_one_of,
    search_as_asked,
)
from twinvec_serve.collections.ingests import Ingests, being_repaired
from twinvec_serve.collections.store_place import StorePlace
from twinvec_serve.collections.uploads import remove_leftovers
from twinvec_serve.collections.work import Work
from twinvec_serve.errors import Overloaded, RequestError, error_for_client
from twinvec_serve.models.served_models import ServedModels
from twinvec_serve.observing.metrics import Metrics
from twinvec_serve.settings import ServeSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

_SEARCHING = max(2, available_cores())  # more searches at once would not be faster
_READING = 8
_RETRY_SECONDS = 1.0

EXISTS = "collection_exists"
"""Code of the error for a name that is taken."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of a search: an answer for each query, and the names of the collections that were searched.

    ``failed`` has the names of collections that could not be searched, with the reasons. ``roots`` are the sources of
    each collection, as JSON.
    """

    answers: list[Answer]
    names: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    roots: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


class OpenCollections:
    """Opens each collection at its first use, and closes all at the end; its methods never block the event loop."""

    def __init__(self, settings: ServeSettings, models: ServedModels, metrics: Metrics) -> None:
        self._settings = settings
        self._models = models
        self._metrics = metrics
        self._open: dict[str, Collection] = {}
        self._repairing: dict[str, Collection | None] = {}  # None until the repair has opened the collection
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._searching = asyncio.Semaphore(_SEARCHING)
        self._waiting = 0
        self._search_threads = ThreadPoolExecutor(_SEARCHING, "twinvec-searching")
        self._threads = ThreadPoolExecutor(_READING, "twinvec-reading")
        self._announcement: Announcement | None = None
        self._end: asyncio.TimerHandle | None = None
        self.ingests = Ingests(StorePlace(settings.path, settings.url))

    @property
    def announced(self) -> ServingProcess | None:
        """The announcement of this server in the store's folder; None if there is none."""
        return None if self._announcement is None else self._announcement.process

    async def start(self) -> None:
        """Remove the uploaded files that a killed server has left, and announce this process in the store's folder.

        Without an address in the settings, the process is not announced. Raise StoreBusyError if another process serves
        the store.
        """
        await self.run(remove_leftovers)
        settings = self._settings
        if settings.url is None and settings.address is not None:
            place = settings.path or DEFAULT_PATH
            self._announcement = Announcement(place, settings.address, _certificate(settings))

    async def announce_certificate(self) -> None:
        """Write the certificate, which has changed, into the store's folder, where twinvec's commands find it."""
        if self._announcement is not None:
            await self.run(lambda announced: announced.certify(_certificate(self._settings)), self._announcement)

    def stop_in(self, seconds: float) -> None:
        """End the writes that are still under way after this number of seconds; committed documents stay."""
        loop = asyncio.get_running_loop()
        self._end = loop.call_later(seconds, lambda: self.ingests.start(self._give_up()))

    async def stop(self) -> None:
        """Finish the writes under way, and close all collections."""
        await self.ingests.finish()
        if self._end is not None:
            self._end.cancel()
        await asyncio.gather(*map(self._stop_one, list(self._open)))
        for threads in (self._search_threads, self._threads):
            threads.shutdown(wait=False)
        if self._announcement is not None:
            self._announcement.close()

    async def _stop_one(self, name: str) -> None:
        async with self._lock(name):
            if (opened := self._open.pop(name, None)) is not None:
                await self.run(_close, opened)

    async def run(self, function: Callable[..., T], *given: Any, **options: Any) -> T:
        """Call a function in a thread."""
        return await self._called(self._threads, partial(function, *given, **options))

    async def call(
        self, opened: Collection, function: Callable[Concatenate[Collection, P], T], *given: P.args, **options: P.kwargs
    ) -> T:
        """Call a function of an open collection in a thread.

        Raise CollectionNotFoundError if the collection is dropped meanwhile.
        """
        return await self._called(self._threads, partial(function, opened, *given, **options), opened)

    async def roots(self, opened: Collection) -> list[dict[str, Any]]:
        """Return the sources of a collection, as JSON."""
        return [root.as_fields() for root in await self.call(opened, Collection.roots)]

    async def entries(self) -> list[CollectionEntry]:
        """Return the collections that twinvec made in the store, sorted by name."""
        found = await self.run(list_collections, **self._place)
        return [each for each in found if each.model is not None or self._settings.url is None]

    async def names(self) -> list[str]:
        """Return the names of the collections."""
        return [each.name for each in await self.entries()]

    def using(self, opened: Collection) -> AbstractContextManager[None]:
        """Return a context manager in which calls of an open collection raise the same errors as in ``call``."""
        return self.ingests.explaining_errors(opened)

    async def open(self, name: str) -> Collection:
        """Return the collection of this name, and open it first if it is closed.

        Raise CollectionNotFoundError, which lists all names, if the collection does not exist. Raise StoreBusyError
        while the collection is being repaired.
        """
        if (opened := self._open.get(name)) is not None and opened not in self.ingests.gone:
            return opened
        if name in self._repairing:
            raise being_repaired(name)
        return await asyncio.shield(self.ingests.start(self._open_first(name)))

    async def _open_first(self, name: str) -> Collection:
        async with self._lock(name):
            self._forget_if_gone(name)
            if name not in self._open:
                try:
                    self._open[name] = await self.run(self._opened, name)
                except CollectionNotFoundError:
                    raise await self._not_found(name) from None
            return self._open[name]

    def _forget_if_gone(self, name: str) -> None:
        """Close and forget an open collection that another program has dropped or replaced."""
        if (opened := self._open.get(name)) is not None and opened in self.ingests.gone:
            del self._open[name]
            self.ingests.start(self.run(_close, opened))

    async def _not_found(self, name: str) -> CollectionNotFoundError:
        others = ", ".join(await self.names()) or "none"
        return CollectionNotFoundError(f"no collection {name!r}; there are: {others}")

    async def create(self, name: str, model: str | None, settings: Mapping[str, Any]) -> Collection:
        """Create a collection and return it open.

        Raise RequestError if the name is taken, and UnknownModel if the server has no such model.
        """
        async with self._lock(name):
            await self.check_free(name, "ingest into it")
            encoder = self._models.encoder(model or self._models.default)
            made = partial(Collection.open, name, encoder=encoder, **settings, **self._place)
            self._open[name] = await self.run(made)
            return self._open[name]

    async def restored(self, name: str, restore: Callable[[str], T]) -> T:
        """Call ``restore``, which makes a collection of this name; raise RequestError if the name is taken."""
        async with self._lock(name):
            await self.check_free(name)
            return await self.run(restore, name)

    async def check_free(self, name: str, advice: str = "drop it first") -> None:
        """Raise RequestError (409) if the name is taken. ``advice`` is what the error recommends first."""
        if name in await self.names():
            raise RequestError(
                f"there is a collection {name!r} already; {advice}, or choose another name",
                param="name",
                code=EXISTS,
                status=409,
            )
        if (opened := self._open.get(name)) is not None:
            self.ingests.gone.add(opened)
            self._forget_if_gone(name)

    async def check(self, name: str, model: str | None, settings: Mapping[str, Any]) -> None:
        """Check that a collection has these settings and, if ``model`` is given, the space of the model.

        Raise ConfigurationError if its settings differ, and SpaceMismatchError if its model differs.
        """
        encoder = None if model is None else self._models.encoder(model)
        opened = partial(Collection.open, name, encoder=encoder, create=False, **settings, **self._place)
        async with self._lock(name):
            await self.run(_close, await self.run(opened))

    async def drop(self, name: str) -> None:
        """Drop a collection after its earlier ingests. Its other calls under way fail with CollectionNotFoundError.

        Raise CollectionNotFoundError if there is no such collection, and ConfigurationError if it is not twinvec's.
        """
        await asyncio.shield(self.ingests.in_turn(name, partial(self._drop, name)))

    async def _drop(self, name: str) -> None:
        async with self._lock(name), self._drop_lock(name):
            if (opened := self._open.pop(name, None)) is not None:
                self.ingests.dropped.add(opened)
                await self.run(_close, opened)
                await self.ingests.background_ended(name)
            try:
                await self.run(drop_collection, name, **self._place)
                self._metrics.dropped(name)
            except CollectionNotFoundError:
                raise await self._not_found(name) from None
            except TwinvecError:
                if opened is not None:  # the collection still exists
                    self.ingests.dropped.discard(opened)
                raise

    async def repair(self, name: str) -> Work[VerifyReport]:
        """Begin to repair a collection after its earlier ingests; meanwhile it is closed, see ``being_repaired``.

        Raise CollectionNotFoundError if there is no such collection, and Overloaded if too many ingests wait.
        """
        there = await self.run(list_collections, **self._place)  # opening would refuse a damaged collection
        if name not in self._open and name not in {each.name for each in there}:
            raise await self._not_found(name)
        work = Work[VerifyReport]()
        work.done = self.ingests.in_turn(name, partial(self._repair, name, work))
        return work

    async def _repair(self, name: str, work: Work[VerifyReport]) -> VerifyReport:
        work.waits = False
        self._repairing[name] = None
        try:
            async with self._lock(name), self._drop_lock(name):
                if (opened := self._open.pop(name, None)) is not None:
                    self.ingests.repaired.add(opened)
                    await self.run(_close, opened)
                    await self.ingests.background_ended(name)
                return await self.run(self._repaired, name)
        finally:
            del self._repairing[name]

    def _repaired(self, name: str) -> VerifyReport:
        """Repair a collection; after this, the next request opens it."""
        options = {} if self._settings.url is not None else {"repair": True}
        with self._opened(name, **options) as opened:
            self._repairing[name] = opened
            return opened.verify(repair=True)

    @asynccontextmanager
    async def not_dropped(self, name: str) -> AsyncIterator[None]:
        """In the block, keep a collection from being dropped or repaired. Other blocks of the same collection wait.

        Raise CollectionNotFoundError if there is no such collection.
        """
        await self.open(name)
        async with self._drop_lock(name):
            yield

    async def search(
        self, name: str | None, queries: Sequence[str], asked: Asked, *, among: Sequence[str] | None = None
    ) -> Searched:
        """Search the collection ``name``, or, if it is None, the collections ``among``; default: all collections.

        Each collection is searched with its own model.

        Raise Overloaded if too many searches wait, CollectionNotFoundError if a named collection does not exist or the
        store has no collections, and the error of the first collection if none could be searched.
        """
        with self._place_to_search():
            if name is not None:
                opened = await self.open(name)
                answers = await self._search(opened, queries, asked)
                return Searched(answers, [name], roots={name: await self.roots(opened)})
            return await self._search_several(await self._to_search(among), queries, asked)

    async def _to_search(self, among: Sequence[str] | None) -> list[str]:
        there = dict.fromkeys(await self.names())
        if not there:
            raise CollectionNotFoundError("there are no collections; POST /v1/collections creates one")
        wanted = there if among is None else dict.fromkeys(among)
        for name in wanted:
            if name not in there:
                raise await self._not_found(name)
        return list(wanted)

    async def _search_several(self, names: Sequence[str], queries: Sequence[str], asked: Asked) -> Searched:
        several = len(names) > 1
        whole = replace(asked, limit=asked.limit + asked.offset, offset=0) if several else asked
        found: dict[str, list[Answer]] = {}
        roots: dict[str, list[dict[str, Any]]] = {}
        failed: dict[str, TwinvecError] = {}
        for name in names:
            try:
                opened = await self.open(name)
                answers = await self._search(opened, queries, whole)
                roots[name] = await self.roots(opened)
                found[name] = answers
            except TwinvecError as error:
                failed[name] = error
        if not found:
            raise next(iter(failed.values()))
        shown = asked if several else replace(asked, offset=0)
        joined = [
            joined_answers(dict(zip(found, each, strict=True)), shown) for each in zip(*found.values(), strict=True)
        ]
        told = {each: error_for_client(error).message for each, error in failed.items()}
        return Searched(joined, list(found), told, roots)

    async def _search(self, opened: Collection, queries: Sequence[str], asked: Asked) -> list[Answer]:
        """Search for one query after the other. Other requests get their turn between two queries."""
        answers: list[Answer] = []
        for query in queries:
            async with self._searching:
                search = partial(search_as_asked, opened, [query], asked)
                answers += await self._called(self._search_threads, search, opened)
        return answers

    async def _called(
        self, threads: ThreadPoolExecutor, function: Callable[[], T], opened: Collection | None = None
    ) -> T:
        """Call a function in a free thread of a pool; ``opened`` is the open collection that it uses, if any.

        If the caller is cancelled while the call waits for a thread, the function is never called. A function that has
        begun runs to its end in its thread.
        """
        with self.ingests.explaining_errors(opened):
            return await asyncio.get_running_loop().run_in_executor(threads, function)

    @contextmanager
    def _place_to_search(self) -> Iterator[None]:
        """Count a search that waits or is being computed; raise Overloaded if there are too many already."""
        if self._waiting >= self._settings.queue_size:
            raise Overloaded(_RETRY_SECONDS)
        self._count_searches(1)
        try:
            yield
        finally:
            self._count_searches(-1)

    def _count_searches(self, more: int) -> None:
        self._waiting += more
        self._metrics.searches(self._waiting)

    async def _give_up(self) -> None:
        """Close all collections, first those with an ingest. Later calls of a collection fail, also in its ingest."""
        self.ingests.give_up()
        there = [*self._open.values(), *filter(None, self._repairing.values())]
        ordered = sorted(there, key=lambda each: not self.ingests.writes_to(each.name))
        await asyncio.gather(*(self.run(_close, each) for each in ordered))  # each in a thread

    def _opened(self, name: str, **options: Any) -> Collection:
        """Open a collection with a served model of its space, else with the model that the collection records."""
        encoders = map(self._models.encoder, self._models.names)
        return open_with_one_of(encoders, partial(Collection.open, name, create=False, **options, **self._place))

    @property
    def _place(self) -> dict[str, Any]:
        url = self._settings.url
        return {"url": url} if url is not None else {"path": self._settings.path}

    def _lock(self, name: str) -> asyncio.Lock:
        """Return the lock that is held while a collection is opened."""
        return self._locks.setdefault(name, asyncio.Lock())

    def _drop_lock(self, name: str) -> asyncio.Lock:
        """Return the lock of ``not_dropped``. Its key cannot be the name of a collection, which has no slash."""
        return self._locks.setdefault(f"{name}/drop", asyncio.Lock())


def _certificate(settings: ServeSettings) -> str | None:
    if settings.tls_cert is None:
        return None
    return settings.tls_cert.read_text(encoding="ascii", errors="ignore")  # only comments may have other characters


def _close(opened: Collection) -> None:
    try:
        opened.close()
    except TwinvecError as error:  # the other collections are closed nevertheless
        logger.warning("a collection was not closed: %s", error)
