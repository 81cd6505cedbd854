"""The services that the routes share: models, collections and metrics of one server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from twinvec_serve.collections.backups import Backups
from twinvec_serve.collections.maintenance import Maintenance
from twinvec_serve.collections.open_collections import OpenCollections
from twinvec_serve.models.served_models import ServedModels
from twinvec_serve.observing.metrics import Metrics
from twinvec_serve.safety.keys import Access
from twinvec_serve.settings import ServeSettings


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a running server; ``app.state.services`` holds them."""

    settings: ServeSettings
    access: Access
    metrics: Metrics
    models: ServedModels
    collections: OpenCollections
    backups: Backups
    maintenance: Maintenance


async def services(request: Request) -> Services:  # async, because FastAPI runs other functions in threads
    """Return the services of the request's server."""
    return cast(Services, request.app.state.services)


Served = Annotated[Services, Depends(services)]
"""The services of the request's server, as a parameter of a route."""
