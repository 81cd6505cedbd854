"""Mining: hard negatives that any retriever finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.training.mining.hard_negatives import MiningJob as MiningJob
    from twinvec.training.mining.hard_negatives import MiningOptions as MiningOptions
    from twinvec.training.mining.hard_negatives import MiningReport as MiningReport
    from twinvec.training.mining.hard_negatives import PairScorer as PairScorer
    from twinvec.training.mining.hard_negatives import mine_file as mine_file
    from twinvec.training.mining.hard_negatives import mine_negatives as mine_negatives

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MiningJob": "hard_negatives",
        "MiningOptions": "hard_negatives",
        "MiningReport": "hard_negatives",
        "PairScorer": "hard_negatives",
        "mine_file": "hard_negatives",
        "mine_negatives": "hard_negatives",
    },
)
