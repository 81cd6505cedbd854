"""Draws batches without equal texts from weighted datasets; the batches depend on seed and epoch only."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from twinvec.errors import ConfigurationError

logger = logging.getLogger(__name__)

_LONG_RUN = 64  # if this many successive rows had to wait, NumPy searches for the next row that fits
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
        credit = np.random.default_rng((self.seed, self.epoch)).random(len(self.weights)) * self.weights
        for _ in range(len(self)):
            credit += self.weights * self.datasets
            chosen = np.argsort(-credit, kind="stable")[: self.datasets]
            credit[chosen] -= 1
            yield sorted(chosen.tolist())


class _Stream:
    """The rows of one dataset in random order, in repeated passes; rows that had to wait come first."""

    def __init__(self, size: int, seed: tuple[int, ...]) -> None:
        self._generator = np.random.default_rng(seed)
        self._size = size
        self._waiting: deque[int] = deque()
        self._order = self._generator.permutation(size)
        self._next = 0
        self.had_repeats = False
        """Whether a row had to wait in the last ``take``, because one of its texts was in the batch."""

    @property
    def left(self) -> int:
        """Number of rows of this pass that were not taken yet."""
        return len(self._waiting) + len(self._order) - self._next

    def take(self, count: int, hashes: npt.NDArray[np.int64] | None, seen: set[int], *, once: bool) -> Iterator[int]:
        """Yield up to ``count`` distinct rows without a text in ``seen``, and add their texts to ``seen``.

        With ``once``, stop at the end of this pass.
        """
        waiting: list[int] = []
        taken: set[int] = set()
        refilled = waiting_in_a_row = 0
        self.had_repeats = False
        while len(taken) < count:
            if not self.left:
                if once or refilled > 1:  # the dataset has fewer rows than its part of a batch, so it gives all
                    break
                refilled += 1
                again = self._generator.permutation(self._size)
                self._order, self._next = again[~np.isin(again, waiting)] if waiting else again, 0
                if not self.left:
                    break
            row = self._pop()
            texts = set(hashes[row].tolist()) if hashes is not None else set()
            if row in taken or texts & seen:
                found = [row]
                if hashes is not None and waiting_in_a_row >= _LONG_RUN:
                    found += self._pop_repeats(hashes, seen, waiting_in_a_row)
                self.had_repeats = self.had_repeats or not taken.issuperset(found)
                waiting += found
                waiting_in_a_row += len(found)
                continue
            waiting_in_a_row = 0
            seen |= texts
            taken.add(row)
            yield row
        self._waiting.extendleft(reversed(waiting))

    def _pop(self) -> int:
        if self._waiting:
            return self._waiting.popleft()
        self._next += 1
        return int(self._order[self._next - 1])

    def _pop_repeats(self, hashes: npt.NDArray[np.int64], seen: set[int], most: int) -> list[int]:
        """Remove and return the next rows with a text in ``seen``, up to ``most``."""
        rows = self._order[self._next : self._next + most]
        if self._waiting:
            rows = np.fromiter(islice(self._waiting, most), dtype=np.int64)
        fresh = ~np.isin(hashes[rows], list(seen)).any(axis=1)
        count = int(fresh.argmax()) if fresh.any() else len(rows)
        return [self._pop() for _ in range(count)]
