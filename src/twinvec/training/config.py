"""The configuration of a training run: what may stand in ``CONFIG.yaml``, checked before anything is loaded.

Relative paths count from the folder of the configuration file. Unknown fields are errors.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from twinvec.classifier import LEAST_PAIR_TOKENS
from twinvec.errors import ConfigurationError, MissingExtraError
from twinvec.training.columns import ROLES, Role


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class InfoNCE(_Section):
    """In-batch and hard negatives: ``objectives.info_nce``."""

    name: Literal["info_nce"]
    scale: float = Field(default=20.0, gt=0)
    similarity: Literal["cosine", "dot"] = "cosine"
    symmetric: bool = False
    mask_texts: bool = True
    """Leave out negatives whose text is that of the anchor or of one of its positives."""
    false_negative_margin: float | None = None
    """Leave out negatives more similar than the positive by more than this."""


class Triplet(_Section):
    """``objectives.triplet``."""

    name: Literal["triplet"]
    distance: Literal["cosine", "euclidean", "manhattan"] = "euclidean"
    margin: float = Field(default=1.0, gt=0)


class Contrastive(_Section):
    """``objectives.contrastive`` and its online variant."""

    name: Literal["contrastive", "online_contrastive"]
    distance: Literal["cosine", "euclidean", "manhattan"] = "cosine"
    margin: float = Field(default=0.5, gt=0)


class Regression(_Section):
    """``objectives.cosine_regression``."""

    name: Literal["cosine_regression"]


class Softmax(_Section):
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


class Binary(_Section):
    """Cross-encoders: is the positive relevant to the anchor, with the row's negatives as counter-examples."""

    name: Literal["binary"]


class Graded(_Section):
    """Cross-encoders: the score of a pair."""

    name: Literal["graded"]


Objective = Annotated[
    InfoNCE | Triplet | Contrastive | Regression | Softmax | Binary | Graded, Field(discriminator="name")
]


class Source(_Section):
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


class Batches(_Section):
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


class Schedule(_Section):
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
    seed: int = Field(default=0, ge=0)
    checkpoint_every: int = Field(default=200, ge=1)
    """Steps between checkpoints."""
    log_every: int = Field(default=10, ge=1)
    """Steps between the points of the loss curve."""
    report_to: list[Literal["tensorboard", "wandb"]] = []


class Evaluation(_Section):
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


