"""Check a migration by judged queries: the collection switches to the new model unless the new model is worse.

The new model is worse if the 95% interval of the difference in nDCG@10, from a paired test over the queries, lies
entirely below zero. With a single query, the difference itself decides.
"""

from __future__ import annotations

from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import IrResult
from twinvec.evaluation.reranking import gain
from twinvec.evaluation.serving import evaluate_served
from twinvec.retrieval.base import Retriever

MEASURE = "ndcg@10"


class JudgedCheck:
    """A ``check`` for ``Collection.migrate`` by judged queries (``data``), whose documents the collection holds by id.

    After the call, ``figures`` holds the measure before and after the migration, and the interval of the difference.
    ``shown`` holds these figures and the difference as texts.

    Raises:
        InputError: the collection finds none of the judged documents.
    """

    def __init__(self, collection: Retriever, data: BeirSet) -> None:
        self.figures: dict[str, float | list[float]] = {}
        self.shown: dict[str, str] = {}
        self._data = data
        self._before = self._measured(collection)

    def __call__(self, candidate: Retriever) -> bool:
        after = self._measured(candidate)
        before_value, after_value = (each.figures[MEASURE] for each in (self._before, after))
        test = gain(self._before, after)
        bounds = test.interval.bounds if test else [after_value - before_value] * 2
        self.figures = {
            f"{MEASURE}_before": before_value,
            f"{MEASURE}_after": after_value,
            f"{MEASURE}_difference_interval": bounds,
        }
        self.shown = {
            f"{MEASURE} before": f"{before_value:.2f}",
            f"{MEASURE} after": f"{after_value:.2f}",
            f"{MEASURE} difference": f"{after_value - before_value:+.2f} ({bounds[0]:+.2f} to {bounds[1]:+.2f})",
        }
        return bounds[1] >= 0

    def _measured(self, collection: Retriever) -> IrResult:
        return evaluate_served(collection, self._data, measures=[MEASURE])[0]
