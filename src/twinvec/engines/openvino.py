"""OpenVINO as a runtime of graphs (.xml, weights in a .bin beside it), with an inference request for each stream."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.engines.graph import GraphEngine, GraphScoringEngine, Runner
from twinvec.errors import EngineError, ModelIntegrityError
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec.tokens.batching import Batch

_FIRST_LOOK = threading.Lock()


class _Requests(Runner):
    """Compiled without what the output does not need, with a request for each stream."""

    def __init__(self, path: Path, output: str, precision: str, streams: int, threads: int) -> None:
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
                    "ENABLE_CPU_PINNING": False,  # other processes may be busy on the very cores
                },
            )
        except RuntimeError as error:
            raise ModelIntegrityError(f"{path}: cannot be read as an OpenVINO graph: {error}") from error
        self._inputs = [port.any_name for port in compiled.inputs]
        self._free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(streams):
            self._free.put(compiled.create_infer_request())

    def infer(self, batch: Batch, name: str) -> FloatArray:
        given = batch.inputs
        request = self._free.get()
        try:
            found: FloatArray = request.infer({key: given[key] for key in self._inputs}, share_inputs=True)[0]
        except RuntimeError as error:
            raise EngineError(f"engine {name}: {error}") from error
        finally:
            self._free.put(request)
        return found


class OpenVinoEngine(GraphEngine):
    """An encoder's graph; its .bin lies beside it."""

    runtime = "openvino"
    runner = _Requests


class OpenVinoScoringEngine(GraphScoringEngine):
    """A cross-encoder's graph; its .bin lies beside it."""

    runtime = "openvino"
    runner = _Requests


def has_bfloat16() -> bool:
    """Whether OpenVINO computes in bfloat16 on this processor."""
    return "BF16" in shared_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def save_graph(graph: Any, path: Path) -> None:
    """Write ``path`` (.xml) and its weights beside it (.bin), in the precision that the graph has.

    Raises:
        EngineError: they cannot be written.
    """
    try:
        import_openvino().save_model(graph, path, compress_to_fp16=False)
    except RuntimeError as error:
        raise EngineError(f"{path}: cannot be written: {error}") from error


@cache
def shared_core() -> Any:
    """One for the process: it takes half a second.

    The binding's first look at an array is had here, by one thread: two that have it at once wait for one another for
    ever, one for the interpreter's lock and one, holding that, for what the other is about to make.
    """
    openvino = import_openvino()
    with _FIRST_LOOK:
        openvino.Tensor(np.zeros(1, dtype=np.int64))
    return openvino.Core()


def import_openvino() -> Any:
    """Import openvino; errors as for ``import_extra``."""
    with telemetry.switched_off():
        return import_extra("openvino", "openvino", "the OpenVINO engine")
