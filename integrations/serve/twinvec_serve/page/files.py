"""The routes of the web page: its files, which are read once from the package, and their headers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Response

router = APIRouter(include_in_schema=False)

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Ending of a file's name -> its media type."""

HEADERS = {
    "Cache-Control": "no-cache",  # browsers ask at each use whether a file has changed
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
}
"""Headers of each file, besides those of every answer (``safety.headers``). The policy permits scripts and styles from
this server only, and forbids scripts to turn texts into markup."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page: its content, media type and ETag."""

    content: bytes
    media_type: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    """Return name -> file for all files of the page. A request names one of them, and cannot reach other paths."""
    found = {}
    for entry in files("twinvec_serve.page").joinpath("static").iterdir():
        ending = entry.name[entry.name.rfind(".") :]
        if ending in MEDIA_TYPES:
            content = entry.read_bytes()
            found[entry.name] = PageFile(content, MEDIA_TYPES[ending], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


@router.get("/")
def page(if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Answer with the page."""
    return _answer(page_files()["index.html"], if_none_match)


@router.get("/page/{name}")
def page_file(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Answer with a file that the page uses."""
    file = page_files().get(name)
    if file is None:
        raise HTTPException(404, f"the page has no file {name!r}")
    return _answer(file, if_none_match)


@router.get("/favicon.ico")
def icon(if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Answer with the icon: browsers also request it by this path."""
    return _answer(page_files()["icon.svg"], if_none_match)


def _answer(file: PageFile, known: str | None) -> Response:
    headers = {**HEADERS, "ETag": file.tag}
    tags = {each.strip().removeprefix("W/") for each in (known or "").split(",")}
    if file.tag in tags or "*" in tags:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
