"""Mining: hard negatives among the hits of any retriever."""

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {"hard_negatives": "Mined MiningJob MiningOptions MiningReport PairScorer mine_file mine_negatives"}
)
