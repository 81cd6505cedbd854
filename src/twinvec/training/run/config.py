"""The configuration of a training run (``CONFIG.yaml``), checked before data and model are loaded."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticSerializationError

from twinvec.errors import ConfigurationError
from twinvec.models.cross_encoder_spec import LEAST_PAIR_TOKENS
from twinvec.support.checks import field_fault, file_path, shortened
from twinvec.support.extras import import_extra
from twinvec.training import settings
from twinvec.training.data.row_files import FORMATS

_EXAMPLES: dict[str, str] = {
    "objective": "{name: info_nce}",
    "data": "{path: pairs.jsonl}",
    "batches": "{size: 64}",
    "schedule": "{epochs: 1}",
    "evaluation": "{pairs: dev.jsonl}",
    "lora": "{rank: 8}",
}
_MOST_POWER = 10  # far above any use; the sizes of datasets to this power are finite
_TRAINS_ON = ("cpu", "cuda", "mps", "xpu")


class FieldError(ConfigurationError):
    """A field does not fit the data or the model. The message names the field; the command adds the file."""


class TrainConfig(settings.Section):
    """A training run."""

    kind: Literal["bi-encoder", "cross-encoder"] = "bi-encoder"
    model: str = "default"
    """A sentence-transformers folder, a bare encoder, or a hub name."""
    pooling: Literal["cls", "max", "mean"] | None = None
    """Pooling; default: the model's own."""
    max_tokens: int | None = Field(default=None, ge=3)
    """Truncate texts to this many tokens, now and in the saved model; default: the model's own limit."""
    prompts: dict[str, str] | None = None
    """Name -> text to put before an input. The prompts replace the model's own and are saved with the model; ``query``
    is for anchors, ``document`` for positives and negatives."""
    objective: settings.Objective
    matryoshka: list[int] = Field(default_factory=list)
    """Numbers of leading dimensions that must be usable alone; the whole vector is always trained too."""
    data: list[settings.Source] = Field(min_length=1)
    batches: settings.Batches = settings.Batches()
    schedule: settings.Schedule = settings.Schedule()
    evaluation: settings.Evaluation | None = None
    lora: settings.Lora | None = None
    device: str | None = None
    """"cpu", "cuda", "mps" or "xpu" (the first such device); default: a GPU if there is one."""

    @model_validator(mode="after")
    def _fits(self) -> TrainConfig:
        cross = isinstance(self.objective, (settings.Binary, settings.Graded))
        if cross != (self.kind == "cross-encoder"):
            raise ValueError(
                f"objective {self.objective.name!r} is not for a {self.kind}; 'binary' and 'graded' are for a "
                "cross-encoder, all others for a bi-encoder"
            )
        if cross:
            self._fits_cross_encoder()
        if self.matryoshka and isinstance(self.objective, settings.Softmax):
            raise ValueError("matryoshka does not work with softmax, whose head has one size")
        if any(dim < 1 for dim in self.matryoshka):
            raise ValueError(f"matryoshka: dimensions must be positive, got {self.matryoshka}")
        if self.lora is not None and not self.lora.targets:
            raise ValueError("lora.targets: is empty; name the layers that get an adapter, or leave it out")
        self._fits_batches()
        self._fits_data()
        return self

    def _fits_batches(self) -> None:
        weights = [source.weight for source in self.data]
        if None in weights and any(weights):
            raise ValueError("data: give all datasets a weight, or none of them")
        if self.batches.datasets > len(self.data):
            raise ValueError(f"batches.datasets is {self.batches.datasets}, but there are {len(self.data)} datasets")
        if self.batches.size < self.batches.datasets:
            raise ValueError(
                f"batches.size is {self.batches.size}, smaller than batches.datasets, {self.batches.datasets}"
            )
        if self.objective.name == "info_nce" and self.batches.size < 2:
            raise ValueError(
                "batches.size: info_nce takes negatives from the other rows of a batch, which needs at least 2 rows"
            )
        given = self.batches.model_fields_set
        if (unused := sorted(given & {"power", "cap"})) and (any(weights) or len(self.data) == 1):
            reason = "the datasets have weights" if any(weights) else "there is one dataset"
            raise ValueError(f"batches.{unused[0]} draws datasets by size, but {reason}; leave it out")
        if self.batches.power > _MOST_POWER:
            raise ValueError(f"batches.power must be at most {_MOST_POWER}, got {self.batches.power:g}")
        if self.objective.name != "info_nce" and "unique_texts" in given:
            raise ValueError("batches.unique_texts is for info_nce only")

    def _fits_data(self) -> None:
        roles = settings.ROLES[self.objective.name]
        for index, source in enumerate(self.data):
            if "score_range" in source.model_fields_set and "score" not in roles.needed:
                raise ValueError(f"data.{index}.score_range: objective {self.objective.name!r} has no column 'score'")
            unknown = sorted(set(source.columns) - set(roles.needed) - set(roles.optional))
            if unknown:
                raise ValueError(
                    f"data.{index}.columns: {unknown[0]!r} is not a column of objective {self.objective.name!r}, which "
                    f"has {', '.join((*roles.needed, *roles.optional))}"
                )

    def _fits_cross_encoder(self) -> None:
        if self.matryoshka or self.pooling or self.lora or self.prompts is not None:
            raise ValueError("matryoshka, pooling, prompts and lora are for a bi-encoder only")
        if unused := sorted(self.batches.model_fields_set & {"kept_tokens", "token_budget"}):
            raise ValueError(f"batches.{unused[0]} is for a bi-encoder only")
        if self.max_tokens is not None and self.max_tokens < LEAST_PAIR_TOKENS:
            raise ValueError(f"max_tokens: a pair needs at least {LEAST_PAIR_TOKENS}, got {self.max_tokens}")


