"""The arguments and the environment through which a configuration reaches sentence-transformers' trainer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinvec.training.run.config import TrainConfig


def library_arguments(config: TrainConfig, checkpoints: Path) -> dict[str, Any]:
    """Return the arguments of either ``...TrainingArguments`` class; the trainer writes to ``checkpoints``."""
    import torch

    schedule, evaluation = config.schedule, config.evaluation
    on_cpu = config.device == "cpu" or not torch.cuda.is_available()
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
        "save_total_limit": 3 if every else 2,  # the best one; the previous one, until the new one is complete
        "eval_strategy": "steps" if every else "no",
        "eval_steps": every,
        "report_to": list(schedule.report_to) or "none",
        "disable_tqdm": True,
        "use_cpu": on_cpu,
        "dataloader_pin_memory": not on_cpu,
    }
    if evaluation is not None and every:
        best = "pairs.mrr@10" if evaluation.pairs is not None else "sts.spearman"
        arguments |= {
            "load_best_model_at_end": True,
            "metric_for_best_model": f"eval_{best}",
            "greater_is_better": True,
        }
    return arguments


@contextmanager
def tensorboard_folder(folder: Path) -> Iterator[None]:
    """Let a trainer made inside log to ``folder``, unless the user has set the variable that the trainer reads."""
    if "TENSORBOARD_LOGGING_DIR" in os.environ:
        yield
        return
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder.absolute())
    try:
        yield
    finally:
        del os.environ["TENSORBOARD_LOGGING_DIR"]
