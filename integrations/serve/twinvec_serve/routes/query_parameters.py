"""Refusal of unknown query parameters: FastAPI ignores them, and a mistyped ``dry_run`` would write."""

from __future__ import annotations

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError


async def known_query(request: Request) -> None:
    """Refuse a request with a query parameter that its route does not have. Routers use this as a dependency."""
    known = _names(request.scope["route"].dependant)
    if unknown := sorted(set(request.query_params) - known):
        raise RequestValidationError([{"type": "extra_forbidden", "loc": ("query", each)} for each in unknown])


def _names(dependant: Dependant) -> set[str]:
    own = {each.alias for each in dependant.query_params}
    return own.union(*map(_names, dependant.dependencies))
