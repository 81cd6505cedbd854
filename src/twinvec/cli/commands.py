"""Commands by name: their modules are imported when they are needed.

The commands of ``twinvec-qdrant`` are there without the package too: each says how to get it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any

import typer
from typer.models import CommandInfo

from twinvec.errors import ConfigurationError
from twinvec.installation import install_line

_GROUP = "twinvec.commands"
_COLLECTIONS_PACKAGE = "twinvec-qdrant"
COLLECTION_COMMANDS = (
    "adopt",
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
    "show",
    "update",
    "verify",
)
"""The commands that ``twinvec-qdrant`` adds."""


_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}


class _Unloaded:
    """Stands for the function of a command whose module is not imported yet: ``place`` is "module:function"."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.load()(*args, **options)

    def load(self) -> Any:
        """Import the module, and return the function."""
        module, _, name = self._place.partition(":")
        return getattr(import_module(module), name)


def add_command(app: typer.Typer, name: str, panel: str, place: str) -> None:
    """Add a command to the app; ``place`` is "module:function", which is imported when the command is needed."""
    app.registered_commands.append(CommandInfo(name, callback=_Unloaded(place), rich_help_panel=panel))


def load_commands(app: typer.Typer, only: str | None = None) -> None:
    """Import the commands of the app; if it has one of the name ``only``, import that one, and leave the others out."""
    found = [each for each in app.registered_commands if each.name == only] or app.registered_commands
    app.registered_commands = [each for each in found if _is_loaded(each)]


def _is_loaded(command: CommandInfo) -> bool:
    """Import the command; if it cannot be imported, say why, and return False: the other commands stay."""
    try:
        if isinstance(command.callback, _Unloaded):
            command.callback = command.callback.load()
    except Exception as error:  # whatever a broken package raises
        print(f"twinvec: no command {command.name!r}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True


def installed_packages(only: str | None = None) -> Sequence[EntryPoint]:
    """Return what adds the commands of installed packages; of the only one that is needed, if that is known."""
    if only in COLLECTION_COMMANDS:  # to read the metadata of all packages takes longer than all else
        try:
            known = [each for each in distribution(_COLLECTIONS_PACKAGE).entry_points if each.group == _GROUP]
        except PackageNotFoundError:
            known = []
        if known:
            return known
    return sorted(entry_points(group=_GROUP), key=lambda entry: entry.name)


def add_uninstalled(app: typer.Typer) -> None:
    """Add the commands, hidden from the list of commands; each takes any arguments and raises ConfigurationError."""

    def refuse(ctx: typer.Context) -> None:
        raise ConfigurationError(
            f"the command {ctx.info_name!r} is in the package 'twinvec-qdrant': {install_line('twinvec-qdrant')}"
        )

    for name in COLLECTION_COMMANDS:
        app.command(name, hidden=True, add_help_option=False, context_settings=_ANYTHING)(refuse)
