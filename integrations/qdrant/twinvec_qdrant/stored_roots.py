"""What a collection keeps of its roots: where its documents were taken from, and what they hold.

``records.roots`` reads and writes it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

SEPARATOR = ":"
"""Stands between the name of a later root and the id that reading gives."""


@dataclass(frozen=True, slots=True)
class StoredRoot:
    """What a collection keeps of one root.

    Attributes:
        name: Its name, which no other root of the collection has.
        first: Whether its documents have ids without its name.
        location: The absolute path of its folder or file; None if the documents came from elsewhere.
        host: Name of the machine that has the location.
        options: How it is read: the fields of ``ingest.reading.Root`` that differ from the defaults, without the path.
        described: What folders in it hold, in the user's words, by their path in it; "" is the whole root.
    """

    name: str
    first: bool = False
    location: str | None = None
    host: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the root that ``as_fields`` wrote; fields of newer versions are ignored."""
        return cls(**{name: fields[name] for name in cls.__slots__ if name in fields})

    def as_fields(self) -> dict[str, Any]:
        """Return the root as plain JSON, without what is empty."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(each) if isinstance(each, Mapping) else each for name, each in values.items() if each}

    @property
    def prefix(self) -> str:
        """What the ids of its documents begin with."""
        return "" if self.first else self.name + SEPARATOR

    def is_local(self) -> bool:
        """Return whether its place is, or was, on this machine."""
        return self.location is not None and self.host == socket.gethostname()

    def is_here(self) -> bool:
        """Return whether this machine has its folder or file now."""
        return self.location is not None and self.is_local() and os.path.exists(self.location)

    def description(self, source: str) -> str:
        """Return what the innermost described folder of a document holds, in the user's words, or ""."""
        place = source.removeprefix(self.prefix)
        inside = [path for path in self.described if not path or place == path or place.startswith(f"{path}/")]
        return self.described[max(inside, key=len)] if inside else ""


def owner(roots: Mapping[str, StoredRoot], source: str) -> StoredRoot | None:
    """Return the root that a document belongs to, or None in a collection without roots."""
    later = (each for each in roots.values() if not each.first and source.startswith(each.prefix))
    return next(later, next((each for each in roots.values() if each.first), None))
