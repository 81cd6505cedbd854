"""The report of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from twinvec.training.run.evaluators import Scores


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a run did.

    Attributes:
        steps: Steps of the whole run, including those before it was resumed.
        rows: Rows of all datasets.
        before: Scores x 100 of the model before training; ``after`` are those of the saved model.
        best_step: The step whose weights were kept: the best by score, or the last if nothing is measured.
        loss: Mean loss over the last ``log_every`` steps (over all steps if fewer).
        seconds: Training time of this process.
    """

    folder: str
    steps: int
    rows: int
    before: Scores
    after: Scores
    best_step: int
    loss: float | None
    seconds: float
