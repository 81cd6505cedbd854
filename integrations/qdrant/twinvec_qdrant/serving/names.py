"""Names of collections, in stores and in the addresses of a process that serves a store."""

from __future__ import annotations

from urllib.parse import quote

from twinvec.errors import ConfigurationError
from twinvec.support.checks import string

_LONGEST = 200


def check_name(name: str) -> None:
    """Raise ConfigurationError unless the name of a collection is a string of at least one character."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"the name of a collection must be a non-empty string, got {name!r}")


def can_be_served(name: str) -> bool:
    """Return whether ``twinvec serve`` makes a collection of this name."""
    is_part_of_path = "/" not in name and name not in ("", ".", "..")
    return is_part_of_path and name.isprintable() and name == name.strip() and len(name) <= _LONGEST


def check_new_name(name: str) -> None:
    """Raise ``ConfigurationError`` if ``twinvec serve`` would not make a collection of this name."""
    string(name, "the name of a collection")
    if not can_be_served(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a new collection: expected printable text of at most {_LONGEST} "
            "characters, without / and without spaces at its ends, and not . or .."
        )


def collection_path(name: str, rest: str = "") -> str:
    """Return the path of a collection in the API; raise ``ConfigurationError`` if a path cannot contain its name."""
    string(name, "the name of a collection")
    if "/" in name or name in (".", ".."):
        raise ConfigurationError(f"the collection {name!r} cannot be reached over HTTP: a path cannot contain its name")
    return f"/v1/collections/{quote(name, safe='')}{rest}"
