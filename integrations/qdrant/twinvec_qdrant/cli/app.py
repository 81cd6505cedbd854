"""The entry point of the commands that twinvec_qdrant adds to ``twinvec``."""

from __future__ import annotations

import typer

from twinvec.cli.commands import add_command
from twinvec.cli.options import COLLECTIONS_PANEL, MAINTENANCE_PANEL, TRAIN_PANEL

_COMMANDS = (
    ("ingest", COLLECTIONS_PANEL, "ingest:ingest_command"),
    ("update", COLLECTIONS_PANEL, "update:update_command"),
    ("search", COLLECTIONS_PANEL, "search:search_command"),
    ("documents", COLLECTIONS_PANEL, "documents:documents_command"),
    ("show", COLLECTIONS_PANEL, "documents:show_command"),
    ("get", COLLECTIONS_PANEL, "documents:get_command"),
    ("delete", COLLECTIONS_PANEL, "documents:delete_command"),
    ("info", COLLECTIONS_PANEL, "collections:info_command"),
    ("collections", COLLECTIONS_PANEL, "collections:collections_command"),
    ("tune", TRAIN_PANEL, "tune:tune_command"),
    ("questions", TRAIN_PANEL, "questions:questions_command"),
    ("drop", MAINTENANCE_PANEL, "collections:drop_command"),
    ("verify", MAINTENANCE_PANEL, "maintenance:verify_command"),
    ("migrate", MAINTENANCE_PANEL, "maintenance:migrate_command"),
    ("reindex", MAINTENANCE_PANEL, "maintenance:reindex_command"),
    ("push", MAINTENANCE_PANEL, "maintenance:push_command"),
    ("adopt", MAINTENANCE_PANEL, "adopt:adopt_command"),
    ("backup", MAINTENANCE_PANEL, "backup:backup_command"),
    ("restore", MAINTENANCE_PANEL, "backup:restore_command"),
)


def register(app: typer.Typer) -> None:
    """Add the commands to ``twinvec``; the module of a command is imported at its first use."""
    for name, panel, place in _COMMANDS:
        add_command(app, name, panel, f"twinvec_qdrant.cli.{place}")
