"""The vectors of all processes in one place, for objectives that compare every row with every other.

Every process differentiates the loss of the whole batch by its own vectors, so nothing is sent back.
Shapes: M texts of all arms, B rows, D dimensions.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional


def world_size() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_main_process() -> bool:
    """Return whether this process writes files; ``torchrun`` sets this before the processes have met."""
    return int(os.environ.get("RANK", "0")) == 0


def wait_for_all() -> None:
    """Wait until every process gets here."""
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
    """Return the factor for the mean over this process' rows that makes the processes' mean that over all rows."""
    if world_size() == 1:
        return 1.0
    total = torch.tensor(rows, device=device)
    dist.all_reduce(total)
    return rows * world_size() / int(total)


def gather_labels(labels_B: Tensor) -> Tensor:
    """Return the labels of all processes, in order of rank."""
    counts = _gather_rows(torch.tensor([len(labels_B)], device=labels_B.device))
    return torch.cat(_gather_ragged(labels_B, [int(count) for count in counts]))


def gather(vectors: list[Tensor], hashes: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return each arm's vectors and hashes of all processes, in order of rank; their numbers of rows may differ."""
    rows_by_rank = _gather_rows(torch.tensor([len(arm) for arm in vectors], device=vectors[0].device))
    local = torch.cat(vectors)
    payload = functional.pad(local.detach(), (0, 8))
    if hashes:
        payload[:, -8:] = torch.cat(hashes).view(torch.uint8).view(-1, 8).to(local.dtype)
    received = _gather_ragged(payload, [int(rows.sum()) for rows in rows_by_rank])
    vectors_of: list[list[Tensor]] = [[] for _ in vectors]
    hashes_of: list[list[Tensor]] = [[] for _ in hashes]
    for rank, (rows, block) in enumerate(zip(rows_by_rank, received, strict=True)):
        own = rank == dist.get_rank()
        for arm, part in enumerate(torch.split(block, rows.tolist())):
            vectors_of[arm].append(vectors[arm] if own else part[:, :-8])
            if hashes:
                hashes_of[arm].append(part[:, -8:].to(torch.uint8).contiguous().view(torch.int64).squeeze(1))
    return [torch.cat(arm) for arm in vectors_of], [torch.cat(arm) for arm in hashes_of]


def _gather_ragged(local: Tensor, counts: list[int]) -> list[Tensor]:
    """Return the tensors of all processes, in order of rank; ``counts`` holds their first dimensions."""
    padded = local.new_zeros(max(counts), *local.shape[1:])
    padded[: len(local)] = local
    received = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(received, padded)
    return [part[:count] for part, count in zip(received, counts, strict=True)]


def _gather_rows(rows: Tensor) -> list[Tensor]:
    received = [torch.empty_like(rows) for _ in range(world_size())]
    dist.all_gather(received, rows)
    return received
