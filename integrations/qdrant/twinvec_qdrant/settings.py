"""The settings of a collection: for cutting documents into chunks, for indexes, and for its storage on a server.

The index of vectors is a graph (HNSW, Malkov and Yashunin 2016). With quantisation, a search walks the graph on small
copies of the vectors, and ranks more candidates than requested by the full vectors. An exact search uses neither.

The indexes of payload keys make filters fast. ``records.payload_indexes`` describes when indexes are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from twinvec.errors import ConfigurationError
from twinvec.support.checks import check_choice, check_flags, integer, mapping, plain_scalar, string
from twinvec.text import is_list

Quantization = Literal["none", "int8", "binary", "turbo"]
PayloadIndexType = Literal["keyword", "float", "bool", "integer", "datetime", "text", "geo", "uuid"]
"""Types of indexes of payload keys; ``PayloadIndexes`` describes them."""

LEAST_RATE = 0.01
"""Smallest rate of a migration that commands and servers accept, in chunks per second."""

MOST_HITS = 10_000
"""Largest number of hits that a command or a server finds, skips or reranks in a search."""

_OVERSAMPLING = {"none": 1.0, "int8": 2.0, "turbo": 2.0, "binary": 4.0}

NEWEST_READING = 9
"""Newest reading version, which says how text is extracted from files. A collection records its reading version.

Older versions differ as follows; each also has the differences of the versions after it.

- Version 8: documents with macros, templates and slide shows of Office, and files compressed by gzip, fail; a search
  index of a site is text; text behind a chart of a slide is a part of its table; encodings are guessed by
  charset-normalizer, which does not know those of DOS and the Macintosh; the first line of a table is its header;
  dates of workbooks keep midnight in columns that have other values; Word documents have no titles and comments;
  ``.emlx`` files, e-mails of a Maildir, and mailboxes whose names have no ending are text;
  pages of mdBook begin with its keyboard shortcuts; calendars and address books have their markup.
- Version 7: minified scripts and style sheets are text.
- Version 6: source maps are text, and chunks of configuration do not have the path as heading.
- Version 5: a ``.json`` or ``.mbox`` file is one text; reStructuredText has no headings; headings of chunks keep their
  Markdown markup; keys of front matter that are dates are left out.
- Version 4: an element of a web page whose end tag is missing contains the text after it; UTF-8 with a wrong byte is
  decoded by another encoding; ISO 8859-1 is not decoded as Windows-1252; web pages may be binary files.
- Version 3: ``.ndjson`` files are text; separate parts of a chapter of an EPUB book may be joined.
- Version 2: texts of elements of web pages such as ``summary`` and ``option`` are joined; web archives (MHTML) and TOML
  front matter are text; escape sequences of terminals, numbers of slides and empty sheets stay in texts.
- Version 1: markitdown reads PDFs; navigation of web pages and bytes of Markdown images stay in texts.
"""


def check_fields(kind: type, values: Mapping[str, Any], what: str) -> None:
    """Raise ConfigurationError unless ``values`` is a mapping whose keys are fields of the dataclass ``kind``."""
    known = [each.name for each in fields(kind)]
    if unknown := [name for name in mapping(values, what) if name not in known]:
        raise ConfigurationError(f"{what} has no setting {unknown[0]!r}; it has {', '.join(known)}")


def _make_plain(settings: IndexSettings | ClusterSettings | ChunkSettings) -> None:
    """Convert NumPy scalars among the fields to Python values, because the description of a collection is JSON."""
    for each in fields(settings):
        object.__setattr__(settings, each.name, plain_scalar(getattr(settings, each.name)))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How dense vectors are indexed.

    Attributes:
        quantization: Format of the small copies: "int8" (a quarter of the size), "turbo" (4 bits a number, an eighth),
            "binary" (signs, a thirty-second), or "none".
        m: Edges of each node of the graph.
        ef_construct: Candidates that are compared when a node is added.
        ef: Candidates that a search of the graph keeps; default: the store's choice.
        oversampling: Candidates ranked by their full vectors, as a multiple of the limit; default: 1 without
            quantisation, 2 for "int8" and "turbo", 4 for "binary".

    Raises:
        ConfigurationError: a value is out of range.
    """

    quantization: Quantization = "none"
    m: int = 16
    ef_construct: int = 100
    ef: int | None = None
    oversampling: float | None = None

    def __post_init__(self) -> None:
        _make_plain(self)
        check_choice(self.quantization, Quantization, "quantization")
        for name, least, most in (("m", 2, 256), ("ef_construct", 4, 4096), ("ef", 1, 65_536)):
            value = getattr(self, name)
            if name == "ef" and value is None:
                continue
            if not _is_count(value) or not least <= value <= most:
                raise ConfigurationError(f"{name} must be an integer from {least} to {most}, got {value!r}")
        factor = self.oversampling
        if factor is not None and (not isinstance(factor, (int, float)) or not 1 <= factor <= 1000):
            raise ConfigurationError(f"oversampling must be between 1 and 1000, got {factor!r}")

    def __str__(self) -> str:
        copies = "no quantisation" if self.quantization == "none" else f"{self.quantization} quantisation"
        extra = {"ef": self.ef, "oversampling": self.oversampling}
        given = "".join(f", {name} {value:g}" for name, value in extra.items() if value is not None)
        return f"{copies}, m {self.m}, ef_construct {self.ef_construct}{given}"

    @property
    def oversampling_factor(self) -> float:
        """``oversampling``, or its default for the quantisation."""
        return self.oversampling or _OVERSAMPLING[self.quantization]

    compared = oversampling_factor  # the property's name in version 0.1

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> IndexSettings:
        """Build the settings from the result of ``as_dict``.

        Raises:
            ConfigurationError: an unknown field, or a value out of range.
        """
        check_fields(cls, values, "an index")
        return cls(**values)


