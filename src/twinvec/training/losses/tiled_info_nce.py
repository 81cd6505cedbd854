"""InfoNCE in tiles: the value and the gradients of ``training.info_nce`` without the whole matrix of similarities.

The forward pass updates the log-sum-exp of each row tile by tile (online softmax, Milakov and Gimelshein 2018). The
backward pass computes each tile again (Dao et al. 2022, Cheng et al. 2024). Memory is O((B + N) D) plus one tile; the
cost is four matrix products of B x N x D.
Shapes: B anchors, N candidates, D dimensions, R rows and C columns of a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from twinvec.training.info_nce import Similarity, check_info_nce
from twinvec.training.losses.negatives_mask import PairTexts

_TILE_CPU = (512, 1024)
_TILE_GPU = (4096, 8192)


@dataclass(frozen=True, slots=True)
class InfoNCESettings:
    """The settings of ``info_nce``, except for the excluded pairs."""

    scale: float = 20.0
    similarity: Similarity = "cosine"
    symmetric: bool = False
    false_negative_margin: float | None = None


def tiled_info_nce(
    anchors_BD: Tensor,
    candidates_ND: Tensor,
    settings: InfoNCESettings = InfoNCESettings(),
    *,
    texts: PairTexts | None = None,
    tile: tuple[int, int] | None = None,
) -> Tensor:
    """Return the loss ``info_nce`` exactly, with its arguments and errors, in bounded memory.

    Pairs that ``texts`` exclude are not negatives. ``tile`` is the number of rows and columns that are computed at a
    time (default: by device).
    """
    check_info_nce(anchors_BD, candidates_ND, settings.scale, settings.similarity)
    if settings.similarity == "cosine":
        anchors_BD = functional.normalize(anchors_BD, dim=-1)
        candidates_ND = functional.normalize(candidates_ND, dim=-1)
    if tile is None:
        tile = _TILE_CPU if anchors_BD.device.type == "cpu" else _TILE_GPU
    # at least float32, because sums in half precision would be too coarse
    dtype = torch.promote_types(anchors_BD.dtype, torch.float32)
    with torch.autocast(anchors_BD.device.type, enabled=False):
        loss: Tensor = _TiledInfoNCE.apply(  # type: ignore[no-untyped-call]
            anchors_BD.to(dtype) * settings.scale, candidates_ND.to(dtype), _Options(settings, texts, tile)
        )
    return loss


@dataclass(frozen=True, slots=True)
class _Options:
    settings: InfoNCESettings
    texts: PairTexts | None
    tile: tuple[int, int]


class _TiledInfoNCE(torch.autograd.Function):
    """Autograd function: (anchors times scale, candidates, options) -> loss. Both passes use the same tiles."""

    @staticmethod
    def forward(ctx: Any, anchors_BD: Tensor, candidates_ND: Tensor, options: _Options) -> Tensor:
        rows = len(anchors_BD)
        positives_B = (anchors_BD * candidates_ND[:rows]).sum(1)
        row_B = torch.full_like(positives_B, float("-inf"))  # log-sum-exp over the tiles so far
        column_B = row_B.clone()  # log-sum-exp of the reverse direction
        for at in _tiles(rows, len(candidates_ND), options.tile, anchors_BD):
            scores_RC, reverse_RC = _tile_scores(anchors_BD, candidates_ND, positives_B, at, options)
            row_B[at.rows] = row_B[at.rows].logaddexp(scores_RC.logsumexp(dim=1))
            if reverse_RC is not None:
                columns = slice(at.columns.start, at.columns.start + reverse_RC.shape[1])
                column_B[columns] = column_B[columns].logaddexp(reverse_RC.logsumexp(dim=0))
        ctx.save_for_backward(anchors_BD, candidates_ND, positives_B, row_B, column_B)
        ctx.options = options
        loss = (row_B - positives_B).mean()
        if options.settings.symmetric:
            loss = (loss + (column_B - positives_B).mean()) / 2
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        anchors_BD, candidates_ND, positives_B, row_B, column_B = ctx.saved_tensors
        options: _Options = ctx.options
        rows = len(anchors_BD)
        d_anchors_BD = -candidates_ND[:rows]
        d_candidates_ND = torch.zeros_like(candidates_ND)
        d_candidates_ND[:rows] -= anchors_BD
        for at in _tiles(rows, len(candidates_ND), options.tile, anchors_BD):
            scores_RC, reverse_RC = _tile_scores(anchors_BD, candidates_ND, positives_B, at, options)
            chosen_RC = scores_RC.sub_(row_B[at.rows].unsqueeze(1)).exp_()
            if options.settings.symmetric:
                chosen_RC.mul_(0.5)
            if reverse_RC is not None:
                width = reverse_RC.shape[1]
                reverse_RC.sub_(column_B[at.columns.start : at.columns.start + width]).exp_()
                chosen_RC[:, :width].add_(reverse_RC, alpha=0.5)
            d_anchors_BD[at.rows].addmm_(chosen_RC, candidates_ND[at.columns])
            d_candidates_ND[at.columns].addmm_(chosen_RC.T, anchors_BD[at.rows])
        weight = grads[0] / rows
        return d_anchors_BD.mul_(weight), d_candidates_ND.mul_(weight), None


@dataclass(frozen=True, slots=True)
class _Tile:
    rows: slice
    columns: slice
    buffer_RC: Tensor


def _tiles(rows: int, columns: int, size: tuple[int, int], like: Tensor) -> Iterator[_Tile]:
    """Yield the tiles of a (rows, columns) matrix; they share one buffer for their similarities."""
    height, width = min(size[0], rows), min(size[1], columns)
    buffer = torch.empty(height * width, dtype=like.dtype, device=like.device)
    for start in range(0, rows, height):
        stop = min(start + height, rows)
        for left in range(0, columns, width):
            right = min(left + width, columns)
            shape = (stop - start, right - left)
            yield _Tile(slice(start, stop), slice(left, right), buffer[: shape[0] * shape[1]].view(shape))


def _tile_scores(
    anchors_BD: Tensor, candidates_ND: Tensor, positives_B: Tensor, at: _Tile, options: _Options
) -> tuple[Tensor, Tensor | None]:
    """Return a tile's scores for both directions (``_reverse`` for the second); minus infinity marks excluded pairs."""
    scores_RC = torch.mm(anchors_BD[at.rows], candidates_ND[at.columns].T, out=at.buffer_RC)
    found = options.texts.tile(at.rows, at.columns) if options.texts is not None else None
    if found is not None:
        columns_S, excluded_RS = found
        scores_RC[:, columns_S] = scores_RC[:, columns_S].masked_fill(excluded_RS, float("-inf"))
    settings = options.settings
    margin = None if settings.false_negative_margin is None else settings.scale * settings.false_negative_margin
    reverse_RC = _reverse(scores_RC, positives_B, at, margin) if settings.symmetric else None
    if margin is not None:
        _fill_but_own(scores_RC, scores_RC > (positives_B[at.rows] + margin).unsqueeze(1), at)
    return scores_RC, reverse_RC


def _reverse(scores_RC: Tensor, positives_B: Tensor, at: _Tile, margin: float | None) -> Tensor | None:
    """Return the scores from a tile's positives to its anchors; None if no column of the tile is a positive."""
    width = min(at.columns.stop, len(positives_B)) - at.columns.start
    if width <= 0:
        return None
    reverse_RC = scores_RC[:, :width].clone()
    if margin is not None:
        _fill_but_own(reverse_RC, reverse_RC > positives_B[at.columns.start : at.columns.start + width] + margin, at)
    return reverse_RC


def _fill_but_own(scores_RC: Tensor, left_out_RC: Tensor, at: _Tile) -> None:
    """Write minus infinity, in place, to the pairs left out, but not to the pair of an anchor and its own positive."""
    left_out_RC.diagonal(at.rows.start - at.columns.start)[:] = False
    scores_RC.masked_fill_(left_out_RC, float("-inf"))
