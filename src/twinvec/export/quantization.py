"""A graph of float32 -> one of int8, by NNCF's quantisation after training, and how much it lost.

Weights and activations take one byte. The ranges of the activations are calibrated on sample texts and fixed in the
graph, so that a vector hardly depends on what else is in its batch. SmoothQuant (Xiao et al. 2023) moves outliers from
activations into weights first.

The loss is measured on texts that had no part in the calibration: how near vectors or scores are to those of float32,
and what is left of the ten best of a ranking.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.engines.onnx import import_onnx
from twinvec.engines.openvino import save_graph, shared_core
from twinvec.engines.runtimes import RuntimeName
from twinvec.errors import EngineError, MissingExtraError
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec.tokens.batching import Batch

TOP = 10
BOUNDS = {"cosine_mean": 0.99, "cosine_worst": 0.95, "correlation": 0.99, "top10_overlap": 0.85}
"""An int8 export that falls below one of these is used only where int8 is asked for by name."""

_SMOOTHING = 0.8  # on MiniLM-L6 0.95, the default of NNCF, gives a worst cosine of 0.993, this 0.996


def quantize(runtime: RuntimeName, graph: Path, batches: Sequence[Batch], target: Path, *, weight_bits: int) -> None:
    """Write the int8 graph ``target`` of the float32 one, both for a runtime, calibrated on batches.

    Each batch should be one text: padding would have a say in the ranges. Weights use 8 bits, or 7 where the processor
    needs room for sums (``engines.processor``).

    Raises:
        MissingExtraError: NNCF or the package that reads the graph is not installed.
        EngineError: the graph cannot be quantised.
    """
    nncf = import_nncf()
    try:
        model, names = _read_openvino(graph) if runtime == "openvino" else _read_onnx(graph)
        with _own_output():
            made = nncf.quantize(
                model,
                nncf.Dataset(batches, lambda batch: {name: batch.inputs[name] for name in names}),
                model_type=nncf.ModelType.TRANSFORMER,
                subset_size=len(batches),
                advanced_parameters=nncf.AdvancedQuantizationParameters(
                    overflow_fix=nncf.OverflowFix.DISABLE if weight_bits == 8 else nncf.OverflowFix.ENABLE,
                    smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=_SMOOTHING),
                ),
            )
        if runtime == "onnx":
            import_onnx().save(made, target)
    except MissingExtraError:
        raise
    except Exception as error:  # NNCF raises all kinds
        raise EngineError(f"{graph}: cannot be quantised: {type(error).__name__}: {error}") from error
    if runtime == "openvino":
        save_graph(made, target)


def _read_openvino(graph: Path) -> tuple[Any, list[str]]:
    """The graph and the names of its inputs."""
    model = shared_core().read_model(graph)
    return model, [port.any_name for port in model.inputs]


def _read_onnx(graph: Path) -> tuple[Any, list[str]]:
    model = import_onnx().load(graph)
    return model, [port.name for port in model.graph.input]


def cosine_quality(exact_ND: FloatArray, found_ND: FloatArray, queries: int) -> dict[str, float]:
    """How near vectors come to the exact ones, and what of the rankings of the first ``queries`` among all is left.

    Returns:
        "cosine_mean" and "cosine_worst", of the first ``queries`` rows, and "top10_overlap", from 0 to 1.
    """
    exact_ND, found_ND = unit(exact_ND), unit(found_ND)
    cosines = (exact_ND[:queries] * found_ND[:queries]).sum(axis=1)
    exact_QN, found_QN = exact_ND[:queries] @ exact_ND.T, found_ND[:queries] @ found_ND.T
    for scores_QN in (exact_QN, found_QN):
        np.fill_diagonal(scores_QN, -np.inf)  # a text is its own best match
    return {
        "cosine_mean": float(cosines.mean()),
        "cosine_worst": float(cosines.min()),
        "top10_overlap": top_overlap(exact_QN, found_QN),
    }


def score_quality(exact_QN: FloatArray, found_QN: FloatArray) -> dict[str, float]:
    """The same for the scores of Q queries with N texts each.

    Returns:
        "correlation" of the scores, and "top10_overlap", from 0 to 1.
    """
    constant = exact_QN.std() == 0 or found_QN.std() == 0
    return {
        "correlation": 0.0 if constant else float(np.corrcoef(exact_QN.ravel(), found_QN.ravel())[0, 1]),
        "top10_overlap": top_overlap(exact_QN, found_QN),
    }


def top_overlap(exact_QN: FloatArray, found_QN: FloatArray) -> float:
    """The share of the ten best (of the half, where there are fewer than twenty) that are still among them."""
    top = max(1, min(TOP, exact_QN.shape[1] // 2))
    exact, found = (np.argpartition(-scores_QN, top - 1, axis=1)[:, :top] for scores_QN in (exact_QN, found_QN))
    shared = [len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True)]
    return float(np.mean(shared) / top)


def _own_output() -> contextlib.AbstractContextManager[Any]:
    """NNCF draws its progress on standard output, which is for results; on a terminal, standard error shows it."""
    return contextlib.redirect_stdout(sys.stderr if sys.stderr.isatty() else io.StringIO())


def import_nncf() -> Any:
    """Import nncf; errors as for ``import_extra``."""
    telemetry.switch_off()
    with telemetry.switched_off():  # it imports OpenVINO, whatever it quantises for
        nncf = import_extra("nncf", "export", "an int8 export")
    logging.getLogger("nncf").setLevel(logging.ERROR)  # its own way raises the level of others' handlers too
    return nncf
