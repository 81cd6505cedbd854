"""Warns once in a training run that texts are truncated."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

logger = logging.getLogger(__name__)


class TruncationNotice:
    """Checks the inputs of a SentenceTransformer or CrossEncoder, and warns of the first truncated ones."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._said = False

    def warn_if_truncated(
        self, inputs: Sequence[str] | Sequence[tuple[str, str]], features: dict[str, Any], prompt: str
    ) -> None:
        """Warn if the model truncated ``inputs``, given their ``features``; ``prompt`` was put before each input."""
        if self._said:
            return
        limit = self._model.max_seq_length
        # an input shorter than the limit is not truncated, so few inputs are tokenized again
        full = [each for each, tokens in zip(inputs, features["attention_mask"].sum(1), strict=True) if tokens >= limit]
        if not full:
            return
        pairs = not isinstance(full[0], str)
        columns = list(map(list, zip(*full, strict=True))) if pairs else [[f"{prompt}{text}" for text in full]]
        whole = self._model.tokenizer(*columns, truncation=False, verbose=False)["input_ids"]
        if longer := sum(len(ids) > limit for ids in whole):
            self._said = True
            logger.warning(
                "%d of %d %s of a batch exceed the %d-token limit of the model and are truncated (logged once; "
                "max_tokens in the configuration sets the limit)",
                longer,
                len(inputs),
                "pairs" if pairs else "texts",
                limit,
            )
