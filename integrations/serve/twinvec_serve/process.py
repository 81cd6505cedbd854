"""The process of a server: its socket, its signals, its start and its end.

SIGTERM and SIGINT stop the server: it accepts no new requests, finishes the requests in flight, and closes collections
and models. A second signal ends the process at once; the collections lose nothing that was acknowledged. SIGHUP also
stops the server if the process has a terminal, because a terminal that closes sends SIGHUP. Otherwise, SIGHUP is a
request to read keys and certificates again.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from twinvec.errors import ConfigurationError
from twinvec.installation import hidden_folders
from twinvec_qdrant import DEFAULT_PATH, Announcement
from twinvec_serve.app import create_app
from twinvec_serve.memory import limit_memory, trim_regularly
from twinvec_serve.safety.exposure import check_exposure
from twinvec_serve.safety.renewal import Renewal
from twinvec_serve.safety.silent_readers import LimitedReaders
from twinvec_serve.services import Services
from twinvec_serve.settings import LAST_ANSWERS_SECONDS, ServeSettings

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]  # mypy knows one platform at a time

_TERMINAL = "/dev/tty"
_KEEP_ALIVE_SECONDS = 75  # longer than the 60 s of most proxies, so that they never use a closed connection
_EVERY_ADDRESS = "::"
_BACKLOG = 2048  # largest number of connections that wait until the server accepts them


def run(
    settings: ServeSettings,
    *,
    ready: Callable[[str], None],
    stopping: Callable[[], None],
    key_file: Path | None = None,
) -> None:
    """Serve until a signal stops the process.

    ``ready`` is called with the server's address once it answers requests, ``stopping`` at the first signal.
    ``key_file`` has the keys of the settings; it is read again when it changes.

    Raise ConfigurationError if the server cannot listen at the address or would be unsafe there. Raise another
    TwinvecError if the store's folder cannot be used, another process has the store, or a model cannot be loaded.
    """
    check_exposure(settings)
    if settings.url is None:  # before the port, because a server of the same store may have taken the port
        Announcement.check_place(settings.path or DEFAULT_PATH)
    limit_memory()
    _permit_open_files()
    with hidden_folders(), listening(settings.host, settings.port) as sockets:
        port = sockets[0].getsockname()[1]
        settings = settings.model_copy(update={"port": port})
        settings = settings.model_copy(update={"address": address_of(settings)})
        with asyncio.Runner(loop_factory=_event_loop) as runner:
            runner.run(_serve(settings, sockets, lambda: ready(address_of(settings)), stopping, key_file))


def _permit_open_files() -> None:
    """Raise the limit of open files to the largest number that the system permits.

    The usual limit is 1,024, and each client and each collection needs open files.
    """
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):  # the limit stays: macOS refuses an infinite one
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def address_of(settings: ServeSettings) -> str:
    """Return the address by which clients on this machine reach the server."""
    scheme = "http" if settings.tls_cert is None else "https"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop, which is faster, if uvloop is installed (not on Windows), else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@contextmanager
def listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """In the block, listen at every IP address of a host name; yield the sockets.

    The server listens before it loads models, so that the error for a taken port comes at once. Clients that connect
    wait until the models are loaded. Raise ConfigurationError if the port is taken or not permitted, or the host is not
    this machine.
    """
    with ExitStack() as open_sockets:
        sockets = []
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in dict.fromkeys(found if port else found[:1]):
                each = open_sockets.enter_context(socket.socket(family, kind, protocol))
                sockets.append(each)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    only_6 = host != _EVERY_ADDRESS  # otherwise clients with IPv4 reach this socket, too
                    each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_6)
                each.bind(address)
                each.listen(_BACKLOG)
        except OSError as error:
            raise ConfigurationError(_listen_failure(error, host, port)) from error
        yield sockets


def _listen_failure(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"another process listens at port {port} of {host}: choose another port with --port, or stop that process"
        )
    if error.errno == errno.EACCES:
        return f"this user may not listen at port {port}: choose a port over 1023 with --port"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host} is not an address of this machine: {error.strerror}"
    return f"the server cannot listen at port {port} of {host}: {error.strerror}"


async def _serve(
    settings: ServeSettings,
    sockets: list[socket.socket],
    ready: Callable[[], None],
    stopping: Callable[[], None],
    key_file: Path | None,
) -> None:
    app = create_app(settings)
    services: Services = app.state.services
    begin_stop = partial(services.collections.stop_in, settings.stop_seconds)
    config = _config(app, settings)
    config.load()
    server = _Server(config, ready, stopping, begin_stop)
    announce = services.collections.announce_certificate
    renewal = Renewal(settings, key_file=key_file, access=services.access, context=config.ssl, announce=announce)
    _catch_signals(server, renewal)
    async with app.router.lifespan_context(app):
        regular = [asyncio.create_task(each) for each in (trim_regularly(), renewal.run())]
        try:
            await server.serve(sockets)
        finally:
            for each in regular:
                each.cancel()


def _catch_signals(server: _Server, renewal: Renewal) -> None:
    caught: dict[int, Callable[[int, FrameType | None], None]] = dict.fromkeys(
        (signal.SIGINT, signal.SIGTERM), server.handle_exit
    )
    if hasattr(signal, "SIGHUP"):
        caught[signal.SIGHUP] = server.handle_exit if _has_terminal() else lambda *_: renewal.ask()
    for each, handler in caught.items():
        if signal.getsignal(each) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(each, handler)


def _has_terminal() -> bool:
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _config(app: FastAPI, settings: ServeSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=LimitedReaders,
        lifespan="off",  # _serve runs the lifespan, so that its errors reach the command
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(settings.stop_seconds) + LAST_ANSWERS_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


class _Server(uvicorn.Server):
    """uvicorn's server with three callbacks.

    ``ready`` is called when the server accepts requests. After the first signal, the event loop calls ``stopping`` and
    ``begin_stop``. A second signal ends the process at once.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        stopping: Callable[[], None],
        begin_stop: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._stopping = stopping
        self._begin_stop = begin_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # garbage collections, which hold up every request, skip the objects that exist now
        self._ready()
        _notify_systemd("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _notify_systemd("STOPPING=1")
        self._stopping()
        self._begin_stop()
        await super().shutdown(sockets)
        gc.unfreeze()  # the bindings of triton print each object that is not collected at the end

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # uvicorn's handlers are not needed: those of _catch_signals also work before and after it serves

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit or not self.started:
            os._exit(128 + sig)
        self.should_exit = True


def _notify_systemd(state: str) -> None:
    """Tell systemd the state of this service, if its unit has ``Type=notify``; see sd_notify(3)."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, suppress(OSError):
            systemd.sendto(state.encode(), f"\0{place[1:]}" if place.startswith("@") else place)
