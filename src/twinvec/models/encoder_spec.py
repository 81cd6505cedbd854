"""A model folder in the sentence-transformers format -> a checked ``ModelSpec``, without weights.

``modules.json`` lists the modules: Transformer, Pooling, then any of Dense and Normalize. A folder without this file is
a bare backbone, which gets mean pooling, as in sentence-transformers. A folder that lacks the file but has folders of
modules is an incomplete copy. Modules, backbones, pooling modes and activations that are not listed here are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError, ModelIntegrityError, UnsupportedModelError
from twinvec.models.backbone import (
    CROSS_ENCODER_HINT,
    BackboneSpec,
    is_classifier,
    optional_limit,
    positive,
    read_backbone,
    read_transformer_config,
    refuse_settings,
)
from twinvec.models.integrity import describe, missing, optional_json, read_json, read_object, safe_relative
from twinvec.support.checks import string

logger = logging.getLogger(__name__)

NO_PROMPTS = {"query": "", "document": ""}
"""Prompts of every model, empty unless the model defines them. As in sentence-transformers, the default prompt does not
replace them."""
_DENSE_ACTIVATIONS = {"Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"}

_HOMES = {  # kind of module -> its package since sentence-transformers 6
    "Transformer": "base.modules",
    "Pooling": "sentence_transformer.modules",
    "Dense": "base.modules",
    "Normalize": "base.modules",
}
_MODULES = {  # class in modules.json -> kind of module
    f"sentence_transformers.{package}{middle}.{kind}": kind
    for kind, home in _HOMES.items()
    for package, middle in (
        ("models", ""),
        ("models", f".{kind.lower()}"),
        ("models", f".{kind}"),
        (home, f".{kind.lower()}"),
        (home, ""),
    )
}
_LEGACY_POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_POOLING_MODES = tuple(_LEGACY_POOLING.values())


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer after pooling; ``folder`` holds its weights."""

    folder: Path
    in_features: int
    out_features: int
    bias: bool
    activation: str


@dataclass(frozen=True, slots=True)
class Normalize:
    """Division by the L2 norm."""


@dataclass(frozen=True)
class ModelSpec(BackboneSpec):
    """All settings that decide what an encoder computes, without its weights.

    ``pooling`` has the modes in the order of concatenation. ``include_prompt`` says whether a prompt's tokens count in
    pooling. ``head`` has the steps after it, in order. ``prompts`` always has ``query`` and ``document``, perhaps
    empty. The head returns ``full_dim`` dimensions; the first ``truncate_dim`` of them are kept (None keeps all).
    """

    pooling: tuple[str, ...]
    include_prompt: bool
    head: tuple[Dense | Normalize, ...]
    prompts: dict[str, str]
    default_prompt: str | None
    truncate_dim: int | None
    full_dim: int

    @property
    def dim(self) -> int:
        """Size of the vectors."""
        return self.truncate_dim or self.full_dim

    @property
    def normalizes(self) -> bool:
        """Whether the vectors have length 1."""
        return any(isinstance(step, Normalize) for step in self.head)

    def override(
        self, dim: int | None, max_tokens: int | None, prompts: Mapping[str, str] | None, default_prompt: str | None
    ) -> ModelSpec:
        """Return the model with the settings that are not None; raise ConfigurationError for an impossible setting."""
        spec = self.with_max_tokens(max_tokens)
        if dim is not None:
            _require(1 <= dim <= self.full_dim, f"dim must lie between 1 and the model's {self.full_dim}, got {dim}")
            spec = replace(spec, truncate_dim=dim if dim < self.full_dim else None)
        if prompts is not None:
            _require(
                isinstance(prompts, Mapping)
                and all(isinstance(each, str) for pair in prompts.items() for each in pair),
                f"prompts must be a table of names and texts, got {prompts!r}",
            )
            for name, text in prompts.items():
                string(text, f"prompt {string(name, 'the name of a prompt')!r}")
            kept = spec.default_prompt if spec.default_prompt in prompts else None
            spec = replace(spec, prompts={**NO_PROMPTS, **prompts}, default_prompt=kept)
        if default_prompt is not None:
            string(default_prompt, "default_prompt")
            known = ", ".join(sorted(spec.prompts))
            _require(
                default_prompt in spec.prompts, f"default_prompt {default_prompt!r} is not among the prompts: {known}"
            )
            spec = replace(spec, default_prompt=default_prompt)
        return spec


