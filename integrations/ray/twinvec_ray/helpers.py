"""The helpers of an ingest (``twinvec_qdrant.Helpers``) on a Ray cluster.

The helpers parse files and encode texts. If the collection is on a server, they also cut documents into chunks and
write them. Ray tasks parse; Ray actors do the work that needs a model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import ray

from twinvec.arrays import FloatArray
from twinvec.errors import BadVectorError, InputError, StoreUnavailableError, TwinvecError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant import Collection, Part, PartReport, Writer
from twinvec_ray.calls import with_results
from twinvec_ray.cluster import Plan
from twinvec_ray.pool import BUSY, DIED, Pool
from twinvec_ray.recipes import Recipe, recipe_of

_PART_TEXTS = 64  # number of texts that an encoding worker gets at once
_MOST_LOSSES = 4  # largest number of workers lost while encoding the same texts


class RayHelpers:
    """Helpers on the cluster that this process is connected to; ``close``, or the end of a ``with`` block, ends them.

    Args:
        plan: The number of workers, and the resources of each.
        place: Arguments of ``Collection.open`` with which workers open the collection on a server.
        options: Arguments of ``Encoder`` for the workers, such as its engine.
    """

    def __init__(
        self, plan: Plan, place: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._plan = plan
        self._place = dict(place or {})
        self._options = dict(options or {})
        self._reading: list[Generator[Any]] = []
        self._encoding: dict[str, Pool[Any]] = {}
        self._writing: Pool[Part] | None = None

    def __enter__(self) -> RayHelpers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        for started in self._reading:
            started.close()
        for pool in (*self._encoding.values(), self._writing):
            if pool is not None:
                pool.close()
        self._encoding, self._writing, self._reading = {}, None, []

    def with_results(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yield items in their order; the result of each ``HelperCall``, computed by a task, replaces the call."""
        started = with_results(items, self._plan)
        self._reading.append(started)
        return started

    def encoder(self, encoder: SpaceEncoder) -> SpaceEncoder:
        """Return an encoder that gives the same vectors, and lets the workers encode documents."""
        if encoder.space not in self._encoding:
            self._encoding[encoder.space] = self._pool(EncodingWorker, recipe_of(encoder, self._options))
        return SpreadEncoder(encoder, self._encoding[encoder.space])

    def written(self, parts: Iterator[Part], encoder: SpaceEncoder) -> Iterator[tuple[Part, PartReport | None]]:
        """Let workers write parts; yield each part with its report, or with None if the part must be written again."""
        if self._writing is None:
            recipe = recipe_of(encoder, self._options)
            self._writing = self._pool(WritingWorker, recipe, self._place, busy=StoreUnavailableError)
        for part, result in self._writing.results(parts, lambda actor, part: actor.write.remote(part)):
            if result is BUSY:
                # the server was busy, so this loss does not count against the part
                yield replace(part, losses=part.losses - 1), None
            else:
                yield part, None if result is DIED else result

    def idle(self) -> Sequence[Writer]:
        """Return the processes of the workers that have died or have no part to write."""
        return [] if self._writing is None else [*self._writing.ended, *self._writing.idle()]

    def _pool(self, kind: type, *arguments: Any, busy: type[TwinvecError] | None = None) -> Pool[Any]:
        actor: Callable[..., Any] = ray.remote(kind)
        options = {**self._plan.options, "scheduling_strategy": "SPREAD", "max_restarts": 0}

        def make() -> Any:
            return actor.options(**options).remote(self._plan.threads, *arguments)  # type: ignore[attr-defined]

        return Pool(make, self._plan.least, self._plan.most, self._plan.options, busy)


class EncodingWorker:
    """An actor that encodes."""

    def __init__(self, threads: int, recipe: Recipe) -> None:
        self._threads = threads
        self._recipe = recipe

    def hello(self) -> Writer:
        """Load the model; return the identity of the process."""
        self._encoder: Any = self._recipe.load(self._threads)
        return Writer.this()

    def encode_document(self, texts: list[str]) -> FloatArray:
        """Return vectors, shape (n, dim)."""
        return np.asarray(self._encoder.encode_document(texts), dtype=np.float32)

    def encode_tokens(self, texts: list[str], prompt: str | None) -> list[FloatArray]:
        """Return the token states of each text."""
        return list(self._encoder.encode_tokens(texts, prompt=prompt))


class WritingWorker:
    """An actor that cuts, encodes and commits."""

    def __init__(self, threads: int, recipe: Recipe, place: Mapping[str, Any]) -> None:
        self._threads = threads
        self._recipe = recipe
        self._place = place

    def hello(self) -> Writer:
        """Load the model and open the collection; return the identity of the process."""
        self._collection = Collection.open(**self._place, encoder=self._recipe.load(self._threads), create=False)
        return Writer.this()

    def write(self, part: Part) -> PartReport:
        """Write a part of the ingest."""
        return self._collection.write_part(part)


class SpreadEncoder:
    """An encoder that lets the workers of a pool encode documents. The wrapped encoder does everything else."""

    def __init__(self, encoder: SpaceEncoder, pool: Pool[Any]) -> None:
        self._encoder = encoder
        self._pool = pool
        self._turn = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode_document(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors of documents, shape (n, dim).

        Raise InputError if a text is refused, and EngineError if the workers die or cannot start.
        """
        vectors_ND = np.empty((len(texts), self._encoder.dim), dtype=np.float32)
        with closing(self._spread(texts, lambda actor, part: actor.encode_document.remote(part))) as found:
            for rows, vectors in found:
                if vectors.shape != (len(rows), self._encoder.dim):
                    raise BadVectorError(f"vectors of shape {vectors.shape}, expected {(len(rows), self._encoder.dim)}")
                vectors_ND[rows] = vectors
        return vectors_ND

    def encode_tokens(self, texts: Sequence[str], *, prompt: str | None = None) -> list[FloatArray]:
        """Return the token states of each text."""
        states: list[Any] = [None] * len(texts)
        with closing(self._spread(texts, lambda actor, part: actor.encode_tokens.remote(part, prompt))) as found:
            for rows, part in found:
                for row, each in zip(rows, part, strict=True):
                    states[row] = each
        return states

    def _spread(
        self, texts: Sequence[str], submit: Callable[[Any, list[str]], Any]
    ) -> Generator[tuple[list[int], Any]]:
        """Yield the indices of some texts with a worker's result for these texts, until all texts have a result.

        A worker gets texts of similar length. Other calls of this method wait until the generator is closed.
        """
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        left = [(order[start : start + _PART_TEXTS], 0) for start in range(0, len(order), _PART_TEXTS)]
        with self._turn:
            while left:
                parts, left = iter(left), []
                for (rows, losses), result in self._pool.results(
                    parts, lambda actor, item: submit(actor, [texts[row] for row in item[0]])
                ):
                    if result is not DIED:
                        yield rows, result
                    elif losses < _MOST_LOSSES:
                        left.append((rows, losses + 1))
                    else:
                        raise InputError(f"every process that encoded the text {texts[rows[0]][:60]!r} died")