_SECTIONS: dict[str, tuple[type[settings.Section], ...]] = {
    "lora.": (settings.Lora,),
    "objective.": get_args(get_args(settings.Objective)[0]),
    "data.": (settings.Source,),
    "evaluation.": (settings.Evaluation,),
    "batches.": (settings.Batches,),
    "schedule.": (settings.Schedule,),
    "": (TrainConfig,),
}
"""Prefix of a section's fields -> its classes. For a field's name that two sections share, hints name the later one."""

_OTHER_NAMES = {
    "batch_size": "batches.size",
    "per_device_train_batch_size": "batches.size",
    "gradient_accumulation_steps": "batches.size",
    "gradient_checkpointing": "batches.kept_tokens",
    "mini_batch_size": "batches.token_budget",
    "num_train_epochs": "schedule.epochs",
    "max_steps": "schedule.steps",
    "lr": "schedule.learning_rate",
    "lr_scheduler_type": "schedule.decay",
    "warmup_ratio": "schedule.warmup",
    "warmup_steps": "schedule.warmup",
    "max_grad_norm": "schedule.gradient_clip",
    "bf16": "schedule.precision",
    "fp16": "schedule.precision",
    "save_steps": "schedule.checkpoint_every",
    "logging_steps": "schedule.log_every",
    "eval_steps": "evaluation.every",
    "early_stopping_patience": "evaluation.patience",
    "loss": "objective",
    "max_seq_length": "max_tokens",
    "matryoshka_dims": "matryoshka",
    "train_dataset": "data",
    "r": "lora.rank",
    "lora_alpha": "lora.alpha",
    "lora_dropout": "lora.dropout",
    "target_modules": "lora.targets",
}
"""Names of settings in sentence-transformers and in peft -> the fields of twinvec."""

