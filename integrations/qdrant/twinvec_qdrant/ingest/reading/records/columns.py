"""The columns of a table, or the keys of JSON objects, that hold the id, the text and the title of a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from twinvec.errors import ConfigurationError, DocumentError
from twinvec.support.checks import string


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The columns of a table, or keys of JSON objects, that hold the parts of a document; all others are payload.

    Attributes:
        id: Column of the id. Default: "id" or "_id". Without such a column, the id is the number of the row.
        text: Columns of the text; empty lines separate the texts of several columns. Default: "text". Without such a
            column, the text is "column: value" of all columns of the table.
        title: Column of the title. Default: "title".
    """

    id: str | None = None
    text: tuple[str, ...] = ()
    title: str | None = None

    def __post_init__(self) -> None:
        for name, given in (("id", self.id), ("title", self.title)):
            if given is not None:
                string(given, f"columns: {name}")
        if not isinstance(self.text, (list, tuple)):
            raise ConfigurationError(f"columns: text must be a list of names, got {self.text!r}")
        for given in self.text:
            string(given, "columns: text")
        object.__setattr__(self, "text", tuple(self.text))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults, as a JSON object."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RecordColumns:
        """Build the columns from the result of ``as_dict``.

        Raises:
            ConfigurationError: an unknown field.
        """
        known = [each.name for each in fields(cls)]
        if unknown := [name for name in values if name not in known]:
            raise ConfigurationError(f"columns of records have no {unknown[0]!r}; they have {', '.join(known)}")
        return cls(**{**values, "text": tuple(values.get("text", ()))})

    def are_in(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has an id and a text."""
        has_id = self.id in record if self.id is not None else not {"id", "_id"}.isdisjoint(record)
        return has_id and all(isinstance(record.get(name), str) for name in self.text or ("text",))

    def renamed(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record with the names that ``as_document`` expects: "id", "title" and "text".

        Raises:
            DocumentError: the record lacks one of the given columns, or holds neither text nor a number in it.
        """
        if self == USUAL_COLUMNS:
            return record
        parts: dict[str, Any] = {}
        if self.id is not None:
            parts["id"] = _found(record, self.id)
        if self.title is not None:
            parts["title"] = _as_text(_found(record, self.title), self.title)
        if self.text:
            texts = [_as_text(_found(record, column), column) for column in self.text]
            parts["text"] = "\n\n".join(filter(None, texts))
        given = {self.id, self.title, *self.text}
        rest = {name: value for name, value in record.items() if name not in given}
        id_name = "id" if "id" in rest else "_id"
        for part, name in (("id", id_name), ("title", "title"), ("text", "text")):
            if part not in parts and name in rest:
                parts[part] = rest.pop(name)
        nested = rest.pop("payload", None) or {}
        return {**parts, "payload": {**rest, **nested} if isinstance(nested, Mapping) else nested}


USUAL_COLUMNS = RecordColumns()
"""The default columns: each has the name of its content."""


def _found(record: Mapping[str, Any], column: str) -> Any:
    if column not in record:
        raise DocumentError(f"the record has no {column!r}; it has {sorted(map(str, record))}")
    return record[column]


def _as_text(value: Any, column: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise DocumentError(f"{column!r} must be text, got {type(value).__name__}")
