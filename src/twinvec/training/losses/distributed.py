"""Communication between the processes of a training run, which share each batch.

For an objective that compares all rows, each process gathers the vectors of the whole batch. Each differentiates the
loss by its own vectors only, so no gradients of vectors are sent.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_main_process() -> bool:
    """Return whether this process writes files. ``torchrun`` sets the rank before the processes are connected."""
    return int(os.environ.get("RANK", "0")) == 0


def wait_for_all() -> None:
    """Wait until every process has called this function."""
    if world_size() > 1:
        dist.barrier()


def own_part(rows: list[int]) -> list[int]:
    """Return this process' part of a batch; with fewer rows than processes, some rows are computed twice."""
    size, rank = world_size(), dist.get_rank() if world_size() > 1 else 0
    if len(rows) < size:
        return [rows[rank % len(rows)]]
    return rows[len(rows) * rank // size : len(rows) * (rank + 1) // size]


def average(gradient: Tensor) -> Tensor:
    """Return the mean of a gradient over all processes."""
    if world_size() == 1:
        return gradient
    total = gradient.clone()
    dist.all_reduce(total)
    return total / world_size()


def mean_of_all(value: float, device: torch.device) -> float:
    """Return the mean of a value over all processes, which compute on ``device``."""
    return float(average(torch.tensor(value, device=device)))


def share_of_batch(rows: int, device: torch.device) -> float:
    """Return a weight for this process' mean loss, so that the mean over processes equals the mean over all rows."""
    if world_size() == 1:
        return 1.0
    total = torch.tensor(rows, device=device)
    dist.all_reduce(total)
    return rows * world_size() / int(total)


def gather(local: Tensor) -> Tensor:
    """Return the rows of all processes, in order of rank; processes may have different numbers of rows.

    Gradients flow to this process' rows only.
    """
    counts = _gather_equal(torch.tensor([len(local)], device=local.device))
    padded = local.new_zeros(max(int(count) for count in counts), *local.shape[1:])
    padded[: len(local)] = local.detach()
    parts = [part[:count] for part, count in zip(_gather_equal(padded), counts, strict=True)]
    parts[dist.get_rank()] = local
    return torch.cat(parts)


def _gather_equal(local: Tensor) -> list[Tensor]:
    """Return the tensors of all processes; all have the same shape."""
    received = [torch.empty_like(local) for _ in range(world_size())]
    dist.all_gather(received, local)
    return received
