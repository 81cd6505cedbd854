"""The columns that each objective reads from its data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twinvec.training.settings import Role


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles that every row must have, those that it may have, and the lowest and highest score."""

    needed: tuple[Role, ...]
    optional: tuple[Role, ...] = ()
    scores: tuple[float, float] = (0.0, 1.0)

    @property
    def texts(self) -> tuple[Role, ...]:
        """The roles with one text in each row."""
        return tuple(role for role in self.needed if role not in ("label", "score"))


ROLES: dict[str, Roles] = {
    "info_nce": Roles(("anchor", "positive"), ("negatives",)),
    "triplet": Roles(("anchor", "positive", "negative")),
    "contrastive": Roles(("sentence1", "sentence2", "label")),
    "online_contrastive": Roles(("sentence1", "sentence2", "label")),
    "cosine_regression": Roles(("sentence1", "sentence2", "score"), scores=(-1.0, 1.0)),
    "softmax": Roles(("sentence1", "sentence2", "label")),
    "binary": Roles(("anchor", "positive"), ("negatives",)),
    "graded": Roles(("sentence1", "sentence2", "score")),
    "sts": Roles(("sentence1", "sentence2", "score"), scores=(-math.inf, math.inf)),
}
"""Objective -> its roles; "sts" is for measuring. ``negatives`` is any number of texts in a row, a list or several
columns; ``label`` is 0 or 1 (for softmax any name); ``score`` is a number."""
