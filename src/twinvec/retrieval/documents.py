"""Documents, the input of retrieval and ingestion: a text with an id, an optional title, and the caller's payload.

``as_document`` converts other forms of documents. ``twinvec_qdrant`` reads files and cuts documents into chunks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from typing import Any, NamedTuple
from uuid import UUID

from twinvec.errors import DocumentError
from twinvec.support.checks import is_integer, plain_scalar, shown
from twinvec.text import MAX_TEXT_BYTES, check_list, check_text, is_list, is_table

MAX_PAYLOAD_BYTES = 4 * 1024 * 1024
"""Largest payload of a document, as JSON."""

MAX_LEVELS = 100
"""Largest nesting depth of a payload. A store cannot read a point that is nested 128 levels deep."""

_INT64 = range(-(2**63), 2**63)
_SHORT = 256  # a payload of at most 256 fields, whose keys and texts have at most 256 characters, is not too large


class HiddenKeys(NamedTuple):
    """Keys of a payload that a framework leaves out of texts.

    Attributes:
        llm: Keys that a language model is not shown.
        embed: Keys that are not embedded with the text.
    """

    llm: tuple[str, ...] = ()
    embed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A text to find again.

    Attributes:
        id: The caller's name for the document, unique in an index or a collection: a path, a URL, a key.
        text: The text.
        title: Title that is embedded before the text and before each of its chunks; may be empty.
        payload: JSON values of the caller, which filters compare.
        hidden: Keys of the payload that LlamaIndex leaves out of texts; None if the document names none.
    """

    id: str
    text: str
    title: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    hidden: HiddenKeys | None = field(default=None, kw_only=True, repr=False)

    @property
    def full_text(self) -> str:
        """The embedded text: title, blank line and text, or one of the two if the other is empty.

        Word-piece models read all white space alike, so their vectors equal those of BEIR's ``title + " " + text``.
        """
        return f"{self.title}\n\n{self.text}" if self.title and self.text else self.title or self.text


DocumentLike = Document | Mapping[str, Any] | str | tuple[str, str]
"""Forms of a document that ``as_document`` takes: a document, a mapping, a text, or a pair of id and text.

The id of a text without an id is its position among the documents of the call, so the texts of a second call replace
the texts of the first.
"""


def as_document(value: object, position: int, max_bytes: int = MAX_TEXT_BYTES) -> Document:
    """Convert ``value`` to a checked document.

    A mapping has ``text``, an id under ``id`` or ``_id`` (the BEIR layout), and optionally ``title`` and ``payload``;
    its other keys join the payload. If ``payload`` has the same key, the value in ``payload`` counts. An id that is a
    whole number or a UUID becomes text. A text gets its ``position`` as id. Documents of LangChain, and documents and
    nodes of LlamaIndex, are converted too. A LangChain document without an id gets a digest of its text and metadata as
    id.

    Raises:
        DocumentError: the text or the id is missing, or an id, payload or ``hidden`` has the wrong type.
        TextError: the text, the title or the id is invalid (not a string, too long, or with a lone surrogate).
    """
    if isinstance(value, str):
        document = Document(str(position), value)
    elif isinstance(value, tuple) and len(value) == 2:
        document = Document(as_id(value[0]), value[1])
    elif isinstance(value, Document):
        document = value
    elif isinstance(value, Mapping):
        document = _from_mapping(value, position)
    elif hasattr(value, "page_content"):
        document = _from_langchain(value, position)
    elif hasattr(value, "get_content") and hasattr(value, "id_"):
        document = _from_llama_index(value)
    else:
        raise DocumentError(
            f"document {position}: expected a Document, a mapping, a string or (id, text), got {type(value).__name__}"
        )
    where = f"document {position}"
    if not isinstance(document.id, str) or not document.id:
        raise DocumentError(f"{where}: the id must be a non-empty string, got {document.id!r}")
    check_text(document.id, f"{where}: id", max_bytes=64 * 1024)
    where = f"document {shown(document.id)}"
    check_text(document.title, f"{where}: title", max_bytes)
    check_text(document.text, where, max_bytes)
    if not isinstance(document.payload, Mapping):
        raise DocumentError(f"{where}: the payload must be a mapping, got {type(document.payload).__name__}")
    if document.hidden is not None:
        if not isinstance(document.hidden, HiddenKeys):
            raise DocumentError(f"{where}: hidden must be HiddenKeys(llm=..., embed=...), got {shown(document.hidden)}")
        plain_json(document.hidden._asdict(), f"{where}: the hidden keys")
    return document


