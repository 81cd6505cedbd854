"""A migration checked by judged queries: the new model comes in force unless it finds worse.

Worse is what a paired test says: the whole 95% interval of the difference in nDCG@10, over the queries, lies below zero
(of a single query, the difference itself).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import IrResult
from twinvec.evaluation.reranking import gain
from twinvec.evaluation.serving import evaluate_served

if TYPE_CHECKING:
    from twinvec_qdrant.collection import Collection

MEASURE = "ndcg@10"


class JudgedCheck:
    """A ``check`` for ``Collection.migrate``.

    Args:
        collection: As it is, with the model in force.
        data: Judged queries, of documents that the collection holds under their ids.

    Attributes:
        figures: The measure before and after, and the interval of the difference, once it has been called.

    Raises:
        InputError: the collection finds none of the judged documents.
    """

    def __init__(self, collection: Collection, data: BeirSet) -> None:
        self.figures: dict[str, float | list[float]] = {}
        self._data = data
        self._before = self._measured(collection)

    def __call__(self, candidate: Collection) -> bool:
        """Whether the collection as it would be finds no worse."""
        after = self._measured(candidate)
        before_value, after_value = (each.figures[MEASURE] for each in (self._before, after))
        test = gain(self._before, after)
        bounds = test.interval.bounds if test else [after_value - before_value] * 2
        values: dict[str, float | list[float]] = {
            "before": before_value,
            "after": after_value,
            "difference_interval": bounds,
        }
        self.figures = {f"{MEASURE}_{name}": value for name, value in values.items()}
        return bounds[1] >= 0

    def _measured(self, collection: Collection) -> IrResult:
        return evaluate_served(collection, self._data, measures=[MEASURE])[0]
