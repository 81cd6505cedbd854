"""What is longer than a model reads is cut: counted always, said once."""

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
    """Base of the classes that users hand texts to.

    Attributes:
        name: The model's.
        max_tokens: Longest input that it reads.
        truncated: How many inputs were cut so far.
    """

    name: str
    max_tokens: int
    truncated = 0
    _told_of_cuts = False

    @contextmanager
    def _counting_cuts(
        self, tokenize: Callable[[list[Item]], TokenIds], total: int, inputs: str
    ) -> Iterator[Callable[[list[Item]], TokenIds]]:
        """``tokenize``, with what it cuts of so many different ``inputs`` counted, and told at the end."""
        cut = 0

        def counted(part: list[Item]) -> TokenIds:
            nonlocal cut
            tokens = tokenize(part)
            cut += tokens.truncated
            return tokens

        yield counted
        if not cut:
            return
        self.truncated += cut
        logger.log(
            logging.DEBUG if self._told_of_cuts else logging.WARNING,
            "%d of %d different %s are longer than the %d tokens that %s reads and were cut there; said once, "
            "later ones are counted (%s.truncated)",
            cut,
            total,
            inputs,
            self.max_tokens,
            self.name,
            type(self).__name__,
        )
        self._told_of_cuts = True


@contextmanager
def unreported_truncations() -> Iterator[None]:
    """Nothing is said of cuts meanwhile; they are counted."""

    def passes(record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING

    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)
