"""twinvec: train, run and serve sentence embeddings for retrieval.

Names are loaded when first used: ``import twinvec`` loads neither torch nor a Qdrant client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.moved import find_moved_modules
from twinvec.support.lazy import lazy_names
from twinvec.version import __version__

if TYPE_CHECKING:
    from twinvec import correlation as correlation
    from twinvec import evaluation as evaluation
    from twinvec import export as export
    from twinvec import models as models
    from twinvec import similarity as similarity
    from twinvec import training as training
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
        "encoder": "Encoder",
        "errors": "TwinvecError",
        "rerankers.cross_encoder": "CrossEncoderReranker",
        "rerankers.maxsim": "MaxSimReranker",
        "retrieval.base": "Hit Retriever",
        "retrieval.documents": "Document",
        "retrieval.memory_index": "MemoryIndex",
        "retrieval.retrieve_rerank": "RetrieveRerank",
    },
    modules="correlation evaluation export models similarity training",
)

find_moved_modules()
