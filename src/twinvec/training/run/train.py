"""A training run from configuration to model folder, for ``twinvec train`` and for Python.

A killed run continues from its last checkpoint and ends with the same weights, byte for byte on the same machine.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from twinvec.errors import ConfigurationError
from twinvec.support.checks import file_path, shown, string
from twinvec.support.extras import import_extra
from twinvec.support.progress import progress_bar
from twinvec.training.data.batch_sampler import BatchPlan, dataset_weights
from twinvec.training.data.classes import log_classes
from twinvec.training.data.rows import Rows, open_rows
from twinvec.training.losses.distributed import is_main_process, mean_of_all, wait_for_all
from twinvec.training.run.config import FieldError, TrainConfig
from twinvec.training.run.model_card import Scores, TrainReport, figures_by_step, write_card
from twinvec.training.run.run_folder import RunFolder, file_digests
from twinvec.training.run.softmax_head import save_head
from twinvec.training.settings import Contrastive, InfoNCE
from twinvec.version import __version__

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 1000


def train(config: TrainConfig, folder: Path) -> TrainReport:
    """Train a model, or continue an interrupted run. For a finished run, only return its report.

    Raises:
        ConfigurationError: settings do not fit the data or the model, the folder holds something else, or its disk is
            full.
        DocumentError: data cannot be used; the message names file, row and field.
        MissingExtraError: the packages for training are not installed.
        ModelError: the model cannot be found or is damaged.
    """
    if not isinstance(config, TrainConfig):
        raise ConfigurationError(
            f"config: expected a TrainConfig, got {shown(config)}; read_config reads one from a file, and check_config "
            "makes one of a mapping"
        )
    folder = file_path(folder, "folder")
    string(str(folder), "folder")  # the libraries write to paths in UTF-8 only
    files = file_digests(config)
    run = RunFolder(folder, config, files)
    if run.finished:
        logger.warning("%s: this run has finished already", folder)
        if is_main_process():
            run.tidy()
        return TrainReport(**{**run.recall("report"), "folder": str(folder)})  # the folder may have been moved
    if is_main_process():
        run.check_unlocked()  # at once, because the packages take seconds to import
    for package in ("accelerate", "matplotlib", "sentence_transformers"):  # matplotlib draws a plot for the model card
        import_extra(package, "train", "training")
    with run.with_room(), run.locked() if is_main_process() else nullcontext():
        sources = _open(config, run.checkpoints / "data")
        ready = _Run(config, run, sources)
        if is_main_process():  # the settings fit the data and the model, so the folder may become this run's
            run.remember("config", config.model_dump(mode="json"))
            run.remember("files", files)
        return ready.run()


class _Run:
    def __init__(self, config: TrainConfig, folder: RunFolder, sources: list[Rows]) -> None:
        from twinvec.training.run.building import build_parts, build_trainer

        self._config = config
        self._folder = folder
        self._classes = _classes(sources)
        self._parts = build_parts(config, sources, folder.checkpoints / "data")
        self._trainer = build_trainer(self._parts, config, folder, self._plan())

    def run(self) -> TrainReport:
        """Measure, train from the last checkpoint or from the start, measure again, and save."""
        before = self._folder.recall("before")
        if before is None:
            before = self._scores()
            if is_main_process():
                self._folder.remember("before", before)
        seconds = self._train()
        if self._config.lora is not None:
            from twinvec.training.run.building import merge_adapters

            merge_adapters(self._parts.model)
        state = self._trainer.state
        losses = [entry[key] for key in ("train_loss", "loss") for entry in state.log_history if key in entry]
        report = TrainReport(
            folder=str(self._folder.path),
            steps=state.global_step,
            rows=sum(len(rows) for rows in self._parts.rows),
            before=before,
            after=self._scores(),
            best_step=state.best_global_step or state.global_step,
            loss=mean_of_all(losses[-1], self._trainer.args.device) if losses else None,
            seconds=round(seconds, 1),
            rows_drawn=self._trainer.rows_drawn,
            classes=self._classes,
        )
        if is_main_process():
            self._save(report)
            _warn_if_worse(report)
        wait_for_all()
        return report

    def _scores(self) -> Scores:
        if self._parts.measure is None:
            return {}
        with progress_bar("Measuring", None, "", shown=is_main_process()):
            return self._parts.measure()

    def _train(self) -> float:
        """Train to the end; return the training seconds of the run, including the time before it was resumed."""
        checkpoint = self._folder.last_checkpoint()
        wait_for_all()  # all processes have read the checkpoints, before one removes some
        if is_main_process():
            self._folder.drop_unusable(checkpoint)
        if checkpoint is not None:
            logger.warning("continuing from %s", checkpoint)
        self._trainer.start_counts(checkpoint)
        if checkpoint is None or not self._trainer.resume_if_finished(checkpoint):
            with self._trainer.bar:
                self._trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
        return float(self._trainer.seconds)

    def _save(self, report: TrainReport) -> None:
        from twinvec.training.run.building import save_model

        def write_model(target: Path) -> None:
            save_model(self._parts.model, target)
            save_head(getattr(self._trainer.loss, "loss", self._trainer.loss), target)
            write_card(target, self._config, self._parts.rows, report, self._trainer.state.log_history)

        self._folder.remember("history", figures_by_step(self._trainer.state.log_history))
        self._folder.remember("report", asdict(report))
        self._folder.finish(write_model, {"trained_with": f"twinvec {__version__}"})

    def _plan(self) -> BatchPlan:
        batches = self._config.batches
        given = [source.weight for source in self._config.data if source.weight is not None]
        sizes = [len(rows) for rows in self._parts.rows]
        return BatchPlan(
            [getattr(rows, "hashes", np.zeros((len(rows), 0), dtype=np.int64)) for rows in self._parts.rows],
            batches.size,
            weights=dataset_weights(sizes, power=batches.power, cap=batches.cap, given=given or None),
            datasets=batches.datasets,
            unique_texts=batches.unique_texts and isinstance(self._config.objective, InfoNCE),
            seed=self._config.schedule.seed,
            names=[rows.name for rows in self._parts.rows],
        )


def _warn_if_worse(report: TrainReport) -> None:
    """Warn if the first score, which chooses the checkpoint, is lower than before training."""
    for name, score in list(report.after.items())[:1]:
        if round(score, 2) < round(report.before[name], 2):
            logger.warning(
                "%s: the trained model is worse than the one before: %s fell from %.2f to %.2f; try a lower "
                "schedule.learning_rate, or other data",
                report.folder,
                name,
                report.before[name],
                score,
            )


def _open(config: TrainConfig, cache: Path) -> list[Rows]:
    """Open and check all datasets; all get the same list of labels."""
    shown = is_main_process()
    sources = [open_rows(source, config.objective.name, cache, progress=shown) for source in config.data]
    classes = _classes(sources)
    labels = tuple(classes)
    if config.objective.name == "softmax" and len(labels) == 1:
        raise FieldError(f"data: all labels are {labels[0]!r}, but softmax needs at least two different labels")
    if classes:
        log_classes(classes)
    if isinstance(config.objective, Contrastive):
        _require_both_labels(sources, config.objective.name)
    names = [rows.name for rows in sources]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise FieldError(f"data: two datasets are called {repeated!r}; give each its own name")
    if isinstance(config.objective, InfoNCE):
        left_out = config.objective.mask_texts or config.batches.unique_texts
        for drawn in [[rows] for rows in sources] if config.batches.datasets == 1 else [sources]:
            where = f"data, {drawn[0].name!r}" if len(drawn) < len(sources) else "data"
            _require_negatives(drawn, where, equal_texts_are_left_out=left_out)
    return [replace(rows, labels=labels) for rows in sources]


def _classes(sources: list[Rows]) -> dict[str, int]:
    """Return softmax's classes: label -> number of rows in all datasets, sorted by label."""
    counted = sum((Counter(rows.classes) for rows in sources), Counter[str]())
    return dict(sorted(counted.items()))


