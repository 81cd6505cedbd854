"""Subjects of an export: encoders and cross-encoders.

A subject makes the inputs that an int8 graph is calibrated on, and measures the quality of the graph on held-out texts,
through ``Encoder`` and ``CrossEncoderReranker``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.encoder import Encoder
from twinvec.engines.exports import RANGES, ranges_key
from twinvec.engines.loaded_model import LoadedCrossEncoder, LoadedEncoder, load_cross_encoder, load_encoder
from twinvec.engines.runtimes import RuntimeName
from twinvec.export.quantization import cosine_quality, score_quality
from twinvec.export.unusual_texts import UNUSUAL_TEXTS
from twinvec.models.backbone import is_classifier
from twinvec.models.cross_encoder_spec import read_classifier
from twinvec.models.encoder_spec import read_modules, read_spec
from twinvec.models.finding import find_model
from twinvec.models.integrity import read_object
from twinvec.models.space import SPACE_PROBES
from twinvec.rerankers.cross_encoder import CrossEncoderReranker
from twinvec.storage import measure_ranges
from twinvec.tokens.batching import Batch

QUERY_WORDS = 8
"""Number of words that a text is cut to when it serves as a query; most of the users' texts are passages."""

_QUERIES = 200
_PAIR_QUERIES = 20
_PAIR_TEXTS = 50


class EncoderSubject:
    """An encoder to export. In ``ranges`` and ``quality``, ``copy`` is a copy of its folder, with its own graphs."""

    def __init__(self, model: LoadedEncoder) -> None:
        self.model = model
        self.dim = model.spec.dim
        self._exact_vectors: dict[tuple[str, str], FloatArray] = {}

    def calibration(self, texts: Sequence[str]) -> list[Batch]:
        """Return an input for each text, every second one cut to the length of a query, and for each probe text.

        The probe texts widen the calibrated ranges.
        """
        tokenizer, prompts = self.model.tokenizer, self.model.spec.prompts
        query, document = prompts["query"], prompts["document"]
        inputs = [f"{query}{_beginning(text)}" if row % 2 else f"{document}{text}" for row, text in enumerate(texts)]
        tokens = tokenizer.encode([*inputs, *(f"{document}{probe}" for probe in SPACE_PROBES)])
        return [tokens.batch(np.array([row]), tokenizer.pad_id) for row in np.flatnonzero(tokens.lengths)]

    def ranges(self, copy: Path, runtime: RuntimeName, texts: Sequence[str], dims: Sequence[int]) -> dict[str, Any]:
        """Return the value ranges of the vectors, whole and truncated to ``dims``, by the manifest's keys.

        The ranges cover each text without a prompt, and with the default, the query and the document prompt.
        """
        spec = self.model.spec
        default = spec.default_prompt or ""
        prompts = {"": "", **spec.prompts}
        names = {prompts[name]: name for name in ("", default, "query", "document")}  # equal prompts need one pass
        whole_ND = np.concatenate([self._exact(copy, runtime, texts, name) for name in names.values()])
        normalised = unit if spec.normalizes else np.asarray
        truncated = {ranges_key(dim): normalised(whole_ND[:, :dim]) for dim in dims}
        tables = {}
        for key, vectors_ND in {RANGES: whole_ND, **truncated}.items():
            found = measure_ranges(vectors_ND)
            tables[key] = {
                "network": self.model.network,
                "dim": vectors_ND.shape[1],
                "low": found.low_D.tolist(),
                "high": found.high_D.tolist(),
                "texts": len(texts),
            }
        return tables

    def quality(self, copy: Path, runtime: RuntimeName, texts: Sequence[str]) -> dict[str, float]:
        """Return how close the int8 graph of a runtime comes to float32, on ``texts`` and on unusual texts."""
        encoder = Encoder(copy, engine=runtime, precision="int8")
        exact, found = self._exact(copy, runtime, texts), encoder.encode_document(texts)
        quality = cosine_quality(exact, found, min(_QUERIES, len(texts)))
        exact, found = self._exact(copy, runtime, UNUSUAL_TEXTS), encoder.encode_document(UNUSUAL_TEXTS)
        unusual = cosine_quality(exact, found, len(UNUSUAL_TEXTS))
        return quality | {"unusual_mean": unusual["cosine_mean"], "unusual_worst": unusual["cosine_worst"]}

    def _exact(self, copy: Path, runtime: RuntimeName, texts: Sequence[str], prompt: str = "document") -> FloatArray:
        """Return the float32 vectors with a prompt; each text is computed once."""
        new = [(prompt, text) for text in texts if (prompt, text) not in self._exact_vectors]
        encoder = Encoder(copy, engine=runtime, precision="float32")
        self._exact_vectors.update(zip(new, encoder.encode([text for _, text in new], prompt=prompt), strict=True))
        return np.stack([self._exact_vectors[prompt, text] for text in texts])


class CrossEncoderSubject:
    """A cross-encoder to export, with the methods of ``EncoderSubject``; it has no vectors."""

    dim = 0

    def __init__(self, model: LoadedCrossEncoder) -> None:
        self.model = model

    def calibration(self, texts: Sequence[str]) -> list[Batch]:
        """Return pairs to calibrate on: the beginning of a text and, in turn, the text itself or the next text."""
        tokenizer = self.model.tokenizer
        neighbours = pairwise([*texts, texts[0]])
        pairs = [(_beginning(text), other if row % 2 else text) for row, (text, other) in enumerate(neighbours)]
        tokens = tokenizer.encode_pairs([*pairs, *zip(SPACE_PROBES, SPACE_PROBES[3:], strict=False)])
        return [tokens.batch(np.array([row]), tokenizer.pad_id) for row in range(len(tokens.lengths))]

    def ranges(self, copy: Path, runtime: RuntimeName, texts: Sequence[str], dims: Sequence[int]) -> dict[str, Any]:
        return {}

    def quality(self, copy: Path, runtime: RuntimeName, texts: Sequence[str]) -> dict[str, float]:
        queries, candidates = texts[:_PAIR_QUERIES], texts[:_PAIR_TEXTS]
        pairs = [(_beginning(query), text) for query in queries for text in candidates]
        shape = (len(queries), len(candidates))
        exact = CrossEncoderReranker(copy, engine=runtime, precision="float32").score(pairs)
        found = CrossEncoderReranker(copy, engine=runtime, precision="int8").score(pairs)
        return score_quality(exact.reshape(shape), found.reshape(shape))


Subject = EncoderSubject | CrossEncoderSubject
"""A model to export."""


def open_subject(name: str | Path) -> Subject:
    """Find and read a model; raise ModelError if it is damaged, or neither an encoder nor a cross-encoder."""
    found = find_model(name)
    modules = read_modules(found.path)
    if [kind for kind, _ in modules] == ["Transformer"] and is_classifier(read_object(modules[0][1] / "config.json")):
        return CrossEncoderSubject(load_cross_encoder(found, read_classifier(found.path)))
    return EncoderSubject(load_encoder(found, read_spec(found.path)))


def _beginning(text: str) -> str:
    return " ".join(text.split()[:QUERY_WORDS])
