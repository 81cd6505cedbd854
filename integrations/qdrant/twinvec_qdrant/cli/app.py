"""The entry point of the commands that twinvec_qdrant adds to ``twinvec``."""

from __future__ import annotations

import typer

from twinvec_qdrant.cli import backup, collections, documents, ingest, maintenance, search, update


def register(app: typer.Typer) -> None:
    """Add the commands to ``twinvec``."""
    for module in (ingest, update, search, documents, collections, maintenance, backup):
        module.register(app)