_LOSSES = {
    "MultipleNegativesRankingLoss": "info_nce",
    "CachedMultipleNegativesRankingLoss": "info_nce",
    "MultipleNegativesSymmetricRankingLoss": "info_nce with 'symmetric: true'",
    "CachedMultipleNegativesSymmetricRankingLoss": "info_nce with 'symmetric: true'",
    "TripletLoss": "triplet",
    "ContrastiveLoss": "contrastive",
    "OnlineContrastiveLoss": "online_contrastive",
    "CosineSimilarityLoss": "cosine_regression",
    "CoSENTLoss": "cosine_regression, for rows of the same kind",
    "AnglELoss": "cosine_regression, for rows of the same kind",
    "MarginMSELoss": "margin_mse with 'similarity: dot'",
    "SoftmaxLoss": "softmax",
    "MatryoshkaLoss": "the objective that it wraps, and the field 'matryoshka'",
    "BinaryCrossEntropyLoss": "binary, or graded for pairs with a label or a score",
}
"""Classes of sentence-transformers -> objectives."""

_HINTS = {
    ("info_nce", "temperature"): "scale is 1 / temperature",
    ("data", "objective"): (
        "all datasets of a run share its objective; for another objective, start a second run whose 'model' is the "
        "folder of the first run"
    ),
}
"""Section and name of an unknown field -> hint for the error."""


