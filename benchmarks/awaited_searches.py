"""Bursts of searches of an embedded collection that are awaited at once, and how late they make the event loop.

    python benchmarks/awaited_searches.py [--count 200] [--bursts 5]

A process of its own, which ``benchmarks/integrations.py`` starts: it holds what twinvec needs and nothing else. The
first burst starts the worker threads. The longest step that keeps the event loop from the interpreter's lock is a full
garbage collection, which grows with all that the process has imported. So as many bursts again run after
``gc.freeze()``, as an application may call it once it has started. They come last: after ``gc.unfreeze()`` the
interpreter would take its heap for a small one, and collect it more often. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory
from typing import Any

from twinvec import Encoder
from twinvec_qdrant import Collection

TICK_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst: its seconds, the worst delay of the ticker, and the longest full garbage collection; in seconds."""

    seconds: float
    late: float
    collecting: float
    frozen: bool


class Ticker:
    """A task that should run every millisecond; ``worst`` is its largest delay in seconds."""

    worst = 0.0

    async def run(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            self.worst = max(self.worst, time.perf_counter() - before - TICK_SECONDS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--bursts", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps([asdict(each) for each in asyncio.run(measured(options.count, options.bursts))]))


async def measured(count: int, bursts: int) -> list[Burst]:
    """Return the given number of bursts, and as many after ``gc.freeze()``."""
    documents = [{"id": f"d{row}", "text": f"page {row}: holiday in week {row % 52}"} for row in range(2000)]
    found = []
    with (
        TemporaryDirectory() as folder,
        Collection.open("pages", folder, encoder=Encoder("default"), chunking=False) as collection,
    ):
        collection.ingest(documents)
        collection.search("the first search loads what it needs")
        found += [await burst(collection, count, frozen=False) for _ in range(bursts)]
        gc.freeze()
        found += [await burst(collection, count, frozen=True) for _ in range(bursts)]
    return found


async def burst(collection: Collection, count: int, *, frozen: bool) -> Burst:
    """Await searches at once."""
    ticker = Ticker()
    with collections() as pauses:
        running = asyncio.create_task(ticker.run())
        await asyncio.sleep(0)
        started = time.perf_counter()
        await asyncio.gather(*(collection.asearch(f"{row} days of holiday") for row in range(count)))
        seconds = time.perf_counter() - started
        running.cancel()
    return Burst(seconds, ticker.worst, max(pauses, default=0.0), frozen)


@contextmanager
def collections() -> Iterator[list[float]]:
    """Yield a list that gets the seconds of every full garbage collection."""
    pauses: list[float] = []
    begun = 0.0

    def note(phase: str, info: dict[str, Any]) -> None:
        nonlocal begun
        if phase == "start":
            begun = time.perf_counter()
        elif info["generation"] == 2:
            pauses.append(time.perf_counter() - begun)

    gc.callbacks.append(note)
    try:
        yield pauses
    finally:
        gc.callbacks.remove(note)


if __name__ == "__main__":
    main()
