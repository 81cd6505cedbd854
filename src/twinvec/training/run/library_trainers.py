"""The trainers of sentence-transformers, with our settings, batches, checkpoints and measurements."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate.data_loader import prepare_data_loader
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoderTrainer, SentenceTransformerTrainer
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import TrainerCallback, TrainerState

from twinvec.engines.torch import torch_device
from twinvec.errors import ConfigurationError
from twinvec.support.progress import Advance, progress_bar, unseen
from twinvec.training.data.batch_sampler import BatchPlan
from twinvec.training.data.rows import PairRows, Rows
from twinvec.training.losses.distributed import own_part, wait_for_all, world_size
from twinvec.training.losses.negatives_mask import text_hashes
from twinvec.training.run.config import TrainConfig
from twinvec.training.run.evaluators import Measurement
from twinvec.training.run.run_folder import mark_complete

logger = logging.getLogger(__name__)

_TENSORS = "tensors.safetensors"
_UNLOGGED = "unlogged-{}.json"  # a file for each process
_SCORE = "eval_"
_CHECKPOINT_SECONDS = 300.0  # only for a run of one process, because several processes have different clocks


class RowDataset(Dataset[dict[str, Any]]):
    """Several sources as one dataset, with row numbers counted through all sources in order."""

    def __init__(self, sources: Sequence[Rows | PairRows]) -> None:
        self._sources = sources
        self._ends = torch.tensor([len(source) for source in sources]).cumsum(0)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitems__(self, batch: list[int]) -> list[dict[str, Any]]:
        """Return the rows that this process computes of a batch of row numbers; each source is read once."""
        indices = own_part(batch)
        owners = torch.bucketize(torch.tensor(indices), self._ends, right=True).tolist()
        rows: list[dict[str, Any]] = [{}] * len(indices)
        for owner, source in enumerate(self._sources):
            places = [place for place, its in enumerate(owners) if its == owner]
            start = int(self._ends[owner]) - len(source)
            for place, row in zip(places, source.rows([indices[place] - start for place in places]), strict=True):
                rows[place] = row
        return rows


@dataclass(frozen=True)
class TextCollator:
    """Turns rows into labels and the features of each column of texts.

    ``preprocess(texts, role)`` returns the features; ``hashed`` adds the hashes of the texts.
    """

    preprocess: Callable[[list[str], str], dict[str, Any]]
    roles: Sequence[str]
    hashed: bool
    valid_label_columns = ("label", "score")

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        for role in self.roles:
            if role in self.valid_label_columns:
                batch["label"] = torch.tensor([row[role] for row in rows])
                continue
            if role == "scores":
                batch["label"] = torch.tensor([each for place, row in enumerate(rows) for each in _margins(place, row)])
                continue
            ragged = role == "negatives"
            texts = [text for row in rows for text in row.get(role, ())] if ragged else [row[role] for row in rows]
            features = self.preprocess(texts or [""], role)
            if not texts:  # no negatives in this process, but other processes may have some
                features = {name: value[:0] if isinstance(value, Tensor) else value for name, value in features.items()}
            if self.hashed:
                features["text_hash"] = text_hashes(texts)
            batch |= {f"{role}_{name}": values for name, values in features.items()}
        return batch


def _margins(place: int, row: dict[str, Any]) -> list[tuple[float, float]]:
    """Return for each negative of a row the place of the row, and the teacher's margin of its positive."""
    positive, *negatives = row["scores"]
    return [(float(place), positive - negative) for negative in negatives]


