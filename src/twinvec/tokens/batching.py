"""Lengths -> batches under a token budget.

Texts are sorted by length, so that a batch has little padding. Three limits end a batch: its padded size, (number of
texts) x (longest text), reaches the budget; its padding reaches a sixteenth of the budget (at least 32 tokens), which
costs more than another call of the engine; or it has too many texts to be collated quickly.

If a call has few batches, their cuts decide how long it takes: the other workers wait for the last batch, and in a
small call, which all cores compute batch by batch, one long text may pad all others. ``worker_batches`` therefore also
tries batches of about equal cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from twinvec.arrays import IntArray

_CALL_TOKENS = 32  # cost of one more call of an engine, in tokens
_LEAST_SHARE = 64  # tokens; a smaller batch is not worth a worker
_FEW_ROUNDS = 8  # batches for each worker; if there are more, how they are cut matters little
_MORE_ROUNDS = 4


def token_budget_batches(lengths: IntArray, budget: int, max_texts: int | None = None) -> Iterator[IntArray]:
    """Yield arrays of indices into ``lengths``: every index once, longest texts first.

    ``budget`` is a padded size in tokens; a longer text makes a batch by itself. A batch has at most ``max_texts``
    texts (default: budget / 16, but at least 512).
    """
    max_texts = max(512, budget // 16) if max_texts is None else max_texts
    if budget < 1 or max_texts < 1:
        raise ValueError(f"budget and max_texts must be at least 1, got {budget} and {max_texts}")
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    most_padding = max(budget // 16, _CALL_TOKENS)
    start = 0
    while start < len(order):
        longest = max(int(ordered[start]), 1)
        size = min(max(budget // longest, 1), max_texts)
        # padding of a batch of the first n texts, for each n
        padding = np.cumsum(longest - ordered[start : start + size])
        size = int(np.searchsorted(padding, most_padding, side="right")) or 1
        yield order[start : start + size]
        start += size


def worker_batches(lengths: IntArray, budget: int, workers: int) -> list[IntArray]:
    """Return batches under the token budget for workers that compute at the same time, or for one worker.

    Many batches are the same as those of ``token_budget_batches``. Few batches are cut so that the last worker
    ends as early as possible; the cost of a batch is its padded size plus the cost of a call.
    """
    total = int(lengths.sum())
    share = total * 17 // 16 // workers + 1  # 17/16, since up to a sixteenth of the tokens is padding
    plan = list(token_budget_batches(lengths, budget if workers == 1 else min(budget, max(share, _LEAST_SHARE))))
    if not workers <= len(plan) <= _FEW_ROUNDS * workers:
        return plan
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order].tolist()
    least_rounds = -(-total // (budget * workers))
    options = [np.cumsum([0, *map(len, plan)]).tolist()]
    for batches in range(least_rounds * workers, (least_rounds + _MORE_ROUNDS) * workers, workers):
        options += _cuts_of_like_cost(ordered, budget, batches)
    best = min(options, key=lambda cuts: _end_of_last_worker(ordered, cuts, workers))
    return [order[start:stop] for start, stop in pairwise(best)]


def _cuts_of_like_cost(ordered: list[int], budget: int, batches: int) -> list[list[int]]:
    """Return one list of cuts, which makes the largest batch as small as possible; [] if it exceeds the budget."""
    costs = range(max(ordered[0], _LEAST_SHARE), budget + 1)
    at = bisect_left(costs, True, key=lambda cost: len(_cuts(ordered, cost)) - 1 <= batches)
    return [_cuts(ordered, costs[at])] if at < len(costs) else []


def _cuts(ordered: list[int], most: int) -> list[int]:
    """Return the first index of each batch of at most ``most`` padded tokens, and the number of texts."""
    cuts = [0]
    while cuts[-1] < len(ordered):
        cuts.append(min(cuts[-1] + max(most // max(ordered[cuts[-1]], 1), 1), len(ordered)))
    return cuts


def _end_of_last_worker(ordered: list[int], cuts: list[int], workers: int) -> int:
    ends = [0] * workers
    for start, stop in pairwise(cuts):
        ends[ends.index(min(ends))] += ordered[start] * (stop - start) + _CALL_TOKENS
    return max(ends)


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids of B texts, padded on the right to T; ``mask_BT`` is 1 for a token, 0 for padding.

    ``types_BT`` has the segments of a cross-encoder's pairs; None means all zero. Pooling leaves out the first
    ``prompt_tokens`` tokens. A batch that is ``alone`` in its call is computed by all cores.
    """

    ids_BT: IntArray
    mask_BT: IntArray
    types_BT: IntArray | None = None
    prompt_tokens: int = 0
    alone: bool = False

    @property
    def inputs(self) -> dict[str, IntArray]:
        """Arrays by the names of a graph's inputs."""
        return {
            "input_ids": self.ids_BT,
            "attention_mask": self.mask_BT,
            "token_type_ids": np.zeros_like(self.ids_BT) if self.types_BT is None else self.types_BT,
            "prompt_tokens": np.array(self.prompt_tokens, dtype=np.int64),
        }

    def cut(self, length: int) -> Batch:
        """Return the first ``length`` tokens of every row."""
        types_BT = None if self.types_BT is None else self.types_BT[:, :length]
        return Batch(self.ids_BT[:, :length], self.mask_BT[:, :length], types_BT, self.prompt_tokens)

    def rows(self, start: int, stop: int) -> Batch:
        """Return the rows from ``start`` to ``stop``, with their padding."""
        types_BT = None if self.types_BT is None else self.types_BT[start:stop]
        return Batch(self.ids_BT[start:stop], self.mask_BT[start:stop], types_BT, self.prompt_tokens)
