"""Rerankers: the candidates of a first stage, scored again by looking at query and text together.

``MaxSimReranker`` needs no further model: it compares the token states of the encoder that found the candidates.
``CrossEncoderReranker`` runs a trained cross-encoder over each pair. Both give new hits, keep the scores of all
earlier stages, and take many queries at once, so that batches are full and a text is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.engines.base import ScoringEngine
from twinvec.engines.multi_device import ProcessesScoringEngine, check_devices
from twinvec.engines.select import EngineChoice, EngineName, Precision, load_scoring_engine
from twinvec.errors import BadVectorError, InputError
from twinvec.models.cross_encoder_spec import ClassifierSpec, read_classifier
from twinvec.models.finding import find_model
from twinvec.rerankers.hit_lists import as_list, checked_hit_lists, reordered
from twinvec.retrieval.base import Hit
from twinvec.support.checks import integer
from twinvec.support.progress import progress_bar
from twinvec.text import check_text
from twinvec.tokens.pipeline import run_batches
from twinvec.tokens.tokenizer import TextTokenizer
from twinvec.tokens.truncation import TruncationCounter


class CrossEncoderReranker(TruncationCounter):
    """A cross-encoder in sentence-transformers' CrossEncoder format: one score for each pair of query and text.

    Scores are those of ``CrossEncoder.predict``: the logit through the activation that the model states, the
    sigmoid unless it states one.

    Args:
        model: A folder or a hub name, as for ``Encoder``; the model has one label.
        engine: As for ``Encoder``.
        device: As for ``Encoder``.
        devices: As for ``Encoder``.
        precision: As for ``Encoder``.
        token_budget: Largest padded size of a batch, in tokens; the engine's own unless given.
        max_tokens: Cut longer pairs here, in place of the model's own limit; the longer side is cut first.

    Attributes:
        name: The name that finds the same model again; hub models carry their commit.
        max_tokens: Longest pair in tokens, special tokens included.
        truncated: How many pairs this reranker has cut so far; one that comes several times in a call counts once.

    Raises:
        ModelError: the model is not found, damaged, or not a cross-encoder with one label.
        ConfigurationError: an argument that cannot work.
    """

    stage = "cross-encoder"

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
        wanted = EngineChoice(engine, device, precision)
        several = check_devices(device, devices)
        if token_budget is not None:
            integer(token_budget, "token_budget", least=1)
        found = find_model(model)
        spec = read_classifier(found.path).override(max_tokens)
        self.name = found.name
        self.max_tokens = spec.max_tokens
        self._activate = spec.activate
        self._tokenizer = TextTokenizer(spec.folder, spec.max_tokens, lower_case=spec.lower_case)
        self._load = partial(_load, wanted, found.path, spec, self._tokenizer)
        self._device, self._devices = device, several
        self._token_budget = token_budget
        self.engine = self._load_engine()

    def __getstate__(self) -> dict[str, Any]:
        """Without the engine: a copy, in another process too, loads its own."""
        return {name: value for name, value in vars(self).items() if name != "engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.engine = self._load_engine()

    def _load_engine(self) -> ScoringEngine:
        if self._devices is None:
            return self._load(self._device)
        return ProcessesScoringEngine(self._load, self._devices)

    def __repr__(self) -> str:
        return f"CrossEncoderReranker({self.name!r}, max_tokens={self.max_tokens})"

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Scores of pairs (query, text), in their order, float32 of shape (n,). A pair that comes twice costs once.

        Raises:
            TextError: a text is refused by the input gate; named by its index.
            InputError: a pair is no pair, or ``pairs`` no list.
            BadVectorError: the engine gave a score that is not finite.
        """
        checked = [_checked_pair(pair, index) for index, pair in enumerate(as_list(pairs, "pairs"))]
        return self._score(checked)

    def rerank(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        """New hits, best first, with "cross-encoder" among their scores, which is also their ``score``.

        Raises:
            TextError: the query or a hit's text is refused by the input gate.
            ConfigurationError: a limit below 1.
        """
        return self.rerank_many([query], [hits], limit)[0]

    def rerank_many(
        self,
        queries: Sequence[str],
        hits_lists: Sequence[Sequence[Hit]],
        limit: int | None = None,
        *,
        progress: bool = False,
    ) -> list[list[Hit]]:
        """``rerank`` for many queries, in batches over the pairs of all of them."""
        queries, lists = checked_hit_lists(queries, hits_lists, limit)
        pairs = [(query, hit.text) for query, hits in zip(queries, lists, strict=True) for hit in hits]
        scores = self._score(pairs, progress)
        ends = np.cumsum([len(hits) for hits in lists])
        return [
            reordered(hits, self.stage, scores[end - len(hits) : end], scores[end - len(hits) : end], limit)
            for hits, end in zip(lists, ends, strict=True)
        ]

    def _score(self, pairs: list[tuple[str, str]], progress: bool = False) -> FloatArray:
        unique = list(dict.fromkeys(pairs))
        scores = np.empty(len(unique), dtype=np.float32)
        with (
            self._counting_cuts(self._tokenizer.encode_pairs, len(unique), "pairs") as tokenize,
            progress_bar("Reranking", len(unique), "pairs", shown=progress) as advance,
        ):
            batches = run_batches(
                unique,
                tokenize,
                self.engine.logits,
                token_budget=self._token_budget or self.engine.token_budget,
                workers=self.engine.workers,
                pad_id=self._tokenizer.pad_id,
            )
            for indices, _, logits_BL in batches:
                scores[indices] = self._activate(logits_BL[:, 0])
                advance(len(indices))
        if not np.isfinite(scores).all():
            raise BadVectorError(f"engine {self.engine.name}: a score is not finite")
        where = {pair: index for index, pair in enumerate(unique)}
        return scores[[where[pair] for pair in pairs]]


def _load(
    wanted: EngineChoice, root: Path, spec: ClassifierSpec, tokenizer: TextTokenizer, device: str | None
) -> ScoringEngine:
    return load_scoring_engine(replace(wanted, device=device), root, spec, tokenizer)


def _checked_pair(pair: object, index: int) -> tuple[str, str]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"pair {index}: expected (query, text), got {type(pair).__name__}")
    first, second = pair
    return check_text(first, f"pair {index}: query"), check_text(second, f"pair {index}: text")
