"""JSON files (.json): an array of objects, an object, or JSON lines -> documents, one for each object.

The first object of a file decides: if it has an id and a text, all objects are documents. Any other JSON file, such as
settings, is one text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twinvec.retrieval.documents import as_record, parse_json
from twinvec_qdrant.ingest.reading.files import MAX_CONVERTED_BYTES, read_bytes
from twinvec_qdrant.ingest.reading.records.columns import RecordColumns
from twinvec_qdrant.ingest.reading.records.json_lines import RECORDS_SUFFIX, document_of
from twinvec_qdrant.ingest.reading.results import Read, hiding, printable, reason_of, unreadable

JSON_SUFFIX = ".json"

_BEGINNING = 1 << 20  # bytes that must hold the first object


def kind_of_json(path: Path, columns: RecordColumns) -> str:
    """Return ".jsonl" for JSON lines, ".json" for other JSON with records, and "" for JSON without records."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING).decode("utf-8-sig", "ignore").lstrip()
        objects = beginning.removeprefix("[").lstrip()
        first, end = json.JSONDecoder().raw_decode(objects)
    except (OSError, ValueError, RecursionError):
        return ""
    if not isinstance(first, dict) or not columns.are_in(first):
        return ""
    is_array = objects != beginning
    return JSON_SUFFIX if is_array or "\n" in objects[:end] else RECORDS_SUFFIX


def read_json(path: Path, name: str, prefix: str, columns: RecordColumns) -> Iterator[Read]:
    """Yield the documents of a file with records; ``name`` is its name in failures, ``prefix`` comes before the ids."""
    shown = printable(name)
    try:
        data = read_bytes(path, MAX_CONVERTED_BYTES)
        values = _values(data)
    except OSError as error:
        yield Read(unreadable(name, error, prefix), 0)
        return
    except Exception as error:  # a damaged file does not stop the others
        yield Read(hiding(shown, reason_of(error, shown), prefix), 0)
        return
    for position, value in enumerate(values):
        where = f"{shown}, object {position + 1}"
        try:
            document = document_of(as_record(value), position, prefix, columns)
        except Exception as error:  # a bad object does not stop the others
            reason = reason_of(error, where).removeprefix(f"document {position}: ")
            yield Read(hiding(where, reason, prefix), len(data) // len(values))
        else:
            yield Read(document, len(data) // len(values))


def count_objects(path: Path) -> int:
    """Return the number of objects of a file with records; 1 for a file that cannot be read."""
    try:
        return len(_values(read_bytes(path, MAX_CONVERTED_BYTES)))
    except (OSError, ValueError):
        return 1


def _values(data: bytes) -> list[Any]:
    values = parse_json(data)
    return values if isinstance(values, list) else [values]
