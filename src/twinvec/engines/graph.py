"""Engines that compute a float32 or int8 graph on the CPU, without torch; the base of the OpenVINO and ONNX engines.

For many batches, several threads call the runtime at once, each on one core, so that no core waits for another at the
end of a layer. A single batch, such as a query, is computed by all cores. Vectors are truncated here.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.support.cpu import available_cores
from twinvec.support.locks import ThreadLock
from twinvec.tokens.batching import Batch


class Runner(ABC):
    """One output of a graph, computed by a runtime, which may prune the rest of the graph.

    ``precision`` is the precision of the graph, or bfloat16 for a float32 graph. ``streams`` threads call ``infer`` at
    once, each on ``threads`` cores. ``Runner(...)`` raises MissingExtraError if the runtime is missing, and
    ModelIntegrityError if the graph is damaged.
    """

    runtime: ClassVar[str]

    @abstractmethod
    def __init__(self, path: Path, precision: str, output: str, streams: int, threads: int) -> None: ...

    @abstractmethod
    def infer(self, batch: Batch, name: str) -> FloatArray:
        """Compute the output for a batch; the message of an EngineError begins with ``name``, the engine's name."""


class GraphEngine:
    """A graph with the outputs ``vectors`` and ``states``, or ``logits``; raises as ``Runner``.

    ``output`` names the output that is loaded at once; the others are loaded at first use. ``precision`` is "float32",
    "int8" or "bfloat16". Vectors are truncated to ``dim`` dimensions (None keeps all) and then, with ``normalizes``,
    normalised again.
    """

    token_budget = 1024

    def __init__(
        self,
        runner: type[Runner],
        path: Path,
        output: str = "vectors",
        *,
        precision: str = "float32",
        dim: int | None = None,
        normalizes: bool = False,
    ) -> None:
        self.name = f"{runner.runtime}, cpu, {precision}"
        self.workers = available_cores()
        self._load = partial(runner, path, precision)
        self._dim = dim
        self._normalizes = normalizes
        self._runners: dict[tuple[str, bool], Runner] = {}
        self._loading = ThreadLock(f"engine {self.name}", "loaded a model")
        self._alone = threading.Lock()
        # loads the graph, so that a damaged file fails here
        self._runner(output, alone=output == "vectors" and self.workers > 1)

    def vectors(self, batch: Batch) -> FloatArray:
        vectors_BD = self._infer("vectors", batch)
        if self._dim is None:
            return vectors_BD
        truncated_BD = vectors_BD[:, : self._dim]
        return unit(truncated_BD) if self._normalizes else np.ascontiguousarray(truncated_BD)

    def states(self, batch: Batch) -> FloatArray:
        return self._infer("states", batch)

    def logits(self, batch: Batch) -> FloatArray:
        return self._infer("logits", batch)

    def _infer(self, output: str, batch: Batch) -> FloatArray:
        if batch.alone and self.workers > 1 and self._alone.acquire(blocking=False):
            try:
                return self._runner(output, alone=True).infer(batch, self.name)
            finally:
                self._alone.release()
        return self._runner(output, alone=False).infer(batch, self.name)

    def _runner(self, output: str, *, alone: bool) -> Runner:
        if (output, alone) not in self._runners:
            with self._loading:
                if (output, alone) not in self._runners:
                    streams, threads = (1, self.workers) if alone else (self.workers, 1)
                    self._runners[output, alone] = self._load(output, streams, threads)
        return self._runners[output, alone]
