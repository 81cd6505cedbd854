"""Commands of twinvec in processes that begin in milliseconds, for tests that need many of them.

One process for each test process imports the modules once, and forks for each command. A command has arguments, an
environment, a folder, files, signals and an end of its own; only its imports are done before. Tests of imports, of the
memory of a process, and of how a process starts do without this module. On other systems than Linux, and where the
coverage of processes is measured, each command starts anew.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

IMPORTED = (
    "anyio._backends._asyncio",
    "filelock",
    "rich.console",
    "rich.progress",
    "rich.table",
    "rich.text",
    "safetensors",
    "typer.main",
    "twinvec.cli.app",
    "twinvec.encoder",
    "twinvec.engines.exports",
    "twinvec.engines.loaded_model",
    "twinvec.rerankers.maxsim",
    "twinvec.retrieval.tuned_search",
    "twinvec_qdrant.asking",
    "twinvec_qdrant.collection",
    "twinvec_qdrant.cli.search",
    "twinvec_qdrant.cli.served.searching",
    "twinvec_qdrant.serving.client",
    "twinvec_qdrant.stores.embedded.store",
    "twinvec_serve.app",
    "twinvec_serve.process",
    "uvicorn.protocols.http.h11_impl",
    "uvloop",
)
_MESSAGE = 2**20  # bytes
_STATUS = struct.Struct("i")


class Process:
    """A command that runs.

    Attributes:
        pid: Its process.
        stdout: What it prints, if that goes to a pipe.
        stderr: What it prints of errors, if that goes to a pipe.
        returncode: As of ``subprocess.Popen``.
    """

    def __init__(self, pid: int, ended: int, stdout: IO[str] | None, stderr: IO[str] | None) -> None:
        self.pid = pid
        self.stdout, self.stderr = stdout, stderr
        self.returncode: int | None = None
        self._ended = ended
        self._turn = threading.Lock()

    def poll(self) -> int | None:
        """Return how the process has ended, or None while it runs."""
        with self._turn:
            return self._waited(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raise TimeoutExpired where it does not come in ``timeout`` seconds."""
        with self._turn:
            code = self._waited(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("twinvec", timeout)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal, if the process runs still."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()

    def _waited(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._ended, selectors.EVENT_READ)
                if selector.select(timeout):
                    (status,) = _STATUS.unpack(os.read(self._ended, _STATUS.size))
                    os.close(self._ended)
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class _Server:
    """The connection to the process that forks."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, env=environment, pass_fds=[theirs.fileno()], start_new_session=True, stdin=subprocess.DEVNULL
        )
        theirs.close()
        atexit.register(self._ours.close)  # which ends the process

    def fork(self, request: Mapping[str, Any], files: list[int]) -> int:
        """Let it fork, and return the process."""
        with self._turn:
            socket.send_fds(self._ours, [json.dumps(request).encode()], files)
            pid: int = json.loads(self._ours.recv(_MESSAGE))
        return pid


_servers: list[_Server] = []
_starting = threading.Lock()


def started(
    *arguments: object,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    stdin: int | None = None,
    start_new_session: bool = False,
) -> Process | subprocess.Popen[str]:
    """Start ``twinvec`` with these arguments; the options are those of ``subprocess.Popen``, but for pipes as input."""
    if sys.platform != "linux" or "COVERAGE_PROCESS_CONFIG" in os.environ:
        command = [sys.executable, "-m", "twinvec", *map(str, arguments)]
        files = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        return subprocess.Popen(command, cwd=cwd, env=env, text=True, start_new_session=start_new_session, **files)
    with _starting:
        if not _servers:
            _servers.append(_Server())
    ended, tell = os.pipe()
    given, ours = zip(*map(_opened, range(3), (stdin, stdout, stderr)), strict=True)
    request = {
        "arguments": list(map(str, arguments)),
        "folder": str(cwd),
        "environment": dict(os.environ if env is None else env),
        "session": start_new_session,
    }
    try:
        pid = _servers[0].fork(request, [*(each.number for each in given), tell])
    finally:
        os.close(tell)
        for each in given:
            if each.is_own:
                os.close(each.number)
    return Process(pid, ended, *ours[1:])


class _File(NamedTuple):
    """A file for a command; ``is_own`` says whether it is of nobody else."""

    number: int
    is_own: bool


def _opened(number: int, given: int | IO[Any] | None) -> tuple[_File, IO[str] | None]:
    """Return the file that a command has as file ``number``, and this end of a pipe."""
    if given == subprocess.PIPE:
        ours, theirs = os.pipe()
        return _File(theirs, is_own=True), os.fdopen(ours)
    if given == subprocess.DEVNULL:
        return _File(os.open(os.devnull, os.O_RDWR), is_own=True), None
    if given is None:
        return _File(number, is_own=False), None
    return _File(given if isinstance(given, int) else given.fileno(), is_own=False), None


def run(*arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``twinvec`` with these arguments, without input; return how it ended and what it printed."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        with started(*arguments, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err) as process:
            code = process.wait()
        printed = []
        for each in (out, err):
            each.seek(0)
            printed.append(each.read())
    return subprocess.CompletedProcess(["twinvec", *map(str, arguments)], code, *printed)


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Fork for each request, and tell how the forks end; return the request in a fork. Ends with the connection."""
    watched = selectors.DefaultSelector()
    watched.register(connection, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            if key.fileobj is not connection:
                pid, tell = key.data
                watched.unregister(key.fd)
                os.close(key.fd)
                _, status = os.waitpid(pid, 0)
                os.write(tell, _STATUS.pack(status))
                os.close(tell)
                continue
            content, files, _, _ = socket.recv_fds(connection, _MESSAGE, 4)
            if not content:
                os._exit(0)
            if not (pid := os.fork()):
                watched.close()
                connection.close()
                return {**json.loads(content), "files": files}
            for each in files[:3]:
                os.close(each)
            watched.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, files[3]))
            connection.send(json.dumps(pid).encode())


def _become(request: Mapping[str, Any]) -> None:
    """Take over what belongs to a command: its files, folder, environment, arguments and signals."""
    if request["session"]:
        os.setsid()
    for number, each in enumerate(request["files"][:3]):
        os.dup2(each, number)
    for each in request["files"]:
        os.close(each)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["folder"]
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False)),
            errors=errors,
            line_buffering=number == 2 or os.isatty(number),
        )
        for number, errors in ((1, "strict"), (2, "backslashreplace"))
    )


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, which is for the tests
    warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)  # the threads of BLAS mind no fork
    for each in IMPORTED:
        importlib.import_module(each)
    from twinvec.engines.openvino import import_openvino
    from twinvec_qdrant.calibration.language import languages_of

    import_openvino()
    languages_of(["tea"])  # loads what identifies languages
    gc.collect()
    gc.freeze()
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    _main()
    runpy.run_module("twinvec", run_name="__main__", alter_sys=True)
