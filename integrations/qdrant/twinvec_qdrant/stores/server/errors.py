"""Errors of a server's client: their meaning, and twinvec's error for each.

REST and gRPC report the same refusals: ``Refusal`` holds an HTTP status code and the server's own sentence for both.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from json import JSONDecodeError, loads
from typing import Any

import grpc
import httpx
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twinvec.errors import (
    CollectionNotFoundError,
    StoreError,
    StoreFullError,
    StoreLimitError,
    StoreUnavailableError,
)
from twinvec.interrupts import of_handler
from twinvec_qdrant.stores.base import BESIDE_EARLIER, UnindexedError

BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""Status codes after which the same request may succeed later."""

_OVER_LIMIT = frozenset({400, 422})
"""Status codes of a request that a limit of the collection forbids."""

_CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 500,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
"""HTTP status code for each gRPC status code; all other gRPC codes become 500."""

_INSUFFICIENT = "Insufficient storage"
"""Beginning of a full server's sentence; over gRPC, its status code is that of a rate limit."""

_FOREIGN = "the answer is not from Qdrant: check host, port and path (Qdrant's REST port is 6333, its gRPC port 6334)"
_TLS_NEEDED = (
    "the server expects TLS at this port, or gRPC: write https:// instead of http://, or name the REST port "
    "(Qdrant: 6333)"
)
_TLS_UNKNOWN = "the server does not speak TLS at this port: write http:// instead of https://, or name its TLS port"
_GRPC_NEEDED = "the server does not speak gRPC at this port: name its gRPC port (Qdrant: 6334)"

_REMEDIES = {
    401: "the server does not accept the API key: check QDRANT_API_KEY, QDRANT_API_KEY_FILE or api_key",
    403: "the API key does not permit this request: it is wrong, only for reading, or only for other collections",
    413: "the request is too large for the server, or for a proxy in front of it",
    501: "the server is too old for this request: twinvec needs Qdrant 1.17 or later, and 1.18 or later to migrate",
}
_NO_ROOM = "the server has no room left on its disk or in its memory"
_NO_KEY = "the server wants an API key: set QDRANT_API_KEY or QDRANT_API_KEY_FILE, or give api_key"
_SCOPES = (
    (re.compile(r"^ExpiredSignature"), "the API key has expired: make a new one"),
    (re.compile(r"^InvalidSignature"), _REMEDIES[401]),
    (
        re.compile(r"Global access is required|Manage access for this operation is required"),
        "the API key is for single collections: only a key for the whole server can make a collection, change its "
        "settings or remove it",
    ),
    (
        re.compile(r"Only points access is allowed"),
        "the API key permits only reading and writing of points: payload indexes need a key with full access to the "
        "collection",
    ),
)
_NO_QUORUM = (
    "a node of the cluster is down, and the other nodes are no majority: with two nodes, writes fail until both are "
    "back; with three nodes and two copies of every shard, one node may fail"
)