def read_config(path: Path) -> TrainConfig:
    """Read and check a YAML or JSON file; relative paths are relative to its folder.

    Raises:
        ConfigurationError: the file or a field is unusable; the message names both.
    """
    path = file_path(path, "path")
    if path.suffix == ".toml":
        raise ConfigurationError(f"{path}: a training configuration is YAML or JSON, not TOML")
    import_extra("yaml", "train", "reading a training configuration")
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            names = [key.value for key, _ in node.value]
            for place, (key, _) in enumerate(node.value):
                if key.value in names[:place]:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} comes twice", problem_mark=key.start_mark)
            return super().construct_mapping(node, deep)

    try:
        with path.open(encoding="utf-8") as file:  # an open file, so that YAML's errors name it
            values = yaml.load(file, Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    except Exception as error:  # of YAML, or of Python: for a date with day 45, for "!!int ''", for deep nesting
        raise ConfigurationError(f"{path}: not valid YAML: {error}") from error
    if values is None:
        raise ConfigurationError(f"{path}: is empty; expected fields such as 'model' and 'data'")
    return check_config(values, path.parent, str(path))


def check_config(values: Any, root: Path, origin: str) -> TrainConfig:
    """Check settings. Relative paths are relative to ``root``; errors begin with ``origin`` and the field.

    Raises:
        ConfigurationError: a field is unknown, missing or invalid, or a file, a package or the device is missing.
    """
    root = file_path(root, "root")
    if not isinstance(values, dict):
        raise ConfigurationError(f"{origin}: expected fields such as 'model' and 'data', got {type(values).__name__}")
    try:
        config = TrainConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("\n".join(f"{origin}: {_fault(each)}" for each in error.errors())) from None
    _require_encodable(config, origin)
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
    _require_device(config, origin)
    model = _resolved_model(config.model, root, f"{origin}: model")
    return config.model_copy(update={"data": data, "evaluation": evaluation, "model": model})


def _fault(error: Any) -> str:
    """Return a message: the name of a field and its fault. A message about several fields names them itself."""
    place = [part for part in error["loc"] if part != "[key]"]
    if place[:1] == ["objective"]:
        del place[1:2]  # the objective's name, which pydantic puts into the location
    if error["type"] in ("model_type", "model_attributes_type"):
        return f"{'.'.join(map(str, place))}: expected fields, such as {_EXAMPLES[place[0]]}, got {error['input']!r}"
    if error["type"] == "list_type" and place == ["data"]:
        return f"data: expected a list, such as [{_EXAMPLES['data']}], got {error['input']!r}"
    if hint := _hint(error):
        return f"{'.'.join(map(str, place))}: {hint}"
    section = f"{place[0]}." if len(place) > 1 else ""
    known = {name: field.removeprefix(section) for name, field in _known_fields(section).items()}
    if place and known.get(str(place[-1])) == place[-1]:  # the name belongs to another objective
        known = {}
    return ": ".join(filter(None, [".".join(map(str, place)), field_fault(error, known)]))


def _hint(error: Any) -> str:
    """Return the fault and the replacement of a name that sentence-transformers uses; "" for any other name."""
    if error["type"] == "union_tag_invalid" and (objective := _LOSSES.get(error["ctx"]["tag"])):
        return f"name {error['ctx']['tag']!r} is not known; did you mean {objective}?"
    named = tuple(part for part in error["loc"] if isinstance(part, str))[-2:]
    if error["type"] == "extra_forbidden" and named in _HINTS:
        return f"is not known; {_HINTS[named]}"
    return ""


def _known_fields(section: str) -> dict[str, str]:
    """Return name -> field, such as ``epochs`` -> ``schedule.epochs``; fields of ``section`` come before others."""
    fields = dict(_OTHER_NAMES)
    for prefix, classes in _SECTIONS.items():
        fields |= {name: f"{prefix}{name}" for each in classes for name in each.model_fields}
    return fields | {name: f"{section}{name}" for each in _SECTIONS.get(section, ()) for name in each.model_fields}


def _resolved_model(name: str, root: Path, where: str) -> str:
    """Return the path of a folder, or a hub name unchanged; raise ConfigurationError if a path leads to no folder."""
    if not name:
        raise ConfigurationError(f"{where}: is empty; leave it out for the default model")
    try:
        if (root / name).is_dir():
            return str(root / name)
        if name.startswith((".", "/", "~")) and not Path(name).expanduser().is_dir():
            raise ConfigurationError(f"{where}: no such folder: {os.path.abspath(root / name)}")
    # the path is not valid, or names an unknown user's home: ``find_model`` raises the error
    except (OSError, RuntimeError):
        pass
    return name


def _require_encodable(config: TrainConfig, origin: str) -> None:
    for name in TrainConfig.model_fields:
        try:
            config.model_dump_json(include={name})
        except PydanticSerializationError:
            raise ConfigurationError(
                f"{origin}: {name}: a text has a lone surrogate, which UTF-8 cannot encode"
            ) from None


def _require_file(path: Path, where: str) -> None:
    if os.path.isdir(path):  # unlike Path.is_dir, False for a text that is too long for a path
        saved = {"dataset_dict.json": "['train']", "dataset_info.json": ""}  # files that ``save_to_disk`` writes
        split = next((split for name, split in saved.items() if (path / name).is_file()), None)
        remedy = "" if split is None else f"; datasets.load_from_disk(FOLDER){split}.to_parquet(FILE) writes one"
        raise ConfigurationError(f"{where}: {path} is a folder; expected a file ending in {', '.join(FORMATS)}{remedy}")
    if not os.path.isfile(path):
        raise ConfigurationError(f"{where}: no such file: {shortened(str(path))}")


def _require_packages(names: Sequence[str], where: str) -> None:
    for name in names:
        if find_spec(name) is None and not (name == "tensorboard" and find_spec("tensorboardX")):
            raise ConfigurationError(f"{where}: the package {name!r} is not installed: pip install {name}")


def _require_device(config: TrainConfig, origin: str) -> None:
    half = config.schedule.precision == "float16"
    if config.device in (None, "cpu") and not half:
        return
    from twinvec.engines.torch import torch_device

    try:
        device = torch_device(config.device)
    except ConfigurationError as error:
        raise ConfigurationError(f"{origin}: device: {error}") from error
    if device.type not in _TRAINS_ON:
        raise ConfigurationError(f"{origin}: device: training runs on cpu, cuda, mps or xpu, got {config.device!r}")
    if device.index and device.type != "cpu":
        raise ConfigurationError(
            f"{origin}: device: training takes the first GPU, got {config.device!r}; write {device.type!r}, and show "
            f"only the wanted GPU (CUDA_VISIBLE_DEVICES={device.index} for CUDA)"
        )
    if half and device.type == "cpu":
        raise ConfigurationError(
            f"{origin}: schedule.precision: torch does not train in float16 on a CPU; use bfloat16 or float32"
        )
