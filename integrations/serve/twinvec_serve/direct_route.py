"""A route that bypasses FastAPI, for frequent short requests. FastAPI only describes the route in its documentation.

For a short text, FastAPI and Starlette spend more time on the route and its parameters than the server on everything
else but the model's computation.
"""

from __future__ import annotations

import json
from typing import Any, get_type_hints

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from twinvec_serve.errors import UNREADABLE, error_answer
from twinvec_serve.json_texts import parsed_body
from twinvec_serve.services import services


class DirectRoute:
    """Answers the requests to one route instead of FastAPI.

    The route's endpoint takes the request, the body and the services, and returns a response. Its dependencies take the
    request, and return nothing or raise an error. Errors and invalid bodies get the same answers as on other routes.
    """

    def __init__(self, route: APIRoute) -> None:
        self._route = route
        self._form: type[BaseModel] = get_type_hints(route.endpoint)["body"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["route"] = self._route
        try:
            response = await self._response(Request(scope, receive, send))
        except Exception as error:
            response = error_answer(error)
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        for each in self._route.dependencies:
            assert each.dependency is not None
            await each.dependency(request)
        answer: Response = await self._route.endpoint(request, await self._body(request), await services(request))
        return answer

    async def _body(self, request: Request) -> BaseModel:
        try:
            content: Any = await request.body()
        except ClientDisconnect:
            raise HTTPException(400, UNREADABLE) from None
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
            content = await _parsed(content)
        try:
            return self._form.model_validate(content)
        except ValidationError as error:
            raise RequestValidationError([each | {"loc": ("body", *each["loc"])} for each in error.errors()]) from None


async def _parsed(content: bytes) -> Any:
    try:
        return await parsed_body(content) if content else None
    except json.JSONDecodeError as error:
        fault = {"type": "json_invalid", "loc": ("body", error.pos), "ctx": {"error": error.msg}}
        raise RequestValidationError([fault], body=error.doc) from None
    except (ValueError, RecursionError):  # not UTF-8, nested too deeply, or a number of thousands of digits
        raise HTTPException(400, UNREADABLE) from None
