"""A model that embeds for many requests at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from twinvec import Encoder
from twinvec.arrays import BoolArray, FloatArray, IntArray, unit
from twinvec.engines import Precision
from twinvec.tokens.truncation import unreported_truncations
from twinvec_serve.errors import RequestError
from twinvec_serve.models.batching import Batches
from twinvec_serve.models.waiting_room import WaitingRoom
from twinvec_serve.observing.metrics import Metrics

Kind = Literal["document", "query"]
"""The kind of a text. The model puts its prompt for this kind before the text."""

_WARM_UP = ("a", "the first texts of a process take longer " * 8)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Vectors of texts, float32 of shape (n, dim), and the numbers of tokens read and of texts truncated."""

    vectors_ND: FloatArray
    tokens: int
    truncated: int


class CountingEncoder(Encoder):
    """An encoder that counts the queries of searches in the metrics, under the model's name on the server.

    Each search encodes its query in its own thread, as a batch of its own. In the batches of ``EmbeddingModel``, the
    query would wait for large requests.
    """

    def __init__(self, model: str, name: str, metrics: Metrics, *, precision: Precision) -> None:
        super().__init__(model, precision=precision)
        self._served_name = name
        self._metrics = metrics

    def encode_query(self, texts: str | Sequence[str], **options: Any) -> Any:
        """Return the vectors of queries, as ``Encoder`` does. A list of queries without options is counted."""
        if isinstance(texts, str) or options:
            return super().encode_query(texts, **options)
        vectors_ND, tokens_N, _ = self.encode_counted(texts, prompt="query")
        tokens = int(tokens_N.sum())
        self._metrics.batch(len(texts), tokens)
        self._metrics.tokens(self._served_name, tokens)
        return vectors_ND


class EmbeddingModel:
    """One loaded encoder, which computes the texts of all requests in common batches."""

    def __init__(self, encoder: Encoder, room: WaitingRoom, metrics: Metrics) -> None:
        self.encoder = encoder
        prompts = encoder.prompts
        documents = Batches(partial(self._compute, "document"), encoder.max_tokens, room, metrics)
        queries = documents  # the same batches, if the prompts are equal
        if prompts["query"] != prompts["document"]:
            queries = Batches(partial(self._compute, "query"), encoder.max_tokens, room, metrics)
        self._batches: dict[Kind, Batches[str, FloatArray]] = {"document": documents, "query": queries}
        with unreported_truncations():  # warm-up texts are not the user's
            for text in _WARM_UP:
                encoder.encode([text])

    async def encode(self, texts: Sequence[str], kind: Kind, dimensions: int | None) -> Encoded:
        """Return the vectors of checked texts, truncated to ``dimensions``."""
        if dimensions is not None and not 1 <= dimensions <= self.encoder.dim:
            raise RequestError(
                f"dimensions must lie between 1 and {self.encoder.dim}, got {dimensions}",
                param="dimensions",
                code="invalid_input",
            )
        vectors, tokens, truncated = await self._batches[kind](texts)
        vectors_ND = np.stack(vectors) if vectors else np.empty((0, self.encoder.dim), "f4")
        if dimensions is not None and dimensions < self.encoder.dim:
            vectors_ND = np.ascontiguousarray(vectors_ND[:, :dimensions])
            vectors_ND = unit(vectors_ND) if self.encoder.normalizes else vectors_ND
        return Encoded(vectors_ND, tokens, truncated)

    def close(self) -> None:
        """Finish the batches under way; blocks until then."""
        for batches in self._batches.values():
            batches.close()

    def _compute(self, kind: Kind, texts: list[str]) -> tuple[list[FloatArray], IntArray, BoolArray]:
        vectors_ND, tokens_N, truncated_N = self.encoder.encode_counted(texts, prompt=kind)
        return list(vectors_ND), tokens_N, truncated_N
