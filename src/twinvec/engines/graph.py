"""Engines that compute a graph made by ``tracing``, of float32 or int8, on the CPU: what the runtimes have in common.

A runtime computes one output of a graph. Where there are many batches, it is called by several threads at once, each on
a stream of one thread, so that no core waits for another at the end of a layer. A batch that is alone, such as a single
query, is computed by all cores. Cutting dimensions is done here. Neither torch nor transformers is imported.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.engines.cpu import available_cores
from twinvec.tokens.batching import Batch

BATCH_TOKENS = 1024


class Runner(ABC):
    """One output of a graph.

    Args:
        path: The graph.
        output: The name of the output; only what it needs is computed, where the runtime can do that.
        precision: What it is computed in: its own, or bfloat16, a graph of float32 where the runtime can do that.
        streams: From how many threads at once ``infer`` is called.
        threads: How many cores compute one call.

    Raises:
        MissingExtraError: the runtime is not installed.
        ModelIntegrityError: the graph cannot be read.
    """

    @abstractmethod
    def __init__(self, path: Path, output: str, precision: str, streams: int, threads: int) -> None: ...

    @abstractmethod
    def infer(self, batch: Batch, name: str) -> FloatArray:
        """Compute it; ``name`` is the engine's, for the EngineError where that fails."""


class _Graph:
    """A graph with its runners, loaded when they are first needed.

    Args:
        path: The graph.
        precision: What it is computed in.
    """

    runtime: ClassVar[str]
    runner: ClassVar[type[Runner]]
    token_budget = BATCH_TOKENS

    def __init__(self, path: Path, precision: str) -> None:
        self.name = f"{self.runtime}, cpu, {precision}"
        self.workers = available_cores()
        self._path = path
        self._precision = precision
        self._runners: dict[tuple[str, bool], Runner] = {}
        self._loading = threading.Lock()
        self._alone = threading.Lock()

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
                    self._runners[output, alone] = self.runner(self._path, output, self._precision, streams, threads)
        return self._runners[output, alone]


class GraphEngine(_Graph):
    """A graph with the outputs ``vectors`` and ``states``.

    Args:
        path: The graph.
        precision: What it is computed in: "float32", "int8" or "bfloat16".
        dim: Leading dimensions that are kept, if not all.
        normalizes: Whether truncated vectors are normalised again.

    Raises:
        MissingExtraError: the runtime is not installed.
        ModelIntegrityError: the graph cannot be read.
    """

    def __init__(
        self, path: Path, *, precision: str = "float32", dim: int | None = None, normalizes: bool = False
    ) -> None:
        super().__init__(path, precision)
        self._dim = dim
        self._normalizes = normalizes
        self._runner("vectors", alone=self.workers > 1)  # now, so that a graph that is none is refused at once

    def vectors(self, batch: Batch) -> FloatArray:
        vectors_BD = self._infer("vectors", batch)
        if self._dim is None:
            return vectors_BD
        cut_BD = vectors_BD[:, : self._dim]
        return unit(cut_BD) if self._normalizes else np.ascontiguousarray(cut_BD)

    def states(self, batch: Batch) -> FloatArray:
        return self._infer("states", batch)


class GraphScoringEngine(_Graph):
    """A cross-encoder's graph, with the output ``logits``. Arguments and errors as for ``GraphEngine``."""

    def __init__(self, path: Path, *, precision: str = "float32") -> None:
        super().__init__(path, precision)
        self._runner("logits", alone=False)

    def logits(self, batch: Batch) -> FloatArray:
        return self._infer("logits", batch)
