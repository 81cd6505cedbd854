"""A training run from configuration to model folder: what ``twinvec train`` and ``train`` do.

The folder gets the model in the sentence-transformers format, ``training.json`` (settings and scores), a model card
with the curves of loss and scores, and the manifest. A run that was killed goes on from its last checkpoint and ends
with the same weights, byte for byte on the same machine.
"""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.errors import ConfigurationError
from twinvec.support.extras import import_extra
from twinvec.training.data.batch_sampler import BatchPlan, dataset_weights
from twinvec.training.data.cross_encoder_rows import PairRows
from twinvec.training.data.rows import Rows, open_rows
from twinvec.training.losses.distributed import is_first, mean_of_all, wait_for_all
from twinvec.training.run.config import TrainConfig
from twinvec.training.run.evaluators import Measure, cross_encoder_measure, encoder_measure
from twinvec.training.run.fingerprint import fingerprint
from twinvec.training.run.library_arguments import library_arguments, tensorboard_folder
from twinvec.training.run.report import TrainReport
from twinvec.training.run.run_folder import RunFolder
from twinvec.training.settings import InfoNCE

logger = logging.getLogger(__name__)


def train(config: TrainConfig, folder: Path) -> TrainReport:
    """Train, or go on with a run that was cut off. A finished run is reported and left alone.

    Raises:
        ConfigurationError: settings that do not fit the data or the model; a folder that holds something else.
        DocumentError: data that cannot be used; it names file, row and field.
        MissingExtraError: the packages for training are not installed.
        ModelError: the model cannot be found or is damaged.
    """
    for package in ("accelerate", "matplotlib", "sentence_transformers"):  # matplotlib draws the model card's plot
        import_extra(package, "train", "training")
    run = RunFolder(folder, fingerprint(config))
    if run.finished:
        logger.info("%s: finished before", folder)
        return TrainReport(**run.recall("report"))
    with run.held() if is_first() else nullcontext():
        sources = _open(config, run.checkpoints / "data")
        if is_first():
            run.remember("config", config.model_dump(mode="json"))
        return _Run(config, run, sources).go()


