"""Checks of a request that its types do not express: number and length of its texts, and unknown query parameters.

FastAPI ignores unknown query parameters, so a request with a mistyped ``dry_run`` would write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from pydantic import BeforeValidator

from twinvec_serve.errors import RequestError
from twinvec_serve.settings import ServeSettings


def check_sizes(texts: Sequence[str], settings: ServeSettings, param: str) -> None:
    """Raise RequestError (400) for a list with too many texts or a text that is too long; ``param`` names the list."""
    if len(texts) > settings.max_texts:
        raise RequestError(
            f"{param} has {len(texts):,} texts, more than the limit of {settings.max_texts:,}; send several requests",
            param=param,
            code="too_many_texts",
        )
    longest = max(map(len, texts), default=0)
    if longest > settings.max_text_chars:
        at = next(index for index, text in enumerate(texts) if len(text) == longest)
        raise RequestError(
            f"{param}: text {at} has {longest:,} characters, more than the limit of {settings.max_text_chars:,}; "
            "split it first",
            param=param,
            code="text_too_long",
        )


def as_texts(value: Any) -> list[Any]:
    """Return a text or a list of texts as a list; raise ``ValueError`` for anything else."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError("expected a text or a list of texts")
    return value


def expecting(what: str, is_expected: Callable[[Any], bool]) -> BeforeValidator:
    """Return a validator with one error for a value of several types, where pydantic gives one error for each type."""

    def check(value: Any) -> Any:
        if not is_expected(value):
            raise ValueError(f"expected {what}")
        return value

    return BeforeValidator(check)


def check_not_empty(query: str) -> str:
    """Return a query; raise ``ValueError`` if it has no words."""
    if not query.strip():
        raise ValueError("is empty; expected words to look for")
    return query


async def known_query(request: Request) -> None:
    """A dependency of routers: refuse a request with a query parameter that its route does not have."""
    known = _names(request.scope["route"].dependant)
    if unknown := sorted(set(request.query_params) - known):
        raise RequestValidationError([{"type": "extra_forbidden", "loc": ("query", each)} for each in unknown])


def _names(dependant: Dependant) -> set[str]:
    own = {each.alias for each in dependant.query_params}
    return own.union(*map(_names, dependant.dependencies))
