"""Indexes of payload keys: a writer makes them before it writes the first points that have the key.

Keys are written as in filters: ``author.name`` is ``name`` in the mapping or the list of mappings ``author``. The first
value of a key decides the type of its index: "keyword" for a string, "float" for a number, "bool" for a boolean. A key
with long texts gets no index. A collection has at most ``MAX_PATHS`` indexed paths; requested keys come first.

An index must not change what a filter finds (``stores.served_tests``). An index of numbers would hide dates under the
same key from filters; an index of dates would hide numbers, and move a leap second to the next day. Before a writer
writes such a document, it therefore replaces the index by an index of keywords.

On a server, one writer may index numbers while another one sees the first dates under the same key. A writer that sees
dates therefore first records the key in a point, and then reads which indexes exist. A writer that indexes numbers
first makes the index, and then reads these points. So the later of the two writers finds what the other has done.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, get_args

from twinvec.errors import ConfigurationError, FilterError, StoreLimitError
from twinvec.retrieval.filters.conditions import Between, During, OneOf
from twinvec.retrieval.filters.instants import is_leap_second, moment
from twinvec_qdrant.records.schema import CHUNKS, LLAMA_INDEX_KEYS, RECORDS, dates_id, filtered_key, filtered_paths
from twinvec_qdrant.settings import PayloadIndexes, PayloadIndexType
from twinvec_qdrant.stores.base import OWN_FIELDS, Backend, FieldIndexType
from twinvec_qdrant.stores.conditions import FieldIs
from twinvec_qdrant.stores.points import Point

logger = logging.getLogger(__name__)

MAX_PATHS = 64
"""Largest number of indexed paths of payload keys; managed clusters of Qdrant permit 100 with twinvec's own."""

LONGEST_TEXT = 256
"""Longest text of an automatically indexed key, in characters; keys with longer texts are indexed on request only."""

SOURCE_KEY = "ref_doc_id"
"""The key by which LlamaIndex deletes documents; it is indexed first."""

SERVED: dict[PayloadIndexType, FieldIndexType] = {
    **{kind: kind for kind in get_args(FieldIndexType)},
    "integer": "float",  # Qdrant's "integer" handles 1.0 and 1.5 wrongly in ranges and equality
    "uuid": "keyword",  # Qdrant's "uuid" also finds other spellings of the same id
}
"""The type of the index that serves a requested type."""

REQUESTABLE: tuple[FieldIndexType, ...] = ("float", "datetime", "keyword", "bool", "text", "geo")
"""The types of indexes; first the types that hide values of other kinds from filters."""

MAX_DEPTH = 3
"""Deepest level of indexed keys; a filter on a key of level n tests 2 ** (n - 1) paths."""

FOR_EQUALITY = "%s: the key %r holds %s; it is indexed for equality only, and ranges are slower"
"""Warning about a requested index that would change answers: the place, the key, and what the key holds."""

_KINDS: dict[type, FieldIndexType] = {str: "keyword", float: "float", int: "float", bool: "bool"}
_PROBES: dict[FieldIndexType | None, FieldIndexType] = {"float": "datetime", "datetime": "float"}
"""Index type -> the index type that a server in strict mode needs to find the values that the first one hides."""
_DATE_BEGINS = frozenset("+-\u2212 \t0123456789")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE_RANGES = (During((("gte", _EPOCH),)), During((("lt", _EPOCH),)))
_NUMBER_RANGES = (Between((("gte", 0.0),)), Between((("lt", 0.0),)))


@dataclass(slots=True)
class SeenKey:
    """Statistics of the values of one key.

    Attributes:
        kinds: Number of values by the type of index that fits them, in the order of their first values.
        dates: Whether any text is a date.
        leaps: Whether any date is in a leap second.
        longest: Characters of the longest text.
    """

    kinds: Counter[FieldIndexType] = field(default_factory=Counter)
    dates: bool = False
    leaps: bool = False
    longest: int = 0

    @property
    def numbers(self) -> bool:
        """Whether any value is a number."""
        return "float" in self.kinds