def as_id(value: Any) -> Any:
    """Convert an id that is a whole number or a UUID to text; return any other value as it is."""
    if is_integer(value):
        return str(int(value))
    return str(value) if isinstance(value, UUID) else value


def check_ids(ids: Iterable[object]) -> list[str]:
    """Convert ids to texts by ``as_id``; raise TextError for other types of ids, and for a single text."""
    check_list(ids, "ids")
    return [check_text(as_id(each), f"id {shown(each)}") for each in ids]


def check_documents(values: Iterable[object]) -> Iterable[object]:
    """Return ``values`` unchanged; raise DocumentError for a table, a set, or a value that is not iterable."""
    kind = type(values).__name__
    if is_table(values):
        pandas, polars, pyarrow = "to_dict('records')", "to_dicts()", "to_pylist()"
        rows = pyarrow if hasattr(values, "to_pylist") else polars if hasattr(values, "to_dicts") else pandas
        raise DocumentError(f"expected documents, got {kind}; give its rows: table.{rows}")
    if isinstance(values, (set, frozenset)):  # its order differs between processes, and so would ids that are positions
        raise DocumentError(f"expected an iterable of documents, got {kind}, which has no order; give a list")
    if isinstance(values, Mapping) or not is_list(values):
        raise DocumentError(f"expected an iterable of documents, got {kind}")
    return values


def replaced_warning(texts: int, *, would: bool = False) -> str:
    """Return the warning that texts without ids replace stored texts; ``would`` words it for a dry run."""
    counted = "1 text without an id" if texts == 1 else f"{texts:,} texts without ids"
    done = "would replace" if would else ("replaces" if texts == 1 else "replace")
    return (
        f"{counted} {done} another stored text, because the id of a text without an id is its position in the call; to "
        "keep both, give ids: (id, text)"
    )


def parse_json(
    text: str | bytes,
    each_object: Callable[[dict[str, Any]], Any] | None = None,
    decoder: type[json.JSONDecoder] = json.JSONDecoder,
) -> Any:
    """Parse JSON; raise DocumentError for a text that is not JSON, or that ``decoder`` refuses.

    NaN and the infinities are not JSON, although Python's parser accepts them. ``each_object`` gets every JSON object
    as a dict, and returns the value that replaces the dict.
    """
    try:
        return json.loads(text, cls=decoder, parse_constant=_refuse_constant, object_hook=each_object)
    except DocumentError:
        raise
    except ValueError as error:
        raise DocumentError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DocumentError("nested too deeply for a JSON document") from error


def parse_record(text: str | bytes, decoder: type[json.JSONDecoder] = json.JSONDecoder) -> dict[str, Any]:
    """Parse a JSON object, such as a line of a JSON lines file, for ``as_document``, or raise DocumentError."""
    return as_record(parse_json(text, decoder=decoder))


def as_record(value: object) -> dict[str, Any]:
    """Return a JSON value that is an object; raise DocumentError for any other value."""
    if not isinstance(value, dict):
        raise DocumentError(f'expected an object such as {{"id": ..., "text": ...}}, got {type(value).__name__}')
    return value


def as_documents(values: Iterable[object]) -> Iterator[Document]:
    """Convert each value by ``as_document``; raise the error of the first refused value."""
    check_documents(values)
    return (as_document(value, position) for position, value in enumerate(values))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value; give null (None in Python) or leave the key out")


def _plain_value(value: Any) -> Any:
    """Return the JSON form of a Python value: dates and times as ISO text, NumPy scalars as numbers."""
    if type(value).__name__ in ("NaTType", "NAType"):  # missing values of pandas, of which NaT would pass as a datetime
        _refuse_constant(str(value))
    is_moment = getattr(getattr(value, "dtype", None), "kind", None) == "M"
    value = plain_scalar(value)
    if value is None and is_moment:
        _refuse_constant("NaT")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if value is None or (isinstance(value, (str, int, float)) and not is_moment):
        return value
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _from_mapping(value: Mapping[str, Any], position: int) -> Document:
    rest = dict(value)
    text = rest.pop("text", None)
    if text is None:
        wrong = "'text' is null" if "text" in value else f"no 'text' among the keys {sorted(map(str, value))}"
        raise DocumentError(f"document {position}: {wrong}; expected a string")
    key = "id" if "id" in rest else "_id"
    if key not in rest:
        raise DocumentError(f"document {position}: no 'id' among the keys {sorted(map(str, value))}")
    identity = rest.pop(key)
    title = _or_empty(rest.pop("title", None), "")
    payload = _or_empty(rest.pop("payload", None), {})
    if not isinstance(payload, Mapping):
        raise DocumentError(f"document {position}: the payload must be a mapping, got {type(payload).__name__}")
    return Document(as_id(identity), text, title, {**rest, **payload})


