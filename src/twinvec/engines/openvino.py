"""The OpenVINO engines: a graph made by ``tracing``, in float32 or int8, on the CPU, one thread a stream.

Several threads call an engine at once, each with an inference request of its own, so that no core waits for another at
the end of a layer. Neither torch nor transformers is imported.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from twinvec.engines.base import Batch, FloatArray
from twinvec.engines.processor import available_cores
from twinvec.errors import EngineError, MissingExtraError, ModelIntegrityError
from twinvec.vectors import unit

BATCH_TOKENS = 1024


class OpenVinoEngine:
    """A graph with the outputs ``vectors`` and ``states``.

    Args:
        path: The graph's .xml; its .bin lies beside it.
        precision: Of the graph, for messages.
        dim: Leading dimensions that are kept, if not all.
        normalizes: Whether truncated vectors are normalised again.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelIntegrityError: the graph cannot be read.
    """

    token_budget = BATCH_TOKENS

    def __init__(
        self, path: Path, *, precision: str = "float32", dim: int | None = None, normalizes: bool = False
    ) -> None:
        self.name = f"openvino, cpu, {precision}"
        self.workers = available_cores()
        self._path = path
        self._dim = dim
        self._normalizes = normalizes
        self._vectors = _Requests(path, "vectors", self.workers)
        self._states: _Requests | None = None
        self._loading = threading.Lock()

    def vectors(self, batch: Batch) -> FloatArray:
        vectors_BD = self._vectors.infer(batch, self.name)
        if self._dim is None:
            return vectors_BD
        cut_BD = vectors_BD[:, : self._dim]
        return unit(cut_BD) if self._normalizes else np.ascontiguousarray(cut_BD)

    def states(self, batch: Batch) -> FloatArray:
        with self._loading:
            if self._states is None:
                self._states = _Requests(self._path, "states", self.workers)
        return self._states.infer(batch, self.name)


class OpenVinoScoringEngine:
    """A cross-encoder's graph, with the output ``logits``. Arguments and errors as for ``OpenVinoEngine``."""

    token_budget = BATCH_TOKENS

    def __init__(self, path: Path, *, precision: str = "float32") -> None:
        self.name = f"openvino, cpu, {precision}"
        self.workers = available_cores()
        self._logits = _Requests(path, "logits", self.workers)

    def logits(self, batch: Batch) -> FloatArray:
        return self._logits.infer(batch, self.name)


class _Requests:
    """One output of a graph, compiled for throughput, with a request for each stream."""

    def __init__(self, path: Path, output: str, streams: int) -> None:
        openvino, core = import_openvino(), _core()
        try:
            graph = core.read_model(path)
            only = openvino.Model([graph.output(output)], graph.get_parameters())
            compiled = core.compile_model(
                only,
                "CPU",
                {
                    "NUM_STREAMS": streams,
                    "INFERENCE_NUM_THREADS": streams,
                    "INFERENCE_PRECISION_HINT": "f32",
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
def _core() -> Any:
    """One for the process: it takes half a second."""
    return import_openvino().Core()


def import_openvino() -> Any:
    """The package, or an error that says how to install it."""
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError("openvino", "openvino", "the OpenVINO engine") from error
    return openvino
