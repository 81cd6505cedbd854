"""twinvec_serve: one process that holds models and collections, and serves them over HTTP."""

from __future__ import annotations

from twinvec_serve.app import create_app
from twinvec_serve.settings import ServeSettings

__all__ = ["ServeSettings", "create_app"]