def _or_empty(value: Any, empty: Any) -> Any:
    """Return ``empty`` for None and for a false JSON value; an array, whose truth is ambiguous, is refused later."""
    is_missing = value is None or (isinstance(value, (str, int, float, list, dict)) and not value)
    return empty if is_missing else value


def _from_langchain(value: Any, position: int) -> Document:
    payload = dict(value.metadata)
    identity = getattr(value, "id", None)
    if identity is None:  # as in LangChain's own indexing: equal content means the same document
        try:
            content = json.dumps([value.page_content, payload], sort_keys=True, default=_plain_value)
        except (TypeError, ValueError, RecursionError) as error:
            raise DocumentError(f"document {position}: the metadata must be plain JSON: {error}") from None
        identity = hashlib.sha256(content.encode()).hexdigest()
    return Document(identity, value.page_content, payload=payload)


def _from_llama_index(value: Any) -> Document:
    names = ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
    hidden = HiddenKeys(*(tuple(getattr(value, name, ())) for name in names))
    return Document(
        value.id_, value.get_content(), payload=dict(value.metadata), hidden=hidden if any(hidden) else None
    )


def json_payload(document: Document) -> dict[str, Any]:
    """Return the payload as plain JSON.

    Tuples become lists, numeric keys become strings, NumPy scalars become numbers, and dates and times become ISO 8601
    texts. Raise ``DocumentError`` for other types, NaN, an integer beyond 64 bits, a lone surrogate, or a payload that
    is larger than ``MAX_PAYLOAD_BYTES`` or nested deeper than ``MAX_LEVELS``.
    """
    return plain_json(document.payload, f"document {shown(document.id)}: the payload")


def plain_json(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a mapping as plain JSON; raise as ``json_payload`` does, with ``name`` in the message."""
    if len(values) <= _SHORT and all(map(_is_plain, values.items())):
        return dict(values)
    try:
        return _checked_json(values)
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentError(
            f"{name} must be plain JSON (strings, numbers, booleans, null, lists, mappings): "
            f"{_offence(values) or error}"
        ) from None


def _checked_json(values: Mapping[str, Any]) -> dict[str, Any]:
    text = _PLAIN_JSON.encode(dict(values))
    plain: dict[str, Any] = _INT64_JSON.decode(text)
    check_text(text, "payload", MAX_PAYLOAD_BYTES)
    if text.count("{") + text.count("[") > MAX_LEVELS and is_deeper(plain, MAX_LEVELS):
        raise ValueError(f"it is nested more than {MAX_LEVELS} levels deep")
    return plain


def is_deeper(values: Mapping[str, Any], levels: int) -> bool:
    """Return whether the lists and mappings in ``values`` are nested more than ``levels`` deep."""
    outer: list[Any] = [values]
    for _ in range(levels + 1):
        outer = [
            inner
            for each in outer
            for inner in (each.values() if isinstance(each, Mapping) else each)
            if isinstance(inner, (dict, list))
        ]
    return bool(outer)


def _offence(values: Mapping[str, Any]) -> str:
    """Return the first key whose value is refused, with the reason; "" if every single value is accepted."""
    for key, value in values.items():
        try:
            _checked_json({key: value})
        except (TypeError, ValueError, RecursionError) as error:
            return f"{shown(key)}: {error}"
    return ""


def _is_plain(item: tuple[object, object]) -> bool:
    """Return whether a field of a payload is short and already plain JSON, as most fields are."""
    key, value = item
    if type(key) is not str or not key.isascii() or len(key) > _SHORT:
        return False
    if type(value) is str:
        return value.isascii() and len(value) <= _SHORT
    return value is None or type(value) is bool or (type(value) is int and value in _INT64)


def _int64(digits: str) -> int:
    value = int(digits)
    if value not in _INT64:
        raise ValueError(f"the integer {digits[:30]} does not fit into 64 bits")
    return value


# made once, because json.dumps and json.loads make a new encoder or decoder for every call with options
_PLAIN_JSON = json.JSONEncoder(ensure_ascii=False, default=_plain_value)
_INT64_JSON = json.JSONDecoder(parse_int=_int64, parse_constant=_refuse_constant)
