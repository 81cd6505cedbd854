"""twinvec_ray: the processes of a Ray cluster encode texts, compare vectors, and fill Qdrant collections.

Names are loaded at their first use, because a worker needs few of them. The imports below are for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec_ray.encoding import encode
    from twinvec_ray.evaluating import evaluate
    from twinvec_ray.files import read, write
    from twinvec_ray.ingesting import ingest
    from twinvec_ray.mining import mine_negatives
    from twinvec_ray.neighbours import nearest
    from twinvec_ray.training import train

__all__ = ["encode", "evaluate", "ingest", "mine_negatives", "nearest", "read", "train", "write"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "encoding": "encode",
        "evaluating": "evaluate",
        "files": "read write",
        "ingesting": "ingest",
        "mining": "mine_negatives",
        "neighbours": "nearest",
        "training": "train",
    },
)
