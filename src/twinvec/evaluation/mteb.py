"""MTEB: an ``Encoder`` as a model for the benchmark's tasks (Muennighoff et al. 2023; the protocol of mteb 2).

    import mteb
    from twinvec.evaluation.mteb import MtebEncoder

    mteb.evaluate(MtebEncoder(Encoder("default")), mteb.get_tasks(["STSBenchmark"]))

Tasks, data and figures are those of mteb; only texts can be encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.encoder import Encoder
from twinvec.errors import InputError
from twinvec.models.finding import DEFAULT_REPOSITORY
from twinvec.support.extras import import_extra

import_extra("mteb", "mteb", "running the tasks of MTEB")
from mteb.models import ModelMeta  # noqa: E402
from mteb.models.abs_encoder import get_prompt_name  # noqa: E402
from mteb.models.model_meta import ScoringFunction  # noqa: E402
from mteb.similarity_functions import cos_sim, pairwise_cos_sim  # noqa: E402


class MtebEncoder:
    """An encoder with mteb's ``EncoderProtocol``. The similarity is the cosine.

    The prompt is the model's prompt for the task's name, its type, or the side ("query" or "document"), whichever
    exists, as mteb chooses it for sentence-transformers.

    Attributes:
        mteb_model_meta: Name, dimension and token limit of the model. The revision is ``Encoder.space``, so that mteb
            never reuses results of other vectors.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": _name(encoder.name),
                "revision": encoder.space,
                "max_tokens": encoder.max_tokens,
                "embed_dim": encoder.dim,
                "similarity_fn_name": ScoringFunction.COSINE,
                "framework": ["Sentence Transformers"],
                "use_instructions": any(encoder.prompts.values()),
            }
        )

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        show_progress_bar: bool = True,
        **options: Any,
    ) -> FloatArray:
        """Return the vectors of the texts of all batches: (n, dim).

        Args:
            inputs: Batches, each with a list under "text".
            task_metadata: Name and type of the task.
            hf_split: Ignored, as are ``hf_subset`` and ``options``: the encoder makes its own batches.
            prompt_type: Whether the texts are queries or documents.
            show_progress_bar: Show progress: a bar on a terminal, a line a minute elsewhere.

        Raises:
            InputError: a batch has no texts, because the task is about images, sound or video.
        """
        texts: list[str] = []
        for batch in inputs:
            if "text" not in batch:
                raise InputError(f"{task_metadata.name}: batches of {', '.join(map(str, batch))}; only text is encoded")
            texts += batch["text"]
        prompt = get_prompt_name(self.encoder.prompts, task_metadata, prompt_type)
        return self.encoder.encode(texts, prompt=prompt, progress=show_progress_bar)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the cosines of all pairs: (n, m)."""
        return cos_sim(np.atleast_2d(embeddings1), np.atleast_2d(embeddings2))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the cosines row by row: (n,)."""
        return pairwise_cos_sim(np.atleast_2d(embeddings1), np.atleast_2d(embeddings2))


def _name(name: str) -> str:
    """Return a name of the form ``organization/model``, as mteb requires."""
    if name == "default":
        return DEFAULT_REPOSITORY
    if re.fullmatch(r"[\w.-]+/[\w.-]+(@\w+)?", name):
        return name.partition("@")[0]
    return f"local/{PurePath(name).name}"
