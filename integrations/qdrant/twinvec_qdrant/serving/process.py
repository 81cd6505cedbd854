"""The process that serves an embedded store: its note in the store's folder, by which other processes find it.

The file ``serving.json`` names the process, which holds a lock on the file as long as it lives. A kill releases the
lock at once, also in another container, so a file without a lock means nothing.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from twinvec.errors import StoreBusyError, StoreUnavailableError
from twinvec.support.checks import file_path

if TYPE_CHECKING:
    import ssl

try:
    import fcntl
except ImportError:  # a system without flock: only a request shows whether the process lives
    fcntl = None  # type: ignore[assignment]  # mypy knows one platform at a time

logger = logging.getLogger(__name__)

DEFAULT_PATH = "./.twinvec"
"""Default folder of the embedded store."""

SERVING_FILE = "serving.json"
_TRIES = 50
_PAUSE_SECONDS = 0.02

_own: set[str] = set()  # every ``ServingProcess.instance`` of the calling process


@dataclass(frozen=True, slots=True)
class ServingProcess:
    """A process that serves a store.

    Attributes:
        address: The address at which the process listens, such as "http://127.0.0.1:6380".
        pid: The process id, on its machine or in its container.
        started: The time of its start, in UTC (ISO 8601).
        instance: A name that no other process has. ``/healthz`` returns it, which shows that the address still belongs
            to this process.
        secret: A secret that only readers of the folder know. A client that sends it may name the sources of documents.
        certificate: The certificate of an https address, in PEM.
    """

    address: str
    pid: int
    started: str
    instance: str
    secret: str = field(repr=False)
    certificate: str | None = None

    @property
    def is_this_process(self) -> bool:
        """Whether the calling process is this process."""
        return self.instance in _own

    def tls_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the server's own certificate only, for any host name."""
        import ssl

        context = ssl.create_default_context(cadata=self.certificate)
        if self.certificate is not None:
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def __str__(self) -> str:
        return f"process {self.pid} at {self.address} (twinvec serve, since {self.started})"


class ServedError(StoreBusyError):
    """Another process serves the store."""


class Announcement:
    """The note, in the folder of a store, that this process serves the store; it is valid until ``close``.

    If the note cannot be written, on a full or read-only disk, a warning says that other processes do not find this
    one.

    Args:
        path: Folder of the store; made if it is missing.
        address: The address at which the process listens.
        certificate: The certificate of an https address, in PEM.

    Raises:
        StoreBusyError: another process serves the store.
        StoreUnavailableError: the path is a file, or the folder holds no collection and cannot be written.
    """

    def __init__(self, path: str | Path, address: str, certificate: str | None = None) -> None:
        self._place = store_folder(path) / SERVING_FILE
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.process = ServingProcess(address, os.getpid(), now, uuid4().hex, uuid4().hex, certificate)
        try:
            self._place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._place, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if next(self._place.parent.glob("*/shard"), None) is None:
                raise StoreUnavailableError(f"{self._place}: cannot be written: {error.strerror or error}") from error
            self._go_unannounced(error)
            return
        self._held = os.fdopen(handle, "r+b", buffering=0)
        try:
            self._lock()
            self._announce()
        except BaseException:
            self._held.close()
            raise
        _own.add(self.process.instance)

    @staticmethod
    def check_place(path: str | Path) -> None:
        """Raise the errors of an announcement in this folder; needs no address, and creates nothing."""
        folder = store_folder(path)
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)) and not any(folder.glob("*/shard")):
            reason = "this process may not write to it" if there.is_dir() else "it is a file"
            raise StoreUnavailableError(f"{folder}: cannot be the folder of a store: {there}: {reason}")
        check_not_served(path)

    def certify(self, certificate: str | None) -> None:
        """Write another certificate of the address into the note."""
        self.process = replace(self.process, certificate=certificate)
        if self._held.name != os.devnull:  # as after ``_go_unannounced``
            self._announce()

    def close(self) -> None:
        """Remove the note; a second call does nothing."""
        if not self._held.closed:
            _own.discard(self.process.instance)
            with suppress(OSError):  # if there is no note, there is no file to truncate
                self._held.truncate(0)
            self._held.close()

    def _announce(self) -> None:
        content = json.dumps(asdict(self.process)).encode()
        try:
            self._held.truncate(0)
            self._held.seek(0)
            if self._held.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):
                self._held.truncate(0)
            self._held.close()
            self._go_unannounced(error)

    def _go_unannounced(self, error: OSError) -> None:
        self._held = open(os.devnull, "r+b", buffering=0)  # noqa: SIM115  # closed by ``close``
        logger.warning(
            "%s: cannot be written (%s), so other commands do not find this server; the commands and the server use "
            "the store in turns",
            self._place,
            error.strerror,
        )

    def _lock(self) -> None:
        if fcntl is None:
            return
        for _ in range(_TRIES):  # several, because a process that only reads the note holds the lock for an instant
            with suppress(OSError):
                fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_PAUSE_SECONDS)
        other = _parsed(self._held.read())
        raise StoreBusyError(f"{self._place.parent}: served by {other or 'another process'}; stop that process first")


def serving_process(path: str | Path) -> ServingProcess | None:
    """Return the process that serves the store in a folder, or None; raise ``ConfigurationError`` for a bad path."""
    try:
        with open(file_path(path, "path") / SERVING_FILE, "rb") as file:
            for _ in range(_TRIES):
                file.seek(0)
                content = file.read()
                if not _is_locked(file):
                    return None
                if found := _parsed(content):
                    return found
                time.sleep(_PAUSE_SECONDS)  # the process that has the lock is about to write its note
    except OSError:
        return None
    return None


def check_not_served(path: str | Path) -> None:
    """Raise ``StoreBusyError`` if another process serves the store, and say how to reach it."""
    found = serving_process(path)
    if found is not None and not found.is_this_process:
        raise ServedError(
            f"{Path(path)}: served by {found}; use its HTTP API ({found.address}/docs), or twinvec search, ingest, "
            "update, verify, migrate (without --ir), reindex, tune, get, show, delete, backup, restore, drop, info or "
            "collections, which ask that process; for all else, stop that process first"
        )


def hidden_note(path: Path) -> str:
    """Return what to do if the store is busy and another user's process may serve it; "" if no note says so."""
    note = path / SERVING_FILE
    try:
        with open(note, "rb"):
            return ""
    except PermissionError:
        is_empty = note.stat().st_size == 0  # a server that has ended leaves an empty file
    except OSError:
        return ""
    return "" if is_empty else f"; if it is twinvec serve, run the command as its user, who alone may read {note}"


def store_folder(path: str | Path) -> Path:
    """Return the folder of a store, which may be missing.

    Raises:
        StoreUnavailableError: the path is a file, or this process may not read the folder that contains it.
    """
    folder = file_path(path, "path")
    try:
        is_file = folder.is_file()
    except OSError as error:  # the folder above is closed to this process, or the name is too long
        raise StoreUnavailableError(f"{path}: cannot be read: {error.strerror or error}") from error
    if is_file:
        raise StoreUnavailableError(f"{path}: is a file; name the folder of the store")
    return folder


def _is_locked(file: IO[bytes]) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _parsed(content: bytes) -> ServingProcess | None:
    try:
        values: dict[str, Any] = json.loads(content)
        return ServingProcess(**{name: values.get(name) for name in ServingProcess.__slots__})  # type: ignore[arg-type]  # of our own file
    except (ValueError, AttributeError):
        return None
