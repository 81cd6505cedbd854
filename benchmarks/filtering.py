"""Filters: the time of a filtered search with and without indexes of payload keys, and the cost of the indexes.

    python benchmarks/filtering.py [--sizes 10000,50000,200000] [--queries 60] [--url URL] [-o FILE.md]

Documents have vectors of 384 dimensions, drawn around random centres, and a payload: a team (one of 50), tags (two of
100), a price, a flag, and a day with a time. There are two collections of every size: one with the automatic indexes
(and an index "datetime" for the day), and one without indexes of keys. They are embedded or, with ``--url``, on a
Qdrant server. The tests' stand-in for a server has no indexes, so it cannot be measured. Each is filled, and its
vectors are indexed. Then a separate process opens it and searches without a filter and with each filter in turn. Times
are medians of searches for the ten best by vectors; the ratio compares with the time without a filter in the same
collection. The program checks that filters find the same documents in both collections, and exact searches the same
ten. Disk excludes the engine's log. Memory is the growth of the searching process, including pages of files. On a
server, neither is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

from output import Output
from qdrant import Precomputed
from twinvec import Document
from twinvec.arrays import FloatArray
from twinvec_qdrant import Collection, drop_collection

NAME = "twinvec-benchmark"
DIM = 384
CENTRES = 2000
BATCH = 10_000
LIMIT = 10
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = 1000
FILTERS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "equal": {"team": "t3"},
    "list": {"tag": ["g3", "g4"]},
    "number": {"price": 20.0},
    "range": {"price": {"gte": 40, "lt": 42}},
    "dates": {"day": {"gte": "2024-03-01", "lt": "2024-03-21"}},
    "all together": {"team": ["t1", "t2", "t3"], "flag": True, "price": {"lt": 80}, "day": {"gte": "2024-04-01"}},
    "or": {"or": [{"team": "t7"}, {"price": {"gte": 99.5}}]},
    "half of all": {"flag": True},
    "all but 2%": {"team": {"ne": "t3"}},
}
INDEXES = {"with indexes": {"day": "datetime"}, "without": False}


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,50000,200000")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--url", help="measure this server instead of embedded collections")
    parser.add_argument("-o", "--output", type=Path, help="also write the output to this file")
    parser.add_argument("--probe", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe is not None:
        print(json.dumps(_searched(options.probe, options.queries)))
        return
    say = Output(options.output)
    say("| points | filter | of the documents | ms | ratio | ms without indexes | ratio |")
    say("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    measured = _measured_on_server if options.url else _measured_embedded
    costs = [measured(size, options, say) for size in map(int, options.sizes.split(","))]
    say("")
    say("| points | indexes | documents/s ingested | vectors indexed, s | disk, B a point | memory, B a point |")
    say("| ---: | --- | ---: | ---: | ---: | ---: |")
    for line in (line for lines in costs for line in lines):
        say(line)
    say.write()


def _measured_embedded(size: int, options: argparse.Namespace, say: Callable[[str], None]) -> list[str]:
    """Print the times of searches at one size; return the rows with the cost of the indexes."""
    found, costs = {}, []
    for name, indexes in INDEXES.items():
        with TemporaryDirectory() as folder:
            cost = _filled({"path": folder}, size, indexes)
            found[name] = _probed({"path": folder}, options.queries)
            disk, memory = _disk(Path(folder)) / size, found[name]["memory"] / size
            costs.append(f"| {size:,} | {name} | {cost} | {disk:,.0f} | {memory:,.0f} |")
    _show(size, found["with indexes"], found["without"], say)
    return costs


def _measured_on_server(size: int, options: argparse.Namespace, say: Callable[[str], None]) -> list[str]:
    """Print the times of searches on a server at one size; return the rows with the cost of the indexes."""
    place: dict[str, Any] = {"url": options.url}
    found, costs = {}, []
    for name, indexes in INDEXES.items():
        QdrantClient(options.url, check_compatibility=False).delete_collection(NAME)
        costs.append(f"| {size:,} | {name} | {_filled(place, size, indexes)} | - | - |")
        found[name] = _probed(place, options.queries)
        drop_collection(NAME, **place)
    _show(size, found["with indexes"], found["without"], say)
    return costs


def _probed(place: dict[str, Any], queries: int) -> dict[str, Any]:
    """Search in a separate process."""
    command = [sys.executable, __file__, "--probe", json.dumps(place), "--queries", str(queries)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _show(size: int, ours: dict[str, Any], plain: dict[str, Any], say: Callable[[str], None]) -> None:
    """Print the times of searches, with indexes (ours) and without."""
    for name in FILTERS:
        share = ours["counts"][name] / size
        assert ours["counts"][name] == plain["counts"][name], name
        assert ours["best"][name] == plain["best"][name], name
        cells = [each["ms"][name] for each in (ours, plain)]
        ratios = [each["ms"][name] / each["ms"]["none"] for each in (ours, plain)]
        say(
            f"| {size:,} | {name} | {share:.1%} | {cells[0]:.1f} | {ratios[0]:.1f} | {cells[1]:.1f} | {ratios[1]:.1f} |"
        )


def _filled(place: dict[str, Any], size: int, indexes: Any) -> str:
    """Fill a collection; return documents ingested a second, and seconds for the index of vectors."""
    settings = {**place, "chunking": False, "payload_indexes": indexes, "wait_seconds": 60}
    with Collection.open(NAME, encoder=Precomputed(DIM), **settings) as collection:
        seconds = 0.0
        for documents, vectors_ND in _batches(size):
            names = [document.id for document in documents]
            given = dict(zip(names, vectors_ND, strict=True))
            start = time.perf_counter()
            for first in range(0, len(names), 1000):
                some = documents[first : first + 1000]
                collection.ingest(some, vectors={each.id: given[each.id] for each in some})
            seconds += time.perf_counter() - start
        start = time.perf_counter()
        collection.reindex(collection.info()["index"])
        if "url" in place:
            _wait_for_index(place["url"])
        built = time.perf_counter() - start
        assert collection.count() == size
    return f"{size / seconds:,.0f} | {built:,.1f}"


def _wait_for_index(url: str) -> None:
    client = QdrantClient(url, check_compatibility=False, timeout=60)
    while client.get_collection(NAME).status is not models.CollectionStatus.GREEN:
        time.sleep(0.2)


def _disk(folder: Path) -> int:
    """Return the bytes that the files of a store occupy."""
    files = [path for path in folder.rglob("*") if path.is_file() and "wal" not in path.parts]
    return sum(path.stat().st_blocks * 512 for path in files)


def _batches(size: int) -> Iterator[tuple[list[Document], FloatArray]]:
    draw = np.random.default_rng(0)
    centres_CD = draw.normal(size=(CENTRES, DIM)).astype(np.float32)
    for first in range(0, size, BATCH):
        rows = range(first, min(first + BATCH, size))
        noise_ND = draw.normal(size=(len(rows), DIM)).astype(np.float32)
        vectors_ND = centres_CD[draw.integers(CENTRES, size=len(rows))] + 0.7 * noise_ND
        yield [Document(f"d{row}", f"document {row}", payload=_payload(row, draw)) for row in rows], vectors_ND


def _payload(row: int, draw: np.random.Generator) -> dict[str, Any]:
    day = FIRST + timedelta(days=float(draw.uniform(0, DAYS)))
    return {
        "team": f"t{draw.integers(50)}",
        "tag": [f"g{number}" for number in draw.integers(100, size=2)],
        "price": float(draw.integers(0, 50)) * 2 if row % 2 else round(float(draw.uniform(0, 100)), 2),
        "flag": bool(draw.integers(2)),
        "day": day.isoformat(timespec="seconds"),
    }


def _searched(place: dict[str, Any], queries: int) -> dict[str, Any]:
    """Open the collection, and return times, results and memory of searches."""
    draw = np.random.default_rng(1)
    centres_CD = np.random.default_rng(0).normal(size=(CENTRES, DIM)).astype(np.float32)
    before = _memory()
    with Collection.open(NAME, **place, encoder=Precomputed(DIM), wait_seconds=60) as collection:
        times: dict[str, list[float]] = {name: [] for name in FILTERS}
        best: dict[str, list[str]] = {name: [] for name in FILTERS}
        for query in range(queries):
            vector_D = centres_CD[draw.integers(CENTRES)] + 0.7 * draw.normal(size=DIM).astype(np.float32)
            for name, wanted in FILTERS.items():
                start = time.perf_counter()
                collection.search_vector(vector_D, LIMIT, wanted)
                times[name].append(time.perf_counter() - start)
                if query < 3:
                    best[name] += [hit.id for hit in collection.search_vector(vector_D, LIMIT, wanted, exact=True)]
        memory = _memory() - before
        counts = {name: len(collection.find(wanted)) for name, wanted in FILTERS.items()}
    ms = {name: 1000 * float(np.median(each[2:])) for name, each in times.items()}
    return {"ms": ms, "best": best, "counts": counts, "memory": memory}


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
