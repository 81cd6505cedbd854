"""Truncation of inputs: always counted, logged once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from twinvec.tokens.tokenizer import TokenIds

Item = TypeVar("Item")

logger = logging.getLogger(__name__)


class TruncationCounter:
    """Base of the classes that truncate users' texts to ``max_tokens``; ``truncated`` counts the inputs so far."""

    name: str
    max_tokens: int
    truncated = 0
    _has_warned = False

    @contextmanager
    def _counting_truncations(
        self, tokenize: Callable[[list[Item]], TokenIds], total: int, inputs: str
    ) -> Iterator[Callable[[list[Item]], TokenIds]]:
        """Wrap ``tokenize``: count the inputs that it truncates, and log at the end how many of ``total`` they are."""
        truncated = 0

        def counting(part: list[Item]) -> TokenIds:
            nonlocal truncated
            tokens = tokenize(part)
            truncated += tokens.truncated
            return tokens

        yield counting
        if not truncated:
            return
        self.truncated += truncated
        logger.log(
            logging.DEBUG if self._has_warned else logging.WARNING,
            "%d of %d distinct %s exceed the %d-token limit of %s and were truncated (logged once; see %s.truncated)",
            truncated,
            total,
            inputs,
            self.max_tokens,
            self.name,
            type(self).__name__,
        )
        self._has_warned = True


@contextmanager
def unreported_truncations() -> Iterator[None]:
    """Count truncations without logging them."""

    def is_severe(record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING

    logger.addFilter(is_severe)
    try:
        yield
    finally:
        logger.removeFilter(is_severe)