class PayloadIndexing:
    """Makes the indexes for one writer's documents.

    ``preferred`` maps a key to an index type, which is used if at least one value of the key fits it.
    """

    def __init__(self, backend: Backend, settings: PayloadIndexes, preferred: Mapping[str, str] | None = None) -> None:
        self._backend = backend
        self._settings = settings
        self._preferred = preferred or {}
        self._kinds: dict[str, FieldIndexType | None] = {}
        self._dated: set[str] = set()
        self._is_begun = False
        self._is_idle = False
        self._is_refused = False
        self._is_warned = False

    def begin(self) -> None:
        """Make the requested indexes that the collection lacks."""
        self._known = dict(self._backend.field_indexes())
        narrow = any(kind in ("float", "datetime") for kind in self._known.values())
        self._is_begun, self._is_idle = True, not (self._settings.automatic or self._settings.types or narrow)
        if self._is_idle:
            return
        holds = self._backend.holds
        self._is_new = not holds(()) or not (holds([CHUNKS]) or holds([RECORDS]))
        for key, kind in self._settings.types.items():
            self._kinds[key] = self._made(key, SERVED[kind]) if kind else None

    def see(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        """Make the indexes that these payloads need; call it before they are written."""
        if not self._is_begun:
            self.begin()
        found = seen_keys(() if self._is_idle else payloads)
        if not self._backend.exclusive:
            self._note({key for key, seen in found.items() if seen.dates} - self._dated)
        for key, seen in sorted(found.items(), key=lambda each: each[0] != SOURCE_KEY):
            if key not in self._kinds:
                chosen = chosen_type(key, seen, self._preferred.get(key)) if self._settings.automatic else None
                self._kinds[key] = self._made(key, chosen)
            if misfits(self._kinds[key], seen):
                self._replace(key, "leap seconds" if seen.leaps else "both numbers and dates")

    def _note(self, dated: Collection[str]) -> None:
        """Record in the store that documents may have dates in these keys; see the docstring of this module."""
        if dated:
            self._dated.update(dated)
            self._backend.upsert([Point(dates_id(key), {"kind": "dates", "key": key}) for key in sorted(dated)])
            self._known = dict(self._backend.field_indexes())
            for key in self._kinds.keys() & dated:
                self._kinds[key] = _index_of(filtered_paths(key), self._known)

    def _made(self, key: str, kind: FieldIndexType | None) -> FieldIndexType | None:
        """Index the paths of a key, and return the type of the indexes, or None without indexes.

        If a path has an index already, its type is used in place of ``kind``.
        """
        paths = filtered_paths(key)
        if kind is not None and any(path not in self._known for path in paths):
            # reads the indexes again, because another writer may have made some
            self._known = dict(self._backend.field_indexes())
        there = _index_of(paths, self._known)
        if kind is not None and self._is_left_probe(paths, there, kind):
            there, self._known = None, {path: each for path, each in self._known.items() if path not in paths}
        missing = [path for path in paths if path not in self._known]
        wanted = there or kind
        if wanted is None or not missing:
            return wanted
        if self._is_refused or len(self._known.keys() - OWN_FIELDS) + len(missing) > MAX_PATHS:
            self._warn(f"a collection has at most {MAX_PATHS} indexed paths")
            return None
        try:
            if not self._is_new and self._any_misfit(missing, wanted):
                wanted = "keyword"
            self._index(missing, wanted)
            if wanted == "float" and self._backend.retrieve([dates_id(key)], []):
                wanted = "keyword"
                self._index(paths, wanted)
        except StoreLimitError as error:
            self._is_refused = True
            self._warn(str(error))
            return None
        return wanted

    def _is_left_probe(self, paths: Iterable[str], there: FieldIndexType | None, kind: FieldIndexType) -> bool:
        """Return whether a killed ``misfit`` may have left the index ``there``, and ``kind`` fits all stored values."""
        if there is None or there != _PROBES.get(kind):
            return False
        try:
            return not self._any_misfit(paths, kind)
        except StoreLimitError:
            return False

    def _any_misfit(self, paths: Iterable[str], kind: FieldIndexType) -> bool:
        return any(misfit(self._backend, path, kind) for path in paths)

    def _replace(self, key: str, held: str) -> None:
        logger.warning(FOR_EQUALITY, self._backend.location, key, held)
        self._index(filtered_paths(key), "keyword")
        self._kinds[key] = "keyword"

    def _index(self, paths: Iterable[str], kind: FieldIndexType) -> None:
        for path in paths:
            self._backend.index_field(path, kind)
            self._known[path] = kind

    def _warn(self, reason: str) -> None:
        if not self._is_warned:
            logger.warning("%s: no more payload keys are indexed: %s", self._backend.location, reason)
        self._is_warned = True


def _index_of(paths: Iterable[str], known: Mapping[str, str]) -> FieldIndexType | None:
    there = {known.get(path) for path in paths}
    return next((each for each in REQUESTABLE if each in there), None)


def chosen_type(key: str, seen: SeenKey, preferred: str | None) -> FieldIndexType | None:
    """Return the index type that a key gets automatically, or None if the key has long texts.

    Of the keys that LlamaIndex adds to nodes, only ``SOURCE_KEY`` gets an index.
    """
    if seen.longest > LONGEST_TEXT or (key in LLAMA_INDEX_KEYS and key != SOURCE_KEY):
        return None
    kind = next((each for each in seen.kinds if each == preferred), next(iter(seen.kinds)))
    return "keyword" if misfits(kind, seen) else kind


def misfits(kind: FieldIndexType | None, seen: SeenKey) -> bool:
    """Return whether an index of this type would hide values of the key from filters, or move a date to another day."""
    return (kind == "float" and seen.dates) or (kind == "datetime" and (seen.numbers or seen.leaps))


def misfit(backend: Backend, path: str, kind: FieldIndexType) -> bool:
    """Return whether stored points have values at this path that an index of this type would hide from filters."""
    if kind not in _PROBES:
        return False
    try:
        return _holds(backend, path, kind)
    except StoreLimitError:  # a server in strict mode needs an index for this filter
        backend.index_field(path, _PROBES[kind])
        return _holds(backend, path, kind)


def shown_indexes(backend: Backend, tenant_key: str | None) -> dict[str, str]:
    """Return the types of indexes by payload key, without the tenant key."""
    known = backend.field_indexes()
    shown = {filtered_key(path) or path: known[path] for path in sorted(known, reverse=True) if path not in OWN_FIELDS}
    return {key: kind for key, kind in sorted(shown.items()) if key != tenant_key}


def check_requested(settings: PayloadIndexes, tenant_key: str | None) -> None:
    """Raise ``ConfigurationError`` if the requested keys cannot be indexed."""
    paths = 0
    for key, kind in settings.types.items():
        try:
            paths += len(filtered_paths(key)) if kind else 0
        except FilterError as error:
            raise ConfigurationError(f"payload_indexes: {error}") from None
        if key == "id" or (key == tenant_key and (not kind or SERVED[kind] != "keyword")):
            raise ConfigurationError(f"payload_indexes: the key {key!r} has an index already; leave it out")
    if paths > MAX_PATHS:
        raise ConfigurationError(f"payload_indexes: the keys need {paths} indexes, and the limit is {MAX_PATHS}")


def _holds(backend: Backend, path: str, kind: FieldIndexType) -> bool:
    tests = _DATE_RANGES if kind == "float" else _NUMBER_RANGES
    return backend.holds([OneOf(tuple(FieldIs((path,), test) for test in tests))])


def seen_keys(payloads: Iterable[Mapping[str, Any]]) -> dict[str, SeenKey]:
    """Return statistics of the keys that filters can test, by key, in the order of the keys' first values."""
    found: defaultdict[str, SeenKey] = defaultdict(SeenKey)
    for payload in payloads:
        for key, value in _scalars(payload, "", MAX_DEPTH):
            kind = _KINDS.get(type(value))
            if kind is None:
                continue
            seen = found[key]
            seen.kinds[kind] += 1
            if kind == "keyword":
                seen.longest = max(seen.longest, len(value))
                may_be_date = value[:1] in _DATE_BEGINS
                seen.dates = seen.dates or (may_be_date and moment(value) is not None)
                seen.leaps = seen.leaps or (may_be_date and "60" in value and is_leap_second(value))
    return {".id" if key == "id" else key: seen for key, seen in found.items() if _is_filterable(key)}


def _scalars(payload: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the key and the value of every scalar; the elements of a list have the key of the list."""
    for name, value in payload.items():
        if "." in name:
            continue
        for each in value if isinstance(value, list) else (value,):
            if not isinstance(each, dict):
                yield prefix + name, each
            elif depth > 1:
                yield from _scalars(each, f"{prefix}{name}.", depth - 1)


def _is_filterable(key: str) -> bool:
    parts = key.split(".")
    return all(part and '"' not in part and "\\" not in part and not part.endswith("[]") for part in parts)
