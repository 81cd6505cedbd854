"""Waiting for what happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any]) -> None:
    """Wait until the condition holds."""
    while not condition():
        await asyncio.sleep(0.001)
