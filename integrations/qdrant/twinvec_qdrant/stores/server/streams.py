"""Two streams of requests: while the server works on one, the client prepares the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

Item = TypeVar("Item")

STREAM_POINTS = 256
"""Largest number of points in one write of a stream: few, so that both streams have work."""


def in_streams(send: Callable[[Item], object], items: Iterable[Item], streams: int = 2) -> None:
    """Call ``send`` for every item, with ``streams`` calls at once, and return when all calls have returned.

    A single stream or a single item needs no thread. After an error no further call begins, and the error is raised
    when the running calls have returned.
    """
    left = iter(items)
    first = list(islice(left, streams))
    if len(first) < 2:
        for item in chain(first, left):
            send(item)
        return
    with ThreadPoolExecutor(streams, thread_name_prefix="twinvec-write") as pool:
        under_way = deque(pool.submit(send, item) for item in first)
        for item in left:
            under_way.popleft().result()
            under_way.append(pool.submit(send, item))
        while under_way:
            under_way.popleft().result()
