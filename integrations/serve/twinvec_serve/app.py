"""The application: its services and routes, its start and its end."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from twinvec.support.checks import check_settings
from twinvec.version import __version__
from twinvec_qdrant import DEFAULT_PATH
from twinvec_serve.agents import over_http
from twinvec_serve.collections.backups import Backups
from twinvec_serve.collections.maintenance import Maintenance
from twinvec_serve.collections.open_collections import OpenCollections
from twinvec_serve.direct_route import DirectRoute
from twinvec_serve.errors import add_error_answers
from twinvec_serve.models.served_models import ServedModels
from twinvec_serve.observing.metrics import Metrics
from twinvec_serve.observing.requests import Observed
from twinvec_serve.own_commands import OwnCommands
from twinvec_serve.page import files
from twinvec_serve.routes import collections, documentation, documents, embeddings, maintenance, operation, reranking
from twinvec_serve.routes.answers import TRUNCATED
from twinvec_serve.routes.description import DESCRIPTION, TAGS, describe
from twinvec_serve.safety.addresses import CheckedAddresses
from twinvec_serve.safety.border import Border
from twinvec_serve.safety.headers import SafeHeaders
from twinvec_serve.safety.keys import Access
from twinvec_serve.services import Services
from twinvec_serve.settings import ServeSettings

_WITHOUT_HEAD = re.compile(r"/v1/collections/[^/]+/(backup|verify)/?")
"""Paths that refuse HEAD, because their answer to GET takes long."""

_EMBED = next(
    each for each in embeddings.router.routes if isinstance(each, APIRoute) and each.endpoint is embeddings.embed
)

MCP_HEADERS = ("Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-ID")


class _Application(FastAPI):
    """A FastAPI application whose route for embeddings bypasses FastAPI, but not the middleware.

    A HEAD request is answered as a GET request; uvicorn leaves out the body of the answer.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD" and not _WITHOUT_HEAD.fullmatch(scope["path"]):
            scope = {**scope, "method": "GET"}
        is_direct = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == _EMBED.path
        if not is_direct:
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        await self._past_fastapi(scope, receive, send)

    @cached_property
    def _past_fastapi(self) -> ASGIApp:
        """The route for embeddings, within the layers of middleware."""
        past: ASGIApp = DirectRoute(_EMBED)
        for kind, given, options in reversed(self.user_middleware):
            past = kind(past, *given, **options)
        return past


def create_app(settings: ServeSettings | None = None) -> FastAPI:
    """Return the ASGI application of one server. The models are loaded when the application starts.

    Args:
        settings: Settings of the server; default: ``ServeSettings()``.

    Raises:
        ConfigurationError: two of the models and rerankers have the same name.
    """
    check_settings(settings, ServeSettings, "settings")
    settings = settings or ServeSettings()
    metrics = Metrics()
    if settings.url is None:
        metrics.store(Path(settings.path or DEFAULT_PATH).expanduser())
    models = ServedModels(settings, metrics)
    opened = OpenCollections(settings, models, metrics)
    backups = Backups(opened, settings.path, settings.url, metrics)
    access = Access(settings.read_keys, settings.write_keys)
    services = Services(settings, access, metrics, models, opened, backups, Maintenance(opened, models))
    app = _Application(
        title="twinvec",
        description=DESCRIPTION,
        version=__version__,
        lifespan=_running,
        openapi_tags=TAGS,
        openapi_url=None,  # ``routes.documentation`` has this route, because the metrics could not name FastAPI's own
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    add_error_answers(app)
    _add_middleware(app, services)
    app.add_middleware(OwnCommands, secret=lambda: None if opened.announced is None else opened.announced.secret)
    for module in (embeddings, reranking, operation, documentation, collections, maintenance, documents, files):
        app.include_router(module.router)
    over_http.add_routes(app)
    describe(app, settings)
    return app


def _add_middleware(app: FastAPI, services: Services) -> None:
    """Add the layers of middleware; the layer added last is the first to see a request."""
    settings = services.settings
    app.add_middleware(Border, settings=settings, access=services.access)
    if settings.allow_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allow_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", *MCP_HEADERS],
            expose_headers=["Retry-After", "X-Request-Id", TRUNCATED, *MCP_HEADERS],
        )
    app.add_middleware(CheckedAddresses, settings=settings)
    app.add_middleware(Observed, metrics=services.metrics)
    app.add_middleware(SafeHeaders, tls=settings.tls_cert is not None)


@asynccontextmanager
async def _running(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    await services.backups.start()
    await services.collections.start()
    try:
        await services.models.start()
        async with over_http.running_sessions(app):
            yield
    finally:
        await services.collections.stop()
        await services.models.stop()
