"""Modules that version 0.2 moved. The old paths that were documented work until 0.3, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # at run time, this import would double the time of "import twinvec"
    from importlib.abc import Loader

MOVED = {
    "twinvec.batching": "twinvec.tokens.batching",
    "twinvec.documents": "twinvec.retrieval.documents",
    "twinvec.evaluation.tuned_search": "twinvec.retrieval.tuned_search",
    "twinvec.filters": "twinvec.retrieval.filters",
    "twinvec.foreign": "twinvec.adapters.external_encoder",
    "twinvec.frameworks": "twinvec.adapters.embeddings",
    "twinvec.fusion": "twinvec.retrieval.fusion",
    "twinvec.lexical": "twinvec.retrieval.bm25",
    "twinvec.pooling": "twinvec.engines.pooling",
    "twinvec.quantization": "twinvec.export.quantization",
    "twinvec.reranker": "twinvec.rerankers.cross_encoder",
    "twinvec.space": "twinvec.models.space",
    "twinvec.spec": "twinvec.models.encoder_spec",
    "twinvec.tokenizer": "twinvec.tokens.tokenizer",
    "twinvec.training.building": "twinvec.training.run.softmax_head",
    "twinvec.training.config": "twinvec.training.run.config",
    "twinvec.training.sections": "twinvec.training.settings",
    "twinvec.training.trainer": "twinvec.training.run.train",
}
"""Old path -> new path."""


class MovedModules:
    """Find the modules of ``MOVED`` by their old paths, and load the modules at the new paths instead."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that loads the new module, or None for any other name."""
        return ModuleSpec(fullname, cast("Loader", self)) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        warnings.warn(f"{spec.name} has moved to {MOVED[spec.name]}", DeprecationWarning, stacklevel=2)
        module = import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        # restores the spec, which the import system has replaced by that of the old path
        module.__spec__ = module.__spec__.loader_state


def find_moved_modules() -> None:
    """Let ``import`` find the old paths."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