DEFAULT_INDEX = IndexSettings()
"""The index settings of a new collection."""


ReadConsistency = int | Literal["majority", "quorum", "all"]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a server keeps a collection; None leaves a setting to the server.

    Attributes:
        shards: Parts of the collection, which the nodes of a cluster share; default: the number of nodes. It can only
            be set for a new collection.
        replication_factor: Copies of each shard, on different nodes; default: 1.
        write_consistency_factor: Copies that must store a write before it is acknowledged; default: 1.
        on_disk: Whether vectors and payloads stay on the disk, with the free memory as a cache.
        read_consistency: Copies that a read compares: a number of copies, the "majority" of answers, a "quorum" of
            nodes, or "all"; default: one copy.
        tenant_shards: The large tenants of a new collection with a ``tenant_key``, on a server in cluster mode. Each
            gets shards of its own (as many as ``shards``, default: one), and searches for this tenant read only these.
            All other tenants share further shards. A tenant without documents can be added later.

    Raises:
        ConfigurationError: a value is out of range.
    """

    shards: int | None = None
    replication_factor: int | None = None
    write_consistency_factor: int | None = None
    on_disk: bool | None = None
    read_consistency: ReadConsistency | None = None
    tenant_shards: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _make_plain(self)
        object.__setattr__(self, "tenant_shards", _tenants(self.tenant_shards))
        for name in ("shards", "replication_factor", "write_consistency_factor"):
            if (value := getattr(self, name)) is not None:
                integer(value, name, least=1)
        copies, written = self.replication_factor, self.write_consistency_factor
        if copies is not None and written is not None and written > copies:
            raise ConfigurationError(f"write_consistency_factor must be at most the {copies} copies, got {written}")
        if self.on_disk is not None:
            check_flags(on_disk=self.on_disk)
        read = self.read_consistency
        if not (read in (None, "majority", "quorum", "all") or _is_count(read)):
            raise ConfigurationError(
                f"read_consistency must be a number of copies, majority, quorum or all, got {read!r}"
            )

    def given(self) -> dict[str, Any]:
        """Return the settings that are not None."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a JSON object, without ``tenant_shards`` if it is empty."""
        return {name: value for name, value in asdict(self).items() if name != "tenant_shards" or value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ClusterSettings:
        """Build the settings from a mapping of their names.

        Raises:
            ConfigurationError: an unknown name, or a value out of range.
        """
        check_fields(cls, values, "a cluster")
        return cls(**values)


def _tenants(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = list(given) if isinstance(given, (list, tuple)) else []
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ConfigurationError(f"tenant_shards must be a list of different tenants, got {given!r}")
    return tuple(names)


DEFAULT_CLUSTER = ClusterSettings()
"""Cluster settings that are all left to the server."""


@dataclass(frozen=True, slots=True)
class PayloadIndexes:
    """Which payload keys have an index, and of which type.

    A key has at most one index. An index never changes what a filter finds. A filter on a key without an index is
    slower, and a server in strict mode refuses it.

    Attributes:
        types: Type by key, or False for a key without an index: "keyword" (texts that are compared as a whole),
            "float" (numbers), "bool", "datetime" (ranges of dates), "text" (words and phrases), "geo". "integer" makes
            an index of type "float", and "uuid" one of type "keyword", because Qdrant's own types change answers.
        automatic: Whether all other keys get an index when they are first seen in a document: strings "keyword",
            numbers "float", booleans "bool".

    Raises:
        ConfigurationError: an unknown type, or a key that is empty or has a lone surrogate.
    """

    types: Mapping[str, PayloadIndexType | Literal[False]] = field(default_factory=dict)
    automatic: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.types, Mapping) or not all(isinstance(key, str) and key for key in self.types):
            raise ConfigurationError(
                f"payload_indexes: expected False or a mapping of payload keys to types, got {self.types!r}"
            )
        for key, kind in self.types.items():
            string(key, "payload_indexes: a key")
            if kind is not False:
                check_choice(kind, PayloadIndexType, f"payload index of {key!r}:")

    def __str__(self) -> str:
        given = [f"{key} {kind or 'none'}" for key, kind in self.types.items()]
        return ", ".join([*given, "others by themselves" if self.automatic else "no others"])

    def as_value(self) -> dict[str, str | Literal[False]] | Literal[False]:
        """Return the settings as JSON, in the form that ``of`` accepts."""
        if not self.automatic and not self.types:
            return False
        return {**self.types, **({} if self.automatic else {OTHER_KEYS: False})}

    @classmethod
    def of(cls, value: PayloadIndexes | Mapping[str, Any] | Literal[False]) -> PayloadIndexes:
        """Build the settings from a mapping of keys to types. False means no keys; "*": False means no other keys."""
        if isinstance(value, PayloadIndexes):
            return value
        if value is False:
            return cls(automatic=False)
        if not isinstance(value, Mapping):
            return cls(value)  # ``__post_init__`` raises the error
        types = dict(value)
        if types.pop(OTHER_KEYS, False) is not False:
            raise ConfigurationError(f"payload_indexes: {OTHER_KEYS!r} stands for all other keys, and takes only False")
        return cls(types, automatic=OTHER_KEYS not in value)


OTHER_KEYS = "*"
"""Key that stands for all other keys in the mapping of ``PayloadIndexes.of``."""

AUTOMATIC = PayloadIndexes()
"""The payload indexes of a new collection."""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How documents are cut into chunks.

    Attributes:
        enabled: False keeps each document whole, as one chunk.
        max_tokens: Largest chunk in tokens, with heading and special tokens; default: the model's limit.
        overlap: Tokens that a chunk repeats of the previous chunk of the same section.
        code: Languages whose code is cut at functions and classes. If None, the setting is decided and recorded when
            the first code is ingested: all languages whose grammars are installed (extra ``code``), or no language if
            an older version of twinvec has cut code of the collection.
        pages: Whether chunks of a PDF keep the number of their page. If None, the setting is decided when the first PDF
            is ingested: True, or False if an older version of twinvec has ingested PDFs.
        surroundings: Tokens of text before and after a chunk, together, that are embedded with it if the model has room
            for them. They are appended to the chunk and include it again, so its own words count twice. Hits show only
            the chunk. Surroundings help if chunks are much smaller than the model's limit.

    Raises:
        ConfigurationError: a value is out of range.
    """

    enabled: bool = True
    max_tokens: int | None = None
    overlap: int = 0
    code: tuple[str, ...] | None = field(default=None, kw_only=True)
    pages: bool | None = field(default=None, kw_only=True)
    surroundings: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        _make_plain(self)
        check_flags(enabled=self.enabled, pages=False if self.pages is None else self.pages)
        if self.code is not None and not (is_list(self.code) and all(isinstance(each, str) for each in self.code)):
            raise ConfigurationError(f"code must be names of languages, got {self.code!r}")
        if self.code is not None:
            object.__setattr__(self, "code", tuple(sorted(set(self.code))))
        if not self.enabled and (self.max_tokens is not None or self.overlap or self.surroundings):
            raise ConfigurationError("chunking is off; leave out max_tokens, overlap and surroundings")
        if self.max_tokens is not None:
            integer(self.max_tokens, "max_tokens", least=1)
        integer(self.overlap, "overlap", least=0)
        integer(self.surroundings, "surroundings", least=0)

    def __str__(self) -> str:
        if not self.enabled:
            return "whole documents"
        size = "as long as the model reads" if self.max_tokens is None else f"of at most {self.max_tokens} tokens"
        around = f", with {self.surroundings} tokens of the text around them" if self.surroundings else ""
        return f"chunks {size}" + (f" that overlap by {self.overlap}" if self.overlap else "") + around

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a JSON object, without undecided settings."""
        decided = {} if self.code is None else {"code": list(self.code)}
        return {**self.sizes(), **decided, **({} if self.pages is None else {"pages": self.pages})}

    def sizes(self) -> dict[str, Any]:
        """Return the settings that apply to every document, as a JSON object."""
        # ``surroundings`` is left out if it is 0, because older versions do not know it
        around = {"surroundings": self.surroundings} if self.surroundings else {}
        return {"enabled": self.enabled, "max_tokens": self.max_tokens, "overlap": self.overlap, **around}

    def agrees(self, other: ChunkSettings) -> bool:
        """Return whether all settings that are decided in both objects are equal."""
        code, pages = {self.code, other.code} - {None}, {self.pages, other.pages} - {None}
        return self.sizes() == other.sizes() and len(code) <= 1 and len(pages) <= 1

    def decided(self, other: ChunkSettings) -> ChunkSettings:
        """Return these settings; each undecided setting is taken from ``other``."""
        return replace(
            self,
            code=other.code if self.code is None else self.code,
            pages=other.pages if self.pages is None else self.pages,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ChunkSettings:
        """Build the settings from the result of ``as_dict``.

        Raises:
            ConfigurationError: an unknown field, or a value out of range.
        """
        check_fields(cls, values, "chunking")
        return cls(**values)
