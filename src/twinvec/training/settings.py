"""The sections of a configuration, each checked by itself; ``config`` puts them together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Role = Literal["anchor", "positive", "negative", "negatives", "sentence1", "sentence2", "label", "score"]


class Section(BaseModel):
    """Fields that cannot be changed; unknown ones, and numbers that are not finite, are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class InfoNCE(Section):
    """In-batch and hard negatives: ``objectives.info_nce``."""

    name: Literal["info_nce"]
    scale: float = Field(default=20.0, gt=0)
    similarity: Literal["cosine", "dot"] = "cosine"
    symmetric: bool = False
    mask_texts: bool = True
    """Leave out negatives whose text is that of the anchor or of one of its positives."""
    false_negative_margin: float | None = None
    """Leave out negatives more similar than the positive by more than this."""


class Triplet(Section):
    """``objectives.triplet``."""

    name: Literal["triplet"]
    distance: Literal["cosine", "euclidean", "manhattan"] = "euclidean"
    margin: float = Field(default=1.0, gt=0)


class Contrastive(Section):
    """``objectives.contrastive`` and its online variant."""

    name: Literal["contrastive", "online_contrastive"]
    distance: Literal["cosine", "euclidean", "manhattan"] = "cosine"
    margin: float = Field(default=0.5, gt=0)


class Regression(Section):
    """``objectives.cosine_regression``."""

    name: Literal["cosine_regression"]


class Softmax(Section):
    """``objectives.softmax_classification``; the head is saved with the model."""

    name: Literal["softmax"]
    concatenation: str = "u,v,|u-v|"
    """Any of u, v, |u-v| and u*v, in this order or another."""

    @field_validator("concatenation")
    @classmethod
    def _known(cls, value: str) -> str:
        from twinvec.training.objectives import concatenation_parts

        concatenation_parts(value)
        return value


class Binary(Section):
    """Cross-encoders: is the positive relevant to the anchor, with the row's negatives as counter-examples."""

    name: Literal["binary"]


class Graded(Section):
    """Cross-encoders: the score of a pair."""

    name: Literal["graded"]


Objective = Annotated[
    InfoNCE | Triplet | Contrastive | Regression | Softmax | Binary | Graded, Field(discriminator="name")
]


class Source(Section):
    """One dataset."""

    path: Path
    """A .jsonl, .csv, .tsv or .parquet file."""
    name: str = ""
    """What reports call it; the file's name unless given."""
    columns: dict[Role, str | list[str]] = {}
    """Role -> column of the file; a role that is not named is looked for under its own name."""
    score_range: tuple[float, float] | None = (0.0, 1.0)
    """Lowest and highest score of the file; scores are scaled from it to 0..1. None: they stay as they are, from -1
    to 1 for cosine_regression, from 0 to 1 for graded."""
    weight: float | None = Field(default=None, gt=0)
    """Share of this dataset among the others; all or none have one."""
    limit: int | None = Field(default=None, ge=1)
    """Use the first rows only."""

    @field_validator("score_range")
    @classmethod
    def _ascending(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"the lowest score must be below the highest, got {value}")
        return value


class Batches(Section):
    """How batches are made, and how they go through the model."""

    size: int = Field(default=64, ge=1)
    """Rows of a batch, of all processes together."""
    datasets: int = Field(default=1, ge=1)
    """How many datasets every batch draws from."""
    power: float = Field(default=1.0, ge=0)
    """Datasets are drawn by their size to this power: 1 by size, 0 all alike."""
    cap: int | None = Field(default=None, ge=1)
    """Datasets count as no larger than this."""
    unique_texts: bool = True
    """No anchor and no positive twice in a batch (info_nce only)."""
    token_budget: int | None = Field(default=None, ge=1)
    """Padded tokens that go through the model at a time; chosen by device unless given."""
    kept_tokens: int | None = Field(default=None, ge=0)
    """Padded tokens of a batch whose activations are held; the rest of a larger batch is computed twice."""


class Schedule(Section):
    """How long, how fast, in what precision."""

    epochs: float = Field(default=1.0, gt=0)
    steps: int | None = Field(default=None, ge=1)
    """Number of steps; epochs do not count then."""
    learning_rate: float = Field(default=2e-5, gt=0)
    warmup: float = Field(default=0.1, ge=0)
    """Steps of warm-up; below 1 a share of all steps."""
    decay: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    weight_decay: float = Field(default=0.01, ge=0)
    gradient_clip: float = Field(default=1.0, gt=0)
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the computation (autocast); weights are float32."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    checkpoint_every: int = Field(default=200, ge=1)
    """Steps between checkpoints."""
    log_every: int = Field(default=10, ge=1)
    """Steps between the points of the loss curve."""
    report_to: list[Literal["tensorboard", "wandb"]] = []


class Evaluation(Section):
    """What is measured while training; the checkpoint that is best by the first of them is kept."""

    pairs: Path | None = None
    """Pairs (anchor, positive): each anchor's positive is looked for among all positives, by a cross-encoder among
    the row's negatives."""
    sts: Path | None = None
    """Scored pairs (score, sentence1, sentence2): correlation of cosine and score."""
    every: int | None = Field(default=None, ge=1)
    """Steps between measurements, a multiple of which are checkpoints; only before and after unless given."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many measurements without a gain."""

    @model_validator(mode="after")
    def _something(self) -> Evaluation:
        if self.pairs is None and self.sts is None:
            raise ValueError("give 'pairs', 'sts' or both")
        if self.patience is not None and self.every is None:
            raise ValueError("'patience' counts measurements, so it needs 'every'")
        return self


class Lora(Section):
    """Low-rank adapters (Hu et al. 2021) instead of all weights; merged into the model in the end. Needs peft."""

    rank: int = Field(default=8, ge=1)
    alpha: int = Field(default=16, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: list[str] = ["query", "value"]
    """Names of the linear layers that get one."""