class TrainerOverrides:
    """What twinvec changes in both trainers: batches, checkpoints (all tensors of model and loss), scores, progress."""

    def prepare_run(
        self: Any, config: TrainConfig, dataset: RowDataset, plan: BatchPlan, measure: Measurement | None
    ) -> None:
        """Set the data, the measurement, and the conditions to save and to stop; call this method before ``train``."""
        self._dataset = dataset
        self._plan = plan
        self._measure = measure
        self._patience = config.evaluation.patience if config.evaluation is not None else None
        self.bar = ExitStack()
        """Closes the progress bar of ``train``, also after an error."""
        unit = "triplets" if config.objective.name == "triplet" else "pairs"
        self._watcher = _Watcher(plan, config.batches.size, unit, config.schedule.checkpoint_every, self.bar)
        self.add_callback(self._watcher)

    def start_counts(self: Any, checkpoint: Path | None) -> None:
        """Continue ``seconds`` and ``rows_drawn`` from a checkpoint, or start both at 0 without one.

        If an older version wrote the checkpoint, ``seconds`` starts at 0 and ``rows_drawn`` is None.
        """
        before: dict[str, Any] = {}
        if checkpoint is not None and (unlogged := checkpoint / _UNLOGGED.format(0)).is_file():
            before = json.loads(unlogged.read_text())
        self._started = time.monotonic() - before.get("seconds", 0.0)
        self._watcher.rows_drawn = before.get("rows_drawn") if checkpoint is not None else 0

    @property
    def seconds(self: Any) -> float:
        """Training time in seconds: of this process, and of earlier ones up to the checkpoint that each left."""
        return float(time.monotonic() - self._started)

    @property
    def rows_drawn(self: Any) -> int | None:
        """Number of rows of all batches of the run; None if the run began with a version that did not count rows."""
        drawn: int | None = self._watcher.rows_drawn
        return drawn

    def resume_if_finished(self: Any, checkpoint: Path) -> bool:
        """Return whether training had ended with the last checkpoint; if so, restore the state and the best weights.

        The library itself would train one more step, unless training ended with an epoch.
        """
        state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        if state.global_step < state.max_steps and not self._gains_nothing(state):
            return False
        self.state = state
        self._load_from_checkpoint(_checkpoint(self.args, state.best_global_step or state.global_step))
        return True

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Do nothing: ``model_card`` writes the model card."""

    def get_train_dataloader(self: Any) -> Any:
        loader: DataLoader[Any] = DataLoader(
            self._dataset,
            batch_sampler=self._plan,
            collate_fn=self.data_collator,
            pin_memory=self.args.dataloader_pin_memory,
        )
        # num_processes=1: processes already share each batch, and the library would drop batches that are not full
        return prepare_data_loader(loader, self.args.device, num_processes=1, process_index=0, put_on_device=True)

    def evaluate(self: Any, *_: Any, **__: Any) -> dict[str, float]:
        scores = {f"{_SCORE}{name}": score for name, score in self._measure().items()}
        self.log(scores)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, scores)
        if self._gains_nothing(self.state):
            self.control.should_training_stop = True
        return scores

    def _gains_nothing(self: Any, state: TrainerState) -> bool:
        """Return whether the log has ``patience`` measurements after the best one; a resumed run restores the log."""
        metric = self.args.metric_for_best_model
        scores = [entry[metric] for entry in state.log_history if metric in entry]
        return bool(self._patience and scores) and len(scores) - 1 - scores.index(max(scores)) >= self._patience

    def _save(self: Any, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.detach().cpu().clone() for name, value in self._tensors().items()}
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise _diverged("the weights are", self.state.global_step)
        save_file(tensors, folder / _TENSORS)

    def _load_from_checkpoint(self: Any, checkpoint: str | Path, *_: Any) -> None:
        stored = load_file(Path(checkpoint) / _TENSORS)
        with torch.no_grad():
            for name, value in self._tensors().items():
                value.copy_(stored[name])

    def _save_rng_state(self: Any, output_dir: str) -> None:
        """Save what a resumed run needs of this process: random state, losses since the last log, time, rows."""
        super()._save_rng_state(output_dir)  # type: ignore[misc]
        steps = self.state.global_step - self._globalstep_last_logged
        unlogged = Path(output_dir) / _UNLOGGED.format(self.args.process_index)
        counts = {"seconds": self.seconds, "rows_drawn": self.rows_drawn}
        unlogged.write_text(json.dumps({"steps": steps, "loss": self._tr_loss.item(), **counts}))

    def _load_rng_state(self: Any, checkpoint: str | None) -> None:
        super()._load_rng_state(checkpoint)  # type: ignore[misc]
        unlogged = Path(checkpoint or "", _UNLOGGED.format(self.args.process_index))
        if unlogged.is_file():  # the file is missing after a run with fewer processes or by an earlier version
            stored = json.loads(unlogged.read_text())
            self._globalstep_last_logged -= stored["steps"]
            self._tr_loss += stored["loss"]

    def _load_best_model(self: Any) -> None:
        self._load_from_checkpoint(_checkpoint(self.args, self.state.best_global_step))

    def _tensors(self: Any) -> dict[str, torch.Tensor]:
        """Return name -> tensor for everything that training changes; the loss contains the model."""
        return {name.replace("model.module.", "model."): value for name, value in self.loss.state_dict().items()}


class EncoderTrainer(TrainerOverrides, SentenceTransformerTrainer):
    """Trains a bi-encoder."""


class PairTrainer(TrainerOverrides, CrossEncoderTrainer):
    """Trains a cross-encoder."""


@dataclass(eq=False)
class _Watcher(TrainerCallback):
    """Advances the progress bar and the batch plan, and marks complete checkpoints.

    The bar counts the rows of all processes, in units named ``unit``. A checkpoint is due every ``checkpoint_every``
    steps, and five minutes after the last one.
    """

    plan: BatchPlan
    rows: int
    unit: str
    checkpoint_every: int
    bar: ExitStack
    advance: Advance = unseen
    saved_at: float = 0.0
    rows_drawn: int | None = 0
    figures: dict[str, float] = field(default_factory=dict)
    """The last loss and the last score, which the bar shows."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        _warn_of_long_warmup(args.get_warmup_steps(state.max_steps), state.max_steps)
        self.saved_at = time.monotonic()
        bar = progress_bar(
            "Training",
            state.max_steps,
            "steps",
            work=state.max_steps * self.rows,
            work_unit=self.unit,
            done=state.global_step,
            window=math.inf,  # steps with a measurement or a checkpoint take longer than the others
            shown=state.is_world_process_zero,
        )
        self.advance = self.bar.enter_context(bar)
        if state.best_global_step:  # the folder may have been moved since then
            state.best_model_checkpoint = str(_checkpoint(args, state.best_global_step))

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.plan.epoch = int(state.epoch)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.advance(1, work=self.rows)
        if self.rows_drawn is not None:
            self.rows_drawn += self.plan.drawn[(state.global_step - 1) % len(self.plan)]
        is_late = world_size() == 1 and time.monotonic() - self.saved_at > _CHECKPOINT_SECONDS
        # sets the flag, because the library saves only with measurements
        if is_late or state.global_step % self.checkpoint_every == 0:
            control.should_save = True
        if control.should_training_stop and not any("loss" in entry for entry in state.log_history):
            control.should_log = True  # logs the loss at the end of a run with fewer steps than log_every

    def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        logs: dict[str, float] = more["logs"]
        if not math.isfinite(logs.get("loss", 0.0)):
            raise _diverged("the loss is", state.global_step)
        first = next(
            (name for name in logs if name.startswith(_SCORE)), "loss"
        )  # the first score, which chooses the best checkpoint
        self.figures |= {name.removeprefix(_SCORE): logs[name] for name in ("loss", first) if name in logs}
        self.advance(0, work=0, note=", ".join(f"{name} {value:.4g}" for name, value in self.figures.items()))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        wait_for_all()  # each process adds the state of its random generator
        if state.is_world_process_zero:
            mark_complete(_checkpoint(args, state.global_step))
        self.saved_at = time.monotonic()


