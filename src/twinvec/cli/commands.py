"""Commands by name: their modules are imported when they are needed.

If ``twinvec-qdrant`` is not installed, each of its commands says how to install it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.models import CommandInfo

from twinvec.errors import ConfigurationError
from twinvec.installation import entry_points, install_line

_GROUP = "twinvec.commands"
COLLECTIONS_PACKAGE = "twinvec-qdrant"
"""Name of the package whose commands work on collections."""

COLLECTIONS_PLACE = "twinvec_qdrant.cli.app:register"
"""Entry point that adds these commands; it is repeated here because reading the metadata of packages is slow."""

COLLECTION_COMMANDS = (
    "adopt",
    "backup",
    "collections",
    "delete",
    "documents",
    "drop",
    "get",
    "info",
    "ingest",
    "migrate",
    "push",
    "questions",
    "reindex",
    "restore",
    "search",
    "show",
    "tune",
    "update",
    "verify",
)
"""The commands that ``twinvec-qdrant`` adds."""

_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}


class _Unloaded:
    """A stand-in for the function at ``place``, "module:function"; a call imports and returns this function."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __call__(self) -> Any:
        module, _, name = self._place.partition(":")
        return getattr(import_module(module), name)


def add_command(app: typer.Typer, name: str, panel: str, place: str) -> None:
    """Add a command to the app. Its function is at ``place``, "module:function"; ``load_commands`` imports it."""
    app.registered_commands.append(CommandInfo(name, callback=_Unloaded(place), rich_help_panel=panel))


def load_commands(app: typer.Typer, only: str | None = None) -> None:
    """Import the commands of the app; if one is named ``only``, import this one and drop the others."""
    found = [each for each in app.registered_commands if each.name == only] or app.registered_commands
    app.registered_commands = [each for each in found if _is_loaded(each)]


def _is_loaded(command: CommandInfo) -> bool:
    """Import the command; if this fails, print the reason and return False, so that the other commands still work."""
    try:
        if isinstance(command.callback, _Unloaded):
            command.callback = command.callback()
    except Exception as error:  # a broken package may raise any error
        print(f"twinvec: cannot load the command {command.name!r}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True


def add_packages(app: typer.Typer, only: str | None = None) -> None:
    """Add the commands that installed packages provide.

    If ``only`` is a command of ``twinvec-qdrant``, other packages are not loaded. If ``twinvec-qdrant`` is not
    installed, ``--help`` does not list its commands.
    """
    packages: list[tuple[str, Callable[[], Any]]]
    if only in COLLECTION_COMMANDS and find_spec(COLLECTIONS_PLACE.partition(".")[0]) is not None:
        packages = [(COLLECTIONS_PACKAGE, _Unloaded(COLLECTIONS_PLACE))]
    else:
        found = sorted(entry_points(group=_GROUP), key=lambda entry: entry.name)
        packages = [(entry.dist.name if entry.dist else entry.value, entry.load) for entry in found]
    if all(package != COLLECTIONS_PACKAGE for package, _ in packages):
        for name in COLLECTION_COMMANDS:
            app.command(name, hidden=True, add_help_option=False, context_settings=_ANYTHING)(_refuse)
    for package, load in packages:
        try:
            load()(app)
        except Exception as error:  # the commands of other packages must stay
            print(f"twinvec: cannot load the commands of {package}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201


def _refuse(ctx: typer.Context) -> None:
    raise ConfigurationError(
        f"the command {ctx.info_name!r} is in the package {COLLECTIONS_PACKAGE!r}: {install_line(COLLECTIONS_PACKAGE)}"
    )
