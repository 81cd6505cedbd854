"""What can be exported: encoders and cross-encoders.

Each knows its float32 graph, what to calibrate an int8 one on, and how to measure what became of it: through the
classes that users call, on texts that had no part in the calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.encoder import Encoder
from twinvec.engines.exports import RANGES, ranges_key
from twinvec.engines.graph_cache import CachedGraph, classifier_graph, encoder_graph
from twinvec.engines.runtimes import RuntimeName
from twinvec.export.quantization import cosine_quality, score_quality
from twinvec.models.cross_encoder_spec import read_classifier
from twinvec.models.encoder_spec import read_modules, read_spec
from twinvec.models.integrity import read_object
from twinvec.models.space import SPACE_PROBES, classifier_digest, graph_digest, network_digest
from twinvec.rerankers.cross_encoder import CrossEncoderReranker
from twinvec.storage import measure_ranges
from twinvec.tokens.batching import Batch
from twinvec.tokens.tokenizer import TextTokenizer

QUERY_WORDS = 8
"""What is taken of a text to stand for a query: users' texts are mostly passages."""

_QUERIES = 200
_PAIR_QUERIES = 20
_PAIR_TEXTS = 50


class Exportable(Protocol):
    """A model of either kind.

    Attributes:
        root: The model's folder.
        folder: Where the backbone lies.
        digest: Of what its graph computes.
        tokenizer: The model's.
        dim: Size of its vectors; 0 where it makes none.
    """

    root: Path
    folder: Path
    digest: str
    tokenizer: TextTokenizer
    dim: int

    def graph(self, runtime: RuntimeName) -> CachedGraph:
        """Its float32 graph for a runtime."""
        ...

    def calibration(self, texts: Sequence[str]) -> list[Batch]:
        """One input for each text."""
        ...

    def ranges(self, copy: Path, runtime: RuntimeName, texts: Sequence[str], dims: Sequence[int]) -> dict[str, Any]:
        """The ranges of its vectors, whole and cut to ``dims``, by the manifest's keys; none without vectors.

        ``copy`` is a copy of the model's folder whose exports are all of what the model computes now.
        """
        ...

    def quality(self, copy: Path, runtime: RuntimeName, texts: Sequence[str]) -> dict[str, float]:
        """How near the int8 export for a runtime in such a copy comes to float32."""
        ...


def open_exportable(root: Path) -> Exportable:
    """The model in a folder.

    Raises:
        ModelError: it is neither an encoder nor a cross-encoder that can be used.
    """
    config = read_object(read_modules(root)[0][1] / "config.json")
    architectures = config.get("architectures") or ()
    pairs = any(str(name).endswith("ForSequenceClassification") for name in architectures)
    if pairs and [kind for kind, _ in read_modules(root)] == ["Transformer"]:
        return _CrossEncoder(root)
    return _BiEncoder(root)


class _BiEncoder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._spec = read_spec(root)
        self._network = network_digest(self._spec)
        self._known: dict[str, FloatArray] = {}
        self.dim = self._spec.dim
        self.folder = self._spec.folder
        self.digest = graph_digest(self._spec, self._network)
        self.tokenizer = TextTokenizer(self.folder, self._spec.max_tokens, lower_case=self._spec.lower_case)

    def graph(self, runtime: RuntimeName) -> CachedGraph:
        return encoder_graph(runtime, self._spec, self.tokenizer, self.digest)

    def calibration(self, texts: Sequence[str]) -> list[Batch]:
        """Every other text as a query, and texts of all kinds, so that nothing is far outside the ranges."""
        query, document = self._spec.prompts["query"], self._spec.prompts["document"]
        inputs = [f"{query}{_beginning(text)}" if row % 2 else f"{document}{text}" for row, text in enumerate(texts)]
        tokens = self.tokenizer.encode([*inputs, *(f"{document}{probe}" for probe in SPACE_PROBES)])
        return [tokens.batch(np.array([row]), self.tokenizer.pad_id) for row in np.flatnonzero(tokens.lengths)]

    def ranges(self, copy: Path, runtime: RuntimeName, texts: Sequence[str], dims: Sequence[int]) -> dict[str, Any]:
        whole_ND = self._exact(copy, runtime, texts)
        tables = {RANGES: self._ranges(whole_ND)}
        for dim in dims:
            cut_ND = whole_ND[:, :dim]
            tables[ranges_key(dim)] = self._ranges(unit(cut_ND) if self._spec.normalizes else cut_ND)
        return tables

    def _ranges(self, vectors_ND: FloatArray) -> dict[str, Any]:
        found = measure_ranges(vectors_ND)
        return {
            "network": self._network,
            "dim": vectors_ND.shape[1],
            "low": found.low_D.tolist(),
            "high": found.high_D.tolist(),
            "texts": len(vectors_ND),
        }

    def quality(self, copy: Path, runtime: RuntimeName, texts: Sequence[str]) -> dict[str, float]:
        found = Encoder(copy, engine=runtime, precision="int8").encode_document(texts)
        return cosine_quality(self._exact(copy, runtime, texts), found, min(_QUERIES, len(texts)))

    def _exact(self, copy: Path, runtime: RuntimeName, texts: Sequence[str]) -> FloatArray:
        """The vectors of float32, each text computed once."""
        new = [text for text in texts if text not in self._known]
        encoder = Encoder(copy, engine=runtime, precision="float32")
        self._known.update(zip(new, encoder.encode_document(new), strict=True))
        return np.stack([self._known[text] for text in texts])


class _CrossEncoder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._spec = read_classifier(root)
        self.dim = 0
        self.folder = self._spec.folder
        self.digest = classifier_digest(self._spec)
        self.tokenizer = TextTokenizer(self.folder, self._spec.max_tokens, lower_case=self._spec.lower_case)

    def graph(self, runtime: RuntimeName) -> CachedGraph:
        return classifier_graph(runtime, self._spec, self.tokenizer, self.digest)

    def calibration(self, texts: Sequence[str]) -> list[Batch]:
        """Beginnings of texts with their own text and with another's, in turn."""
        neighbours = pairwise([*texts, texts[0]])
        pairs = [(_beginning(text), other if row % 2 else text) for row, (text, other) in enumerate(neighbours)]
        tokens = self.tokenizer.encode_pairs([*pairs, *zip(SPACE_PROBES, SPACE_PROBES[3:], strict=False)])
        return [tokens.batch(np.array([row]), self.tokenizer.pad_id) for row in range(len(tokens.lengths))]

    def ranges(self, copy: Path, runtime: RuntimeName, texts: Sequence[str], dims: Sequence[int]) -> dict[str, Any]:
        return {}

    def quality(self, copy: Path, runtime: RuntimeName, texts: Sequence[str]) -> dict[str, float]:
        queries, candidates = texts[:_PAIR_QUERIES], texts[:_PAIR_TEXTS]
        pairs = [(_beginning(query), text) for query in queries for text in candidates]
        shape = (len(queries), len(candidates))
        exact = CrossEncoderReranker(copy, engine=runtime, precision="float32").score(pairs)
        found = CrossEncoderReranker(copy, engine=runtime, precision="int8").score(pairs)
        return score_quality(exact.reshape(shape), found.reshape(shape))


def _beginning(text: str) -> str:
    return " ".join(text.split()[:QUERY_WORDS])