def library_arguments(config: TrainConfig, checkpoints: Path) -> dict[str, Any]:
    """Return the arguments of sentence-transformers' trainer, which writes to the folder ``checkpoints``."""
    schedule, evaluation = config.schedule, config.evaluation
    device = torch_device(config.device).type
    every = evaluation.every if evaluation is not None else None
    arguments: dict[str, Any] = {
        "output_dir": str(checkpoints.absolute()),
        "per_device_train_batch_size": config.batches.size,
        "num_train_epochs": schedule.epochs,
        "max_steps": schedule.steps or -1,
        "learning_rate": schedule.learning_rate,
        "lr_scheduler_type": schedule.decay,
        "warmup_steps": schedule.warmup,
        "weight_decay": schedule.weight_decay,
        "max_grad_norm": schedule.gradient_clip,
        "bf16": schedule.precision == "bfloat16",
        "fp16": schedule.precision == "float16",
        "seed": schedule.seed,
        "logging_steps": schedule.log_every,
        "logging_nan_inf_filter": False,  # a loss that is not finite ends the run
        "save_strategy": "steps",
        "save_steps": every or schedule.checkpoint_every,
        "save_total_limit": 3 if every else 2,  # the best, the newest, and its predecessor until the newest is complete
        "eval_strategy": "steps" if every else "no",
        "eval_steps": every,
        "report_to": list(schedule.report_to) or "none",
        "disable_tqdm": True,
        "use_cpu": device == "cpu",
        "dataloader_pin_memory": device == "cuda",
    }
    if evaluation is not None and every:
        best = "pairs.mrr@10" if evaluation.pairs is not None else "sts.spearman"
        arguments |= {
            "load_best_model_at_end": True,
            "metric_for_best_model": f"{_SCORE}{best}",
            "greater_is_better": True,
        }
    return arguments


def _warn_of_long_warmup(warmup: int, steps: int) -> None:
    """Warn if the learning rate never reaches its value. It is 0 in the first step of a warm-up."""
    if warmup >= steps:
        lowered = "the model stays as it is" if steps == 1 else "the learning rate stays below schedule.learning_rate"
        logger.warning(
            "schedule.warmup: the warm-up lasts the whole run (steps: %d), so %s; train for more steps or epochs, in "
            "smaller batches, or with 'warmup: 0'",
            steps,
            lowered,
        )


def _checkpoint(args: Any, step: int) -> Path:
    return Path(args.output_dir) / f"checkpoint-{step}"


def _diverged(what: str, step: int) -> ConfigurationError:
    return ConfigurationError(
        f"training diverged: by step {step} {what} not finite; try a lower schedule.learning_rate, a longer warmup, a "
        "smaller gradient_clip, or precision float32, in another folder"
    )
