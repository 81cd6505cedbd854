"""Draws batches without equal texts from weighted datasets. The same data, seed and epoch give the same batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np
import numpy.typing as npt

from twinvec.errors import ConfigurationError

logger = logging.getLogger(__name__)

_TEXTS = ("anchors", "positives")


def dataset_weights(
    sizes: Sequence[int], *, power: float = 1.0, cap: int | None = None, given: Sequence[float] | None = None
) -> npt.NDArray[np.float64]:
    """Return the share of each dataset; the shares sum to 1.

    They are proportional to ``given``, or to min(size, ``cap``) ** ``power`` if ``given`` is None.
    """
    counted = np.minimum(sizes, cap) if cap is not None else np.array(sizes)
    weights = np.array(given, dtype=np.float64) if given is not None else counted.astype(np.float64) ** power
    if len(weights) != len(sizes) or not np.isfinite(weights).all() or (weights <= 0).any():
        raise ConfigurationError(
            f"expected {len(sizes)} positive weights, one for each dataset, got {weights.tolist()}"
        )
    normalised: npt.NDArray[np.float64] = weights / weights.sum()
    return normalised


@dataclass(eq=False)
class BatchPlan:
    """A batch sampler for a data loader: yields lists of row numbers, counted through all datasets in order.

    An epoch has (rows of all datasets) / (rows of a batch) batches, rounded up.

    Attributes:
        hashes: For each dataset, the hashes of the texts of its rows: (rows, texts).
        batch_size: Largest number of rows of a batch.
        weights: Share of each dataset. Smooth weighted round-robin chooses datasets, so any stretch of batches keeps
            the shares.
        datasets: Number of datasets that a batch draws equal parts from.
        unique_texts: Let no text occur twice in a batch. A row that would repeat a text waits for the next batch, and
            may be left out of the epoch.
        epoch: The epoch that the next iteration draws.
        names: Names of the datasets, for warnings.
        drawn: Number of rows of each batch that the last iteration has drawn.
    """

    hashes: Sequence[npt.NDArray[np.int64]]
    batch_size: int
    _: KW_ONLY
    weights: npt.NDArray[np.float64]
    datasets: int = 1
    unique_texts: bool = True
    seed: int = 0
    epoch: int = 0
    names: Sequence[str] = ()
    drop_last = False  # data loaders read this attribute of a batch sampler

    def __post_init__(self) -> None:
        if not 1 <= self.datasets <= len(self.hashes):
            raise ConfigurationError(f"datasets must lie between 1 and {len(self.hashes)}, got {self.datasets}")
        if self.batch_size < self.datasets:
            raise ConfigurationError(
                f"batch_size must be at least {self.datasets}, a row for each dataset of a batch, got {self.batch_size}"
            )
        self._has_warned = False
        self.drawn: list[int] = []
        self._offsets = np.cumsum([0, *(len(rows) for rows in self.hashes)])

    def __len__(self) -> int:
        return -(-int(self._offsets[-1]) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        alone = len(self.hashes) == 1
        self.drawn = []
        streams = [_Stream(len(rows), (self.seed, self.epoch, index)) for index, rows in enumerate(self.hashes)]
        for chosen in self._turns():
            seen: set[int] = set()
            batch: list[int] = []
            for place, index in enumerate(chosen):
                # the first datasets take the remainder
                wanted = self.batch_size // len(chosen) + (place < self.batch_size % len(chosen))
                rows = streams[index].take(wanted, self.hashes[index] if self.unique_texts else None, seen, once=alone)
                batch.extend(int(self._offsets[index]) + row for row in rows)
            self.drawn.append(len(batch))
            if len(batch) < self.batch_size / 2 and len(self.drawn) < len(self):
                self._warn_of_repeats(len(batch), [index for index in chosen if streams[index].had_repeats])
            yield batch
        if alone and streams[0].left and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "rows left out of this epoch, because their texts repeat too often: %d; smaller batches leave out "
                "fewer rows (logged once)",
                streams[0].left,
            )

    def _warn_of_repeats(self, rows: int, repeating: Sequence[int]) -> None:
        """Warn once that a batch has few rows, if the reason is repeated texts."""
        if self._has_warned or not repeating:
            return
        self._has_warned = True
        logger.warning(
            "a batch has %d of %d rows, because no text may occur twice in a batch, and texts repeat: %s. Without hard "
            "negatives, a batch of few rows teaches little, and a batch of one row nothing. 'batches: {unique_texts: "
            "false}' fills the batches; mask_texts keeps equal texts from being negatives of each other (logged once)",
            rows,
            self.batch_size,
            "; ".join(map(self._distinct_texts, repeating)),
        )

    def _distinct_texts(self, index: int) -> str:
        hashes = self.hashes[index]
        distinct = [
            f"{len(np.unique(column)):,} different {name}" for name, column in zip(_TEXTS, hashes.T, strict=False)
        ]
        name = f" of {self.names[index]!r}" if len(self.names) > 1 else ""
        return f"{len(hashes):,} rows{name} have {' and '.join(distinct)}"

    def _turns(self) -> Iterator[list[int]]:
        """Yield the datasets of each batch."""
        credit = np.random.default_rng((self.seed, self.epoch)).random(len(self.weights)) * self.weights
        for _ in range(len(self)):
            credit += self.weights * self.datasets
            chosen = np.argsort(-credit, kind="stable")[: self.datasets]
            credit[chosen] -= 1
            yield sorted(chosen.tolist())


class _Stream:
    """The rows of one dataset in random order, in repeated passes; rows that had to wait come first.

    A row waits in the queue of a text that it shares with the batch, so a batch that has the text skips the queue as a
    whole. A queue is a heap of (turn, row): rows leave the queues in the order in which they first had to wait.
    """

    def __init__(self, size: int, seed: tuple[int, ...]) -> None:
        self._generator = np.random.default_rng(seed)
        self._size = size
        self._order = self._generator.permutation(size)
        self._next = 0
        self._turns = count()
        self._queues: dict[int, list[tuple[int, int]]] = {}
        self._heads: list[tuple[int, int]] = []  # heap of (turn of the first row of a queue, text of the queue)
        self.had_repeats = False
        """Whether a row had to wait in the last ``take``, because one of its texts was in the batch."""

    @property
    def left(self) -> int:
        """Number of rows of this pass that were not taken yet."""
        return len(self._waiting()) + len(self._order) - self._next

    def take(self, most: int, hashes: npt.NDArray[np.int64] | None, seen: set[int], *, once: bool) -> Iterator[int]:
        """Yield up to ``most`` distinct rows without a text in ``seen``, and add their texts to ``seen``.

        If ``hashes`` is None, rows may repeat texts. With ``once``, stop at the end of this pass.
        """
        taken: set[int] = set()
        used = taken if hashes is None else seen
        skipped: set[int] = set()  # texts whose queues wait for the next batch
        refills = 0
        while len(taken) < most:
            drawn = self._draw(used, skipped)
            if drawn is None:
                if once or refills > 1:  # the dataset has fewer rows than its part of a batch, so it gives all
                    break
                refills += 1
                again = self._generator.permutation(self._size)
                self._order, self._next = again[~np.isin(again, self._waiting())], 0
                if not len(self._order):
                    break
                continue
            row = drawn[1]
            texts = {row} if hashes is None else set(hashes[row].tolist())
            if repeated := texts & used:
                text = repeated.pop()
                heappush(self._queues.setdefault(text, []), drawn)
                skipped.add(text)
                continue
            used |= texts
            taken.add(row)
            yield row
        self.had_repeats = any(row not in taken for text in skipped for _, row in self._queues[text])
        for text in skipped:
            heappush(self._heads, (self._queues[text][0][0], text))

    def _draw(self, used: set[int], skipped: set[int]) -> tuple[int, int] | None:
        """Remove and return the next row, as (turn, row), or None at the end of the pass.

        Queues of texts in ``used`` are passed over, and these texts are added to ``skipped``.
        """
        while self._heads:
            turn, text = heappop(self._heads)
            queue = self._queues[text]
            if not queue or queue[0][0] != turn:  # the queue has had another first row since
                continue
            if text in used:
                skipped.add(text)
                continue
            drawn = heappop(queue)
            if queue:
                heappush(self._heads, (queue[0][0], text))
            return drawn
        if self._next == len(self._order):
            return None
        self._next += 1
        return next(self._turns), int(self._order[self._next - 1])

    def _waiting(self) -> list[int]:
        return [row for queue in self._queues.values() for _, row in queue]
