"""A Qdrant server: searches and writing against the bare client, in one run.

    python benchmarks/server.py [--url URL] [--points N] [--delays 0,5,50] [-o FILE.md]

Without ``--url`` or QDRANT_URL, the stand-in of the tests serves, in a process of its own. It compares every vector, so
that its own time hides much of the clients': its figures show requests, those of a real server show speed.

A proxy between client and server holds back every answer for the delay, as a distant server does. The collection is
filled with random vectors and short texts. Each search is done by us and by the bare client in turn: dense, with a
filter on a keyword, sparse, and hybrid, which the bare client fuses on the server by ranks. Queries come with their
vectors: nothing is encoded. Sixteen threads, and 300 searches that are awaited at once, follow. Writing compares
``ingest`` with given vectors with ``upload_points`` of the same points.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import QdrantClient, models

from twinvec import Document
from twinvec.arrays import FloatArray, unit
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant import Collection, drop_collection
from twinvec_qdrant.records.schema import CHUNKS
from twinvec_qdrant.stores.points import Point, pages
from twinvec_qdrant.stores.server.values import client_point, client_sparse

DIM = 384
LIMIT = 10
AWAITED = 300
CANDIDATES = 100
NAME = "twinvec-benchmark"
BARE = "twinvec-benchmark-bare"
WORDS = [f"word{number}" for number in range(2000)]
ADDRESS = "127.0.0.2"  # the client keeps no connections to 127.0.0.1 open, as it does to other hosts


class Hashed:
    """Stands in for a model: the vector of a text follows from its words."""

    name = space = "hashed"
    dim = DIM

    def encode_document(self, texts: Sequence[str]) -> FloatArray:
        """Return the sum of the words' random vectors, of length 1."""
        rows = [np.sum([_word(word) for word in text.split()], axis=0) for text in texts]
        vectors_ND = np.array(rows, dtype=np.float32)
        return unit(vectors_ND)

    encode_query = encode_document


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("QDRANT_URL"))
    parser.add_argument("--points", type=int, help="default: 20,000 on a server, 500 on the stand-in")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--delays", default="0,5,50", help="milliseconds")
    parser.add_argument("-o", "--output", type=Path, help="also write the output to this file")
    parser.add_argument("--proxy", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.proxy is not None:
        asyncio.run(_proxy(options.proxy[0], float(options.proxy[1]) / 1000))
        return
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    points = options.points or (20_000 if options.url else 500)
    with server_or_stand_in(options.url) as url:
        say(f"{points:,} points of {DIM} dimensions on {'a server' if options.url else 'the stand-in'}.")
        _writing(url, points, say)
        say("")
        say("| delay, ms | search | ours, ms | bare client, ms | ratio |")
        say("| ---: | --- | ---: | ---: | ---: |")
        for delay in map(float, options.delays.split(",")):
            with _delayed(url, delay) as address:
                _searching(address, delay, options.queries, say)
        drop_collection(NAME, url=url)
        QdrantClient(url, check_compatibility=False).delete_collection(BARE)
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n")


def _writing(url: str, count: int, say: Callable[[str], None]) -> None:
    """Fill both collections, and print the rates."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 12)) for _ in range(count)]
    documents = [
        Document(f"d{row}", text, payload={"team": f"t{row % 50}", "year": 2000 + row % 25})
        for row, text in enumerate(texts)
    ]
    vectors = dict(zip((each.id for each in documents), Hashed().encode_document(texts), strict=True))
    client = QdrantClient(url, timeout=60, check_compatibility=False)
    for name in (NAME, BARE):
        client.delete_collection(name)
    with Collection.open(NAME, url=url, encoder=Hashed(), chunking=False, wait_seconds=60) as collection:
        ours = _time(lambda: collection.ingest(documents, vectors=vectors))
        stored = [client_point(point) for point in _points(collection)]
    client.create_collection(
        BARE,
        vectors_config={"dense": models.VectorParams(size=DIM, distance=models.Distance.COSINE)},
        sparse_vectors_config={"sparse": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    for key in ("kind", "metadata.team"):
        client.create_payload_index(BARE, key, models.PayloadSchemaType.KEYWORD)
    bare = _time(lambda: client.upload_points(BARE, stored, batch_size=256, wait=True))
    say(f"Documents written a second: ours {count / ours:,.0f}, upload_points {count / bare:,.0f}.")


def _points(collection: Collection) -> Iterator[Point]:
    """Yield the collection's chunks as they were written, with both vectors."""
    backend, bm25 = collection._backend, collection._catalog.weights
    for page in pages(backend.scroll([CHUNKS]), 500):
        dense = backend.retrieve([point.id for point in page], [], "dense")
        sparse = bm25.documents(bm25.terms([point.payload["text"] for point in page]))
        for point, words in zip(page, sparse, strict=True):
            yield replace(point, dense=dense[point.id].dense, sparse=words)


class Bare:
    """Searches of the bare client, with the vectors of texts."""

    def __init__(self, client: QdrantClient, dense: dict[str, FloatArray], words: dict[str, SparseVector]) -> None:
        self._client = client
        self._dense = dense
        self._words = words

    def search(self, text: str, stage: str, team: str | None = None) -> object:
        """Search by one stage, "dense" or "sparse"."""
        request = models.QueryRequest(
            query=self._vectors(text)[stage], using=stage, filter=_filter(team), limit=LIMIT, with_payload=True
        )
        return self._client.query_batch_points(BARE, [request])  # the stand-in knows batches only

    def hybrid(self, text: str) -> object:
        """Search by vectors and by words in one query; the server fuses both rankings by reciprocal ranks."""
        both = [
            models.Prefetch(query=each, using=name, filter=_filter(None), limit=CANDIDATES)
            for name, each in self._vectors(text).items()
        ]
        fused = models.FusionQuery(fusion=models.Fusion.RRF)
        request = models.QueryRequest(prefetch=both, query=fused, limit=LIMIT, with_payload=True)
        return self._client.query_batch_points(BARE, [request])

    def _vectors(self, text: str) -> dict[str, Any]:
        return {"dense": self._dense[text].tolist(), "sparse": client_sparse(self._words[text])}


def _filter(team: str | None) -> models.Filter:
    wanted = {"kind": "chunk"} if team is None else {"kind": "chunk", "metadata.team": team}
    conditions = [models.FieldCondition(key=key, match=models.MatchValue(value=each)) for key, each in wanted.items()]
    return models.Filter(must=list(conditions))


def _searching(url: str, delay: float, count: int, say: Callable[[str], None]) -> None:
    """Print the rows of one delay."""

    def row(name: str, ours: float, theirs: float) -> None:
        say(f"| {delay:g} | {name} | {ours:,.1f} | {theirs:,.1f} | {ours / theirs:.2f} |")

    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, 4)) for _ in range(count)]
    dense = dict(zip(texts, Hashed().encode_query(texts), strict=True))
    client = QdrantClient(url, timeout=60, check_compatibility=False)
    with Collection.open(NAME, url=url, encoder=Hashed(), wait_seconds=60) as collection:
        bare = Bare(client, dense, dict(zip(texts, collection._catalog.weights.queries(texts), strict=True)))

        def ours(text: str, **options: Any) -> object:
            return collection.search_vector(dense[text], LIMIT, **options)

        row("dense", *_in_turn(ours, lambda text: bare.search(text, "dense"), texts))
        team = {"team": "t3"}
        filtered = _in_turn(lambda text: ours(text, filter=team), lambda text: bare.search(text, "dense", "t3"), texts)
        row("dense, filtered", *filtered)
        sparse = _in_turn(
            lambda text: collection.search(text, LIMIT, "sparse"), lambda text: bare.search(text, "sparse"), texts
        )
        row("sparse", *sparse)
        row("hybrid", *_in_turn(lambda text: ours(text, words=text), bare.hybrid, texts))
        row("dense, 16 threads, a search", *_side_by_side(ours, lambda text: bare.search(text, "dense"), texts * 4))
        many = (texts * AWAITED)[:AWAITED]

        async def awaited() -> None:
            await asyncio.gather(*(collection.asearch(text, LIMIT, "hybrid") for text in many))

        with ThreadPoolExecutor(64) as pool:
            row(
                f"hybrid, {AWAITED} awaited at once (bare client: 64 threads), all",
                1000 * _time(lambda: asyncio.run(awaited())),
                1000 * _time(lambda: list(pool.map(bare.hybrid, many))),
            )


