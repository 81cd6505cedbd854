"""Connects a command to the process that serves a store, and handles the events of the work that the process does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from twinvec.cli.options import check_store
from twinvec.support.progress import Advance, unseen
from twinvec_qdrant.cli.options import CollectionPlace, open_from_options
from twinvec_qdrant.serving.client import ServerClient, ServerRefusesError
from twinvec_qdrant.serving.process import ServedError

if TYPE_CHECKING:
    from twinvec.retrieval.base import SpaceEncoder
    from twinvec_qdrant.collection import Collection

NO_CLUSTER = "cluster settings need a Qdrant server; leave --cluster out"
"""Error for --cluster if a process serves the store, which is embedded."""

NO_DIM = (
    "--dim does not reach the process that serves the store, whose models keep all of their dimensions; leave --dim "
    "out, or stop that process first"
)
"""Error for --dim if a process serves the store."""

_PAUSE_SECONDS = 0.1

logger = logging.getLogger(__name__)

Given = ParamSpec("Given")
Result = TypeVar("Result")
Own = TypeVar("Own")
Served = TypeVar("Served")


def client_of(place: CollectionPlace) -> ServerClient | None:
    """Return a client of the process that serves the store; None if no process does.

    A process that refuses connections is stopping: wait for its end, at most for the seconds of --wait.

    Raises:
        StoreBusyError: a process serves the store, and does not answer.
    """
    check_store(place.path, place.url)
    deadline = time.monotonic() + place.wait
    while (found := place.served_by()) is not None:
        try:
            return ServerClient(found, place.wait)
        except ServerRefusesError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)
    return None


def looks_again(
    work: Callable[Concatenate[CollectionPlace, Given], Result],
) -> Callable[Concatenate[CollectionPlace, Given], Result]:
    """Decorate a function that calls ``client_of``: call it again if a process takes the store before it is opened."""

    @wraps(work)
    def run(place: CollectionPlace, /, *arguments: Given.args, **options: Given.kwargs) -> Result:
        try:
            return work(place, *arguments, **options)
        except ServedError:
            return work(place, *arguments, **options)

    return run


@contextmanager
def opened_or_served(
    place: CollectionPlace,
    own: Callable[[Collection], Own],
    served: Callable[[ServerClient, str], Served],
    encoder: SpaceEncoder | None = None,
) -> Iterator[Own | Served]:
    """Open the collection that the options name, or connect to the process that serves its store.

    Yields ``own`` of the open collection, or ``served`` of the client and the collection's name. ``encoder`` is the
    encoder of the collection's model, if it is loaded already.

    Raises:
        TwinvecError: see ``Collection.open``; or the process does not answer.
    """
    with _opened_or_client(place, encoder) as found:
        yield served(found, place.name) if isinstance(found, ServerClient) else own(found)


@looks_again
def _opened_or_client(place: CollectionPlace, encoder: SpaceEncoder | None) -> Collection | ServerClient:
    return client_of(place) or open_from_options(place, encoder=encoder)


class WorkEvents:
    """Handles the events by which the process tells of its work: progress (which may be a wait), a report or an error.

    Args:
        waiting: Message that is logged once if the work waits for other work.
        advance: Shows the progress.
        begin: Called for each step that the events name, with the step and its total; returns its ``advance``.

    Attributes:
        report: The final report; before it, the counts so far.
        received: Whether the process has received the whole request.
    """

    def __init__(
        self, waiting: str, advance: Advance = unseen, begin: Callable[[str, int], Advance] = lambda *_: unseen
    ) -> None:
        self.report: dict[str, Any] = {}
        self.received = False
        self._waiting = waiting
        self._advance = advance
        self._begin = begin
        self._step: str | None = None
        self._done = 0

    def on_event(self, name: str, values: dict[str, Any]) -> None:
        """Handle an event."""
        self.report = values if name == "report" else values.get("report", {})
        if name != "progress":
            return
        self.received = values.get("received", False)
        step, done = values.get("step"), values.get("done", 0)
        if step is not None and step != self._step:
            self._advance, self._step, self._done = self._begin(step, values["total"]), step, 0
        self._advance(done - self._done)
        self._done = done
        if values.get("waiting") and self._waiting:
            logger.warning(self._waiting)
            self._waiting = ""
