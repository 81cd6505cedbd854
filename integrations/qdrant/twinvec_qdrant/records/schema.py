"""The schema of a collection: six kinds of points, and the ids and payloads of each kind.

    chunk      dense and sparse vector, optional token states; source (the document's id), position, heading, optional
               title, text, content (the hash of the text), the revision of the commit that wrote it, the user's payload
               under "metadata"; if more than the text is embedded, also "embedded" (the embedded text) and "key" (the
               hash of both texts); "_hidden_keys" if the document has keys that LlamaIndex leaves out of texts
    record     one for each source: version, revision and the ids of its chunks; writing the record is the commit
    intent     the sources that a writer is about to change, and the revisions that it may leave unfinished; the writer
               removes the intent at the end
    note       a small record of an application: namespace, key, and its fields under "metadata"
    model      after a migration, and on a server since the first ingest: one point with the name of the vectors of the
               present model, and with its space
    dates      on a server, one for each payload key in which a writer has seen dates (``payload_indexes``)

Only chunks have vectors. The id of a chunk is a hash of all its content except the revision, so a chunk never changes:
another text gives another point. The user's keys are under ``metadata``, where they cannot collide with twinvec's
fields. Only a few keys of LlamaIndex's nodes are at the top level, where LlamaIndex's own Qdrant store reads them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Any
from uuid import UUID

from twinvec.errors import ConfigurationError
from twinvec.retrieval.documents import HiddenKeys
from twinvec.retrieval.filters.conditions import Condition, Field, mapped, split_key
from twinvec_qdrant.framework_layout import HIDDEN_KEYS
from twinvec_qdrant.stores.conditions import FieldIs, StoreCondition, field_is
from twinvec_qdrant.stores.points import Point

NAMESPACE = UUID("6b1c3c0e-8a5d-5d0b-9a53-7f0d5b1a2c44")
"""The UUID namespace of all point ids."""

LLAMA_INDEX_KEYS = frozenset({"_node_content", "_node_type", "doc_id", "document_id", "ref_doc_id"})
"""Keys of a payload that LlamaIndex's Qdrant store reads at the top level of a point."""

SHOWN_FIELDS = ("source", "position", "heading", "title")
"""The fields of twinvec that a hit shows with the user's payload, unless the user has a key of the same name."""

EMBEDDED_FIELDS = ("text", "embedded")
"""The fields of a chunk that ``embedded_text`` reads."""

CHUNKS, RECORDS, INTENTS, NOTES = (field_is("kind", kind) for kind in ("chunk", "record", "intent", "note"))
"""The conditions that select the points of each kind."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_PARTS = re.compile(r'"[^"]*"(?:\[\])?|[^."]+')


@dataclass(frozen=True, slots=True)
class Record:
    """The committed state of one source.

    Attributes:
        version: Hash of everything that determines the chunks; "" if the next ingest has to write missing chunks.
        revision: Id of this commit, which compare-and-set compares.
        chunks: Ids of the chunks, in order.
        terms: Number of terms of all chunks together, for BM25's average length.
        payload: The user's payload of a document without chunks; else empty, because the chunks hold it.
    """

    source: str
    version: str
    revision: str
    chunks: tuple[str, ...]
    terms: int
    payload: Mapping[str, Any]

    def as_payload(self) -> dict[str, Any]:
        """Return the payload of the record's point."""
        return {
            "kind": "record",
            "source": self.source,
            "version": self.version,
            "revision": self.revision,
            "chunks": list(self.chunks),
            "size": len(self.chunks),
            "terms": self.terms,
            "metadata": dict(self.payload),
        }

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Record:
        """Return the record that a point holds."""
        return cls(
            payload["source"],
            payload["version"],
            payload["revision"],
            tuple(payload["chunks"]),
            payload["terms"],
            payload.get("metadata", {}),
        )


def chunks_of(points: Mapping[str, Point]) -> dict[str, Point]:
    """Return the points that are chunks; they were read with at least the field ``kind``.

    In a collection that LangChain's or LlamaIndex's Qdrant store also writes, it may have replaced the payload of a
    chunk that a record lists. Such a point is no chunk until it is adopted again.
    """
    return {key: point for key, point in points.items() if point.payload.get("kind") == "chunk"}


def embedded_text(chunk: Mapping[str, Any]) -> str:
    """Return the text from which a chunk's vector and BM25 weights are computed; ``chunk`` has ``EMBEDDED_FIELDS``.

    Token states are computed from the field ``text`` alone.
    """
    return str(chunk.get("embedded", chunk["text"]))


def chunk_key(text: str, embedded: str) -> str:
    """Return the hash of the texts that determine a chunk's vectors."""
    return digest(text) if embedded == text else digest(text, embedded)


def stored_key(chunk: Mapping[str, Any]) -> str:
    """Return the ``chunk_key`` of a stored chunk, from its payload fields ``content`` and ``key``."""
    return str(chunk.get("key", chunk["content"]))


@lru_cache(maxsize=4096)  # an ingest needs each id several times
def record_id(source: str) -> str:
    """Return the point id of a source's record."""
    return _point_id("record", source)


def chunk_id(source: str, position: int, content: str) -> str:
    """Return the point id of a chunk; ``content`` is its ``chunk_content``."""
    return _point_id("chunk", source, str(position), content)