def _side_by_side(
    ours: Callable[[str], object], theirs: Callable[[str], object], texts: Sequence[str]
) -> tuple[float, float]:
    """Return the times a search takes of those that 16 threads do, in milliseconds."""
    with ThreadPoolExecutor(16) as pool:
        first, second = (_time(partial(list, pool.map(call, texts))) for call in (ours, theirs))
    return 1000 * first / len(texts), 1000 * second / len(texts)


def _in_turn(
    ours: Callable[[str], object], theirs: Callable[[str], object], texts: Sequence[str]
) -> tuple[float, float]:
    """Return the median times of two searches that take turns, in milliseconds."""
    times: tuple[list[float], list[float]] = ([], [])
    for call in (ours, theirs):
        call(texts[0])
    for text in texts:
        for each, call in zip(times, (ours, theirs), strict=True):
            each.append(_time(partial(call, text)))
    return 1000 * float(np.median(times[0])), 1000 * float(np.median(times[1]))


@contextmanager
def server_or_stand_in(url: str | None) -> Iterator[str]:
    """Yield the address of the server, or of a stand-in that is started for the block."""
    if url is not None:
        yield url
        return
    program = (
        "import sys; from stand_in import StandIn\n"
        "with StandIn().running() as server: print(server.url, flush=True); sys.stdin.read()"
    )
    folders = [str(Path(__file__).parents[1] / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONWARNINGS": "ignore"}
    with _started([sys.executable, "-c", program], environment) as address:
        yield address


@contextmanager
def _delayed(url: str, delay: float) -> Iterator[str]:
    """Yield the address of a proxy before the server."""
    with _started([sys.executable, __file__, "--proxy", url, str(delay)], dict(os.environ)) as address:
        yield address


@contextmanager
def _started(command: list[str], environment: dict[str, str]) -> Iterator[str]:
    """Start a program that prints its address and ends with its input."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(30)


async def _proxy(url: str, delay: float) -> None:
    """Pass bytes on; answers wait for the delay."""
    target = urlsplit(url)
    loop = asyncio.get_running_loop()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait: float) -> None:
        while data := await reader.read(2**16):
            if wait:
                loop.call_later(wait, writer.write, data)
            else:
                writer.write(data)
        loop.call_later(wait, writer.close)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(passed(reader, back, 0.0), passed(there, writer, delay), return_exceptions=True)

    server = await asyncio.start_server(connected, ADDRESS)
    print(f"http://{ADDRESS}:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    os._exit(0)


@cache
def _word(word: str) -> FloatArray:
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=DIM).astype(np.float32)


def _time(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
