"""The model that a configuration trains, and its loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from twinvec.errors import ConfigurationError
from twinvec.models.backbone import max_input_tokens, position_limit, read_transformer_config
from twinvec.models.encoder_spec import NO_PROMPTS, read_modules
from twinvec.models.finding import find_model
from twinvec.models.integrity import read_object
from twinvec.support.extras import import_extra
from twinvec.training import settings
from twinvec.training.losses import modules as losses
from twinvec.training.run.config import TrainConfig

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer


_PROMPT_OF = {"anchor": "query", "positive": "document", "negative": "document", "negatives": "document"}


def build_encoder(config: TrainConfig) -> SentenceTransformer:
    """Return the configured bi-encoder; raise ModelError for its model, ConfigurationError for its settings."""
    from sentence_transformers import SentenceTransformer

    folder = find_model(config.model).path
    limit = _input_limit(config, folder)
    model = SentenceTransformer(str(folder), device=config.device, local_files_only=True)
    model.max_seq_length = limit
    if config.prompts is not None:
        model.prompts = {**NO_PROMPTS, **config.prompts}
        if model.default_prompt_name not in config.prompts:
            model.default_prompt_name = None
    if config.pooling is not None:
        _set_pooling(model, config.pooling)
    dim = _dim(model)
    if config.matryoshka and max(config.matryoshka) > dim:
        raise ConfigurationError(f"matryoshka: {max(config.matryoshka)} is more than the model's {dim} dimensions")
    if config.lora is not None:
        _add_adapters(model, config.lora)
    return model


def with_prompts(model: SentenceTransformer) -> Callable[[list[str], str], dict[str, Any]]:
    """Return a function from texts and their role to features, which puts the model's prompt before the texts.

    The prompt is ``query`` for anchors, ``document`` for positives and negatives, the default prompt for other roles.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling

    pooled = any(isinstance(module, Pooling) and module.include_prompt for module in model)

    def preprocess(texts: list[str], role: str) -> dict[str, Any]:
        name = _PROMPT_OF.get(role, model.default_prompt_name)
        features = dict(model.preprocess(texts, prompt=model.prompts[name] if name else None))
        if pooled:
            features.pop("prompt_length", None)  # arms with different lengths could not share a chunk
        return features

    return preprocess


def build_loss(config: TrainConfig, model: SentenceTransformer, labels: tuple[str, ...]) -> losses.EmbeddingLoss:
    """Return the loss over the model's vectors; ``labels`` are the classes for softmax."""
    dim = _dim(model)
    loss = _vector_loss(config.objective, dim, labels)
    if config.matryoshka:
        loss = losses.MatryoshkaLoss(loss, sorted({*config.matryoshka, dim}))
    return losses.EmbeddingLoss(
        model, loss, token_budget=config.batches.token_budget, kept_tokens=config.batches.kept_tokens
    )


def build_cross_encoder(config: TrainConfig) -> CrossEncoder:
    """Return a cross-encoder with one output as it is, or any other model's backbone with a new classifier."""
    from sentence_transformers import CrossEncoder

    folder = find_model(config.model).path
    described = read_object(read_modules(folder)[0][1] / "config.json")
    classifier = any(str(name).endswith("ForSequenceClassification") for name in described.get("architectures") or ())
    other_head = classifier and len(described.get("id2label") or (0, 1)) != 1  # 2 is the library's default
    model: CrossEncoder = CrossEncoder(
        str(folder),
        num_labels=1,
        max_length=_input_limit(config, folder),
        device=config.device,
        local_files_only=True,
        activation_fn=nn.Sigmoid() if other_head else None,
        model_kwargs={"ignore_mismatched_sizes": other_head},
    )
    return model


def merge_adapters(model: SentenceTransformer) -> None:
    """Merge low-rank adapters into the weights that they adapt."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    backbone = _backbone(model)
    for name, module in list(backbone.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(backbone.get_submodule(parent), child, module.get_base_layer())
    backbone._hf_peft_config_loaded = False


def _set_pooling(model: SentenceTransformer, mode: str) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling

    place, old = next((place, module) for place, module in enumerate(model) if isinstance(module, Pooling))
    new = Pooling(old.embedding_dimension, pooling_mode=mode, include_prompt=old.include_prompt)
    before, after = old.get_embedding_dimension(), new.get_embedding_dimension()
    if before != after and any(isinstance(module, Dense) for module in list(model)[place + 1 :]):
        raise ConfigurationError(
            f"pooling: {mode!r} gives {after} values, but the model's dense layer takes {before}, as "
            f"{old.pooling_mode!r} gives"
        )
    model[place] = new


def _input_limit(config: TrainConfig, folder: Path) -> int:
    """Return the token limit: as configured, or as the model is served."""
    backbone = read_modules(folder)[0][1]
    described = read_object(backbone / "config.json")
    positions = position_limit(described)
    if config.max_tokens is None:
        return max_input_tokens(backbone, described, read_transformer_config(backbone))
    if config.max_tokens > positions:
        raise ConfigurationError(f"max_tokens is {config.max_tokens}, but the model has {positions} positions")
    return config.max_tokens


def _backbone(model: SentenceTransformer) -> Any:
    return model[0].auto_model


def _dim(model: SentenceTransformer) -> int:
    dim = model.get_embedding_dimension()
    assert dim is not None
    return dim


def _add_adapters(model: SentenceTransformer, lora: settings.Lora) -> None:
    peft = import_extra("peft", "train", "lora")
    layers = {name.rpartition(".")[2] for name, _ in _backbone(model).named_modules()}
    unknown = sorted({target.rpartition(".")[2] for target in lora.targets} - layers)
    if unknown:
        raise ConfigurationError(f"lora: the model has no layer {unknown[0]!r}, one of 'targets'")
    try:
        model.add_adapter(
            peft.LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.targets)
        )
    except ValueError as error:
        raise ConfigurationError(f"lora: {error}") from error


def _vector_loss(objective: Any, dim: int, labels: tuple[str, ...]) -> losses.VectorLoss:
    match objective:
        case settings.InfoNCE():
            return losses.InfoNCELoss(
                objective.scale, objective.similarity, objective.symmetric, objective.false_negative_margin
            )
        case settings.Triplet():
            return losses.TripletLoss(objective.distance, objective.margin)
        case settings.Contrastive():
            online = objective.name == "online_contrastive"
            return losses.ContrastiveLoss(objective.distance, objective.margin, online)
        case settings.Regression():
            return losses.CosineRegressionLoss()
        case settings.Softmax():
            return losses.SoftmaxLoss(dim, labels, objective.concatenation)
        case _:
            raise ConfigurationError(f"objective {objective.name!r} is not for a bi-encoder")
