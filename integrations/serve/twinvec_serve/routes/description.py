"""The OpenAPI description: what FastAPI derives from the routes, with the errors and keys as they are."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from twinvec_serve.errors import ErrorAnswer
from twinvec_serve.settings import ServeSettings

DESCRIPTION = """\
One process holds models and collections, and serves them: embeddings as OpenAI has them, reranking as Cohere and Jina
have it, search and ingestion over collections.

Every error has the form `{"error": {"message", "type", "param", "code"}}`. `400` is a wrong request, `401` a missing or
unknown key, `403` a key or a page that may not, `404` an unknown model, collection or path, `413` a body that is too
large. After `429` (the queue is full) and `503` (the store is busy), `Retry-After` says when to try again.
"""
TAGS = [
    {"name": "models", "description": "Embeddings and reranking."},
    {"name": "collections", "description": "Collections and searches over them."},
    {"name": "documents", "description": "The documents of a collection."},
    {"name": "operation", "description": "Health and metrics."},
]
_REFERENCE = f"#/components/schemas/{ErrorAnswer.__name__}"
_FASTAPI_ERRORS = ("HTTPValidationError", "ValidationError")
_NEED_NO_KEY = ("/healthz", "/readyz")
_SCHEME = "key"


def describe(app: FastAPI, settings: ServeSettings) -> None:
    """Let the app describe its API with the errors that it has, and with its keys if it has any."""
    derived = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = derived()
            _describe_errors(described)
            if settings.read_keys or settings.write_keys:
                _describe_keys(described)
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation has it


def _describe_errors(described: dict[str, Any]) -> None:
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    for name in _FASTAPI_ERRORS:  # of its own answer to invalid requests, 422, which this server does not give
        schemas.pop(name, None)
    schema = ErrorAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= schema.pop("$defs")
    schemas[ErrorAnswer.__name__] = schema
    content = {"application/json": {"schema": {"$ref": _REFERENCE}}}
    for operations in described["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            responses.pop("422", None)
            responses["4XX"] = {"description": "The request cannot be answered as it is.", "content": content}
            responses["5XX"] = {"description": "The server cannot answer now, or has failed.", "content": content}


def _describe_keys(described: dict[str, Any]) -> None:
    described["components"]["securitySchemes"] = {
        _SCHEME: {"type": "http", "scheme": "bearer", "description": "A read key or a write key of the server."}
    }
    described["security"] = [{_SCHEME: []}]
    for path in _NEED_NO_KEY:
        for operation in described["paths"].get(path, {}).values():
            operation["security"] = []
