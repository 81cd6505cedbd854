"""twinvec_ray: the processes of a Ray cluster encode texts, compare vectors, and fill Qdrant collections."""

from __future__ import annotations

from twinvec_ray.encoding import encode
from twinvec_ray.evaluating import evaluate
from twinvec_ray.files import read, write
from twinvec_ray.ingesting import ingest
from twinvec_ray.mining import mine_negatives
from twinvec_ray.neighbours import nearest
from twinvec_ray.training import train

__all__ = ["encode", "evaluate", "ingest", "mine_negatives", "nearest", "read", "train", "write"]
