"""Connections: what is written together, and in which order."""

from __future__ import annotations

import asyncio

from twinvec_serve.connections import JoinedWrites


class Transport:
    """Notes what it gets."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.calls.append(b"".join(parts))

    def close(self) -> None:
        self.calls.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.calls


async def test_head_and_body_are_one_write() -> None:
    transport = Transport()
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"head ")
    assert transport.calls == []
    joined.write(b"body")
    await asyncio.sleep(0)
    assert transport.calls == [b"head body"]


async def test_what_comes_alone_is_written_in_the_next_round() -> None:
    transport = Transport()
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    for part in (b"first", b"second"):
        joined.write(part)
        await asyncio.sleep(0)
    joined.write(b"")
    await asyncio.sleep(0)
    assert transport.calls == [b"first", b"second"]


async def test_closing_writes_what_is_kept_first() -> None:
    transport = Transport()
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"head")
    assert not joined.is_closing()
    joined.close()
    await asyncio.sleep(0)
    assert transport.calls == [b"head", b"closed"]
    assert joined.is_closing()
