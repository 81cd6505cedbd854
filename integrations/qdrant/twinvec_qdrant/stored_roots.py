"""The stored form of a collection's roots: the folders, files or records that its documents were read from.

``records.roots`` reads and writes this form.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

SEPARATOR = ":"
"""Separator between the name of a root and the id of a document; ids of the first root have no such prefix."""


@dataclass(frozen=True, slots=True)
class StoredRoot:
    """A root as the collection stores it.

    Attributes:
        name: Its name, which no other root of the collection has.
        first: Whether it is the first root, whose documents have ids without its name.
        location: The absolute path of its folder or file; None if the documents came from elsewhere.
        host: Name of the machine that has the location.
        options: The fields of ``ingest.reading.Root``, except the path, that differ from their defaults.
        described: The user's descriptions of folders, by their path in the root; "" is the whole root.
    """

    name: str
    first: bool = False
    location: str | None = None
    host: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Build the root from the result of ``as_fields``; ignore fields of newer versions."""
        return cls(**{name: fields[name] for name in cls.__slots__ if name in fields})

    def as_fields(self) -> dict[str, Any]:
        """Return the root as plain JSON, without empty fields."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(each) if isinstance(each, Mapping) else each for name, each in values.items() if each}

    @property
    def prefix(self) -> str:
        """Prefix of the ids of the root's documents."""
        return "" if self.first else self.name + SEPARATOR

    def is_local(self) -> bool:
        """Return whether the root was read on this machine; its folder or file may be gone."""
        return self.location is not None and self.host == socket.gethostname()

    def found_here(self) -> StoredRoot:
        """Return the root as one of this machine if its location exists here, whatever the machine's name was."""
        if self.location is None or self.is_local() or not os.path.exists(self.location):
            return self
        return replace(self, host=socket.gethostname())

    def is_here(self) -> bool:
        """Return whether this machine has the root's folder or file now."""
        return self.location is not None and self.is_local() and os.path.exists(self.location)

    def description(self, source: str) -> str:
        """Return the user's description of the innermost described folder of a document, or ""."""
        place = source.removeprefix(self.prefix)
        inside = [path for path in self.described if not path or place == path or place.startswith(f"{path}/")]
        return self.described[max(inside, key=len)] if inside else ""


def owner(roots: Mapping[str, StoredRoot], source: str) -> StoredRoot | None:
    """Return the root that a document belongs to, or None in a collection without roots."""
    later = (each for each in roots.values() if not each.first and source.startswith(each.prefix))
    return next(later, next((each for each in roots.values() if each.first), None))
