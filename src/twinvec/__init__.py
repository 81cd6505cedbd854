"""twinvec: train, run and serve sentence embeddings for retrieval.

Names are loaded when first used: ``import twinvec`` loads neither torch nor a Qdrant client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.moved import find_moved_modules
from twinvec.support.lazy import lazy_names
from twinvec.version import __version__

if TYPE_CHECKING:
    from twinvec.encoder import Encoder
    from twinvec.errors import TwinvecError
    from twinvec.rerankers.cross_encoder import CrossEncoderReranker
    from twinvec.rerankers.maxsim import MaxSimReranker
    from twinvec.retrieval.base import Hit, Retriever
    from twinvec.retrieval.documents import Document
    from twinvec.retrieval.memory_index import MemoryIndex
    from twinvec.retrieval.retrieve_rerank import RetrieveRerank

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CrossEncoderReranker": "rerankers.cross_encoder",
        "Document": "retrieval.documents",
        "Encoder": "encoder",
        "Hit": "retrieval.base",
        "MaxSimReranker": "rerankers.maxsim",
        "MemoryIndex": "retrieval.memory_index",
        "RetrieveRerank": "retrieval.retrieve_rerank",
        "Retriever": "retrieval.base",
        "TwinvecError": "errors",
    },
)

find_moved_modules()