class _Run:
    """The parts of a run, put together."""

    def __init__(self, config: TrainConfig, run: RunFolder, sources: list[Rows]) -> None:
        from transformers import set_seed

        from twinvec.training.run import building
        from twinvec.training.run.library_trainers import EncoderTrainer, PairTrainer, RowDataset, TextCollator

        set_seed(config.schedule.seed)  # before the model: a head is made at random
        self._config = config
        self._run = run
        self._sources = sources
        cache = run.checkpoints / "data"
        evaluation = config.evaluation
        self._measure: Measure | None = None
        self.trainer: Any
        if config.kind == "bi-encoder":
            self._model: Any = building.build_encoder(config)
            loss: Any = building.build_loss(config, self._model, sources[0].labels)
            self._rows: list[Any] = list(sources)
            if evaluation is not None:
                self._measure = encoder_measure(self._model, evaluation, cache)
            hashed = isinstance(config.objective, InfoNCE) and config.objective.mask_texts
            trainer_class: Any = EncoderTrainer
            roles = list(dict.fromkeys(role for rows in sources for role in rows.roles))
            collator: Any = TextCollator(building.with_prompts(self._model), roles, hashed)
        else:
            from sentence_transformers.cross_encoder.data_collator import CrossEncoderDataCollator

            from twinvec.training.losses.modules import PairScoreLoss

            self._model = building.build_cross_encoder(config)
            loss = PairScoreLoss(self._model)
            self._rows = [PairRows(rows) for rows in sources]
            if evaluation is not None:
                self._measure = cross_encoder_measure(self._model, evaluation, cache)
            trainer_class = PairTrainer
            collator = CrossEncoderDataCollator(preprocess_fn=self._model.preprocess)
        self.trainer = self._make_trainer(trainer_class, loss, collator)
        self.trainer.prepare_run(
            RowDataset(self._rows),
            self._plan(),
            self._measure,
            label=f"Training {run.path.name}",
            checkpoint_every=config.schedule.checkpoint_every,
            patience=evaluation.patience if evaluation is not None else None,
        )

    def go(self) -> TrainReport:
        trainer, run = self.trainer, self._run
        before = run.recall("before")
        if before is None:
            before = self._measure() if self._measure else {}
            if is_first():
                run.remember("before", before)
        checkpoint = run.last_checkpoint()
        if is_first():
            run.drop_incomplete()
        if checkpoint is not None:
            logger.info("going on from %s", checkpoint)
        started = time.perf_counter()
        if checkpoint is None or not trainer.resume_if_finished(checkpoint):
            with trainer.bar:
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
        seconds = time.perf_counter() - started
        if self._config.lora is not None:
            from twinvec.training.run.building import merge_adapters

            merge_adapters(self._model)
        losses = [entry[key] for key in ("train_loss", "loss") for entry in trainer.state.log_history if key in entry]
        report = TrainReport(
            folder=str(run.path),
            steps=trainer.state.global_step,
            rows=sum(len(rows) for rows in self._rows),
            before=before,
            after=self._measure() if self._measure else {},
            best_step=trainer.state.best_global_step or trainer.state.global_step,
            loss=mean_of_all(losses[-1], trainer.args.device) if losses else None,
            seconds=round(seconds, 1),
        )
        if is_first():
            self._save(report)
        wait_for_all()
        return report

    def _save(self, report: TrainReport) -> None:
        from twinvec.training.run.model_card import write_card
        from twinvec.training.run.softmax_head import save_head

        def write_model(target: Path) -> None:
            self._model.save_pretrained(str(target), create_model_card=False)
            save_head(getattr(self.trainer.loss, "loss", self.trainer.loss), target)
            write_card(target, self._config, self._rows, report, self.trainer.state.log_history)

        self._run.remember("report", {name: getattr(report, name) for name in report.__slots__})
        self._run.finish(write_model, {"trained_with": f"twinvec {_version()}"})

    def _plan(self) -> BatchPlan:
        batches = self._config.batches
        given = [source.weight for source in self._config.data if source.weight is not None]
        sizes = [len(rows) for rows in self._rows]
        return BatchPlan(
            [getattr(rows, "hashes", np.zeros((len(rows), 0), dtype=np.int64)) for rows in self._rows],
            batches.size,
            weights=dataset_weights(sizes, power=batches.power, cap=batches.cap, given=given or None),
            datasets=batches.datasets,
            unique_texts=batches.unique_texts and isinstance(self._config.objective, InfoNCE),
            seed=self._config.schedule.seed,
        )

    def _make_trainer(self, trainer_class: Any, loss: Any, collator: Any) -> Any:
        from transformers import PrinterCallback

        arguments = trainer_class.training_args_class(**library_arguments(self._config, self._run.checkpoints))
        with tensorboard_folder(self._run.path / "runs"):
            trainer = trainer_class(
                model=self._model,
                args=arguments,
                train_dataset=_placeholder(),
                eval_dataset=_placeholder() if self._measure else None,
                loss=loss,
                data_collator=collator,
            )
        trainer.remove_callback(PrinterCallback)  # prints to stdout
        return trainer


def _placeholder() -> Any:
    """The trainer wants a dataset to look at; the rows come through its data loader."""
    from datasets import Dataset

    return Dataset.from_dict({"anchor": [""], "positive": [""]})


def _open(config: TrainConfig, cache: Path) -> list[Rows]:
    """All datasets, checked, with the same labels."""
    sources = [open_rows(source, config.objective.name, cache) for source in config.data]
    labels = tuple(sorted({label for rows in sources for label in rows.labels}))
    if config.objective.name == "softmax" and len(labels) == 1:
        raise ConfigurationError(f"data: all labels are {labels[0]!r}, and softmax learns to tell labels apart")
    if config.objective.name == "softmax" and len(sources) > 1:
        sources = [open_rows(source, config.objective.name, cache, labels) for source in config.data]
    names = [rows.name for rows in sources]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ConfigurationError(f"data: two datasets are called {repeated!r}; give them names of their own")
    return sources


def _version() -> str:
    from twinvec.version import __version__

    return __version__
