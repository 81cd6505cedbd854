"""The sections of a training configuration, each checked alone; ``run.config`` puts them together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

Role = Literal["anchor", "positive", "negative", "negatives", "sentence1", "sentence2", "label", "score", "scores"]


class Section(BaseModel):
    """A section of the configuration; unknown fields and numbers that are not finite are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class InfoNCE(Section):
    """Settings of ``objectives.info_nce``, with in-batch negatives and hard negatives."""

    name: Literal["info_nce"]
    scale: float = Field(default=20.0, gt=0)
    similarity: Literal["cosine", "dot"] = "cosine"
    symmetric: bool = False
    mask_texts: bool = True
    """Leave out negatives that equal the anchor or one of the anchor's positives."""
    false_negative_margin: float | None = None
    """Leave out negatives whose similarity exceeds the positive's by more than this; default: keep all."""


class Triplet(Section):
    """Settings of ``objectives.triplet``."""

    name: Literal["triplet"]
    distance: Literal["cosine", "euclidean", "manhattan"] = "euclidean"
    margin: float = Field(default=1.0, gt=0)


class Contrastive(Section):
    """Settings of ``objectives.contrastive`` and of its online variant."""

    name: Literal["contrastive", "online_contrastive"]
    distance: Literal["cosine", "euclidean", "manhattan"] = "cosine"
    margin: float = Field(default=0.5, gt=0)


class Regression(Section):
    """Choice of ``objectives.cosine_regression``, which has no settings."""

    name: Literal["cosine_regression"]


class MarginMSE(Section):
    """Settings of ``objectives.margin_mse``: learn the margins of a teacher, such as a cross-encoder."""

    name: Literal["margin_mse"]
    similarity: Literal["cosine", "dot"] = "cosine"
    scale: float = Field(default=1.0, gt=0)


class Softmax(Section):
    """Settings of ``objectives.softmax_classification``; the head is saved with the model."""

    name: Literal["softmax"]
    concatenation: str = "u,v,|u-v|"
    """Any of u, v, |u-v| and u*v, in any order."""

    @field_validator("concatenation")
    @classmethod
    def _known(cls, value: str) -> str:
        from twinvec.training.objectives import concatenation_parts

        concatenation_parts(value)
        return value


class Binary(Section):
    """For cross-encoders: distinguish the positive of an anchor from the row's negatives."""

    name: Literal["binary"]


class Graded(Section):
    """For cross-encoders: predict the score of a pair."""

    name: Literal["graded"]


Objective = Annotated[
    InfoNCE | Triplet | Contrastive | Regression | MarginMSE | Softmax | Binary | Graded, Field(discriminator="name")
]


@dataclass(frozen=True, slots=True)
class Roles:
    """The needed and the optional roles of an objective's rows, and the lowest and highest score."""

    needed: tuple[Role, ...]
    optional: tuple[Role, ...] = ()
    scores: tuple[float, float] = (0.0, 1.0)


ROLES: dict[str, Roles] = {
    "info_nce": Roles(("anchor", "positive"), ("negatives",)),
    "triplet": Roles(("anchor", "positive", "negative")),
    "contrastive": Roles(("sentence1", "sentence2", "label")),
    "online_contrastive": Roles(("sentence1", "sentence2", "label")),
    "cosine_regression": Roles(("sentence1", "sentence2", "score"), scores=(-1.0, 1.0)),
    "margin_mse": Roles(("anchor", "positive", "negatives", "scores")),
    "softmax": Roles(("sentence1", "sentence2", "label")),
    "binary": Roles(("anchor", "positive"), ("negatives",)),
    "graded": Roles(("sentence1", "sentence2", "score")),
    "pairs": Roles(("anchor", "positive")),
    "sts": Roles(("sentence1", "sentence2", "score"), scores=(-math.inf, math.inf)),
}
"""Objective -> its roles; "pairs" and "sts" are for measuring. ``negatives`` is any number of texts: a list, or several
columns; ``label`` is 0 or 1 (for softmax any text or whole number); ``score`` is a number; ``scores`` are numbers, also
in a list or in several columns: a teacher's score of the positive, then of each negative."""


