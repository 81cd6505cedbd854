"""Defaults of options, from environment variables and from a file: a flag wins over a variable, this over the file.

The file is ``twinvec.toml``, or the table ``[tool.twinvec]`` of ``pyproject.toml``, in the folder or the nearest one
above. An option has a default from outside if it names its variable, ``TWINVEC_`` and its name; click looks variables
and defaults up (``Context.default_map``) when a command needs them.
"""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NoReturn
from urllib.parse import urlsplit

import typer
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from twinvec.errors import ConfigurationError

CONFIG_FILE = "twinvec.toml"
_PROJECT_FILE, _TABLE = "pyproject.toml", "[tool.twinvec]"
_SECRETS = ("key", "token", "password", "secret")
_NO_COLLECTION = (
    "none is given. Name it in one of three ways: --collection NAME, the environment variable TWINVEC_COLLECTION, or "
    f'collection = "NAME" in {CONFIG_FILE}, which "twinvec init" writes.'
)


class Settings(BaseModel):
    """What the file may hold. Every key is optional."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    collection: str | None = None
    """Name of the collection."""
    path: str | None = None
    """Folder of the embedded store, from the file's folder."""
    url: str | None = None
    """Address of a Qdrant server, instead of a path."""
    model: str | None = None
    """Model of new collections and of commands that encode: default, a folder (from the file's), or org/name."""
    mode: Literal["hybrid", "dense", "sparse"] | None = None
    """How to search: by meaning (dense), by words (sparse), or both."""
    rerank: str | None = None
    """Reranker of searches: none, maxsim, or a cross-encoder."""

    @field_validator("*")
    @classmethod
    def _not_empty(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("is empty; leave the key out")
        return value

    @field_validator("url")
    @classmethod
    def _without_password(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).password:
            raise ValueError("holds a password; a secret is not for this file: set QDRANT_API_KEY")
        return value

    @model_validator(mode="after")
    def _one_store(self) -> Settings:
        if self.path is not None and self.url is not None:
            raise ValueError("path and url name two stores; give one of them")
        return self


def file_defaults(group: Any) -> dict[str, dict[str, Any]]:
    """Return ``default_map`` for all commands of a group; the file is read when a command needs a value of it."""
    settings = cache(lambda: read_settings(Path.cwd()))
    return {name: _FileDefaults(command, settings) for name, command in group.commands.items()}


class _FileDefaults(dict[str, Any]):
    """The defaults of one command; a value that raises is called by click only where it parses, not for --help."""

    def __init__(self, command: Any, settings: Any) -> None:
        super().__init__()
        self._settings = settings
        self._names = {each.name for each in command.params if each.envvar == f"TWINVEC_{each.name.upper()}"}

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self._names:
            return default
        try:
            value = getattr(self._settings(), key)
        except ConfigurationError as error:
            return partial(_fail, error)
        return partial(_fail, typer.BadParameter(_NO_COLLECTION)) if value is None and key == "collection" else value


def _fail(error: Exception) -> NoReturn:
    raise error


def read_settings(folder: Path) -> Settings:
    """Read the settings that hold for a folder; a relative path in the file counts from the file's folder.

    Raises:
        ConfigurationError: the file cannot be read, or a key is unknown or unusable; the message names file and key.
    """
    for place in (folder, *folder.parents):
        for path in (place / CONFIG_FILE, place / _PROJECT_FILE):
            if path.is_file() and (values := _values(path)) is not None:
                return _checked(values, path)
    return Settings()


def _values(path: Path) -> dict[str, Any] | None:
    """Return the file's settings, unchecked; None if it is a project file without any."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.name == _PROJECT_FILE and "tool.twinvec" not in text:
            return None
        values = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from error
    return values.get("tool", {}).get("twinvec") if path.name == _PROJECT_FILE else values


def _checked(values: dict[str, Any], path: Path) -> Settings:
    where = f"{path}: {_TABLE}" if path.name == _PROJECT_FILE else str(path)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("\n".join(f"{where}: {fault(each)}" for each in error.errors())) from None
    rooted = {}
    if settings.path is not None:
        rooted["path"] = str((path.parent / Path(settings.path).expanduser()).resolve())
    for name in ("model", "rerank"):
        value = getattr(settings, name)
        if value is not None and (path.parent / value).is_dir():
            rooted[name] = str(path.parent / value)
    return settings.model_copy(update=rooted)


def fault(error: Any) -> str:
    """Say what is wrong with a key. The value is not quoted: it may be a secret in the wrong place."""
    key = ".".join(map(str, error["loc"]))
    known = ", ".join(Settings.model_fields)
    if error["type"] != "extra_forbidden":
        return ": ".join(filter(None, [key, _message(error["msg"])]))
    if any(word in key.lower() for word in _SECRETS):
        return f"{key}: a secret is not for this file; set the environment variable QDRANT_API_KEY"
    near = get_close_matches(key, Settings.model_fields, 1)
    return f"{key}: unknown key; did you mean {near[0]}?" if near else f"{key}: unknown key; the keys are {known}"


def _message(text: str) -> str:
    return text.removeprefix("Value error, ").replace("Input should be", "expected")
