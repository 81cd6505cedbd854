"""Several devices behind one engine: one process with its own engine for each device. The caller's process tokenises.

A batch goes to any free process, so that devices of different speed are equally busy. Processes start by ``spawn``, as
CUDA requires, so a script must guard its code with ``if __name__ == "__main__":``. They end with the engine, or with
the process that started them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

from twinvec.arrays import FloatArray
from twinvec.engines.base import AnyEngine
from twinvec.errors import ConfigurationError, EngineError, TwinvecError
from twinvec.support.cpu import available_cores
from twinvec.text import is_list
from twinvec.tokens.batching import Batch

LoadEngine = Callable[[str], AnyEngine]

_GPU_PIPES = 2  # while a process computes one batch on its GPU, the second pipe takes the next


def check_devices(device: str | None, devices: Sequence[str] | None) -> list[str] | None:
    """Return a checked list of devices, or None for one engine in this process; refuse ``device`` with ``devices``."""
    if devices is None:
        return None
    if device is not None:
        raise ConfigurationError("give device or devices, not both")
    given = list(devices) if is_list(devices) else []
    if not given or not all(isinstance(each, str) for each in given):
        raise ConfigurationError(f'devices must be a list such as ["cuda:0", "cuda:1"], got {devices!r}')
    return given


class ProcessesEngine:
    """Pass batches to the engines of several processes, one for each device.

    Each process calls ``load``, which must be picklable, with its device. Processes on ``"cpu"`` share the cores. A
    TwinvecError of ``load`` is raised here; a process that ends while it loads raises EngineError. A call in a fork of
    the process that made the engine raises EngineError, too, since both processes would read answers from the same
    pipes.
    """

    def __init__(self, load: LoadEngine, devices: Sequence[str]) -> None:
        cores = max(1, available_cores() // max(1, sum(device.startswith("cpu") for device in devices)))
        started = [_Worker(load, device, cores if device.startswith("cpu") else _GPU_PIPES) for device in devices]
        # of each process: the name of its engine, the number of pipes in use, the token budget
        loaded = [worker.call(worker.connections[0]) for worker in started]
        self._process = os.getpid()
        self.name = f"{len(started)} processes: {'; '.join(dict.fromkeys(name for name, _, _ in loaded))}"
        self.workers = sum(pipes for _, pipes, _ in loaded)
        self.token_budget = min(budget for _, _, budget in loaded)
        self._free: SimpleQueue[tuple[_Worker, Connection]] = SimpleQueue()
        most = max(pipes for _, pipes, _ in loaded)
        for pipe in range(most):  # in turns, so that each process gets one batch before any gets two
            for worker, (_, pipes, _) in zip(started, loaded, strict=True):
                if pipe < pipes:
                    self._free.put((worker, worker.connections[pipe]))

    def vectors(self, batch: Batch) -> FloatArray:
        return self._compute("vectors", batch)

    def states(self, batch: Batch) -> FloatArray:
        return self._compute("states", batch)

    def logits(self, batch: Batch) -> FloatArray:
        return self._compute("logits", batch)

    def _compute(self, method: str, batch: Batch) -> FloatArray:
        """Let a free process call a method of its engine."""
        if os.getpid() != self._process:
            raise EngineError(
                f"engine {self.name}: belongs to the process that forked this one; make a new Encoder here"
            )
        worker, connection = self._free.get()
        try:
            result: FloatArray = worker.call(connection, (method, batch))
        except TwinvecError:
            raise
        except BaseException:  # after an interrupt, the next batch would get the pending result of this batch
            worker.end()
            raise
        finally:
            self._free.put((worker, connection))  # also if the process has died, so that the next caller gets the error
        return result


class _Worker:
    """A process with one pipe for each batch that it computes at once."""

    def __init__(self, load: LoadEngine, device: str, pipes: int) -> None:
        context = multiprocessing.get_context("spawn")
        ends = [context.Pipe() for _ in range(pipes)]
        self.connections = [ours for ours, _ in ends]
        self._device = device
        self._interrupted = False
        theirs = [their for _, their in ends]
        self._process: BaseProcess = context.Process(
            target=_serve, args=(load, device, theirs), name=f"twinvec-{device}", daemon=True
        )
        self._process.start()
        for their in theirs:
            their.close()  # only the new process holds this end now, so its death closes the pipe

    def call(self, connection: Connection, request: tuple[str, Batch] | None = None) -> Any:
        """Send a request, if any, and return the answer. The first answer of a process describes its engine."""
        try:
            if request is not None:
                connection.send(request)
            result = connection.recv()
        except (EOFError, OSError) as error:
            raise self._ended() from error
        if isinstance(result, TwinvecError):
            raise result
        return result

    def end(self) -> None:
        """Kill the process after an interrupted call; later calls raise EngineError."""
        self._interrupted = True
        self._process.kill()

    def _ended(self) -> EngineError:
        if self._interrupted:
            return EngineError(
                f"the process for device {self._device!r} was ended when a call was interrupted; make a new Encoder"
            )
        self._process.join(timeout=10)  # pipes close a moment before the process ends
        code = self._process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return EngineError(
            f"the process for device {self._device!r} {how}: memory may have run out, or the script does not guard its "
            'code with `if __name__ == "__main__":`; make a new Encoder to go on'
        )


def _serve(load: LoadEngine, device: str, connections: list[Connection]) -> None:
    """Load an engine and compute the batches of each pipe in its own thread, until the pipes close."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one handles interrupts
    os.environ["OMP_NUM_THREADS"] = str(len(connections))  # torch reads this variable when it is imported
    if "torch" in sys.modules:  # the script has imported torch already
        sys.modules["torch"].set_num_threads(len(connections))
    try:
        engine = load(device)
    except Exception as error:
        connections[0].send(_sendable(error))
        return
    pipes = min(engine.workers, len(connections)) if device.startswith("cpu") else len(connections)
    with contextlib.suppress(OSError):  # the caller has gone; the threads below end at once
        connections[0].send((engine.name, pipes, engine.token_budget))
    threads = [threading.Thread(target=_serve_pipe, args=(engine, each)) for each in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve_pipe(engine: AnyEngine, connection: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):  # the caller has gone
        while True:
            method, batch = connection.recv()
            try:
                result = getattr(engine, method)(batch)
            except Exception as error:  # the caller raises the error
                result = _sendable(error)
            connection.send(result)


def _sendable(error: Exception) -> TwinvecError:
    return error if isinstance(error, TwinvecError) else EngineError(f"{type(error).__name__}: {error}")
