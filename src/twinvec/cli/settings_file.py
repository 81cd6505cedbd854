"""The file of defaults (``twinvec.toml``, or a table of ``pyproject.toml``): its keys, and reading it."""

from __future__ import annotations

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from twinvec.cli.options import PROJECT_FILE, PROJECT_TABLE
from twinvec.engines import Precision
from twinvec.errors import ConfigurationError
from twinvec.support.checks import ADDRESS_FORM, field_fault, file_path, is_server_address

_SECRETS = ("key", "token", "password", "secret")


class Settings(BaseModel):
    """The keys that the file may hold, all optional. ``init`` writes a description of each key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    collection: str | None = None
    path: str | None = None
    url: str | None = None
    model: str | None = None
    mode: Literal["hybrid", "dense", "sparse"] | None = None
    rerank: str | None = None
    precision: Precision | None = None

    @field_validator("*")
    @classmethod
    def _storable(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("is empty; leave the key out")
        if value is not None and value.encode(errors="replace").decode() != value:
            raise ValueError("has a lone surrogate, which no file can hold")
        return value

    @field_validator("url")
    @classmethod
    def _address_without_password(cls, value: str | None) -> str | None:
        if value is not None and not is_server_address(value):
            raise ValueError(f"should be the address of a server, {ADDRESS_FORM}")
        if value is not None and urlsplit(value).password:
            raise ValueError("holds a password; a secret is not for this file: set QDRANT_API_KEY")
        return value

    @model_validator(mode="after")
    def _one_store(self) -> Settings:
        if self.path is not None and self.url is not None:
            raise ValueError("path and url name two stores; give one of them")
        return self


def read_settings(path: Path) -> Settings | None:
    """Read a file of settings; return None for a project file without settings. Paths are relative to its folder.

    Raises:
        ConfigurationError: the file cannot be read, or a key is unknown or unusable; the message names file and key.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from error
    where = str(path)
    if path.name == PROJECT_FILE:
        where = f"{path}: [{PROJECT_TABLE}]"
        tools = values.get("tool", {})
        table = tools.get("twinvec") if isinstance(tools, dict) else None
        if table is None:
            return None
        if not isinstance(table, dict):
            raise ConfigurationError(f"{where}: should be a table of settings")
        values = table
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("\n".join(f"{where}: {fault(each)}" for each in error.errors())) from None
    rooted = {}
    if settings.path is not None:
        rooted["path"] = str((path.parent / file_path(settings.path, f"{where}: path")).resolve())
    for name in ("model", "rerank"):
        value = getattr(settings, name)
        # unlike Path.is_dir, False for a text that is too long for a path
        if value is not None and os.path.isdir(path.parent / value):
            rooted[name] = str(path.parent / value)
    return settings.model_copy(update=rooted)


def fault(error: Any) -> str:
    """Describe the fault of a key, without its value, which may be a secret in the wrong place."""
    key = ".".join(map(str, error["loc"]))
    if error["type"] != "extra_forbidden":
        return ": ".join(filter(None, [key, field_fault(error)]))
    if any(word in key.lower() for word in _SECRETS):
        return f"{key}: a secret is not for this file; set the environment variable QDRANT_API_KEY"
    near = get_close_matches(key, Settings.model_fields, 1)
    hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(Settings.model_fields)}"
    return f"{key}: unknown key; {hint}"
