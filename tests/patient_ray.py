"""Importing this module lets ``ray.init`` try again where a node has not started in the time that Ray gives it.

Ray, and the node itself, wait for half a minute, which is no setting and too little on a busy machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import ray

_TRIES = 5
_GIVEN_UP = "timed out during startup"  # Ray's error has no class of its own

os.environ.setdefault("RAY_worker_register_timeout_seconds", "600")


def patient(start: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that starts nodes of Ray, and tries again where ``start`` gives one up."""

    @wraps(start)
    def tried(*arguments: Any, **options: Any) -> Any:
        for left in reversed(range(_TRIES)):
            try:
                return start(*arguments, **options)
            except Exception as error:
                if not left or _GIVEN_UP not in str(error):
                    raise
        raise AssertionError

    return tried


ray.init = patient(ray.init)