def _require_negatives(sources: list[Rows], where: str, *, equal_texts_are_left_out: bool) -> None:
    """Raise FieldError if the datasets of a batch have no negatives, so that its loss would be 0."""
    if any(rows.negatives.any() for rows in sources):
        return
    first = sources[0].hashes[0]
    alike = np.all([(rows.hashes == first).all(axis=0) for rows in sources], axis=0)
    if sum(map(len, sources)) == 1:
        reason = "there is one row"
    elif alike.any() and equal_texts_are_left_out:
        reason = f"all rows have the same {'anchor' if alike[0] else 'positive'}"
    else:
        return
    raise FieldError(
        f"{where}: info_nce takes the texts of other rows as negatives, but {reason}; add rows with other texts, or "
        "'negatives' ('twinvec mine' finds some)"
    )


def _require_both_labels(sources: list[Rows], objective: str) -> None:
    """Raise FieldError if all pairs are positive (training would make all vectors equal), or all are negative."""
    labels: set[int] = set()
    for rows in sources:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows.rows(range(start, min(start + _ROWS_AT_ONCE, len(rows))))
            labels.update(row["label"] for row in part)
            if len(labels) > 1:
                return
    raise FieldError(
        f"data: all labels are {labels.pop()}, but {objective} needs pairs of both labels: 1 for texts that belong "
        "together, 0 for others"
    )
