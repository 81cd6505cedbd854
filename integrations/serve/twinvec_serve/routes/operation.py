"""The routes of operators: health and metrics."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from twinvec_serve.errors import RequestError
from twinvec_serve.safety.keys import reads
from twinvec_serve.services import Served

router = APIRouter(tags=["operation"])


class Readiness(BaseModel):
    """The answer of a server that is ready."""

    status: Literal["ok"] = Field(default="ok", description="Always ok; an unready server answers 503.")


class Health(Readiness):
    """The answer of a running process."""

    instance: str | None = Field(
        default=None, description="Name of this server in the folder of the store that it serves, if it serves one."
    )


@router.get("/healthz")
async def alive(shared: Served) -> Health:
    """Say that the process answers."""
    announced = shared.collections.announced
    return Health(instance=None if announced is None else announced.instance)


@router.get("/readyz")
async def ready(shared: Served) -> Readiness:
    """Answer 200 if the models are loaded, else 503."""
    if not shared.models.loaded_at:
        raise RequestError("the models are being loaded", code="starting", status=503, headers={"Retry-After": "1"})
    return Readiness()


@router.get(
    "/metrics",
    dependencies=[Depends(reads)],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(shared: Served) -> Response:
    """Return metrics in the format of Prometheus: requests, batches, queues, tokens, the disk and backups."""
    content = await asyncio.to_thread(shared.metrics.exposition)  # a network disk may be slow to say its free room
    return Response(content, media_type=CONTENT_TYPE_LATEST)
