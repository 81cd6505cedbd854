"""Waiting for what happens meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any]) -> None:
    """Wait until the condition holds."""
    while not condition():
        await asyncio.sleep(0.001)


def pause_until(condition: Callable[[], Any], seconds: float = 300.0) -> None:
    """Wait until the condition holds, in pauses that leave the processor to other processes.

    Raises AssertionError where the condition does not hold after ``seconds``.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what is waited for does not come"
        time.sleep(0.001)
