"""twinvec: train, run and serve sentence embeddings for retrieval.

Names are loaded when first used: importing ``twinvec`` imports neither torch nor Qdrant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinvec.encoder import Encoder
    from twinvec.errors import TwinvecError
    from twinvec.rerankers.cross_encoder import CrossEncoderReranker
    from twinvec.rerankers.maxsim import MaxSimReranker
    from twinvec.retrieval.base import Hit, Retriever
    from twinvec.retrieval.documents import Document
    from twinvec.retrieval.memory_index import MemoryIndex
    from twinvec.retrieval.retrieve_rerank import RetrieveRerank

__version__ = "0.1.0"

_HOMES = {
    "CrossEncoderReranker": "reranker",
    "Document": "documents",
    "Encoder": "encoder",
    "Hit": "retrieval",
    "MaxSimReranker": "reranker",
    "MemoryIndex": "retrieval",
    "RetrieveRerank": "retrieval",
    "Retriever": "retrieval",
    "TwinvecError": "errors",
}

__all__ = [
    "CrossEncoderReranker",
    "Document",
    "Encoder",
    "Hit",
    "MaxSimReranker",
    "MemoryIndex",
    "RetrieveRerank",
    "Retriever",
    "TwinvecError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'twinvec' has no attribute {name!r}")
    value = getattr(import_module(f"twinvec.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
