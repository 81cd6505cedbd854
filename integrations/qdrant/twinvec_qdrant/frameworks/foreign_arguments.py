"""Translates arguments of LangChain's and LlamaIndex's ``QdrantVectorStore`` for twinvec's stores, which replace them.

An argument with an equivalent in twinvec is renamed. An argument without effect in twinvec is dropped. Any other
argument raises an error that names the replacement, because ignoring it would silently change the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

from twinvec.errors import ConfigurationError, TextError
from twinvec.support.checks import (
    ADDRESS_FORM,
    check_flags,
    check_methods,
    is_server_address,
    mapping,
    number,
    refuse_unknown,
    string,
)
from twinvec.text import is_list
from twinvec_qdrant.settings import ClusterSettings

_INDEX = "give index=IndexSettings(...)"
_LAYOUT = "a collection has one layout, so leave it out"
_BM25 = "BM25 is built in (mode='hybrid', or a hybrid query), so leave it out"
_FUSION = "vectors and words are fused adaptively; leave it out, or weigh them (weights, or alpha in LlamaIndex)"
_TENANTS = "tenants share a collection by tenant_key=..., so leave it out"
_CLIENT = "give it to a client, and the client to the store: client=QdrantClient(...)"
_CHECKS = "the check that a collection belongs to its model cannot be left out"

_REFUSED = {
    _BM25: "sparse_embedding fastembed_sparse_model sparse_doc_fn sparse_query_fn",
    _FUSION: "hybrid_fusion_fn hybrid_fusion",
    f"{_INDEX} or cluster=ClusterSettings(...)": "collection_create_options",
    _INDEX: "vector_params sparse_vector_params dense_config sparse_config",
    "give index=IndexSettings(quantization='int8')": "quantization_config",
    _TENANTS: "shard_keys shard_key_selector_fn shard_key_selector shard_identifier",
    "writes of a document are ordered by its commit, so leave it out": "ordering",
    "give cluster=ClusterSettings(read_consistency=...) to the store": "consistency",
    _CLIENT: "client_kwargs auth_token_provider grpc_options force_disable_check_same_thread check_compatibility "
    "cloud_inference local_inference_batch_size limits pool_size",
}
"""The advice in an error -> the arguments that it refuses. None, an empty mapping and an empty list are accepted."""

_INSTEAD = {name: reason for reason, names in _REFUSED.items() for name in names.split()}

_FIXED: dict[str, tuple[tuple[Any, ...], str]] = {
    "distance": (("Cosine",), "a collection compares by cosine"),
    "vector_name": (("", "dense"), _LAYOUT),
    "dense_vector_name": (("", "dense"), _LAYOUT),
    "sparse_vector_name": (("langchain-sparse", "sparse"), _LAYOUT),
    "content_payload_key": (("page_content",), _LAYOUT),
    "metadata_payload_key": (("metadata",), _LAYOUT),
    "text_key": (("text",), _LAYOUT),
    "sharding_method": (("auto",), _TENANTS),
    "validate_embeddings": ((True,), _CHECKS),
    "validate_collection_config": ((True,), _CHECKS),
    "index_doc_id": ((True,), "give payload_indexes={'doc_id': False}"),
    "with_payload": ((True,), "documents are always returned whole"),
    "with_vectors": ((False,), "vectors are not returned; Collection.encoder computes them again"),
}
"""Argument -> the accepted values, and the reason why other values are refused."""

_IDLE = ("batch_size", "parallel", "max_retries", "wait")
"""Arguments without effect: twinvec chooses the size of requests, retries them by itself, and always waits for
writes."""


def refuse_foreign(arguments: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an argument that is unknown, or that has an effect which twinvec does not offer."""
    unknown = {}
    for name, value in arguments.items():
        if value is None or name in _IDLE:
            continue
        if name in _FIXED:
            taken, reason = _FIXED[name]
            plain = getattr(value, "value", value)
            if not any(plain is each or (plain == each and type(plain) is type(each)) for each in taken):
                raise ConfigurationError(f"{name}={plain!r} is not supported: {reason}")
        elif name in _INSTEAD:
            if not isinstance(value, (Mapping, list, tuple, str)) or value:
                raise ConfigurationError(f"{name} is not supported: {_INSTEAD[name]}")
        else:
            unknown[name] = value
    refuse_unknown(unknown)


