"""The delay of an event loop while many searches of an embedded collection are awaited at once.

    python benchmarks/awaited_searches.py [--count 200] [--bursts 5]

``benchmarks/integrations.py`` starts this program in a process of its own, which imports only what twinvec needs. The
program prints JSON. A burst is a number of searches that are awaited at once; the first burst starts the worker
threads. The longest delay of the event loop is a full garbage collection, which takes longer the more modules the
process has imported. An application may call ``gc.freeze()`` after its start to shorten it, so the same number of
bursts runs again after ``gc.freeze()``. These bursts come last, because after ``gc.unfreeze()`` the interpreter would
collect garbage more often.
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
    """Seconds of a burst: its duration, the largest delay of the ticker, and the longest full garbage collection."""

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
    """Run a burst of searches, and measure it."""
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
