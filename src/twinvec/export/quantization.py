"""Quantise a float32 graph to int8 after training, by NNCF, and measure the loss.

Weights and activations take one byte. The ranges of activations are calibrated on sample texts and fixed in the graph,
so that a vector hardly depends on the other texts of its batch. SmoothQuant (Xiao et al. 2023) first moves outliers
from activations into weights.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.engines.onnx import ERRORS_ONLY, import_onnx, import_onnxruntime
from twinvec.engines.openvino import save_graph, shared_core
from twinvec.engines.runtimes import RuntimeName
from twinvec.errors import EngineError, MissingExtraError
from twinvec.interrupts import raise_of_handler
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec.support.progress import progress_bar
from twinvec.tokens.batching import Batch

TOP = 10
BOUNDS = {"cosine_mean": 0.99, "cosine_worst": 0.95, "correlation": 0.99, "top10_overlap": 0.85}
"""Smallest quality of an int8 export with which ``precision="auto"`` uses it."""

_SMOOTHING = 0.8  # the worst cosine on MiniLM-L6 is 0.996, and 0.993 with NNCF's default of 0.95


def quantize(runtime: RuntimeName, graph: Path, batches: Sequence[Batch], target: Path, *, weight_bits: int) -> None:
    """Quantise a runtime's float32 ``graph`` to the int8 graph ``target``, calibrated on batches of one text each.

    ``weight_bits`` is 8, or 7 if the processor sums int8 products in 16 bits (``support.cpu.sums_bytes_exactly``).
    Raise MissingExtraError if NNCF or the graph's package is missing, and EngineError if the graph cannot be quantised.
    """
    nncf = import_nncf()
    try:
        if runtime == "openvino":
            model = shared_core().read_model(graph)
            names = [port.any_name for port in model.inputs]
        else:
            import_onnxruntime().set_default_logger_severity(ERRORS_ONLY)  # applies to the sessions that NNCF opens
            model = import_onnx().load(graph)
            names = [port.name for port in model.graph.input]
        with progress_bar("Quantising", None, ""), contextlib.redirect_stdout(io.StringIO()):  # hides NNCF's own bars
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
    except Exception as error:  # NNCF raises errors of many types
        raise_of_handler(error)
        raise EngineError(f"{graph}: cannot be quantised: {type(error).__name__}: {error}") from error
    if runtime == "openvino":
        save_graph(made, target)


def cosine_quality(exact_ND: FloatArray, found_ND: FloatArray, queries: int) -> dict[str, float]:
    """Compare the first ``queries`` vectors with the exact vectors; each also ranks all other vectors.

    Return the mean and the smallest cosine ("cosine_mean", "cosine_worst"), and "top10_overlap" from 0 to 1.
    """
    exact_ND, found_ND = unit(exact_ND), unit(found_ND)
    cosines = (exact_ND[:queries] * found_ND[:queries]).sum(axis=1)
    exact_QN, found_QN = exact_ND[:queries] @ exact_ND.T, found_ND[:queries] @ found_ND.T
    for scores_QN in (exact_QN, found_QN):
        np.fill_diagonal(scores_QN, -np.inf)  # excludes each text from its own neighbours
    return {
        "cosine_mean": float(cosines.mean()),
        "cosine_worst": float(cosines.min()),
        "top10_overlap": top_overlap(exact_QN, found_QN),
    }


def score_quality(exact_QN: FloatArray, found_QN: FloatArray) -> dict[str, float]:
    """Compare the scores of Q queries and N texts with the exact scores.

    Return their "correlation", and "top10_overlap" from 0 to 1.
    """
    constant = exact_QN.std() == 0 or found_QN.std() == 0
    return {
        "correlation": 0.0 if constant else float(np.corrcoef(exact_QN.ravel(), found_QN.ravel())[0, 1]),
        "top10_overlap": top_overlap(exact_QN, found_QN),
    }


def top_overlap(exact_QN: FloatArray, found_QN: FloatArray) -> float:
    """Return the share of the ten best texts by exact scores that are also among the ten best found.

    With N < 20, the best half is compared.
    """
    top = max(1, min(TOP, exact_QN.shape[1] // 2))
    exact, found = (np.argpartition(-scores_QN, top - 1, axis=1)[:, :top] for scores_QN in (exact_QN, found_QN))
    shared = [len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True)]
    return float(np.mean(shared) / top)


def import_nncf() -> Any:
    """Import nncf; errors are those of ``import_extra``."""
    telemetry.switch_off()
    with telemetry.switched_off():  # nncf imports OpenVINO, which sends telemetry
        nncf = import_extra("nncf", "export", "an int8 export")
    logging.getLogger("nncf").setLevel(logging.ERROR)  # nncf's own function would change the handlers of other loggers
    return nncf