def joined_options(ours: Mapping[str, Any], foreign: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``ours``, the arguments of ``open_whole_documents``, with translated arguments of ``QdrantVectorStore``.

    Raise ConfigurationError if a setting is given under both names, or if ``refuse_foreign`` refuses an argument.
    """
    left = {name: value for name, value in foreign.items() if value is not None}
    options: dict[str, Any] = {}
    if left.keys() & {"location", "host", "port", "prefix", "https"}:
        options["url"] = _address(left, ours["url"], ours["api_key"])
    flags = {name: left.pop(name) for name in ("prefer_grpc", "force_recreate") if name in left}
    check_flags(**flags)
    if (timeout := left.pop("timeout", None)) is not None:
        options["wait_seconds"] = number(timeout, "timeout")
    if flags.get("prefer_grpc"):
        options["grpc"] = True
    if (client := left.pop("aclient", None)) is not None:
        options["async_client"] = client
    if flags.get("force_recreate"):
        options["recreate"] = True
    names = {"shard_number": "shards", "replication_factor": "", "write_consistency_factor": ""}
    if cluster := {ours_ or name: left.pop(name) for name, ours_ in names.items() if name in left}:
        if ours["cluster"] is not None:
            raise ConfigurationError(
                "cluster is given twice: give cluster=ClusterSettings(...) only, without shard_number, "
                "replication_factor and write_consistency_factor"
            )
        options["cluster"] = ClusterSettings(**cluster)
    refuse_foreign(left)
    return {**ours, **options}


def payload_index_types(indexes: Any) -> Any:
    """Return LlamaIndex's list of payload indexes as a mapping from key to type; return any other value unchanged."""
    if not isinstance(indexes, (list, tuple)):
        return indexes
    types = {}
    for each in indexes:
        if not isinstance(each, Mapping) or each.keys() != {"field_name", "field_schema"}:
            raise ConfigurationError(
                f"payload_indexes: expected mappings with field_name and field_schema, got {each!r}"
            )
        schema = each["field_schema"]
        kind = getattr(schema, "type", schema)  # ``field_schema`` is a type, or parameters with a type
        types[str(each["field_name"]).removeprefix("metadata.")] = str(getattr(kind, "value", kind))
    return types


def exact_search(search_params: Any) -> bool:
    """Return whether ``models.SearchParams``, or a mapping with its fields, ask for an exact search.

    Raise ConfigurationError if another field is set.
    """
    if search_params is None:
        return False
    if not isinstance(search_params, Mapping):
        check_methods(search_params, ("model_dump",), "search_params", "models.SearchParams or a mapping")
        search_params = search_params.model_dump()
    fields = mapping(search_params, "search_params")
    given = {name: value for name, value in fields.items() if value is not None and value is not False}
    if others := given.keys() - {"exact"}:
        raise ConfigurationError(
            f"search_params: only exact is supported, got {', '.join(sorted(others))}; give the store "
            "index=IndexSettings(ef=..., quantization=..., oversampling=...)"
        )
    return bool(given.get("exact"))


def _address(left: dict[str, Any], url: str | None, api_key: str | None) -> str | None:
    """Remove the arguments that name a server from ``left``; return the address, or None for a store in memory."""
    location, host, port, prefix, https = (
        left.pop(name, None) for name in ("location", "host", "port", "prefix", "https")
    )
    for name, given in (("location", location), ("host", host), ("url", url), ("prefix", prefix)):
        if given is not None:
            string(given, name)
    if https is not None:
        check_flags(https=https)
    if sum(each is not None for each in (location, host, url)) > 1:
        raise ConfigurationError("more than one of location, host and url is given: give only one")
    if host is not None:
        secure = https if https is not None else api_key is not None
        return _url(f"{'https' if secure else 'http'}://{host}", port or 6333, prefix)
    if location is not None and location != ":memory:":
        return _url(str(location), port, prefix)
    return url and _url(url, port, prefix)


def _url(address: str, port: int | None, prefix: str | None) -> str:
    """Return the address with ``port`` and ``prefix`` added."""
    if "://" not in address:
        address = f"http://{address}"
    if not is_server_address(address):  # the address is not quoted: it may hold a password
        raise ConfigurationError(f"location, host or url: expected the address of a server, {ADDRESS_FORM}")
    parts = urlsplit(address)
    if port is not None and parts.port is None:
        parts = parts._replace(netloc=f"{parts.netloc}:{port}")
    if prefix:
        parts = parts._replace(path=f"{parts.path.rstrip('/')}/{prefix.strip('/')}")
    return parts.geturl()


def text_id(key: Any) -> Any:
    """Return an integer id as a string, since ids are stored as strings; return any other value unchanged."""
    return str(key) if isinstance(key, int) and not isinstance(key, bool) else key


def text_ids(keys: Iterable[Any], name: str = "ids") -> list[Any]:
    """Return a list of ids, with integers as strings; raise TextError, with ``name``, if ``keys`` is not a list."""
    if not is_list(keys):
        raise TextError(f"{name}: expected a list of ids, got {type(keys).__name__}")
    return [text_id(key) for key in keys]


def takes_foreign(kind: type, expected: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a store's constructor to accept any keyword argument; it gets unknown arguments as ``qdrant``.

    Its first two arguments are a model of the type ``kind``, which errors call ``expected``, and the collection's name.
    Arguments in the order of ``QdrantVectorStore`` raise an error that shows the right order.
    """

    def decorated(init: Callable[..., None]) -> Callable[..., None]:
        own = list(signature(init).parameters)[1:]
        model, name = own[:2]
        call = f"{init.__qualname__.partition('.')[0]}({model}, {name}, client=client)"

        @wraps(init)
        def checked(self: Any, *arguments: Any, **options: Any) -> None:
            if len(arguments) > 2:
                kinds = ", ".join(type(each).__name__ for each in arguments)
                raise ConfigurationError(f"too many positional arguments ({kinds}): write {call}")
            given = {**dict(zip(own, arguments, strict=False)), **options}
            if not isinstance(given.get(model), (kind, type(None))):
                raise ConfigurationError(
                    f"{model}: expected {expected}, got {type(given[model]).__name__}: write {call}"
                )
            if not isinstance(given.get(name, ""), str):
                raise ConfigurationError(f"{name}: expected a string, got {type(given[name]).__name__}")
            foreign = {name: value for name, value in options.items() if name not in own}
            named = {name: value for name, value in options.items() if name in own}
            given_as_mapping = named.get("qdrant")
            named["qdrant"] = {**({} if given_as_mapping is None else mapping(given_as_mapping, "qdrant")), **foreign}
            init(self, *arguments, **named)

        return checked

    return decorated
