"""Defaults of options, from environment variables and a file. A flag wins over a variable, a variable over the file.

The file is ``twinvec.toml``, or the table ``[tool.twinvec]`` of ``pyproject.toml``, in the current folder or the
nearest folder above. An option has these defaults only if it declares its variable: ``TWINVEC_`` and the option's name.
click looks up variables and defaults (``Context.default_map``) when a command needs them.
"""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from twinvec.cli.options import CONFIG_FILE, PROJECT_FILE, PROJECT_TABLE
from twinvec.cli.terminal import complain
from twinvec.errors import ConfigurationError

if TYPE_CHECKING:
    from twinvec.cli.settings_file import Settings

PREFIX = "TWINVEC_"

VARIABLES = (
    *("COLLECTION", "PATH", "URL", "MODEL", "MODE", "RERANK", "PRECISION", "CACHE"),
    *("API_KEY", "READ_API_KEY", "LLM_KEY"),
    *("SERVE_HOST", "SERVE_PORT", "SERVE_PRECISION", "SERVE_API_KEY_FILE", "SERVE_ALLOW_ORIGIN", "SERVE_LOG_FORMAT"),
)
"""The environment variables that any distribution of twinvec reads, without ``PREFIX``."""

_ALIKE = 0.7  # least similarity of a misspelt variable, as a ratio of difflib
_COMPLETING = "_TWINVEC_COMPLETE"  # a shell sets this variable to get completions

_NO_COLLECTION = (
    "no collection is named. Name it in one of three ways: --collection NAME, the environment variable "
    f'TWINVEC_COLLECTION, or collection = "NAME" in {CONFIG_FILE}, which "twinvec init" writes.'
)


def warn_of_misspelt_variables() -> None:
    """Print a warning for each environment variable that has no effect, and resembles one that twinvec reads.

    No warning is about the variables that Kubernetes and Docker set for a service that is named twinvec or
    twinvec-serve, such as TWINVEC_SERVICE_PORT.
    """
    known = {f"{PREFIX}{each}" for each in VARIABLES}
    for name, value in os.environ.items():
        is_own = name.upper().startswith(PREFIX) and name not in known and value and _COMPLETING not in os.environ
        if not is_own or "_SERVICE_" in name or value.startswith("tcp://"):
            continue
        from difflib import get_close_matches

        if near := get_close_matches(name[len(PREFIX) :].upper(), VARIABLES, 2, _ALIKE):
            meant = " or ".join(f"{PREFIX}{each}" for each in near)
            complain(f"twinvec: the environment variable {name} has no effect; did you mean {meant}?")


def file_defaults(group: Any) -> dict[str, Any]:
    """Return ``default_map`` for all commands of a group; the file is read when a command needs one of its values."""
    settings = cache(lambda: find_settings(Path.cwd()))
    return {name: _FileDefaults(command, settings) for name, command in group.commands.items()}


class _FileDefaults(dict[str, Any]):
    """The defaults of one command.

    If the file is faulty, each default is a function that raises the error. click calls it when it parses options, but
    not for --help.
    """

    def __init__(self, command: Any, settings: Any) -> None:
        super().__init__()
        self._settings = settings
        self._names = {each.name for each in command.params if each.envvar == f"TWINVEC_{each.name.upper()}"}
        self._needs_collection = any(each.name == "collection" and each.required for each in command.params)

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self._names:
            return default
        try:
            value = getattr(self._settings(), key, None)
        except ConfigurationError as error:
            return partial(_fail, error)
        missing = value is None and key == "collection" and self._needs_collection
        return partial(_fail, typer.BadParameter(_NO_COLLECTION)) if missing else value


def _fail(error: Exception) -> NoReturn:
    raise error


def find_settings(folder: Path) -> Settings | None:
    """Return the settings that apply to a folder, or None if it and the folders above have no settings file.

    The reader of settings is slow to import, so it is imported only for a file that may have settings.
    """
    for place in (folder, *folder.parents):
        for path in (place / CONFIG_FILE, place / PROJECT_FILE):
            if _may_have_settings(path):
                from twinvec.cli.settings_file import read_settings

                if (found := read_settings(path)) is not None:
                    return found
    return None


def _may_have_settings(path: Path) -> bool:
    """Return whether a file exists and, if it is a pyproject.toml, has twinvec's table."""
    try:
        return path.is_file() and (path.name != PROJECT_FILE or _has_table(path.read_bytes()))
    except OSError:
        return True  # the reader of the settings reports the error


def _has_table(project: bytes) -> bool:
    """Return whether a pyproject.toml has twinvec's table, however TOML writes it; if it is broken, whether it may."""
    if b"twinvec" not in project:
        return False
    import tomllib  # slow to import

    try:
        tools = tomllib.loads(project.decode("utf-8-sig")).get("tool")
    except ValueError:
        return PROJECT_TABLE.encode() in project
    return isinstance(tools, dict) and "twinvec" in tools
