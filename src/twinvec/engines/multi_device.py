"""Several devices: an engine in a process of its own for each, behind the border of one engine.

Batches go to whichever process is free, through pipes, one for each batch that a process computes at once; so devices
of different speed are kept equally busy. Tokenising stays in the calling process. The processes are started anew
(``spawn``), as CUDA needs it: a script must guard what it runs with ``if __name__ == "__main__":``. They end with the
engine, or with the process that started them, however that ends.
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
from twinvec.engines.base import GPU_STREAMS, Engine, ScoringEngine
from twinvec.engines.cpu import available_cores
from twinvec.errors import ConfigurationError, EngineError, TwinvecError
from twinvec.tokens.batching import Batch

LoadEngine = Callable[[str], Engine | ScoringEngine]


def check_devices(device: str | None, devices: Sequence[str] | None) -> list[str] | None:
    """The devices of several processes, None for one engine in this process.

    Raises:
        ConfigurationError: they are no list of names, or come with a single device.
    """
    if devices is None:
        return None
    if device is not None:
        raise ConfigurationError("device and devices exclude each other")
    if isinstance(devices, str) or not devices or not all(isinstance(each, str) for each in devices):
        raise ConfigurationError(f'devices must be a list such as ["cuda:0", "cuda:1"], got {devices!r}')
    return list(devices)


class _Processes:
    """One engine made of several.

    Args:
        load: Called in each process with its device, as torch names it; can be pickled.
        devices: One for each process; ``"cpu"`` may come several times, and those share the cores.

    Raises:
        EngineError: a process ended before its engine was loaded.
        TwinvecError: whatever ``load`` raises.
    """

    def __init__(self, load: LoadEngine, devices: Sequence[str]) -> None:
        shares = max(1, available_cores() // max(1, sum(device.startswith("cpu") for device in devices)))
        started = [_Worker(load, device, shares if device.startswith("cpu") else GPU_STREAMS) for device in devices]
        told = [worker.wait_until_loaded() for worker in started]
        self.name = f"{len(started)} processes: {'; '.join(dict.fromkeys(name for name, _, _ in told))}"
        self.workers = sum(streams for _, streams, _ in told)
        self.token_budget = min(budget for _, _, budget in told)
        self._free: SimpleQueue[tuple[_Worker, Connection]] = SimpleQueue()
        most = max(streams for _, streams, _ in told)
        for stream in range(most):  # in turns, so that no process waits while another has two batches
            for worker, (_, streams, _) in zip(started, told, strict=True):
                if stream < streams:
                    self._free.put((worker, worker.connections[stream]))

    def _ask(self, what: str, batch: Batch) -> FloatArray:
        worker, connection = self._free.get()
        try:
            answer: FloatArray = worker.ask(connection, (what, batch))
        except TwinvecError:
            raise
        except BaseException:  # an interrupt: its answer, still to come, would be taken for the next batch's
            worker.end()
            raise
        finally:
            self._free.put((worker, connection))  # also that of a dead one: who is waiting must hear of it
        return answer


class ProcessesEngine(_Processes):
    """Engines of an encoder."""

    def vectors(self, batch: Batch) -> FloatArray:
        return self._ask("vectors", batch)

    def states(self, batch: Batch) -> FloatArray:
        return self._ask("states", batch)


class ProcessesScoringEngine(_Processes):
    """Engines of a cross-encoder."""

    def logits(self, batch: Batch) -> FloatArray:
        return self._ask("logits", batch)


class _Worker:
    """A process with a pipe for each batch that it may compute at once."""

    def __init__(self, load: LoadEngine, device: str, streams: int) -> None:
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(streams)]
        self.connections = [ours for ours, _ in pipes]
        self._device = device
        self._interrupted = False
        theirs = [their for _, their in pipes]
        self._process: BaseProcess = context.Process(
            target=_serve, args=(load, device, theirs), name=f"twinvec-{device}", daemon=True
        )
        self._process.start()
        for their in theirs:
            their.close()  # so that its end is noticed here

    def wait_until_loaded(self) -> tuple[str, int, int]:
        """The engine's name, how many batches it computes at once, and its token budget."""
        name, streams, budget = self._receive(self.connections[0])
        return name, min(streams, len(self.connections)), budget

    def ask(self, connection: Connection, question: tuple[str, Batch]) -> Any:
        try:
            connection.send(question)
        except OSError as error:
            raise self._ended() from error
        return self._receive(connection)

    def _receive(self, connection: Connection) -> Any:
        try:
            answer = connection.recv()
        except (EOFError, OSError) as error:
            raise self._ended() from error
        if isinstance(answer, TwinvecError):
            raise answer
        return answer

    def end(self) -> None:
        """End the process, since a call was interrupted; whoever asks it again gets an error."""
        self._interrupted = True
        self._process.kill()

    def _ended(self) -> EngineError:
        if self._interrupted:
            return EngineError(
                f"the process for device {self._device!r} was ended when a call was interrupted; make a new Encoder"
            )
        self._process.join(timeout=10)  # its pipes close a moment before it is gone
        code = self._process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return EngineError(
            f"the process for device {self._device!r} {how}: for lack of memory, perhaps, or because the script does "
            'not guard what it runs with `if __name__ == "__main__":`; make a new Encoder to go on'
        )


def _serve(load: LoadEngine, device: str, connections: list[Connection]) -> None:
    """Load an engine and answer on every pipe, each in a thread of its own, until they close."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that started this one
    os.environ["OMP_NUM_THREADS"] = str(len(connections))  # before torch is imported
    if "torch" in sys.modules:  # by the script that started this process: it is too late for that
        sys.modules["torch"].set_num_threads(len(connections))
    try:
        engine = load(device)
    except Exception as error:
        connections[0].send(_sendable(error))
        return
    with contextlib.suppress(OSError):  # whoever asked has given up, and the threads end at once
        connections[0].send((engine.name, min(engine.workers, len(connections)), engine.token_budget))
    threads = [threading.Thread(target=_answer, args=(engine, each)) for each in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _answer(engine: Engine | ScoringEngine, connection: Connection) -> None:
    while True:
        try:
            what, batch = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = getattr(engine, what)(batch)
        except Exception as error:  # it is raised where the batch came from
            answer = _sendable(error)
        try:
            connection.send(answer)
        except OSError:
            return


def _sendable(error: Exception) -> TwinvecError:
    return error if isinstance(error, TwinvecError) else EngineError(f"{type(error).__name__}: {error}")
