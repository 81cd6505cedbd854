"""Train one model with workers on several machines: Ray Train starts the workers, and starts them again when one dies.

Each worker is a process of ``twinvec.training.run.train``, as with ``torchrun``: negatives are gathered across all
workers, and the weights equal those of a single process.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinvec.errors import ConfigurationError, EngineError, TwinvecError
from twinvec.support.checks import check_output_folder, file_path, integer
from twinvec.support.extras import import_torch
from twinvec_ray.cluster import AUTOMATIC, connected, plan

if TYPE_CHECKING:
    from twinvec.training.run.config import TrainConfig
    from twinvec.training.run.model_card import TrainReport

_LEAST_CPUS = 0.01  # a plan may reserve no CPU for a worker, but Ray Train needs a part of one


def train(
    config: TrainConfig,
    folder: str | Path,
    *,
    num_workers: int | None = None,
    use_gpu: bool = False,
    threads: int = 1,
    address: str | None = AUTOMATIC,
    max_failures: int = 3,
) -> TrainReport:
    """Train a model with several workers, or continue a run that was interrupted.

    Args:
        config: The run, as for ``twinvec.training.run.train.train``; ``batches.size`` counts the rows of all workers.
        folder: The folder of the run. All machines must share the file systems of this folder, the data and the model.
        num_workers: Number of workers; default: one for each GPU, or for ``threads`` cores.
        use_gpu: Whether each worker gets its own GPU.
        threads: Threads of a worker that computes on a CPU.
        address: The cluster; see ``ingest``.
        max_failures: How often all workers are started again, from the last checkpoint, after one has died.

    Raises:
        ConfigurationError: an argument is invalid, no cluster answers, the cluster lacks the resources for the workers,
            or the folder holds another run.
        TwinvecError: the error of a worker, as ``twinvec.training.run.train.train`` raises it; an ``EngineError``
            quotes an error of another library. The next call continues the run.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from twinvec.training.run.config import TrainConfig
    from twinvec.training.run.run_folder import RunFolder, file_digests
    from twinvec.training.run.train import train as train_alone

    if not isinstance(config, TrainConfig):
        raise ConfigurationError(f"config: expected TrainConfig(...), got {config!r}")
    integer(max_failures, "max_failures", least=0)
    target = file_path(folder, "folder").resolve()
    RunFolder(target, config, file_digests(config))  # refuses another run before the workers start
    check_output_folder(target)
    notes = target.with_name(f".{target.name}.ray")  # Ray's own files
    with connected(address):
        workers = plan(num_workers, threads=threads, use_gpu=use_gpu)
        trainer = TorchTrainer(
            _work,
            train_loop_config={"config": config, "folder": str(target), "threads": threads},
            scaling_config=ScalingConfig(
                num_workers=workers.most,
                use_gpu=use_gpu,
                resources_per_worker={"CPU": max(workers.cpus, _LEAST_CPUS), **({"GPU": 1.0} if use_gpu else {})},
                # workers reserve less than they use, so Ray would place all of them on one node
                placement_strategy="SPREAD",
            ),
            run_config=RunConfig(
                name=notes.name, storage_path=str(notes.parent), failure_config=FailureConfig(max_failures=max_failures)
            ),
        )
        try:
            trainer.fit()
        except Exception as error:  # Ray wraps the error of a worker
            raise _cause_of(error) or EngineError(f"{target}: the run failed: {error}") from error
    shutil.rmtree(notes, ignore_errors=True)
    return train_alone(config, target)  # returns the report of a finished run


def _cause_of(error: Exception) -> TwinvecError | None:
    """Return the first TwinvecError of a worker, or None. Ray's message has only a part of its text."""
    failures: dict[int, Exception] = getattr(error, "worker_failures", {})
    causes = (getattr(each, "_base_exc", each) for _, each in sorted(failures.items()))
    return next((each for each in causes if isinstance(each, TwinvecError)), None)


def _work(settings: dict[str, Any]) -> None:
    """Train in one worker."""
    from twinvec.training.run.train import train as train_alone

    os.environ["OMP_NUM_THREADS"] = str(settings["threads"])
    import_torch("training").set_num_threads(settings["threads"])
    train_alone(settings["config"], Path(settings["folder"]))
