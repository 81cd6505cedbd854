"""Compare a new graph with its model on texts of all kinds and lengths.

The difference is 1 - cosine for vectors, and relative for logits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.engines.graph import GraphEngine
from twinvec.engines.loaded_model import LoadedModel
from twinvec.engines.runtimes import RUNTIMES, RuntimeName
from twinvec.errors import EngineError, ModelIntegrityError
from twinvec.models.backbone import BackboneSpec
from twinvec.models.encoder_spec import ModelSpec
from twinvec.models.space import SPACE_PROBES
from twinvec.tokens.batching import Batch
from twinvec.tokens.tokenizer import TextTokenizer


def largest_difference(
    name: RuntimeName, model: LoadedModel[BackboneSpec], path: Path, expected: Callable[[Batch], FloatArray]
) -> float:
    """Return the largest difference of a graph's vectors or logits from ``expected``.

    Raise EngineError if the runtime cannot compute the graph.
    """
    spec, runtime = model.spec, RUNTIMES[name]
    if isinstance(spec, ModelSpec):
        output, difference = "vectors", _cosine_difference
        probes = _probe_batches(model.tokenizer, 0 if spec.include_prompt else 2)
    else:
        output, difference, probes = "logits", _relative_difference, _probe_pairs(model.tokenizer)
    try:
        engine = GraphEngine(runtime.runner, path, output)
    except ModelIntegrityError as error:  # the file is new, so the runtime is at fault
        raise EngineError(f"{spec.folder}: {runtime.package} cannot compute its graph: {error.__cause__}") from error
    compute = getattr(engine, output)
    return max(difference(compute(batch), expected(batch)) for batch in probes)


def _probe_batches(tokenizer: TextTokenizer, prompt_tokens: int) -> list[Batch]:
    """Return batches of texts of all kinds and lengths: four single texts, and all texts padded."""
    texts = [*SPACE_PROBES, *(" ".join(SPACE_PROBES[2:] * repeats) for repeats in (1, 3))]
    tokens = tokenizer.encode(texts)
    rows = [np.array([index]) for index in (0, 2, 8, len(texts) - 1)]
    return [tokens.batch(chosen, tokenizer.pad_id, prompt_tokens) for chosen in [*rows, np.arange(len(texts))]]


def _probe_pairs(tokenizer: TextTokenizer) -> list[Batch]:
    """Return two batches of pairs of texts of all kinds: a single pair, and all pairs padded."""
    pairs = [
        *zip(SPACE_PROBES, SPACE_PROBES[3:], strict=False),
        (" ".join(SPACE_PROBES[2:]), " ".join(SPACE_PROBES * 2)),
    ]
    tokens = tokenizer.encode_pairs(pairs)
    return [tokens.batch(chosen, tokenizer.pad_id) for chosen in (np.array([2]), np.arange(len(pairs)))]


def _cosine_difference(found: FloatArray, expected: FloatArray) -> float:
    """Return the largest 1 - cosine of a row with its expected row; two rows of zeros count as 0, NaN as 2."""
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    products = (found.astype(np.float64) * expected).sum(axis=1)
    cosines = np.where(norms > 0, products / np.maximum(norms, 1e-30), np.all(found == expected, axis=1))
    return 1 - float(np.nan_to_num(cosines, nan=-1.0).min())


def _relative_difference(found: FloatArray, expected: FloatArray) -> float:
    """Return the largest difference relative to 1 + abs(expected); NaN counts as infinite."""
    difference = np.abs(found - expected) / (1 + np.abs(expected))
    return float(np.nan_to_num(difference, nan=np.inf).max())
