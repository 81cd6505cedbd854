"""Keys from a file or the environment. No error and no log line quotes a key, or a line that may hold one."""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import SecretStr

from twinvec.errors import ConfigurationError

WRITE_VARIABLE, READ_VARIABLE = "TWINVEC_API_KEY", "TWINVEC_READ_API_KEY"
_LEAST = 16
_KEY = re.compile(r"[\x21-\x7e]+")
_MAKE = "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"

logger = logging.getLogger(__name__)


class Keys(NamedTuple):
    """Keys that may read, and keys that may read and write."""

    read: tuple[SecretStr, ...] = ()
    write: tuple[SecretStr, ...] = ()


def find_keys(file: Path | None, environment: Mapping[str, str]) -> Keys:
    """Return the keys of a file and of the environment.

    Each line has one key: ``read KEY``, or ``write KEY``. A ``KEY`` alone may write. ``#`` begins a comment. Raise
    ConfigurationError if the file cannot be read or has no key, or if a key is too short, has blanks or is of both
    kinds. A file that every user of the machine can read gets a warning.
    """
    read: list[SecretStr] = []
    write: list[SecretStr] = []
    if file is not None:
        for kind, key in _of_file(file):
            (read if kind == "read" else write).append(key)
    for name, keys in ((READ_VARIABLE, read), (WRITE_VARIABLE, write)):
        if environment.get(name):
            keys.append(_checked(environment[name], f"the environment variable {name}"))
    if set(read) & set(write):
        raise ConfigurationError(
            f"{file or READ_VARIABLE}: the same key is given as a read key and as a write key; remove one of them, or "
            f"make another key"
        )
    return Keys(tuple(read), tuple(write))


def _of_file(file: Path) -> list[tuple[str, SecretStr]]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        if os.name == "posix" and file.stat().st_mode & stat.S_IROTH:
            logger.warning("every user of this machine can read the keys in %s; protect the file with chmod 600", file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{file}: the file of keys cannot be read: {reason}") from None
    keys = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        kind = words.pop(0) if words[0] in ("read", "write") and len(words) > 1 else "write"
        if len(words) != 1:
            raise ConfigurationError(f"{file}, line {number}: expected read KEY, write KEY or KEY")
        keys.append((kind, _checked(words[0], f"{file}, line {number}")))
    if not keys:
        raise ConfigurationError(f"{file}: the file has no key; {_MAKE}")
    return keys


def _checked(key: str, where: str) -> SecretStr:
    if not _KEY.fullmatch(key):
        raise ConfigurationError(
            f"{where}: a key consists of ASCII letters, digits and punctuation, without blanks; {_MAKE}"
        )
    if len(key) < _LEAST:
        raise ConfigurationError(f"{where}: the key has {len(key)} characters, and the minimum is {_LEAST}; {_MAKE}")
    return SecretStr(key)
