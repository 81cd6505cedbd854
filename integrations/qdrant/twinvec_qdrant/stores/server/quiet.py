"""Clients without their warnings, which name lines of the client's source."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C")


def quiet_client(kind: Callable[..., C], **options: Any) -> C:
    """Return a client; a key goes unencrypted to this machine only, which needs no warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
        return kind(**options)
