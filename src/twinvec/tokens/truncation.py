"""Batches of users' inputs, with progress. Truncation is always counted, and logged once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import ClassVar, TypeVar

import numpy as np

from twinvec.arrays import BoolArray, FloatArray, IntArray
from twinvec.support.checks import check_methods
from twinvec.support.progress import Advance, progress_bar
from twinvec.tokens.batching import Batch
from twinvec.tokens.pipeline import PipelineSettings, run_batches
from twinvec.tokens.tokenizer import TokenIds

Item = TypeVar("Item", str, tuple[str, str])

logger = logging.getLogger(__name__)

_TOKEN_CHARACTERS = 4  # characters of a token in common languages
_INPUT_CHARACTERS = 8  # cost of an input besides its text, for special tokens and padding
_unreported: list[None] = []  # an item for each open block of unreported_truncations, in all threads


def work_of(item: str | tuple[str, ...], max_tokens: int) -> int:
    """Return the work of computing a text or a pair, in characters, without the truncated part."""
    characters = len(item) if isinstance(item, str) else sum(map(len, item))
    return min(characters, _TOKEN_CHARACTERS * max_tokens) + _INPUT_CHARACTERS


class TruncationCounter:
    """Base of the classes that truncate users' texts to ``max_tokens``; ``truncated`` counts them.

    ``_activity``, ``_inputs`` and ``_public_name`` are the words of progress bars and logs: "Encoding", "texts",
    "Encoder". Logs name the public class for its subclasses too.
    """

    name: str
    max_tokens: int
    truncated = 0
    _activity: ClassVar[str]
    _inputs: ClassVar[str]
    _public_name: ClassVar[str]
    _has_warned = False

    def _run_batches(
        self,
        inputs: Sequence[Item],
        tokenize: Callable[[list[Item]], TokenIds],
        compute: Callable[[Batch], FloatArray],
        settings: PipelineSettings,
        progress: bool | Advance,
        on_batch: Callable[[int], None] | None = None,
    ) -> Iterator[tuple[IntArray, IntArray, BoolArray, FloatArray]]:
        """Run ``run_batches``, count the truncated inputs and log at the end how many there are.

        ``progress`` is True to show a bar, or the function that advances a bar whose work ``work_of`` counts.
        """
        if on_batch is not None:
            check_methods(on_batch, ("__call__",), "on_batch", "a function")
        truncated = 0
        work = np.array([work_of(item, self.max_tokens) for item in inputs] if progress else [], dtype=np.int64)

        with (
            nullcontext(progress)
            if callable(progress)
            else progress_bar(self._activity, len(inputs), self._inputs, work=int(work.sum()), shown=progress)
        ) as advance:
            for indices, lengths, truncated_B, result in run_batches(inputs, tokenize, compute, settings):
                truncated += int(truncated_B.sum())
                yield indices, lengths, truncated_B, result
                advance(len(indices), work=int(work[indices].sum()) if progress else None)
                if on_batch is not None:
                    on_batch(len(indices))
        if not truncated:
            return
        self.truncated += truncated
        if _unreported:
            return
        logger.log(
            logging.DEBUG if self._has_warned else logging.WARNING,
            "%d of %d distinct %s exceed the %d-token limit of %s and were truncated (logged once; see %s.truncated)",
            truncated,
            len(inputs),
            self._inputs,
            self.max_tokens,
            self.name,
            self._public_name,
        )
        self._has_warned = True


@contextmanager
def unreported_truncations() -> Iterator[None]:
    """Count the truncations in the block without logging them, so that the first one after the block is logged."""
    _unreported.append(None)
    try:
        yield
    finally:
        _unreported.pop()
