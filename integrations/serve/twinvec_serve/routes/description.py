"""The OpenAPI description, which FastAPI derives from the routes. This module corrects its errors and keys."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from twinvec_serve.errors import ErrorAnswer
from twinvec_serve.settings import ServeSettings

DESCRIPTION = """\
One process holds models and collections, and serves them: embeddings in the format of OpenAI, reranking in the
formats of Cohere and Jina, search and ingestion over collections.

Every error has the form `{"error": {"message", "type", "param", "code"}}`. `400` is a wrong request, `401` a missing or
unknown key, `403` a key or a page without permission, `404` an unknown model, collection or path, `408` a client that
was silent within its body, `413` a body that is too large. After `429` (the queue is full) and `503` (the store is
busy), `Retry-After` says when to try again.
"""
TAGS = [
    {"name": "models", "description": "Embeddings and reranking."},
    {"name": "collections", "description": "Collections and searches over them."},
    {"name": "documents", "description": "The documents of a collection."},
    {"name": "operation", "description": "Health and metrics."},
]
_QUERIES = (
    "How do I request holidays?",
    "time off",
    "days off",
    "annual leave",
    "vacation request",
    "holiday rules",
    "book my holidays",
    "ask for leave",
    "planned absence",
    "how many weeks ahead",
)
EXAMPLES: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"input": ["Holidays are requested two weeks ahead."], "input_type": "document"},
    "/v1/rerank": {"model": "maxsim", "query": "time off", "documents": ["The VPN client.", "Holidays."], "top_n": 1},
    "/v2/rerank": {"model": "maxsim", "query": "time off", "documents": ["The VPN client.", "Holidays."], "top_n": 1},
    "/v1/collections": {"name": "handbook"},
    "/v1/collections/{name}/search": {"query": "How do I request holidays?", "limit": 3, "filter": {"team": "hr"}},
    "/v1/collections/{name}/migrate": {"drop_others": True},
    "/v1/collections/{name}/reindex": {"quantization": "int8"},
    "/v1/collections/{name}/tune": {
        "queries": [{"_id": f"q{number}", "text": text} for number, text in enumerate(_QUERIES)],
        "qrels": [{"query-id": f"q{number}", "corpus-id": "leave.md", "score": 1} for number in range(len(_QUERIES))],
    },
    "/v1/search": {"query": "How do I request holidays?", "limit": 3, "mode": "hybrid"},
    "/v1/collections/{name}/documents": {
        "documents": [{"id": "leave.md", "text": "Holidays are requested two weeks ahead.", "team": "hr"}]
    },
    "/v1/collections/{name}/documents/get": {"ids": ["leave.md"]},
    "/v1/collections/{name}/documents/delete": {"ids": ["leave.md"], "dry_run": True},
}
"""Example of the body for each path that takes JSON."""

_OF_MODELS = {"name": "Name of the model."}
_OF_COLLECTIONS = {"name": "Name of the collection.", "identity": "Id of the document; it may have slashes."}
_REFERENCE = f"#/components/schemas/{ErrorAnswer.__name__}"
_FASTAPI_ERRORS = ("HTTPValidationError", "ValidationError")
_NEED_NO_KEY = ("/healthz", "/readyz")
_SCHEME = "key"


def describe(app: FastAPI, settings: ServeSettings) -> None:
    """Let the app describe its API with this server's errors, and with its keys if it has any."""
    derived = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = derived()
            _describe_errors(described)
            _describe_operations(described)
            if settings.read_keys or settings.write_keys:
                _describe_keys(described)
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation has it


def _describe_errors(described: dict[str, Any]) -> None:
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    for name in _FASTAPI_ERRORS:  # schemas of FastAPI's answer 422, which this server never gives
        schemas.pop(name, None)
    schema = ErrorAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= schema.pop("$defs")
    schemas[ErrorAnswer.__name__] = schema
    content = {"application/json": {"schema": {"$ref": _REFERENCE}}}
    for operations in described["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            responses.pop("422", None)
            responses["4XX"] = {"description": "The request is not valid; the message says why.", "content": content}
            responses["5XX"] = {"description": "The server cannot answer now, or has failed.", "content": content}


def _describe_operations(described: dict[str, Any]) -> None:
    for path, operations in described["paths"].items():
        texts = _OF_MODELS if path.startswith("/v1/models") else _OF_COLLECTIONS
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path":
                    parameter["description"] = texts[parameter["name"]]
            if path in EXAMPLES and "requestBody" in operation:
                operation["requestBody"]["content"]["application/json"]["example"] = EXAMPLES[path]
            for status in ("200", "201"):
                if operation["responses"].get(status, {}).get("description") == "Successful Response":
                    operation["responses"][status]["description"] = "The answer."


def _describe_keys(described: dict[str, Any]) -> None:
    described["components"]["securitySchemes"] = {
        _SCHEME: {"type": "http", "scheme": "bearer", "description": "A read key or a write key of the server."}
    }
    described["security"] = [{_SCHEME: []}]
    for path in _NEED_NO_KEY:
        for operation in described["paths"].get(path, {}).values():
            operation["security"] = []
