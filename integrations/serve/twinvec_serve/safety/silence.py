"""The limit on the silence of a client that has not sent its whole body, or not read its whole answer."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

IDLE_SECONDS = 60.0
"""Longest time, in seconds, in which a client may send nothing of a body, or read nothing of an answer."""


async def receive_in_time(receive: Receive) -> Message:
    """Return the next message of a request; raise ``TimeoutError`` if the client sends nothing for that time."""
    async with asyncio.timeout(IDLE_SECONDS):
        return await receive()


def describe_silence() -> str:
    """Return the words for an error about a client that stays silent: "sent nothing for 60 s"."""
    return f"sent nothing for {IDLE_SECONDS:g} s"
