"""The commands of ``twinvec-qdrant`` where that package is not installed: each says how to get it."""

from __future__ import annotations

import typer

from twinvec.errors import ConfigurationError
from twinvec.installation import install_line

COLLECTION_COMMANDS = (
    "backup",
    "collections",
    "delete",
    "drop",
    "get",
    "info",
    "ingest",
    "migrate",
    "push",
    "reindex",
    "restore",
    "search",
    "update",
    "verify",
)
"""The commands that ``twinvec-qdrant`` adds."""

_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_uninstalled(app: typer.Typer) -> None:
    """Add the commands, hidden from the list of commands; each takes any arguments and raises ConfigurationError."""

    def refuse(ctx: typer.Context) -> None:
        raise ConfigurationError(
            f"the command {ctx.info_name!r} is in the package 'twinvec-qdrant': {install_line('twinvec-qdrant')}"
        )

    for name in COLLECTION_COMMANDS:
        app.command(name, hidden=True, add_help_option=False, context_settings=_ANYTHING)(refuse)
