"""What a training run reports."""

from __future__ import annotations

from dataclasses import dataclass

from twinvec.training.run.evaluators import Scores


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a run did.

    Attributes:
        folder: The model.
        steps: Steps in all, those before a resumption too.
        rows: Rows of all datasets.
        before: Scores x 100 of the model as it came.
        after: Scores x 100 of the model as it is saved.
        best_step: The step whose weights were kept, where scores chose; otherwise the last.
        loss: Mean loss of the last stretch of ``log_every`` steps, or of all where there were fewer.
        seconds: Time of this process' training alone.
    """

    folder: str
    steps: int
    rows: int
    before: Scores
    after: Scores
    best_step: int
    loss: float | None
    seconds: float