class Lora(_Section):
    """Low-rank adapters (Hu et al. 2021) instead of all weights; merged into the model in the end. Needs peft."""

    rank: int = Field(default=8, ge=1)
    alpha: int = Field(default=16, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: list[str] = ["query", "value"]
    """Names of the linear layers that get one."""


class TrainConfig(_Section):
    """A training run."""

    kind: Literal["bi-encoder", "cross-encoder"] = "bi-encoder"
    model: str = "default"
    """A sentence-transformers folder, a bare encoder, or a hub name."""
    pooling: Literal["cls", "max", "mean"] | None = None
    """Pooling, where it shall be another than the model's."""
    max_tokens: int | None = Field(default=None, ge=3)
    """Cut texts here; the model's own limit unless given, and saved with the model."""
    prompts: dict[str, str] | None = None
    """Name -> text put before an input, in place of the model's own, and saved with the model: ``query`` is for
    anchors, ``document`` for positives and negatives."""
    objective: Objective
    matryoshka: list[int] = []
    """Leading dimensions that shall be usable alone; the whole vector is always among them."""
    data: list[Source] = Field(min_length=1)
    batches: Batches = Batches()
    schedule: Schedule = Schedule()
    evaluation: Evaluation | None = None
    lora: Lora | None = None
    device: str | None = None
    """"cpu", "cuda", ...; chosen unless given."""

    @model_validator(mode="after")
    def _fits(self) -> TrainConfig:
        cross = isinstance(self.objective, (Binary, Graded))
        if cross != (self.kind == "cross-encoder"):
            raise ValueError(f"objective {self.objective.name!r} is not one for a {self.kind}")
        if cross:
            self._fits_cross_encoder()
        if self.matryoshka and isinstance(self.objective, Softmax):
            raise ValueError("matryoshka does not go with softmax, whose head has one size")
        if any(dim < 1 for dim in self.matryoshka):
            raise ValueError(f"matryoshka: dimensions are positive, got {self.matryoshka}")
        weights = [source.weight for source in self.data]
        if any(weight is None for weight in weights) and any(weight is not None for weight in weights):
            raise ValueError("data: give every dataset a weight, or none")
        if self.batches.datasets > len(self.data):
            raise ValueError(f"batches.datasets is {self.batches.datasets}, but there are {len(self.data)} datasets")
        if self.batches.size < self.batches.datasets:
            raise ValueError("batches.size is smaller than batches.datasets")
        if self.objective.name == "info_nce" and self.batches.size < 2:
            raise ValueError(
                "batches.size: the negatives of info_nce are the other rows of a batch, so it needs 2 rows"
            )
        given = self.batches.model_fields_set
        if weights[0] is not None and (unused := sorted(given & {"power", "cap"})):
            raise ValueError(f"batches.{unused[0]} draws datasets by their size, but they have weights of their own")
        if self.objective.name != "info_nce" and "unique_texts" in given:
            raise ValueError("batches.unique_texts is for info_nce only")
        roles = ROLES[self.objective.name]
        for index, source in enumerate(self.data):
            unknown = sorted(set(source.columns) - set(roles.needed) - set(roles.optional))
            if unknown:
                raise ValueError(
                    f"data.{index}.columns: {unknown[0]!r} is no column of objective {self.objective.name!r}, which "
                    f"has {', '.join((*roles.needed, *roles.optional))}"
                )
        return self

    def _fits_cross_encoder(self) -> None:
        if self.matryoshka or self.pooling or self.lora or self.prompts:
            raise ValueError("matryoshka, pooling, prompts and lora are for a bi-encoder only")
        if unused := sorted(self.batches.model_fields_set & {"kept_tokens", "token_budget"}):
            raise ValueError(f"batches.{unused[0]} is for a bi-encoder only")
        if self.max_tokens is not None and self.max_tokens < LEAST_PAIR_TOKENS:
            raise ValueError(f"max_tokens: a pair needs at least {LEAST_PAIR_TOKENS}, got {self.max_tokens}")


def read_config(path: Path) -> TrainConfig:
    """Read and check a YAML file.

    Raises:
        ConfigurationError: naming the file and the field.
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", "train", "reading a training configuration") from None

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            names = [key.value for key, _ in node.value]
            for place, (key, _) in enumerate(node.value):
                if key.value in names[:place]:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} comes twice", problem_mark=key.start_mark)
            return super().construct_mapping(node, deep)

    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: no valid YAML: {error}") from error
    return check_config(values, path.parent, str(path))


def check_config(values: Any, root: Path, origin: str) -> TrainConfig:
    """Check settings; relative paths in them count from ``root``, errors name ``origin`` and the field.

    Raises:
        ConfigurationError: a field is unknown, missing, or has a value that cannot work; a file does not exist; there
            is no such device, or a package to report to is not installed.
    """
    if not isinstance(values, dict):
        raise ConfigurationError(f"{origin}: expected fields such as 'model' and 'data', got {type(values).__name__}")
    try:
        config = TrainConfig.model_validate(values)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, item['loc'])) or 'as a whole'}: {item['msg']}" for item in error.errors()]
        raise ConfigurationError("\n".join([f"{origin}: {len(lines)} wrong field(s)", *lines])) from None
    data = [source.model_copy(update={"path": root / source.path}) for source in config.data]
    evaluation = config.evaluation
    if evaluation is not None:
        named = {key: root / path for key in ("pairs", "sts") if (path := getattr(evaluation, key)) is not None}
        evaluation = evaluation.model_copy(update=named)
        for key, path in named.items():
            _require_file(path, f"{origin}: evaluation.{key}")
    for index, source in enumerate(data):
        _require_file(source.path, f"{origin}: data.{index}.path")
    _require_packages(config.schedule.report_to, f"{origin}: schedule.report_to")
    if config.device not in (None, "cpu"):
        _require_device(config.device, f"{origin}: device")
    model = config.model
    if (root / model).is_dir():
        model = str(root / model)
    return config.model_copy(update={"data": data, "evaluation": evaluation, "model": model})


def _require_file(path: Path, where: str) -> None:
    if not path.is_file():
        raise ConfigurationError(f"{where}: no such file: {path}")


def _require_packages(names: Sequence[str], where: str) -> None:
    for name in names:
        if find_spec(name) is None and not (name == "tensorboard" and find_spec("tensorboardX")):
            raise ConfigurationError(f"{where}: the package {name!r} is not installed: pip install {name}")


def _require_device(name: str, where: str) -> None:
    from twinvec.engines.torch import torch_device

    try:
        torch_device(name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from error