class Source(Section):
    """One dataset."""

    path: Path
    """A .jsonl, .csv, .tsv or .parquet file."""
    name: str = ""
    """Name in reports; default: the file's name."""
    columns: dict[Role, str | list[str]] = {}
    """Role -> column of the file; default: the column with the role's name. ``negatives`` may be several columns, or
    none (``[]``); ``scores`` may be several columns."""
    score_range: tuple[float, float] | None = (0.0, 1.0)
    """Lowest and highest score of the file; scores are scaled from this range to 0..1. None leaves scores unchanged:
    they must be from -1 to 1 for cosine_regression, from 0 to 1 for graded."""
    weight: float | None = Field(default=None, gt=0)
    """Share of the batches that this dataset gets, relative to other datasets; give all datasets a weight, or none."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first rows of the file, up to this number."""

    @field_validator("score_range")
    @classmethod
    def _ascending(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"the lowest score must be below the highest, got {value}")
        return value


class Batches(Section):
    """How batches are drawn, and how they go through the model."""

    size: int = Field(default=64, ge=1)
    """Rows of a batch, over all processes."""
    datasets: int = Field(default=1, ge=1)
    """Number of datasets that each batch draws from."""
    power: float = Field(default=1.0, ge=0)
    """Draw each dataset in proportion to its size to the power of this number: 0 draws all datasets equally often."""
    cap: int | None = Field(default=None, ge=1)
    """Largest size that counts: a larger dataset is drawn as if it had this size. Default: none."""
    unique_texts: bool = True
    """Draw each anchor and each positive at most once in a batch (info_nce only)."""
    token_budget: int | None = Field(default=None, ge=1)
    """Padded tokens that go through the model at a time; default: by device."""
    kept_tokens: int | None = Field(default=None, ge=0)
    """Padded tokens of a batch whose activations are held; other tokens are computed twice. Default: by device."""


class Schedule(Section):
    """How long to train, at what learning rate, in what precision."""

    epochs: float = Field(default=1.0, gt=0)
    steps: int | None = Field(default=None, ge=1)
    """Number of steps, instead of epochs."""
    learning_rate: float = Field(default=2e-5, gt=0)
    warmup: float = Field(default=0.1, ge=0)
    """Warm-up steps; a value below 1 is a share of all steps."""
    decay: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    weight_decay: float = Field(default=0.01, ge=0)
    gradient_clip: float = Field(default=1.0, gt=0)
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of the computation (autocast); weights are float32."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    checkpoint_every: int = Field(default=200, ge=1)
    """Steps between checkpoints; a run of one process also writes a checkpoint five minutes after the last one."""
    log_every: int = Field(default=10, ge=1)
    """Steps between two points of the loss curve."""
    report_to: list[Literal["tensorboard", "wandb"]] = []

    @model_validator(mode="after")
    def _one_length(self) -> Schedule:
        if self.steps is not None and "epochs" in self.model_fields_set:
            raise ValueError("'steps' replaces 'epochs': give one of them")
        return self


class Evaluation(Section):
    """Measurements during training; the first measure chooses the checkpoint that is kept."""

    pairs: Path | None = None
    """File of pairs (anchor, positive), to measure how well each anchor's positive is found among all positives (for a
    cross-encoder: among the anchor's negatives)."""
    sts: Path | None = None
    """File of scored pairs (score, sentence1, sentence2), to measure how the model's scores correlate with them."""
    every: int | None = Field(default=None, ge=1)
    """Steps between measurements, each with a checkpoint; default: measure only before and after training."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many measurements without a gain."""
    columns: dict[Role, str | list[str]] = {}
    """Role -> column of the files; default: the column with the role's name."""

    @model_serializer(mode="wrap")
    def _without_empty_columns(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out empty ``columns``: earlier versions had no such field, and the digests of their runs must stay."""
        return {name: value for name, value in dump(self).items() if name != "columns" or value}

    @model_validator(mode="after")
    def _check_fields(self) -> Evaluation:
        if self.pairs is None and self.sts is None:
            raise ValueError("give 'pairs', 'sts' or both")
        if self.patience is not None and self.every is None:
            raise ValueError("'patience' counts measurements, so it needs 'every'")
        measured = [ROLES[name] for name, path in (("info_nce", self.pairs), ("sts", self.sts)) if path is not None]
        known = [role for roles in measured for role in (*roles.needed, *roles.optional)]
        if unknown := sorted(set(self.columns) - set(known)):
            raise ValueError(
                f"columns: {unknown[0]!r} is not a column of the files to measure on, which have {', '.join(known)}"
            )
        return self


class Lora(Section):
    """Train low-rank adapters (Hu et al. 2021), which are merged into the weights at the end. Needs peft."""

    rank: int = Field(default=8, ge=1)
    alpha: int = Field(default=16, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: list[str] = ["query", "value"]
    """Names of the linear layers that get an adapter."""
