"""Ingest: documents become chunks, vectors and points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec_qdrant.ingest.ingestion import Ingestion as Ingestion

__getattr__, __dir__ = lazy_names(__name__, {"ingestion": "Ingestion"})
