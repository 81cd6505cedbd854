"""A model folder in the sentence-transformers format -> a checked ``ModelSpec``.

Reads settings only, never weights: ``modules.json`` with its modules (Transformer, Pooling, then any of Dense and
Normalize), prompts, limits. A folder without ``modules.json`` is a bare encoder: mean pooling, as
sentence-transformers does. The lists of modules, backbones, pooling modes and activations are closed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError, ModelIntegrityError, UnsupportedModelError
from twinvec.models.backbone import (
    LEAST_TOKENS,
    limit,
    max_input_tokens,
    position_limit,
    positive,
    read_backbone_config,
    read_transformer_config,
    refuse_settings,
)
from twinvec.models.integrity import describe, optional_json, read_json, read_object, safe_relative

NO_PROMPTS = {"query": "", "document": ""}
"""What a model without prompts for these two has, as in sentence-transformers; the default prompt is for neither."""
POOLING_MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
ACTIVATIONS = {"Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"}

_MODULES = {
    f"sentence_transformers.{place}": kind
    for kind, places in {
        "Transformer": (
            "models.Transformer",
            "models.transformer.Transformer",
            "models.Transformer.Transformer",
            "base.modules.transformer.Transformer",
            "base.modules.Transformer",
        ),
        "Pooling": (
            "models.Pooling",
            "models.pooling.Pooling",
            "models.Pooling.Pooling",
            "sentence_transformer.modules.pooling.Pooling",
            "sentence_transformer.modules.Pooling",
        ),
        "Dense": (
            "models.Dense",
            "models.dense.Dense",
            "models.Dense.Dense",
            "base.modules.dense.Dense",
            "base.modules.Dense",
        ),
        "Normalize": (
            "models.Normalize",
            "models.normalize.Normalize",
            "models.Normalize.Normalize",
            "base.modules.normalize.Normalize",
            "base.modules.Normalize",
        ),
    }.items()
    for place in places
}
_LEGACY_POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer after pooling; its weights lie in ``folder``."""

    folder: Path
    in_features: int
    out_features: int
    bias: bool
    activation: str


