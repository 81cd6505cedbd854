"""Reranking by a cross-encoder: a trained model that reads query and text together and scores the pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.arrays import BoolArray, FloatArray, IntArray
from twinvec.engines import EngineName, Precision
from twinvec.engines.base import check_finite
from twinvec.engines.loaded_model import load_cross_encoder
from twinvec.engines.multi_device import check_devices
from twinvec.engines.select import EngineChoice, load_scoring_engine
from twinvec.errors import InputError
from twinvec.models.cross_encoder_spec import read_classifier
from twinvec.models.finding import find_model
from twinvec.rerankers.hit_lists import as_list, checked_hit_lists, reordered
from twinvec.retrieval.base import Hit
from twinvec.retrieval.retrieve_rerank import BatchReranker
from twinvec.support.checks import integer
from twinvec.text import check_text
from twinvec.tokens.pipeline import PipelineSettings, distinct
from twinvec.tokens.tokenizer import TextTokenizer
from twinvec.tokens.truncation import TruncationCounter


class CrossEncoderReranker(TruncationCounter, BatchReranker):
    """A cross-encoder in sentence-transformers' CrossEncoder format: one score for each pair of query and text.

    Scores equal those of ``CrossEncoder.predict``: the logit through the model's activation (default: the sigmoid).
    ``engine``, ``device``, ``devices`` and ``precision`` are as for ``Encoder``.

    Args:
        model: A folder or a hub name, as for ``Encoder``; the model has one label.
        token_budget: Largest padded size of a batch, in tokens (default: the engine's budget).
        max_tokens: Truncate longer pairs, the longer side first, to this many tokens (default: the model's limit).

    Attributes:
        name: Name that finds the same model again; the name of a hub model includes its commit.
        truncated: Number of pairs truncated so far; a pair counts once in a call.

    Raises:
        ModelError: the model is not found, damaged, or not a cross-encoder with one label.
        ConfigurationError: an argument is invalid.
    """

    stage = "cross-encoder"
    _activity, _inputs, _public_name = "Reranking", "pairs", "CrossEncoderReranker"

    def __init__(
        self,
        model: str | Path,
        *,
        engine: EngineName = "auto",
        device: str | None = None,
        devices: Sequence[str] | None = None,
        precision: Precision = "auto",
        token_budget: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self._choice = EngineChoice(engine, device, precision, check_devices(device, devices))
        if token_budget is not None:
            integer(token_budget, "token_budget", least=1)
        found = find_model(model)
        spec = read_classifier(found.path).with_max_tokens(max_tokens)
        self.name = found.name
        self._token_budget = token_budget
        self._model = load_cross_encoder(found, spec)
        self.engine = load_scoring_engine(self._choice, self._model)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the engine: a copy, also in another process, loads its own."""
        return {name: value for name, value in vars(self).items() if name != "engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.engine = load_scoring_engine(self._choice, self._model)

    def __repr__(self) -> str:
        return f"CrossEncoderReranker({self.name!r}, max_tokens={self.max_tokens})"

    @property
    def max_tokens(self) -> int:  # type: ignore[override]  # read-only, unlike that of the base class
        """Longest pair in tokens, special tokens included."""
        return self._model.spec.max_tokens

    @property
    def tokenizer(self) -> TextTokenizer:
        """The model's tokenizer."""
        return self._model.tokenizer

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the scores of pairs (query, text), float32 of shape (n,). A repeated pair is computed once.

        Raises:
            TextError: a text is invalid; the error names its index.
            InputError: ``pairs`` is not a list, or an item is not a pair.
            BadVectorError: the engine returned a score that is not finite.
            ModelIntegrityError: the tokenizer gave a token for which the model has no embedding.
        """
        return self._score(_checked_pairs(pairs))[0]

    def logits(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the scores of pairs before the activation: float32 of shape (n,). Errors are those of ``score``."""
        return self._score(_checked_pairs(pairs), activate=lambda logits: logits)[0]

    def relevance_counted(self, pairs: Sequence[tuple[str, str]]) -> tuple[FloatArray, IntArray, BoolArray]:
        """Return three arrays of shape (n,): the relevance of each pair, its number of tokens, whether it is truncated.

        The relevance is the logistic function of the logit. Tokens are counted after truncation. The errors
        are those of ``score``.
        """
        scores, tokens, truncated = self._score(_checked_pairs(pairs))
        return self._model.spec.probabilities(scores), tokens, truncated

    def rerank_many(
        self,
        queries: Sequence[str],
        hits_lists: Sequence[Sequence[Hit]],
        limit: int | None = None,
        *,
        progress: bool = False,
    ) -> list[list[Hit]]:
        """Rerank the hits of each query; a batch may hold pairs of several queries.

        The relevance of a hit is the logistic function of the logit.
        """
        queries, lists = checked_hit_lists(queries, hits_lists, limit)
        pairs = [(query, hit.text) for query, hits in zip(queries, lists, strict=True) for hit in hits]
        parts = np.split(self._score(pairs, progress)[0], np.cumsum([len(hits) for hits in lists], dtype=np.int64))[:-1]
        found = [self._model.spec.probabilities(part).tolist() for part in parts]
        return [
            reordered(hits, self.stage, part, part, limit, [round(each, 4) for each in relevance])
            for hits, part, relevance in zip(lists, parts, found, strict=True)
        ]

    def _score(
        self,
        pairs: list[tuple[str, str]],
        progress: bool = False,
        activate: Callable[[FloatArray], FloatArray] | None = None,
    ) -> tuple[FloatArray, IntArray, BoolArray]:
        unique, inverse = distinct(pairs)
        scores = np.empty(len(unique), dtype=np.float32)
        tokens = np.empty(len(unique), dtype=np.int64)
        truncated = np.zeros(len(unique), dtype=np.bool_)
        budget = self._token_budget or self.engine.token_budget
        activate, tokenizer = activate or self._model.spec.activate, self._model.tokenizer
        settings = PipelineSettings(budget, self.engine.workers, tokenizer.pad_id)
        for indices, lengths, truncated_B, logits_BL in self._run_batches(
            unique, tokenizer.encode_pairs, self.engine.logits, settings, progress
        ):
            scores[indices] = activate(logits_BL[:, 0])
            tokens[indices] = lengths
            truncated[indices] = truncated_B
        return check_finite(scores, self.engine.name, "score")[inverse], tokens[inverse], truncated[inverse]


def _checked_pairs(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    checked = []
    for index, pair in enumerate(as_list(pairs, "pairs")):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"pair {index}: expected (query, text), got {type(pair).__name__}")
        query, text = pair
        checked.append((check_text(query, f"pair {index}: query"), check_text(text, f"pair {index}: text")))
    return checked
