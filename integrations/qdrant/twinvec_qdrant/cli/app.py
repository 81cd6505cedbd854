"""The entry point of the commands that twinvec_qdrant adds to ``twinvec``."""

from __future__ import annotations

import typer

from twinvec_qdrant.cli import collections, ingest, maintenance, search


def register(app: typer.Typer) -> None:
    """Add the commands to ``twinvec``."""
    for module in (ingest, search, collections, maintenance):
        module.register(app)
