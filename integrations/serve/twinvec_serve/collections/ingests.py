"""Ingests, one at a time in a collection. Each runs to its end, even if its client has gone.

Only a stop of the server ends an ingest earlier: it closes the collection, which has the effect of a kill. A drop waits
for the earlier ingests of its collection; later ingests find no collection. A migration or tuning runs beside the
ingests of its collection; a drop ends it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import length_hint
from typing import Any, TypeVar
from weakref import WeakSet

from anyio import CapacityLimiter, to_thread

from twinvec.errors import CollectionNotFoundError, StoreBusyError, StoreError, StoreUnavailableError, TwinvecError
from twinvec_qdrant import Collection, CollectionGoneError, RootElsewhere
from twinvec_serve.collections.store_place import StorePlace
from twinvec_serve.collections.work import BackgroundWork, Ingest, Work
from twinvec_serve.errors import Overloaded, ServerStopsError, TooManyMigrations

T = TypeVar("T")

_AT_ONCE = 8  # largest number of ingests at the same time, each in another collection
_MOST_BACKGROUND = 2  # largest number of collections that are migrated or tuned at the same time
_MOST_WAITING = 32  # largest number of ingests that wait in one collection
_RETRY_SECONDS = 10.0


class Ingests:
    """The ingests and deletions of a server. In one collection, they run one after the other.

    Args:
        place: The place of the store, which errors must not show.

    Attributes:
        dropped: Collections that a drop has closed while calls may still use them.
        repaired: Collections that a repair has closed while calls may still use them.
        gone: Open collections that another program has dropped or replaced. The next request opens its successor.
    """

    def __init__(self, place: StorePlace) -> None:
        self._place = place
        self.dropped: WeakSet[Collection] = WeakSet()
        self.repaired: WeakSet[Collection] = WeakSet()
        self.gone: WeakSet[Collection] = WeakSet()
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._given_up = asyncio.Event()
        self._threads = CapacityLimiter(_AT_ONCE)
        self._background: dict[str, BackgroundWork] = {}
        self._background_threads = CapacityLimiter(_MOST_BACKGROUND)

    @property
    def crowded(self) -> bool:
        """Whether ingests wait for a thread, because too many ingests of other collections run at once."""
        return self._threads.statistics().tasks_waiting > 0

    def writes_to(self, name: str) -> bool:
        """Return whether an ingest or a deletion in a collection is under way or waits."""
        return self._waiting[name] > 0

    def begin(self, opened: Collection, documents: Iterable[Any], total: int | None = None, **options: Any) -> Ingest:
        """Begin an ingest, which goes on without its client; raise Overloaded if too many ingests wait.

        ``documents`` and ``options`` are arguments of ``Collection.ingest``. ``total`` is the number of documents, if
        ``documents`` has no length.
        """
        ingest = Ingest(total=length_hint(documents) or total)
        given: Iterable[Any] = _Sized(documents, ingest)
        if isinstance(documents, RootElsewhere):
            given = replace(documents, documents=given)

        run = partial(opened.ingest, given, report=ingest.report, allow_all_failed=True, **options)
        self.begin_in_turn(opened, ingest, run)
        return ingest

    def begin_in_turn(self, opened: Collection, work: Work[T], function: Callable[[], T]) -> None:
        """Begin work that writes to a collection, after the earlier ingests.

        Raise Overloaded if too many ingests of the collection wait.
        """
        called = partial(self._called, opened, partial(_begun, work, function))
        work.done = self.in_turn(opened.name, called)

    def begin_background(self, opened: Collection, work: BackgroundWork, function: Callable[[], Any]) -> None:
        """Begin a migration or tuning of a collection that has none under way; its searches and ingests go on.

        Raise TooManyMigrations if too many collections have such work.
        """
        if len(self._background) >= _MOST_BACKGROUND:
            raise TooManyMigrations(list(self._background), _RETRY_SECONDS)
        called = self._called(opened, partial(_begun, work, function), self._background_threads)
        work.done = task = self.start(called)
        self._background[opened.name] = work
        task.add_done_callback(lambda _: self._background.pop(opened.name))

    def background_work(self, name: str) -> BackgroundWork | None:
        """Return the migration or tuning of a collection that is under way, or None."""
        return self._background.get(name)

    async def background_ended(self, name: str) -> None:
        """Wait until the migration or tuning of a collection, if there is one, has ended."""
        if (work := self.background_work(name)) is not None:
            await asyncio.wait([work.done])

    async def write(self, opened: Collection, function: Callable[[], T]) -> T:
        """Run a writing function in a thread, after the earlier ingests of the collection.

        The function runs to its end even if the caller is cancelled.

        Raise Overloaded if too many ingests of the collection wait.
        """
        return await asyncio.shield(self.in_turn(opened.name, partial(self._called, opened, function)))

    def in_turn(self, name: str, work: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        """Start a task that writes to a collection after the earlier ingests; ``finish`` waits for its end.

        Raise Overloaded if too many ingests of the collection wait.
        """
        if self._waiting[name] >= _MOST_WAITING:
            raise Overloaded(_RETRY_SECONDS)
        self._waiting[name] += 1
        task = self.start(self._in_turn(name, work))
        task.add_done_callback(lambda _: self._leave(name))
        return task

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a background task, such as the clean-up after an ingest; ``finish`` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    def bridge(self, pages: AsyncIterator[list[T]], first: Sequence[T] = ()) -> Bridge[T]:
        """Return an iterator for an ingest over the documents of a request, which arrive in pages."""
        return Bridge(pages, self._given_up, first)

    def give_up(self) -> None:
        """Stop waiting for documents. From now on, a StoreError of a call is answered with ServerStopsError."""
        self._given_up.set()

    @contextmanager
    def explaining_errors(self, opened: Collection | None) -> Iterator[None]:
        """In the block, hide the place of the store in errors, and raise an error that says why ``opened`` was closed.

        Raise CollectionNotFoundError if the collection is dropped, StoreBusyError if it is repaired, and
        ServerStopsError if the server ends. Note a collection that another program has dropped or replaced in
        ``gone``, and raise CollectionNotFoundError for a collection of a Qdrant server, or StoreUnavailableError.
        """
        try:
            yield
        except Exception as error:
            if opened is not None and opened in self.dropped:
                raise CollectionNotFoundError(f"no collection {opened.name!r} any more: it was dropped") from error
            if isinstance(error, StoreError) and self._given_up.is_set():
                raise ServerStopsError from error
            if isinstance(error, StoreError) and opened is not None and opened in self.repaired:
                raise being_repaired(opened.name) from error
            if opened is not None and isinstance(error, CollectionNotFoundError):
                self.gone.add(opened)
                raise CollectionNotFoundError(f"no collection {opened.name!r} any more: it was dropped") from error
            if isinstance(error, CollectionGoneError) and opened is not None:
                self.gone.add(opened)
            if isinstance(error, StoreError) and opened is not None and opened in self.gone:
                raise StoreUnavailableError(
                    f"the collection {opened.name!r} has been removed or replaced; send the request again"
                ) from error
            if isinstance(error, TwinvecError):
                self._place.hide(error)
            raise

    async def finish(self) -> None:
        """Wait until all work under way has ended."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))

    async def _in_turn(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        async with self._turns.setdefault(name, asyncio.Lock()):
            return await work()

    def _leave(self, name: str) -> None:
        self._waiting[name] -= 1
        if not self._waiting[name]:
            del self._waiting[name]
            self._turns.pop(name, None)

    async def _called(self, opened: Collection, function: Callable[[], T], threads: CapacityLimiter | None = None) -> T:
        with self.explaining_errors(opened):
            return await to_thread.run_sync(function, limiter=threads or self._threads)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # marks the error as seen, because asyncio would log it if the client has gone


class Bridge(Iterator[T]):
    """An iterator for a thread over the items of asynchronous pages; it fetches a page when it needs one.

    ``given_up`` ends the wait for a page with ServerStopsError.
    """

    def __init__(self, pages: AsyncIterator[list[T]], given_up: asyncio.Event, first: Sequence[T]) -> None:
        self._pages = pages
        self._given_up = given_up
        self._loop = asyncio.get_running_loop()
        self._page = list(first)[::-1]

    def __next__(self) -> T:
        while not self._page:
            page = asyncio.run_coroutine_threadsafe(self._next_page(), self._loop).result()
            if page is None:
                raise StopIteration
            self._page = page[::-1]
        return self._page.pop()

    async def _next_page(self) -> list[T] | None:
        page = asyncio.ensure_future(anext(self._pages, None))
        end = asyncio.ensure_future(self._given_up.wait())
        try:
            await asyncio.wait([page, end], return_when=asyncio.FIRST_COMPLETED)
            if not page.done():
                raise ServerStopsError
            return page.result()
        finally:
            page.cancel()
            end.cancel()


class _Sized:
    """The documents of an ingest, with their number if it is known; records which document was read last."""

    def __init__(self, documents: Iterable[Any], ingest: Ingest) -> None:
        self._documents = documents
        self._ingest = ingest
        self.read_by = getattr(documents, "read_by", None)  # how uploaded files are read; the collection decides it

    def __iter__(self) -> Iterator[Any]:
        for each in self._documents:
            self._ingest.current = _name(each) or self._ingest.current
            yield each

    def __length_hint__(self) -> int:
        return self._ingest.total or 0


def being_repaired(name: str) -> StoreBusyError:
    """Return the error of a call that a repair of its collection prevents or ends."""
    return StoreBusyError(f"the collection {name!r} is being repaired; send the request again later")


def _begun(work: Work[Any], function: Callable[[], T]) -> T:
    work.waits = False
    return function()


def _name(document: Any) -> str | None:
    found = document.get("id") if isinstance(document, dict) else getattr(document, "id", None)
    return found if isinstance(found, str) else None