def chunk_content(key: str, heading: str, title: str, payload: str, hidden: HiddenKeys | None) -> str:
    """Return the hash of a chunk's whole content; ``key`` is its ``chunk_key``, and ``payload`` is canonical JSON."""
    return digest(key, heading, title, payload, *hidden_parts(hidden))


def hidden_parts(hidden: HiddenKeys | None) -> tuple[str, ...]:
    """Return the parts that stand for hidden keys in a hash; an empty tuple without hidden keys."""
    return () if hidden is None else (canonical(hidden._asdict()),)


def intent_id(token: str) -> str:
    """Return the point id of a writer's intent."""
    return _point_id("intent", token)


def note_id(namespace: str, key: str) -> str:
    """Return the point id of a note."""
    return _point_id("note", namespace, key)


@cache
def model_id() -> str:
    """Return the id of the point that names the present model."""
    return _point_id("model")


def dates_id(key: str) -> str:
    """Return the point id of the statement that a payload key may have dates."""
    return _point_id("dates", key)


def _point_id(*parts: str) -> str:
    """Return ``str(uuid.uuid5(NAMESPACE, ...))`` of the joined parts, in a third of the time that ``uuid5`` takes."""
    name = "\0".join(parts).encode()
    number = bytearray(hashlib.sha1(NAMESPACE.bytes + name, usedforsecurity=False).digest()[:16])
    number[6] = number[6] & 0x0F | 0x50  # version 5 (RFC 9562, 5.5)
    number[8] = number[8] & 0x3F | 0x80
    digits = number.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def digest(*parts: str) -> str:
    """Return a hex digest of length-prefixed parts, so ("ab", "c") and ("a", "bc") have different digests."""
    prefixed = b""
    for part in parts:
        data = part.encode()
        prefixed += len(data).to_bytes(8, "big") + data
    return hashlib.blake2b(prefixed, digest_size=16).hexdigest()


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and without spaces."""
    return _CANONICAL.encode(value)


def point_payload(own: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a chunk's point, from twinvec's own fields and the user's payload."""
    lifted = {key: payload[key] for key in LLAMA_INDEX_KEYS & payload.keys()}
    return {**lifted, **own, "metadata": {key: value for key, value in payload.items() if key not in lifted}}


def hidden_field(hidden: HiddenKeys | None) -> dict[str, Any]:
    """Return a chunk's payload field for hidden keys; empty without hidden keys."""
    return {} if hidden is None else {HIDDEN_KEYS: {name: list(keys) for name, keys in hidden._asdict().items()}}


def hidden_keys(stored: Mapping[str, Any]) -> HiddenKeys | None:
    """Return the hidden keys of the document, from the payload of a chunk's point."""
    held = stored.get(HIDDEN_KEYS)
    return None if held is None else HiddenKeys(tuple(held["llm"]), tuple(held["embed"]))


def user_payload(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's payload, from the payload of a chunk's point."""
    return {**stored["metadata"], **{key: stored[key] for key in LLAMA_INDEX_KEYS & stored.keys()}}


def filter_conditions(filter: Iterable[Condition]) -> tuple[StoreCondition, ...]:
    """Return the parsed filter as conditions on stored fields; raise ``FilterError`` on an unusable key."""
    return tuple(mapped(each, _stored) for each in filter)


def _stored(condition: Field) -> FieldIs:
    key = condition.key
    if key == "id":
        return FieldIs(("source",), condition.test)
    return FieldIs(_paths(key), condition.test, key if key in SHOWN_FIELDS else "")


def filtered_paths(key: str) -> tuple[str, ...]:
    """Return all paths that a filter on the key tests; raise ``FilterError`` on an unusable key."""
    if key == "id":
        return ("source",)
    return _paths(key) + ((key,) if key in SHOWN_FIELDS else ())


def filtered_key(path: str) -> str | None:
    """Return the key by which a filter tests this path; None for a path outside the user's payload."""
    below = path.removeprefix("metadata.")
    if below == path and path not in LLAMA_INDEX_KEYS:
        return None
    parts = [part.removesuffix("[]").strip('"') for part in _PARTS.findall(below)]
    key = ".".join(f'"{part}"' if "." in part else part for part in parts)
    return ".id" if key == "id" else key


def tenant_path(key: str | None) -> str | None:
    """Return the payload path of the tenant's name; raise ``ConfigurationError`` if ``key`` cannot name tenants."""
    if key is None:
        return None
    if not isinstance(key, str) or not key or not _PLAIN.issuperset(key) or key in (*SHOWN_FIELDS, "id"):
        raise ConfigurationError(
            f"tenant_key {key!r}: expected a name of letters, digits and _, other than id, {', '.join(SHOWN_FIELDS)}"
        )
    return key if key in LLAMA_INDEX_KEYS else f"metadata.{key}"


def _paths(key: str) -> tuple[str, ...]:
    """Return all JSON paths for a key of the user's payload; each inner part may be a mapping or a list of mappings."""
    parts = split_key(key)
    marks = [("[]",) if listed else ("", "[]") for _, listed in parts[:-1]]
    quoted = [part if _PLAIN.issuperset(part) else f'"{part}"' for part, _ in parts]
    lifted = (key,) if key in LLAMA_INDEX_KEYS else ()
    return lifted + tuple(
        ".".join(["metadata", *(part + mark for part, mark in zip(quoted, (*chosen, ""), strict=True))])
        for chosen in product(*marks)
    )


# json.dumps makes a new encoder for every call with options
_CANONICAL = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
