"""Answers in JSON, and the check that a client is a command that can read the store's folder."""

from __future__ import annotations

import hmac
import json
from typing import Any

import orjson
from fastapi import Request, Response

from twinvec_serve.services import Services

SECRET_HEADER = "Twinvec-Store"  # the name of a header
"""The header in which the commands of twinvec prove that they read the store's folder."""

TRUNCATED = "Twinvec-Truncated"
"""The header of an answer that counts the truncated texts of the request."""


def json_answer(values: Any) -> Response:
    """Return an answer in JSON; numbers are written so that they read back the same."""
    try:
        content = orjson.dumps(values)
    except TypeError:  # a payload holds an integer of more than 64 bits
        content = json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    return Response(content, media_type="application/json")


def knows_secret(request: Request, shared: Services) -> bool:
    """Return whether the client can read the folder of the store, as the commands of twinvec can."""
    announced, given = shared.collections.announced, request.headers.get(SECRET_HEADER, "")
    return announced is not None and hmac.compare_digest(announced.secret.encode(), given.encode())
