"""Builds the model, the loss and the trainer of a configuration, for a bi-encoder or a cross-encoder."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.cross_encoder.data_collator import CrossEncoderDataCollator
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
from torch import nn
from transformers import PreTrainedTokenizerFast, PrinterCallback, set_seed
from transformers.integrations.integration_utils import TensorBoardCallback

from twinvec.engines.loaded_model import load_tokenizer
from twinvec.engines.torch import has_segments, limit_threads
from twinvec.errors import ModelError
from twinvec.models.backbone import BackboneSpec, is_classifier, label_count, read_backbone, read_transformer_config
from twinvec.models.cross_encoder_spec import read_classifier
from twinvec.models.encoder_spec import NO_PROMPTS, read_modules, read_spec
from twinvec.models.finding import find_model
from twinvec.models.integrity import read_object
from twinvec.models.space import SPACE_PROBES
from twinvec.support.extras import import_extra
from twinvec.training import settings
from twinvec.training.data.batch_sampler import BatchPlan
from twinvec.training.data.rows import PairRows, Rows
from twinvec.training.data.truncation import TruncationNotice
from twinvec.training.losses import modules as losses
from twinvec.training.losses.tiled_info_nce import InfoNCESettings
from twinvec.training.run.config import FieldError, TrainConfig
from twinvec.training.run.evaluators import Measurement, cross_encoder_measure, encoder_measure
from twinvec.training.run.library_trainers import (
    EncoderTrainer,
    PairTrainer,
    RowDataset,
    TextCollator,
    library_arguments,
)
from twinvec.training.run.run_folder import RunFolder

logger = logging.getLogger(__name__)

_PROMPT_OF = {"anchor": "query", "positive": "document", "negative": "document", "negatives": "document"}


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a run that differ between a bi-encoder and a cross-encoder."""

    model: Any
    loss: Any
    rows: list[Any]
    collator: Any
    trainer_class: Any
    measure: Measurement | None


def build_parts(config: TrainConfig, sources: list[Rows], cache: Path) -> Parts:
    """Return a run's model, loss, data and measurement; ``cache`` is a folder for copies of the data."""
    limit_threads()
    set_seed(config.schedule.seed)  # before the model is built: a new head has random weights
    return (_encoder_parts if config.kind == "bi-encoder" else _cross_encoder_parts)(config, sources, cache)


def _encoder_parts(config: TrainConfig, sources: list[Rows], cache: Path) -> Parts:
    model = _build_encoder(config)
    loss = _build_loss(config, model, sources[0].labels)
    if isinstance(config.objective, settings.MarginMSE):
        _warn_of_far_margins(config.objective, sources, isinstance(model[-1], Normalize))
    hashed = isinstance(config.objective, settings.InfoNCE) and config.objective.mask_texts
    roles = list(dict.fromkeys(role for rows in sources for role in rows.roles))
    collator = TextCollator(with_prompts(model), roles, hashed)
    measure = None if config.evaluation is None else encoder_measure(model, config.evaluation, cache)
    return Parts(model, loss, list(sources), collator, EncoderTrainer, measure)


def _cross_encoder_parts(config: TrainConfig, sources: list[Rows], cache: Path) -> Parts:
    rows = [PairRows(each) for each in sources]  # raises if rows have no negatives, before a model is loaded
    model = _build_cross_encoder(config)
    collator = CrossEncoderDataCollator(preprocess_fn=model.preprocess)
    measure = None if config.evaluation is None else cross_encoder_measure(model, config.evaluation, cache)
    return Parts(model, losses.PairScoreLoss(model), rows, collator, PairTrainer, measure)


def build_trainer(parts: Parts, config: TrainConfig, folder: RunFolder, plan: BatchPlan) -> Any:
    """Return a trainer that is ready to train."""
    arguments = parts.trainer_class.training_args_class(**library_arguments(config, folder.checkpoints))
    arguments._n_gpu = min(arguments.n_gpu, 1)  # DataParallel would not replay the dropout of the gradient cache
    stand_in = Dataset.from_dict({"anchor": [""], "positive": [""]})  # the real rows come through the data loader
    trainer = parts.trainer_class(
        model=parts.model,
        args=arguments,
        train_dataset=stand_in,
        eval_dataset=stand_in if parts.measure else None,
        loss=parts.loss,
        data_collator=parts.collator,
    )
    trainer.remove_callback(PrinterCallback)  # this callback prints to stdout
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:  # not set by the environment
            callback.logging_dir = str((folder.path / "runs").absolute())
    trainer.prepare_run(config, RowDataset(parts.rows), plan, parts.measure)
    return trainer