_RETRY_AFTER = re.compile(r"Retry after (\d+)s")
_TOO_LARGE = "request larger than rate limiter capacity"
_TOO_LONG = re.compile(r"JSON payload .*(larger than allowed|exceeded limit)")
_EXHAUSTED = re.compile(r"(Resident memory|Disk) usage is at \S+ of total")
_NO_COLLECTION = re.compile(r"Collection \S+ (doesn't exist|not found)")
_NO_VECTOR = "Not existing vector name"
_LOST = re.compile(r"failed to connect to all addresses|Socket closed|Stream removed")
_DISK_FULL = re.compile(r"No space left on device|Out of memory, free")
_LIMITS = {  # the server's words for a limit -> the name of the setting
    "search batch size": "search_max_batchsize",
    "upsert limit": "upsert_max_batchsize",
    "update limit": "upsert_max_batchsize",
    "oversampling": "search_max_oversampling",
    "hnsw_ef": "search_max_hnsw_ef",
    "limit": "max_query_limit",
    "timeout": "max_timeout",
}
_REFUSED_LIMITS = (
    (re.compile(r'Limit exceeded .* for "(?P<name>[^"]*)"'), ""),
    (re.compile(r"Filter condition limit reached"), "filter_max_conditions"),
    (re.compile(r"Condition size limit reached"), "condition_max_size"),
    (re.compile(r"Exact search disabled|vector indexing is disabled \(hnsw_config"), "search_allow_exact"),
    (re.compile(r"maximum number of payload ind"), "max_payload_index_count"),
    (re.compile(r"Sparse vector .* has a limit of"), "sparse_config"),
    (re.compile(r"Multivector .* has a limit of"), "multivector_config"),
)
_FULL = (
    (re.compile(r"Max points count limit of (?P<most>\S+) reached"), "{most} points (max_points_count)"),
    (re.compile(r"Max vector storage size limit of (?P<most>\S+) reached"), "{most} of vectors"),
    (re.compile(r"Max payload storage size limit of (?P<most>\S+) reached"), "{most} of payloads"),
)
_UNINDEXED = re.compile(
    r'Index required but not found for "(?P<key>.*)" of one of the following types: \[(?P<types>.*)\]'
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server's answer that refuses a request.

    Attributes:
        status: HTTP status code.
        sentence: The server's own sentence; "" if the answer has none.
        pause: Seconds that the server asks to wait before the next try; 0 or less for no pause.
        foreign: Whether something other than Qdrant gave the answer.
    """

    status: int
    sentence: str
    pause: float = 0.0
    foreign: bool = False

    @property
    def too_large(self) -> bool:
        """Whether this one request costs more than a rate limit permits in a whole minute."""
        return self.status == 429 and _TOO_LARGE in self.sentence


def refusal(error: BaseException | None) -> Refusal | None:
    """Return the server's refusal, or None if the error is not an answer of a server."""
    if isinstance(error, ResourceExhaustedResponse):
        return Refusal(429, str(error), float(error.retry_after_s))
    if isinstance(error, QdrantException):  # the client cannot parse a Retry-After that is a date, and quotes it
        return Refusal(429, "", retry_after_seconds(str(error).partition(": ")[2]))
    if isinstance(error, UnexpectedResponse):
        sentence, known = _sentence(error.content)
        return Refusal(
            error.status_code or 500, sentence, retry_after_seconds(error.headers.get("retry-after", "")), not known
        )
    if isinstance(error, grpc.RpcError) and hasattr(error, "code"):
        named = _RETRY_AFTER.search(_details(error))  # the client reads a pause only from the metadata
        return Refusal(_grpc_status(error), _details(error), float(named[1]) if named else 0.0)
    return None


def _grpc_status(error: Any) -> int:
    """Return the HTTP status code with which a server answers the same request over REST."""
    code, sentence = error.code(), _details(error)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and sentence.startswith(_INSUFFICIENT):
        return 507
    if code is grpc.StatusCode.UNIMPLEMENTED and "standalone mode" in sentence:
        return 405
    return _CODES.get(code, 500)


def _lost(error: BaseException | None) -> bool:
    """Return whether gRPC itself, and not the server, reports that there is no connection."""
    return isinstance(error, grpc.RpcError) and _LOST.match(_details(error)) is not None


def _details(error: Any) -> str:
    return (error.details() or "").strip() if hasattr(error, "details") else ""


def is_temporary(error: BaseException) -> bool:
    """Return whether the same request may succeed later; the exception of a signal handler is not temporary."""
    if of_handler(error) is not None:
        return False
    answered = refusal(error)
    if answered is not None:
        return answered.status in BUSY and not answered.too_large and _protocol_words(error) is None
    if isinstance(error, ResponseHandlingException):
        return (
            isinstance(error.source, httpx.TransportError) and not unsendable(error) and _protocol_words(error) is None
        )
    return isinstance(error, NotYetAppliedError | TimeoutError)


class NotYetAppliedError(Exception):
    """The server has accepted a write, but has not applied it in time."""


class UnknownVectorError(StoreError):
    """A request names a vector that the collection, or a segment that the server is optimizing, does not have."""


def store_error(error: Exception, location: str, what: str) -> StoreError:
    """Return twinvec's error for an error of the client, raised by a request to the server at ``location``.

    ``what`` names the request. The result is a ``StoreUnavailableError`` if the same request may succeed later, a
    ``StoreLimitError`` if a limit of the server forbids the request (``StoreFullError`` if no room is left), a
    ``CollectionNotFoundError`` if the collection was dropped after it was opened, else a ``StoreError``.
    """
    if (words := _protocol_words(error)) is not None:
        return StoreUnavailableError(f"{location}: no answer: {words}")
    if _lost(error) or isinstance(error, TimeoutError):
        return StoreUnavailableError(f"{location}: no answer: {reason(error)}")
    answered = refusal(error)
    if answered is not None:
        return _refused(answered, location)
    if isinstance(error, ResponseHandlingException):
        if isinstance(error.source, ValueError):
            return StoreError(f"{location}: {_FOREIGN}")
        return StoreUnavailableError(f"{location}: no answer: {reason(error)}")
    if isinstance(error, JSONDecodeError) or (isinstance(error, AssertionError) and "returned None" in str(error)):
        return StoreError(f"{location}: {_FOREIGN}")
    if isinstance(error, NotYetAppliedError):
        return StoreUnavailableError(f"{location}: too busy: {error}")
    return StoreError(f"{location}: {what} failed: {error}")  # the client's local mode raises exceptions of many kinds


def _refused(answered: Refusal, location: str) -> StoreError:
    said = f" (the server: {answered.sentence})" if answered.sentence else ""
    if answered.status == 400 and (found := _UNINDEXED.search(answered.sentence)):
        words = _unindexed_words(found["key"], found["types"])
        return UnindexedError(f"{location}: {words}{said}", found["key"])
    if (full := _full_words(answered)) is not None:
        return StoreFullError(f"{location}: {full}{said}")
    if (limit := _limit_words(answered)) is not None:
        return StoreLimitError(f"{location}: {limit}{said}")
    if "deactivation timed out" in answered.sentence:
        return StoreUnavailableError(f"{location}: {_NO_QUORUM}{said}")
    if _DISK_FULL.search(answered.sentence):
        return StoreUnavailableError(f"{location}: {_NO_ROOM}{said}")
    if answered.status == 404 and _NO_COLLECTION.search(answered.sentence):
        return CollectionNotFoundError(f"{location}: the collection does not exist any more{said}")
    if answered.status == 400 and _NO_VECTOR in answered.sentence:
        return UnknownVectorError(f"{location}: a vector is missing{said}")
    if answered.status in BUSY:
        words = "the server is too busy" if answered.status in (429, 503) else "the server failed"
        return StoreUnavailableError(
            f"{location}: {words}, status {answered.status}{said}{_pause_words(answered.pause)}"
        )
    if (remedy := _remedy(answered)) is not None:
        return StoreError(f"{location}: {remedy}{said}")
    if answered.foreign:
        if "plain HTTP request was sent to HTTPS port" in answered.sentence:
            return StoreUnavailableError(f"{location}: no answer: {_TLS_NEEDED}")
        return StoreError(f"{location}: {_FOREIGN}; it answered with status {answered.status}")
    return StoreError(f"{location}: refused with status {answered.status}{said}")


def _remedy(answered: Refusal) -> str | None:
    """Return an error text that says what is wrong and what to do, or None."""
    if answered.status == 401 and "Must provide" in answered.sentence:
        return _NO_KEY
    if answered.status == 400 and _TOO_LONG.search(answered.sentence):
        return _REMEDIES[413]
    if answered.status == 403:
        for pattern, words in _SCOPES:
            if pattern.search(answered.sentence):
                return words
    return _REMEDIES.get(answered.status)


def _full_words(answered: Refusal) -> str | None:
    """Return an error text if the server or the collection has no room left, else None."""
    if answered.status == 507 or _EXHAUSTED.search(answered.sentence):
        return f"{_NO_ROOM}: remove documents, or raise the server's limit"
    for pattern, limit in _FULL if answered.status in _OVER_LIMIT else ():
        if found := pattern.search(answered.sentence):
            most = limit.format(**found.groupdict())
            return f"the collection is full: the limit is {most}. Remove documents, or raise the limit"
    return None


def _limit_words(answered: Refusal) -> str | None:
    """Return an error text if a limit of the server forbids the request, else None."""
    sentence = answered.sentence
    if answered.too_large:
        kind = "write_rate_limit" if "Write" in sentence else "read_rate_limit"
        return f"one request needs more operations than the server permits in a minute ({kind})"
    for pattern, limit in _REFUSED_LIMITS if answered.status in _OVER_LIMIT else ():
        if found := pattern.search(sentence):
            name = limit or _LIMITS.get(found["name"], found["name"])
            return f"the request exceeds the server's limit {name}"
    return None


def _unindexed_words(path: str, types: str) -> str:
    key = path.removeprefix("metadata.").replace("[]", "").replace('"', "")
    usual = (each for each in ("keyword", "float", "bool", "datetime", "text") if re.search(rf"\b{each}\b", types))
    said = f"the server permits filters on indexed keys only, and {key!r} has no index of the type {types}"
    if (kind := next(usual, None)) is None:
        return f"{said}, which twinvec does not make; leave this value out of the filter"
    return (
        f"{said}; check the spelling of the key, or index it: "
        f"collection.reindex(payload_indexes={{{key!r}: {kind!r}}}) or "
        f"twinvec reindex --payload-index {key}:{kind}, {BESIDE_EARLIER}"
    )


def _sentence(content: bytes) -> tuple[str, bool]:
    """Return the error text of an answer, and whether the answer looks like an answer of Qdrant."""
    text = content.decode(errors="replace").strip()
    with suppress(ValueError):
        answer: Any = loads(content)
        status = answer.get("status") if isinstance(answer, dict) else None
        if isinstance(status, dict) and isinstance(status.get("error"), str):
            return status["error"].strip(), True
        if answer == {} or status is not None:
            return "", True
    plain = "" if text.startswith("<") and "plain HTTP request" not in text else " ".join(text.split())
    return plain[:200], not text.startswith("<") and bool(text)


def retry_after_seconds(header: str) -> float:
    """Return the seconds of a Retry-After header, a number or a date (RFC 9110, 10.2.3); 0 or less for no pause."""
    if header.isdecimal():
        return float(header)
    try:
        then = parsedate_to_datetime(header)
        return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0


def requested_pause(error: BaseException | None) -> float:
    """Return the seconds that the server asks to wait; 0 or less for no pause."""
    answered = refusal(error)
    return answered.pause if answered is not None else 0.0


def _pause_words(seconds: float) -> str:
    return f"; it asks for a pause of {seconds:,.0f} s: raise wait_seconds (--wait)" if seconds > 0 else ""


def _protocol_words(error: BaseException | None) -> str | None:
    """Return an error text if the two sides speak different protocols (TLS, REST, gRPC), or the certificate is refused.

    Return None for any other error.
    """
    said = f"{getattr(error, 'source', error)}"
    if isinstance(error, grpc.RpcError):
        said = _details(error)
        if "Failed parsing HTTP/2" in said:
            return _GRPC_NEEDED
    elif not isinstance(error, ResponseHandlingException):
        return None
    # "illegal request line" without a line says that the answer begins with a control byte, as alerts of TLS and HTTP/2
    # do; \x15\x03 begins an alert of TLS
    if "illegal request line" in said or ("illegal status line" in said and r"\x15\x03" in said):
        return _TLS_NEEDED
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return f"the server's certificate is not trusted here: {said}"
    if any(sign in said for sign in ("WRONG_VERSION_NUMBER", "record layer failure", "RECORD_LAYER_FAILURE")):
        return _TLS_UNKNOWN
    return None


def unsendable(error: BaseException | None) -> bool:
    """Return whether a header of the request has characters that HTTP forbids; the error then quotes this header."""
    return isinstance(getattr(error, "source", error), httpx.LocalProtocolError)


def reason(error: BaseException | None) -> str:
    """Describe the failure in a few words that never contain an API key."""
    if _lost(error):
        return _details(error)
    answered = refusal(error)
    if answered is not None:
        return f"status {answered.status}" + (f": {answered.sentence}" if answered.sentence else "")
    source = getattr(error, "source", error)
    if unsendable(error):
        return "LocalProtocolError: HTTP forbids a character in a header of the request; check the client's API key"
    if isinstance(source, httpx.TimeoutException | TimeoutError):
        return "the request has timed out; if the server needs longer, raise wait_seconds (--wait)"
    return f"{type(source).__name__}: {source}"