def read_spec(root: Path) -> ModelSpec:
    """Read and check a model folder.

    Raise ModelIntegrityError if a file is missing, malformed or points outside the folder, and UnsupportedModelError if
    a module, backbone, pooling mode or activation is not supported.
    """
    modules = read_modules(root)
    kinds = [kind for kind, _ in modules]
    if kinds[1:2] not in ([], ["Pooling"]) or set(kinds[2:]) - {"Dense", "Normalize"}:
        raise UnsupportedModelError(
            f"{root / 'modules.json'}: the modules are {', '.join(kinds)}; expected Transformer, Pooling, then "
            "any of Dense and Normalize"
        )
    folder = modules[0][1]
    sentence_config = read_transformer_config(folder)
    backbone = read_backbone(folder, sentence_config)
    refuse_settings(folder, sentence_config)
    if len(modules) == 1 and is_classifier(backbone.config):
        _warn_of_classifier(folder)
    pooling, include_prompt, head = _read_head(modules[1:])
    full_dim = _full_dim(backbone, pooling, head)
    path = root / "config_sentence_transformers.json"
    settings = optional_json(path)
    prompts = _read_prompts(settings, path)
    default_prompt = settings.get("default_prompt_name")
    if not isinstance(default_prompt, str | None):
        raise ModelIntegrityError(f"{path}: default_prompt_name is {default_prompt!r}, expected a name")
    truncate_dim = optional_limit(settings, "truncate_dim", path)
    return ModelSpec(
        **vars(backbone),
        pooling=pooling,
        include_prompt=include_prompt,
        head=head,
        prompts=prompts,
        default_prompt=default_prompt if default_prompt in prompts else None,
        truncate_dim=truncate_dim if truncate_dim and truncate_dim < full_dim else None,
        full_dim=full_dim,
    )


@cache
def _warn_of_classifier(folder: Path) -> None:
    """Warn once per folder of a plain classifier, which is not refused because it may be a backbone to train."""
    logger.warning(
        "%s: the model is a classifier or a cross-encoder (architectures in config.json), and its vectors are not "
        "trained to be compared; expected an embedding model; %s",
        folder,
        CROSS_ENCODER_HINT,
    )


def _full_dim(backbone: BackboneSpec, pooling: tuple[str, ...], head: tuple[Dense | Normalize, ...]) -> int:
    """Return the size of the head's vectors; refuse layers that do not fit together."""
    key = "dim" if backbone.config["model_type"] == "distilbert" else "hidden_size"
    dim = positive(backbone.config, key, backbone.folder / "config.json") * len(pooling)
    for step in head:
        if isinstance(step, Dense):
            if step.in_features != dim:
                path = step.folder / "config.json"
                raise ModelIntegrityError(f"{path}: in_features is {step.in_features}, but its input has {dim} values")
            dim = step.out_features
    return dim


def _read_prompts(settings: dict[str, Any], path: Path) -> dict[str, str]:
    prompts = settings.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, (str, type(None))) for text in prompts.values()):
        raise ModelIntegrityError(f"{path}: prompts are {prompts!r}, expected names with texts")
    return {**NO_PROMPTS, **{name: text or "" for name, text in prompts.items()}}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigurationError(message)


def read_modules(root: Path) -> list[tuple[str, Path]]:
    """Return the kind and the folder of each module in order, the Transformer first; raises as ``read_spec``."""
    path = root / "modules.json"
    if not path.is_file():
        _check_is_bare(root)
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
            raise ModelIntegrityError(f"{home}: is a link that leaves the model's folder")
        modules.append((kind, home))
    if modules[0][0] != "Transformer":
        raise UnsupportedModelError(f"{path}: the first module is {modules[0][0]}, expected Transformer")
    return modules


def _check_is_bare(root: Path) -> None:
    """Raise ModelIntegrityError if a folder has folders of modules, such as "1_Pooling", but no ``modules.json``."""
    for module in sorted(root.glob("[0-9]*_*")):
        if module.is_dir() and module.name.partition("_")[2] in _HOMES:
            raise missing(root, "modules.json", f", though there is a folder {module.name}; copy the model again")


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
    if not pooling or not all(mode in _POOLING_MODES for mode in pooling):
        raise UnsupportedModelError(
            f"{path}: pooling {modes!r} is not supported; supported are {describe(_POOLING_MODES)}"
        )
    head = tuple(_read_step(kind, folder / "config.json") for kind, folder in rest)
    return pooling, bool(config.get("include_prompt", True)), head


def _read_step(kind: str, path: Path) -> Dense | Normalize:
    config = read_object(path) if kind == "Dense" else optional_json(path)
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in (None, "sentence_embedding"):
            raise UnsupportedModelError(f"{path}: {key} is {config[key]!r}; only the sentence vector is supported")
    if kind == "Normalize":
        return Normalize()
    if config.get("use_residual"):
        raise UnsupportedModelError(f"{path}: use_residual is not supported")
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = name.rpartition(".")[2]
    if not name.startswith("torch.nn.modules.") or activation not in _DENSE_ACTIVATIONS:
        raise UnsupportedModelError(
            f"{path}: activation {name!r} is not supported; supported are {describe(_DENSE_ACTIVATIONS)} of torch.nn"
        )
    return Dense(
        folder=path.parent,
        in_features=positive(config, "in_features", path),
        out_features=positive(config, "out_features", path),
        bias=bool(config.get("bias", True)),
        activation=activation,
    )
