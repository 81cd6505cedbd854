"""Convert the metadata of documents to plain JSON, in the form that Qdrant's own vector stores keep.

datetime, date, time    text in ISO 8601, which filters compare as dates
UUID, Path, Decimal     text
Enum                    its value
set, tuple, array       list; a set is sorted, so that it is the same in every process
NaN, infinity           null
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from twinvec.errors import DocumentError, TextError
from twinvec.support.checks import shown
from twinvec.text import check_text

_INT64 = range(-(2**63), 2**63)


def plain_metadata(identity: object, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a document as plain JSON.

    Raise ``DocumentError``, which names the document and the key, for a value that has no form in JSON.
    """
    if not isinstance(metadata, Mapping):
        kind = type(metadata).__name__
        raise DocumentError(f"document {shown(identity)}: the metadata must be names with values, got {kind}")
    plain = {}
    for key, value in metadata.items():
        try:
            plain[_key(identity, key)] = _plain(identity, str(key), value)
        except RecursionError:
            raise _refused(identity, str(key), "it is nested too deeply, or holds itself") from None
    return plain


def _plain(identity: object, key: str, value: Any) -> Any:
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return _text(identity, key, value)
    if type(value) is int:
        if value not in _INT64:
            raise _refused(identity, key, f"an integer that does not fit into 64 bits: {str(value)[:30]}")
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return _plain(identity, key, value.value)
    if isinstance(value, Mapping):
        return {_key(identity, name, key): _plain(identity, f"{key}.{name}", each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(identity, key, each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(identity, key, each) for each in value), key=partial(json.dumps, sort_keys=True))
    return _plain(identity, key, _json(identity, key, value))


def _json(identity: object, key: str, value: Any) -> Any:
    """Return any other value as a string, a number or a container."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # an array or scalar of NumPy
        if str(value.dtype) == "datetime64[ns]":  # moments of pandas; ``tolist`` would make integers
            value = value.astype("datetime64[us]")
        found = value.tolist()
    else:
        try:
            found = to_jsonable_python(value, inf_nan_mode="null")
        except (TypeError, ValueError) as error:
            raise _refused(identity, key, f"{type(value).__name__} has no form in JSON: {error}") from None
    if type(found) is type(value):  # the caller would convert the value without end
        raise _refused(identity, key, f"{type(value).__name__} has no form in JSON")
    return found


def _key(identity: object, key: Any, under: str = "") -> str:
    name = key.value if isinstance(key, Enum) else key
    if not isinstance(name, (str, int, float)):
        raise _refused(identity, under or str(key), f"keys must be strings, got {type(key).__name__}")
    return _text(identity, str(name), str(name))


def _text(identity: object, key: str, text: str) -> str:
    try:
        return check_text(text, "its text", max_bytes=2**63)
    except TextError as error:
        raise _refused(identity, key, str(error)) from None


def _refused(identity: object, key: str, reason: str) -> DocumentError:
    return DocumentError(f"document {shown(identity)}: the metadata {key!r}: {reason}")