@dataclass(frozen=True, slots=True)
class Normalize:
    """Division by the L2 norm."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """All settings that decide what a model computes; the weights aside.

    Attributes:
        folder: Where the backbone, its configuration and the tokenizer lie.
        config: The backbone's ``config.json``.
        max_tokens: Longest input in tokens, special tokens included.
        lower_case: Lower-case before the tokenizer's own normalisation.
        pooling: Pooling modes, concatenated in this order.
        include_prompt: Whether the tokens of a prompt count in pooling.
        head: What follows pooling, in order.
        prompts: Name -> text put before an input, perhaps empty; ``query`` and ``document`` are always there.
        default_prompt: Name of the prompt that ``encode`` uses, if any.
        truncate_dim: Number of leading dimensions that are kept, if not all.
        full_dim: Size of the vectors before that.
        positions: Longest input that the backbone has positions for.
    """

    folder: Path
    config: dict[str, Any]
    max_tokens: int
    lower_case: bool
    pooling: tuple[str, ...]
    include_prompt: bool
    head: tuple[Dense | Normalize, ...]
    prompts: dict[str, str]
    default_prompt: str | None
    truncate_dim: int | None
    full_dim: int
    positions: int

    @property
    def dim(self) -> int:
        """Size of the vectors."""
        return self.truncate_dim or self.full_dim

    @property
    def normalizes(self) -> bool:
        """Whether the vectors have length 1."""
        return any(isinstance(step, Normalize) for step in self.head)

    def override(
        self, dim: int | None, max_tokens: int | None, prompts: dict[str, str] | None, default_prompt: str | None
    ) -> ModelSpec:
        """The same model with other settings where given.

        Raises:
            ConfigurationError: a setting that the model cannot have.
        """
        spec = self
        if dim is not None:
            _require(1 <= dim <= self.full_dim, f"dim must lie between 1 and the model's {self.full_dim}, got {dim}")
            spec = replace(spec, truncate_dim=dim if dim < self.full_dim else None)
        if max_tokens is not None:
            _require(
                LEAST_TOKENS <= max_tokens <= self.positions,
                f"max_tokens must lie between {LEAST_TOKENS} and the model's {self.positions} positions, "
                f"got {max_tokens}",
            )
            spec = replace(spec, max_tokens=max_tokens)
        if prompts is not None:
            _require(
                isinstance(prompts, dict) and all(isinstance(each, str) for pair in prompts.items() for each in pair),
                f"prompts must be a table of names and texts, got {prompts!r}",
            )
            kept = spec.default_prompt if spec.default_prompt in prompts else None
            spec = replace(spec, prompts={**NO_PROMPTS, **prompts}, default_prompt=kept)
        if default_prompt is not None:
            _require(
                default_prompt in spec.prompts,
                f"default_prompt {default_prompt!r} is not among the prompts: "
                f"{', '.join(sorted(spec.prompts)) or 'none'}",
            )
            spec = replace(spec, default_prompt=default_prompt)
        return spec


def read_spec(root: Path) -> ModelSpec:
    """Read and check a model folder.

    Raises:
        ModelIntegrityError: a file is missing, malformed, or points outside the folder; the message names it.
        UnsupportedModelError: a module, backbone, pooling mode or activation outside the closed lists.
    """
    modules = read_modules(root)
    kinds = [kind for kind, _ in modules]
    if kinds[1:2] not in ([], ["Pooling"]) or set(kinds[2:]) - {"Dense", "Normalize"}:
        raise UnsupportedModelError(
            f"{root / 'modules.json'}: the modules are {', '.join(kinds)}; expected Transformer, Pooling, then "
            "any of Dense and Normalize"
        )
    folder = modules[0][1]
    config = read_backbone_config(folder)
    hidden = positive(config, "dim" if config["model_type"] == "distilbert" else "hidden_size", folder / "config.json")
    sentence_config = read_transformer_config(folder)
    refuse_settings(folder, config, sentence_config)
    pooling, include_prompt, head = _read_head(modules[1:])
    settings = optional_json(root / "config_sentence_transformers.json")
    prompts = _read_prompts(settings, root / "config_sentence_transformers.json")
    default_prompt = settings.get("default_prompt_name")
    full = hidden * len(pooling)
    for step in head:
        if isinstance(step, Dense):
            if step.in_features != full:
                raise ModelIntegrityError(
                    f"{step.folder / 'config.json'}: in_features is {step.in_features}, but {full} values come in"
                )
            full = step.out_features
    truncate_dim = limit(settings, "truncate_dim", root / "config_sentence_transformers.json")
    return ModelSpec(
        folder=folder,
        config=config,
        max_tokens=max_input_tokens(folder, config, sentence_config),
        lower_case=bool(sentence_config.get("do_lower_case", False)),
        pooling=pooling,
        include_prompt=include_prompt,
        head=head,
        prompts=prompts,
        default_prompt=default_prompt if default_prompt in prompts else None,
        truncate_dim=truncate_dim if truncate_dim and truncate_dim < full else None,
        full_dim=full,
        positions=position_limit(config),
    )


def _read_prompts(settings: dict[str, Any], path: Path) -> dict[str, str]:
    prompts = settings.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, (str, type(None))) for text in prompts.values()):
        raise ModelIntegrityError(f"{path}: prompts are {prompts!r}, expected names with texts")
    return {**NO_PROMPTS, **{name: text or "" for name, text in prompts.items()}}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigurationError(message)


def read_modules(root: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each module in order, the Transformer first.

    Raises:
        ModelIntegrityError: ``modules.json`` is malformed, or a path in it leaves the folder.
        UnsupportedModelError: a module class outside the closed list.
    """
    path = root / "modules.json"
    if not path.is_file():
        return [("Transformer", root)]
    entries = read_json(path)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ModelIntegrityError(f"{path}: expected a list of modules")
    modules = []
    for entry in entries:
        kind = _MODULES.get(str(entry.get("type")))
        if kind is None:
            raise UnsupportedModelError(
                f"{path}: module class {entry.get('type')!r} is not supported; supported are "
                f"{describe(set(_MODULES.values()))} of sentence-transformers"
            )
        home = root / safe_relative(entry.get("path", ""), path)
        if not home.resolve().is_relative_to(root.resolve()):
            raise ModelIntegrityError(f"{home}: a link that leaves the model's folder")
        modules.append((kind, home))
    if modules[0][0] != "Transformer":
        raise UnsupportedModelError(f"{path}: the first module is {modules[0][0]}, expected Transformer")
    return modules


def _read_head(modules: list[tuple[str, Path]]) -> tuple[tuple[str, ...], bool, tuple[Dense | Normalize, ...]]:
    if not modules:
        return ("mean",), True, ()
    (_, pooling_folder), *rest = modules
    path = pooling_folder / "config.json"
    config = read_object(path)
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for key, mode in _LEGACY_POOLING.items() if config.get(key)] or ["mean"]
    pooling = tuple(modes) if isinstance(modes, list) else (modes,)
    if not pooling or not all(mode in POOLING_MODES for mode in pooling):
        raise UnsupportedModelError(
            f"{path}: pooling {modes!r} is not supported; supported are {describe(POOLING_MODES)}"
        )
    head = tuple(_read_dense(folder) if kind == "Dense" else _read_normalize(folder) for kind, folder in rest)
    return pooling, bool(config.get("include_prompt", True)), head


def _read_dense(folder: Path) -> Dense:
    path = folder / "config.json"
    config = read_object(path)
    _require_sentence_vectors(config, path)
    if config.get("use_residual"):
        raise UnsupportedModelError(f"{path}: use_residual is not supported")
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = name.rpartition(".")[2]
    if not name.startswith("torch.nn.modules.") or activation not in ACTIVATIONS:
        raise UnsupportedModelError(
            f"{path}: activation {name!r} is not supported; supported are {describe(ACTIVATIONS)} of torch.nn"
        )
    return Dense(
        folder=folder,
        in_features=positive(config, "in_features", path),
        out_features=positive(config, "out_features", path),
        bias=bool(config.get("bias", True)),
        activation=activation,
    )


def _read_normalize(folder: Path) -> Normalize:
    path = folder / "config.json"
    if path.is_file():
        _require_sentence_vectors(read_object(path), path)
    return Normalize()


def _require_sentence_vectors(config: dict[str, Any], path: Path) -> None:
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in (None, "sentence_embedding"):
            raise UnsupportedModelError(f"{path}: {key} is {config[key]!r}; only the sentence vector is supported")
