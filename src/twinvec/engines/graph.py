"""Engines that compute a graph made by ``tracing``, in float32 or int8, on the CPU: what the runtimes have in common.

A runtime computes one output of a graph, called by several threads at once, each on a stream of one thread, so that no
core waits for another at the end of a layer. Cutting dimensions is done here. Neither torch nor transformers is
imported.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np

from twinvec.engines.base import Batch, FloatArray
from twinvec.engines.processor import available_cores
from twinvec.vectors import unit

BATCH_TOKENS = 1024


class Runner(ABC):
    """One output of a graph.

    Args:
        path: The graph.
        output: The name of the output; only what it needs is computed, where the runtime can do that.
        streams: From how many threads at once ``infer`` is called.

    Raises:
        MissingExtraError: the runtime is not installed.
        ModelIntegrityError: the graph cannot be read.
    """

    @abstractmethod
    def __init__(self, path: Path, output: str, streams: int) -> None: ...

    @abstractmethod
    def infer(self, batch: Batch, name: str) -> FloatArray:
        """Compute it; ``name`` is the engine's, for the EngineError where that fails."""


class GraphEngine:
    """A graph with the outputs ``vectors`` and ``states``.

    Args:
        path: The graph.
        precision: Of the graph, for messages.
        dim: Leading dimensions that are kept, if not all.
        normalizes: Whether truncated vectors are normalised again.

    Raises:
        MissingExtraError: the runtime is not installed.
        ModelIntegrityError: the graph cannot be read.
    """

    runtime: ClassVar[str]
    runner: ClassVar[type[Runner]]
    token_budget = BATCH_TOKENS

    def __init__(
        self, path: Path, *, precision: str = "float32", dim: int | None = None, normalizes: bool = False
    ) -> None:
        self.name = f"{self.runtime}, cpu, {precision}"
        self.workers = available_cores()
        self._path = path
        self._dim = dim
        self._normalizes = normalizes
        self._vectors = self.runner(path, "vectors", self.workers)
        self._states: Runner | None = None
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
                self._states = self.runner(self._path, "states", self.workers)
        return self._states.infer(batch, self.name)


class GraphScoringEngine:
    """A cross-encoder's graph, with the output ``logits``. Arguments and errors as for ``GraphEngine``."""

    runtime: ClassVar[str]
    runner: ClassVar[type[Runner]]
    token_budget = BATCH_TOKENS

    def __init__(self, path: Path, *, precision: str = "float32") -> None:
        self.name = f"{self.runtime}, cpu, {precision}"
        self.workers = available_cores()
        self._logits = self.runner(path, "logits", self.workers)

    def logits(self, batch: Batch) -> FloatArray:
        return self._logits.infer(batch, self.name)