def _build_encoder(config: TrainConfig) -> SentenceTransformer:
    with _naming_the_field():
        folder = find_model(config.model).path
        read_spec(folder)  # raises for a model that an Encoder refuses
        backbone = _read_backbone(config, folder)
    model = SentenceTransformer(
        str(folder), device=config.device, local_files_only=True, model_kwargs={"dtype": torch.float32}
    )
    _keep_tokens(model, backbone)
    if config.prompts is not None:
        model.prompts = {**NO_PROMPTS, **config.prompts}
        if model.default_prompt_name not in config.prompts:
            model.default_prompt_name = None
        _warn_of_unused_prompts(config.prompts, config.objective.name, model.default_prompt_name)
    if config.pooling is not None:
        _set_pooling(model, config.pooling)
    if config.lora is not None:
        _add_adapters(model, config.lora)
    return model


def _keep_tokens(model: Any, backbone: BackboneSpec) -> None:
    """Make a model tokenise and truncate texts as an ``Encoder`` of its folder does, and save that tokenizer.

    transformers builds some tokenizers by the rules of a class, not by ``tokenizer.json``. For BERT with the vocabulary
    of XLM-RoBERTa, such as older copies of paraphrase-multilingual-MiniLM-L12-v2, most tokens then differ. For a class
    that belongs to no model, transformers 5 leaves out the segments of pairs.
    """
    probes, served = list(SPACE_PROBES), load_tokenizer(backbone)
    own = served.for_chunking()
    if model.tokenizer(probes, verbose=False)["input_ids"] != [each.ids for each in own.encode_batch(probes)]:
        model[0].processor = PreTrainedTokenizerFast.from_pretrained(
            backbone.folder, tokenizer_object=own, local_files_only=True
        )
    if isinstance(model, CrossEncoder) and served.has_segments and has_segments(model[0].auto_model):
        _name_segments(model.tokenizer)
    model.max_seq_length = backbone.max_tokens


def _name_segments(tokenizer: Any) -> None:
    """Let a tokenizer give segments to pairs, here and wherever transformers loads it after it was saved."""
    if "token_type_ids" not in tokenizer.model_input_names:
        tokenizer.model_input_names = [*tokenizer.model_input_names, "token_type_ids"]
        tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names


def _warn_of_unused_prompts(prompts: dict[str, str], objective: str, default: str | None) -> None:
    """Warn of prompts that training does not use, although they are saved with the model."""
    roles = settings.ROLES[objective]
    used = {default, *(_PROMPT_OF.get(role) for role in (*roles.needed, *roles.optional))}
    if unused := sorted(name for name, text in prompts.items() if text and name not in used):
        logger.warning(
            "prompts: training does not use %s; %s",
            ", ".join(map(repr, unused)),
            "it uses 'query', 'document' and the model's default prompt"
            if "anchor" in roles.needed
            else f"{objective} puts only the model's default prompt before its sentences",
        )


def with_prompts(model: SentenceTransformer) -> Callable[[list[str], str], dict[str, Any]]:
    """Return a function (texts, role) -> features that puts the model's prompt for the role before the texts.

    The prompt is ``query`` for anchors, ``document`` for positives and negatives, the default prompt for other roles.
    """
    pooled = any(isinstance(module, Pooling) and module.include_prompt for module in model)
    notice = TruncationNotice(model)

    def preprocess(texts: list[str], role: str) -> dict[str, Any]:
        name = _PROMPT_OF.get(role, model.default_prompt_name)
        prompt = model.prompts[name] if name else None
        features = dict(model.preprocess(texts, prompt=prompt))
        notice.warn_if_truncated(texts, features, prompt or "")
        if pooled:
            features.pop("prompt_length", None)  # columns with prompts of different lengths could not share a chunk
        return features

    return preprocess


def _build_loss(config: TrainConfig, model: SentenceTransformer, labels: tuple[str, ...]) -> losses.EmbeddingLoss:
    dim = model.get_embedding_dimension()
    assert dim is not None
    normalizes = isinstance(model[-1], Normalize)
    loss = _vector_loss(config.objective, dim, labels)
    if config.matryoshka:
        if max(config.matryoshka) > dim:
            raise FieldError(f"matryoshka: {max(config.matryoshka)} is more than the model's {dim} dimensions")
        loss = losses.MatryoshkaLoss(loss, sorted({*config.matryoshka, dim}), normalizes=normalizes)
    return losses.EmbeddingLoss(
        model,
        loss,
        token_budget=config.batches.token_budget,
        kept_tokens=config.batches.kept_tokens,
        truncate=None if model.truncate_dim is None else partial(losses.truncated, dim=dim, normalizes=normalizes),
    )


def _warn_of_far_margins(objective: settings.MarginMSE, sources: list[Rows], normalizes: bool) -> None:
    """Warn if the teacher's margins are larger than the model's can be."""
    largest = max(rows.largest_margin for rows in sources)
    if largest > 2 * objective.scale and (normalizes or objective.similarity == "cosine"):
        logger.warning(
            "objective.scale: the teacher's margins are up to %.4g, but those of vectors of length 1 at most 2 * scale "
            "(%.4g); try a scale of about %.2g",
            largest,
            2 * objective.scale,
            largest,
        )


