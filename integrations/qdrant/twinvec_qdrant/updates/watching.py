"""Watching: the sources of collections are ingested again as soon as their files change.

A store is open only during an update, and for a moment once a minute, to find sources that were added or deleted.
Threads of ``watchfiles`` wait for the operating system to report changes. A source whose folder is gone is looked for
once a second.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

from twinvec.errors import CollectionNotFoundError, ConfigurationError, SpaceMismatchError, StoreError
from twinvec.retrieval.base import SpaceEncoder
from twinvec.support.checks import check_flags
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.ingest.reading.root import Root
from twinvec_qdrant.ingest.registration import NOT_BELOW
from twinvec_qdrant.updates.file_memory import FileMemory
from twinvec_qdrant.updates.updating import Updatable, UpdateReport, places, update_collection

_QUIET_MS = 400  # changes are reported this long after the last one
_LONGEST_MS = 800  # changes are reported this long after the first one, even if more changes come
_BEGUN_MS = 1  # timeout after which watchfiles yields without a change; the first yield shows that it watches
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_SOURCES_SECONDS = 60.0  # without a change, the recorded sources are read again after this time
_READY = "ready"
_ALL = ""  # stands for all sources of a collection

Open = Callable[[str, SpaceEncoder | None], AbstractContextManager[Updatable]]
Told = Callable[[str, UpdateReport], None]
Key = tuple[str, str]
"""The name of a collection and the name of one of its sources, or ``_ALL``."""

logger = logging.getLogger(__name__)


def watch(names: list[str], open_collection: Open, told: Told, *, prune: bool = True) -> None:
    """Update collections now, and whenever a file of their sources changes; never returns.

    Sources that are added to the collections later are watched, too. If a collection is dropped, the others stay
    watched.

    ``open_collection`` opens a collection by name, with a loaded encoder or None, or connects to a process that has it.
    ``told`` is called after each update with the name of the collection and the report. ``prune`` removes documents
    that their source no longer holds.

    Raises:
        ConfigurationError: the operating system refuses to watch the files, for example because they are too many.
        CollectionNotFoundError: a collection does not exist at the beginning, or all have been dropped.
        TwinvecError: the errors of ``Collection.open`` and ``Collection.ingest``. If a store fails, the update is tried
            again instead.
    """
    check_flags(prune=prune)
    updates = _Updates(names, open_collection, told, prune=prune)
    while True:
        updates.look()
        roots = updates.roots()
        with Changes(roots) as changes:
            left = {(name, _ALL) for name in updates.names}
            while not changes.stale:
                left = updates.run(left)
                if updates.roots() != roots:
                    updates.forget_files()
                    break
                changed = changes.wait(_RETRY_SECONDS if left else _SOURCES_SECONDS)
                if not (changed or left):
                    updates.look()
                left |= changed


class _Updates:
    """Opens collections and updates them; a model that is loaded once stays loaded."""

    def __init__(self, names: list[str], open_collection: Open, told: Told, *, prune: bool) -> None:
        self.names = list(names)
        self._open = open_collection
        self._told = told
        self._prune = prune
        self._encoders: dict[str, SpaceEncoder] = {}
        self._memory = FileMemory()
        self._places: dict[str, dict[str, Root]] = {}

    def roots(self) -> dict[Key, Root]:
        """Return the sources of the collections, as last read from their stores."""
        return {(name, source): root for name in self.names for source, root in self._places[name].items()}

    def forget_files(self) -> None:
        """Forget which files were read, also those of former sources."""
        self._memory = FileMemory()

    def look(self) -> None:
        """Read the recorded sources of the collections; if a store fails, keep the sources that were read before."""
        for name in list(self.names):
            try:
                with self._open(name, None) as opened:
                    self._places[name] = places(opened)
            except CollectionNotFoundError as error:
                self._forget(name, error)
            except StoreError as error:
                if name not in self._places:
                    raise
                logger.debug("%s: the sources are read again later", error)

    def run(self, keys: set[Key]) -> set[Key]:
        """Update the sources, and return the keys of the sources whose store failed."""
        failed: set[Key] = set()
        for name in sorted({name for name, _ in keys}):
            own = {key for key in keys if key[0] == name}
            try:
                self._told(name, self._update(name, {source for _, source in own}))
            except SpaceMismatchError:
                if self._encoders.pop(name, None) is None:
                    raise
                failed |= own
            except CollectionNotFoundError as error:
                self._forget(name, error)
            except StoreError as error:
                logger.warning("%s; trying again", error)
                failed |= own
        return failed

    def _forget(self, name: str, error: CollectionNotFoundError) -> None:
        """Stop watching a dropped collection; raise ``error`` if no other is left, or if it never existed."""
        if self.names == [name] or name not in self._places:
            raise error
        self.names.remove(name)
        logger.warning("%s; the others stay watched", error)

    def _update(self, name: str, sources: set[str]) -> UpdateReport:
        with self._open(name, self._encoders.get(name)) as opened:
            only = None if _ALL in sources else sources
            report = update_collection(opened, prune=self._prune, only=only, memory=self._memory)
            if name not in self._encoders and isinstance(opened, Collection):  # another process encodes for itself
                self._encoders[name] = opened.encoder
                opened.encoder.encode_query([_READY])  # loads the model, so that the first change need not wait for it
            self._places[name] = places(opened)
            return report


class Changes:
    """Reports which sources have changed since the ``with`` block began.

    The block begins when the operating system watches the files of all sources.
    """

    def __init__(self, roots: Mapping[Key, Root]) -> None:
        self._roots = {key: (root, Path(root.path)) for key, root in roots.items()}
        self._missing = {key for key, (_, path) in self._roots.items() if not path.exists()}
        self._told: SimpleQueue[set[tuple[Path, bool]] | OSError | None] = SimpleQueue()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.stale = False  # whether to watch anew, since a folder has appeared or vanished, or watchfiles failed

    def __enter__(self) -> Self:
        there = {path: root for key, (root, path) in self._roots.items() if key not in self._missing}
        trees = {path for path, root in there.items() if path.is_dir() and NOT_BELOW not in root.exclude}
        # the folder of a single file is watched, since editors replace whole files
        flat = {path if path.is_dir() else path.parent for path in there.keys() - trees}
        all_begun = []
        for watched, recursive in ((trees, True), (flat, False)):
            if watched:
                all_begun.append(begun := threading.Event())
                given = (watched, recursive, begun)
                self._threads.append(threading.Thread(target=self._follow, args=given, daemon=True))
                self._threads[-1].start()
        for begun in all_begun:
            begun.wait()
        self.stale = not all(path.exists() for path in there)  # a folder that vanished just before is not watched
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait(self, seconds: float | None = None) -> set[Key]:
        """Wait for a change, at most ``seconds``; return the changed sources, or all if watchfiles cannot name them."""
        end = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            pause = min(end - time.monotonic(), _LOOK_SECONDS if self._missing else math.inf)
            try:
                told = self._told.get(timeout=None if pause == math.inf else max(pause, 0))
            except Empty:
                told = set()
            if isinstance(told, OSError):
                raise ConfigurationError(
                    f"the files cannot be watched ({told}); perhaps there are more folders than the system's limit, "
                    "which you can raise (Linux: sysctl fs.inotify.max_user_watches)"
                ) from told
            if told is None:
                self.stale = True
                return set(self._roots)
            changed = self._changed(told)
            if changed or time.monotonic() >= end:
                return changed

    def _changed(self, told: set[tuple[Path, bool]]) -> set[Key]:
        changed = set()
        for key, (root, path) in self._roots.items():
            came = key in self._missing and path.exists()
            went = any(gone and each == path for each, gone in told)
            if came or went or any(root.follows(each) for each, _ in told):
                changed.add(key)
            if came or (went and not path.is_file()):
                self.stale = True
        return changed

    def _follow(self, paths: set[Path], recursive: bool, begun: threading.Event) -> None:
        from watchfiles import Change
        from watchfiles import watch as watched

        try:
            for changes in watched(
                *sorted(paths),
                watch_filter=None,
                debounce=_LONGEST_MS,
                step=_QUIET_MS,
                stop_event=self._stop,
                rust_timeout=_BEGUN_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=recursive,
                ignore_permission_denied=True,
            ):
                begun.set()
                if changes:
                    self._told.put({(Path(path), kind == Change.deleted) for kind, path in changes})
        except OSError as error:
            self._told.put(error)
        except RuntimeError as error:  # watchfiles fails at a name that is not UTF-8, and reports no path
            self._told.put(None if "decode path" in str(error) else OSError(str(error)))
        finally:
            begun.set()
