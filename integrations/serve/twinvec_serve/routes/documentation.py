"""The routes of the API's documentation: the OpenAPI description, and Swagger UI at ``/docs``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse

router = APIRouter(include_in_schema=False)

_PAGE = "index.html"
_TYPES = {
    _PAGE: "text/html; charset=utf-8",
    "start.js": "text/javascript; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
_CACHED = {"Cache-Control": "max-age=3600"}


@router.get("/openapi.json")
async def description(request: Request) -> Response:
    """Return the OpenAPI description."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
def documentation() -> Response:
    """Return the page of Swagger UI."""
    return _file(_PAGE)


@router.get("/docs/{name}")
def documentation_file(name: str) -> Response:
    """Return a file that the page uses."""
    return _file(name)


def _file(name: str) -> Response:
    if name not in _TYPES:
        raise HTTPException(404, "the documentation has no such file")
    return Response(_content(name), media_type=_TYPES[name], headers=_CACHED)


@cache
def _content(name: str) -> bytes:
    return files("twinvec_serve.routes").joinpath("swagger_ui", name).read_bytes()