def _build_cross_encoder(config: TrainConfig) -> CrossEncoder:
    """Return a cross-encoder: with one output, the model unchanged; otherwise, its backbone with a new classifier."""
    with _naming_the_field():
        folder = find_model(config.model).path
        path = read_modules(folder)[0][1] / "config.json"
        described = read_object(path)
        other_head = is_classifier(described) and label_count(described, path) != 1
        if is_classifier(described) and not other_head:
            read_classifier(folder)  # raises for a model that a CrossEncoderReranker refuses
        backbone = _read_backbone(config, folder)
    model: CrossEncoder = CrossEncoder(
        str(folder),
        num_labels=1,
        device=config.device,
        local_files_only=True,
        activation_fn=nn.Sigmoid() if other_head else None,
        model_kwargs={"ignore_mismatched_sizes": other_head, "dtype": torch.float32},
    )
    _keep_tokens(model, backbone)
    return model


@contextmanager
def _naming_the_field() -> Iterator[None]:
    """Put the name of the configuration's field, 'model', before the errors of a model."""
    try:
        yield
    except ModelError as error:
        raise type(error)(f"model: {error}") from error


def save_model(model: Any, folder: Path) -> None:
    """Save a model, with its setting ``do_lower_case``, which sentence-transformers reads but does not write."""
    model.save_pretrained(str(folder), create_model_card=False)
    if model[0].do_lower_case:
        path = folder / "sentence_bert_config.json"
        path.write_text(json.dumps(read_object(path) | {"do_lower_case": True}, indent=4), encoding="utf-8")


def merge_adapters(model: SentenceTransformer) -> None:
    """Merge low-rank adapters into the weights that they adapt."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    backbone: Any = model[0].auto_model
    for name, module in list(backbone.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(backbone.get_submodule(parent), child, module.get_base_layer())
    backbone._hf_peft_config_loaded = False


def _set_pooling(model: SentenceTransformer, mode: str) -> None:
    place, old = next((place, module) for place, module in enumerate(model) if isinstance(module, Pooling))
    new = Pooling(old.embedding_dimension, pooling_mode=mode, include_prompt=old.include_prompt)
    before, after = old.get_embedding_dimension(), new.get_embedding_dimension()
    if before != after and any(isinstance(module, Dense) for module in list(model)[place + 1 :]):
        raise FieldError(
            f"pooling: {mode!r} gives {after} values, but the model's dense layer takes the {before} values of "
            f"{old.pooling_mode!r}; leave 'pooling' out"
        )
    model[place] = new


def _read_backbone(config: TrainConfig, folder: Path) -> BackboneSpec:
    """Return a model's backbone as an ``Encoder`` serves it, but with the token limit of the configuration, if any."""
    transformer = read_modules(folder)[0][1]
    backbone = read_backbone(transformer, read_transformer_config(transformer))
    if config.max_tokens is None:
        return backbone
    if config.max_tokens > backbone.positions:
        raise FieldError(f"max_tokens is {config.max_tokens}, but the model has {backbone.positions} positions at most")
    if config.max_tokens < backbone.max_tokens:
        logger.warning(
            "max_tokens: the trained model will truncate texts to %d tokens; its base model, %s, reads %d tokens",
            config.max_tokens,
            config.model,
            backbone.max_tokens,
        )
    return replace(backbone, max_tokens=config.max_tokens)


def _add_adapters(model: SentenceTransformer, lora: settings.Lora) -> None:
    peft = import_extra("peft", "train", "lora")
    backbone: Any = model[0].auto_model
    layers = {name.rpartition(".")[2] for name, _ in backbone.named_modules()}
    unknown = sorted({target.rpartition(".")[2] for target in lora.targets} - layers)
    if unknown:
        linear = {name.rpartition(".")[2] for name, module in backbone.named_modules() if isinstance(module, nn.Linear)}
        raise FieldError(f"lora.targets: the model has no layer {unknown[0]!r}; it has {', '.join(sorted(linear))}")
    try:
        model.add_adapter(
            peft.LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.targets)
        )
    except ValueError as error:
        raise FieldError(f"lora: {error}") from error


def _vector_loss(objective: Any, dim: int, labels: tuple[str, ...]) -> losses.VectorLoss:
    given = objective.model_dump(exclude={"name", "mask_texts"})
    match objective:
        case settings.InfoNCE():
            return losses.InfoNCELoss(InfoNCESettings(**given))
        case settings.Triplet():
            return losses.TripletLoss(**given)
        case settings.Regression():
            return losses.CosineRegressionLoss()
        case settings.MarginMSE():
            return losses.MarginMSELoss(**given)
        case settings.Softmax():
            return losses.SoftmaxLoss(dim, labels, **given)
        case _:
            return losses.ContrastiveLoss(**given, online=objective.name == "online_contrastive")
