"""OpenVINO computes graphs (.xml, with weights in a .bin file): one inference request for each stream."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.engines.graph import Runner
from twinvec.errors import EngineError, ModelIntegrityError
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec.support.locks import ThreadLock
from twinvec.tokens.batching import Batch

_FIRST_TENSOR = threading.Lock()

_REMEMBERED = 64
"""Number of batch shapes that OpenVINO keeps for each stream.

By default, OpenVINO keeps 5,000 shapes. The memory of a process then grows with every batch of a new shape.
"""


class OpenVinoRunner(Runner):
    """A graph compiled for one output, with a request for each stream.

    A fork of a process that has computed with several streams lacks their threads, and OpenVINO would wait for these
    for ever. ``infer`` raises EngineError in such a fork. OpenVINO also gives the threads of a graph that is no longer
    used to the next graph. If they are threads of the parent process, loading raises EngineError.
    """

    runtime = "openvino"
    _process: ClassVar[int | None] = None  # the first process that computes with several streams
    _unused: ClassVar[set[int]] = set()  # processes whose threads OpenVINO gives to the next graph

    def __init__(self, path: Path, precision: str, output: str, streams: int, threads: int) -> None:
        if self._unused - {os.getpid()}:
            raise _lacks_threads(f"{self.runtime}, cpu, {precision}", "loaded a model")
        openvino, core = import_openvino(), shared_core()
        try:
            graph = core.read_model(path)
            only = openvino.Model([graph.output(output)], graph.get_parameters())
            compiled = core.compile_model(
                only,
                "CPU",
                {
                    "NUM_STREAMS": streams,
                    "INFERENCE_NUM_THREADS": streams * threads,
                    "INFERENCE_PRECISION_HINT": "bf16" if precision == "bfloat16" else "f32",
                    "ENABLE_CPU_PINNING": False,  # off, because other processes may use the same cores
                    "CPU_RUNTIME_CACHE_CAPACITY": _REMEMBERED,
                },
            )
        except RuntimeError as error:
            raise ModelIntegrityError(f"{path}: cannot be read as an OpenVINO graph: {error}") from error
        self._inputs = [port.any_name for port in compiled.inputs]
        weakref.finalize(self, self._unused.add, os.getpid()).atexit = False
        self._streams = streams
        lock = ThreadLock(f"engine {self.runtime}, cpu, {precision}", "encoded texts")
        self._turn: AbstractContextManager[None] = lock if streams == 1 else nullcontext()
        self._free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(streams):
            self._free.put(compiled.create_infer_request())

    def infer(self, batch: Batch, name: str) -> FloatArray:
        if self._streams > 1:
            self._refuse_forks(name)
        arrays = batch.inputs
        with self._turn:
            request = self._free.get()
            try:
                result: FloatArray = request.infer({key: arrays[key] for key in self._inputs}, share_inputs=True)[0]
            except RuntimeError as error:
                raise EngineError(f"engine {name}: {error}") from error
            finally:
                self._free.put(request)
        return result

    @staticmethod
    def _refuse_forks(name: str) -> None:
        process = os.getpid()
        if OpenVinoRunner._process not in (None, process):
            raise _lacks_threads(name, "encoded texts")
        OpenVinoRunner._process = process


def _lacks_threads(name: str, done: str) -> EngineError:
    return EngineError(
        f"engine {name}: this process is a fork of a process that has {done}, so OpenVINO would wait for ever; "
        "start processes by 'spawn', or encode only after the fork"
    )


def has_bfloat16() -> bool:
    """Whether OpenVINO computes in bfloat16 on this processor."""
    return "BF16" in shared_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def save_graph(graph: Any, path: Path) -> None:
    """Write a graph to ``path`` (.xml) and a .bin file, in its own precision; raise EngineError if that fails."""
    try:
        import_openvino().save_model(graph, path, compress_to_fp16=False)
    except RuntimeError as error:
        raise EngineError(f"{path}: cannot be written: {error}") from error


@cache
def shared_core() -> Any:
    """Return the process's only Core, since making one takes half a second.

    Two threads that create the first Tensor at once deadlock on the interpreter lock, so one is created here first.
    """
    openvino = import_openvino()
    with _FIRST_TENSOR:
        openvino.Tensor(np.zeros(1, dtype=np.int64))
    return openvino.Core()


def import_openvino() -> Any:
    """Import openvino; errors as for ``import_extra``."""
    with telemetry.switched_off():
        return import_extra("openvino", "openvino", "the OpenVINO engine")
