"""twinvec_ray: texts are encoded, and Qdrant collections filled, by the processes of a Ray cluster."""

from __future__ import annotations

from twinvec_ray.encoding import encode
from twinvec_ray.files import read, write
from twinvec_ray.ingesting import ingest
from twinvec_ray.training import train

__all__ = ["encode", "ingest", "read", "train", "write"]
