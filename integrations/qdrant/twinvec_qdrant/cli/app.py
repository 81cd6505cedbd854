"""The commands that twinvec_qdrant adds to ``twinvec``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    pass
from twinvec_qdrant.cli.commands import info_command, ingest_command, search_command


def register(app: typer.Typer) -> None:
    """Add the commands to ``twinvec``."""
    from twinvec_qdrant.cli.maintenance import (
        collections_command,
        drop_command,
        migrate_command,
        push_command,
        verify_command,
    )

    app.command("ingest")(ingest_command)
    app.command("search")(search_command)
    app.command("info")(info_command)
    app.command("verify")(verify_command)
    app.command("migrate")(migrate_command)
    app.command("push")(push_command)
    app.command("collections")(collections_command)
    app.command("drop")(drop_command)
