"""A Qdrant server: searches and writes of twinvec compared with the bare client, in one run.

    python benchmarks/server.py [--url URL] [--points N] [--delays 0,5,50] [-o FILE.md]

Without ``--url`` or QDRANT_URL, the tests' stand-in for a server runs in a separate process. It compares every vector,
so its own time hides much of the clients' time. Its figures are meaningful for the number of requests and the clients'
CPU time; measure speed on a real server.

A proxy between client and server delays every answer, as a distant server does. The collection is filled with random
vectors and short texts of different lengths: among texts of one length, many scores of words are equal, and twinvec
asks for more candidates where the last score of a page is shared. After a few searches, our handle is warm: it knows
that all chunks are committed, and makes one request. twinvec and the bare client do each search in turn, with the same
filter and the same vectors: dense, dense with a filter on a keyword, sparse, and hybrid, which the bare client fuses
on the server by ranks. "Encoded" searches begin with a text, whose vector both compute by hashes, in almost no time.
Only the last of them finds passages, which the bare client cannot do. The bare client is measured with its defaults,
and without compression: twinvec asks for answers without compression, because a server sends a compressed one in two
packets, of which the second waits for the receipt of the first, up to 40 ms. Then sixteen threads search, and 300
searches are awaited at once on one event loop. The CPU time of a search is that of this process with all its threads.
The rates of writing compare an ``ingest`` of given vectors with ``upload_points`` of the same points.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from output import Output, seconds_of
from twinvec import Document
from twinvec.arrays import FloatArray, unit
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant import Collection, drop_collection
from twinvec_qdrant.records.schema import CHUNKS
from twinvec_qdrant.stores.points import Point, pages
from twinvec_qdrant.stores.server.async_requests import CONNECTIONS
from twinvec_qdrant.stores.server.values import client_points, client_sparse

DIM = 384
LIMIT = 10
AWAITED = 300
CANDIDATES = 100
NAME = "twinvec-benchmark"
BARE = "twinvec-benchmark-bare"
WORDS = [f"word{number}" for number in range(2000)]
BARE_CLIENTS: dict[str, dict[str, Any]] = {
    "The bare client with its defaults": {},
    "The bare client without compression": {"metadata": {"accept-encoding": "identity"}},
}
COLUMNS = ("ours, ms", "bare client, ms", "ratio", "ours, CPU ms", "bare client, CPU ms", "ratio")
ADDRESS = "127.0.0.2"  # qdrant-client keeps connections to other hosts open, but not to 127.0.0.1


Times = tuple[float, float]
"""Milliseconds that a search takes, and those of CPU time in this process."""


class Hashed:
    """An encoder without a model: the vector of a text is computed from hashes of its words."""

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
    parser.add_argument("--points", type=int, help="default: 20,000 on a server, 200 on the stand-in")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--delays", default="0,5,50", help="delays of answers in milliseconds")
    parser.add_argument("-o", "--output", type=Path, help="also write the output to this file")
    parser.add_argument("--proxy", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.proxy is not None:
        asyncio.run(_proxy(options.proxy[0], float(options.proxy[1]) / 1000))
        return
    say = Output(options.output)
    points = options.points or (20_000 if options.url else 200)
    with server_or_stand_in(options.url) as url:
        _head(url, points, options.url is not None, say)
        _writing(url, points, say)
        for heading, settings in BARE_CLIENTS.items():
            say("")
            say(f"## {heading}")
            say("")
            say("| delay, ms | search | " + " | ".join(COLUMNS) + " |")
            say("| ---: | --- |" + " ---: |" * len(COLUMNS))
            for delay in map(float, options.delays.split(",")):
                with _delayed(url, delay) as address:
                    _searching(address, delay, options.queries, settings, say)
        drop_collection(NAME, url=url)
        QdrantClient(url, check_compatibility=False).delete_collection(BARE)
    say.write()


def _head(url: str, points: int, real: bool, say: Callable[[str], None]) -> None:
    """Print the head of the report: the machine, the versions and the meaning of the figures."""
    served = QdrantClient(url, check_compatibility=False).info().version
    what = f"a server of version {served}" if real else "the stand-in of the tests"
    packages = ", ".join(f"{name} {version(name)}" for name in ("qdrant-client", "httpx", "pydantic"))
    say("# Searches of a server")
    say("")
    say("Written by `python benchmarks/server.py --output benchmarks/SERVER.md`, with `--url URL` for a server. Its")
    say("docstring says what is measured.")
    say("")
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, load {os.getloadavg()[0]:.1f} before"
    say(f"{machine}; Python {platform.python_version()}, {packages}.")
    say("")
    say(f"{points:,} points of {DIM} dimensions on {what}. Times are medians of single searches. For many searches")
    say("at once, the time of a search is the total time divided by their number. The handle is warm: it knows that")
    say("all chunks are committed, so a search of twinvec makes one request, as does a search of the bare client.")
    say("")


def _writing(url: str, count: int, say: Callable[[str], None]) -> None:
    """Fill both collections, and print the rates."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size)) for size in rng.integers(8, 41, count)]
    documents = [
        Document(f"d{row}", text, payload={"team": f"t{row % 50}", "year": 2000 + row % 25})
        for row, text in enumerate(texts)
    ]
    vectors = dict(zip((each.id for each in documents), Hashed().encode_document(texts), strict=True))
    client = QdrantClient(url, timeout=60, check_compatibility=False)
    for name in (NAME, BARE):
        client.delete_collection(name)
    with Collection.open(NAME, url=url, encoder=Hashed(), chunking=False, wait_seconds=60) as collection:
        ours = seconds_of(lambda: collection.ingest(documents, vectors=vectors))
        stored = client_points(list(_points(collection)))
    client.create_collection(
        BARE,
        vectors_config={"dense": models.VectorParams(size=DIM, distance=models.Distance.COSINE)},
        sparse_vectors_config={"sparse": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    for key in ("kind", "metadata.team"):
        client.create_payload_index(BARE, key, models.PayloadSchemaType.KEYWORD)
    bare = seconds_of(lambda: client.upload_points(BARE, stored, batch_size=256, wait=True))
    rates = f"twinvec {count / ours:,.0f}; the bare client's upload_points {count / bare:,.0f}"
    say(f"Speed of writing, in documents a second: {rates}.")


def _points(collection: Collection) -> Iterator[Point]:
    """Yield the collection's chunks as they were written, with both vectors."""
    backend, bm25 = collection._backend, collection._catalog.weights
    for page in pages(backend.scroll([CHUNKS]), 500):
        dense = backend.retrieve([point.id for point in page], [], "dense")
        sparse = bm25.documents(bm25.terms([point.payload["text"] for point in page]))
        for point, words in zip(page, sparse, strict=True):
            yield replace(point, dense=dense[point.id].dense, sparse=words)


class Bare:
    """Searches by the bare client, with the same vectors. With an async client, the methods return awaitables."""

    def __init__(self, client: Any, dense: dict[str, FloatArray], words: dict[str, SparseVector]) -> None:
        self._client = client
        self._dense = dense
        self._words = words

    def search(self, text: str, stage: str = "dense", team: str | None = None, *, encoded: bool = False) -> Any:
        """Search by one stage, "dense" or "sparse"."""
        nearest = self._vectors(text, encoded)[stage]
        request = models.QueryRequest(query=nearest, using=stage, filter=_filter(team), limit=LIMIT, with_payload=True)
        return self._client.query_batch_points(BARE, [request])  # the stand-in supports only batches

    def hybrid(self, text: str, *, encoded: bool = False) -> Any:
        """Search by vectors and by words in one query; the server fuses both rankings by reciprocal ranks."""
        both = [
            models.Prefetch(query=each, using=name, limit=CANDIDATES)
            for name, each in self._vectors(text, encoded).items()
        ]
        fused = models.FusionQuery(fusion=models.Fusion.RRF)
        request = models.QueryRequest(prefetch=both, query=fused, limit=LIMIT, with_payload=True)
        return self._client.query_batch_points(BARE, [request])

    def awaited(self, client: AsyncQdrantClient) -> Bare:
        """Return the same searches by an async client."""
        return Bare(client, self._dense, self._words)

    def _vectors(self, text: str, encoded: bool) -> dict[str, Any]:
        vector_D = Hashed().encode_query([text])[0] if encoded else self._dense[text]
        return {"dense": vector_D.tolist(), "sparse": client_sparse(self._words[text])}


def _filter(team: str | None) -> models.Filter | None:
    if team is None:
        return None
    return models.Filter(must=[models.FieldCondition(key="metadata.team", match=models.MatchAny(any=[team]))])


def _searching(url: str, delay: float, count: int, settings: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Print the rows of one delay; ``settings`` are those of the bare client."""

    def row(name: str, ours: Times, theirs: Times) -> None:
        (wall, cpu), (their_wall, their_cpu) = ours, theirs
        say(
            f"| {delay:g} | {name} | {wall:,.2f} | {their_wall:,.2f} | {wall / their_wall:.2f} "
            f"| {cpu:,.2f} | {their_cpu:,.2f} | {cpu / their_cpu:.2f} |"
        )

    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, 4)) for _ in range(count)]
    dense = dict(zip(texts, Hashed().encode_query(texts), strict=True))
    client = QdrantClient(url, timeout=60, check_compatibility=False, **settings)
    with Collection.open(NAME, url=url, encoder=Hashed(), wait_seconds=60) as collection:
        bare = Bare(client, dense, dict(zip(texts, collection._catalog.weights.queries(texts), strict=True)))

        def ours(text: str, **options: Any) -> object:
            return collection.search_vector(dense[text], LIMIT, passages=False, **options)

        def encoded(text: str, mode: Any, passages: bool = False) -> object:
            return collection.search(text, LIMIT, mode, passages=passages)

        row("dense", *_in_turn(ours, bare.search, texts))
        filtered = (partial(ours, filter={"team": "t3"}), partial(bare.search, team="t3"))
        row("dense, filtered", *_in_turn(*filtered, texts))
        row("dense, encoded", *_in_turn(partial(encoded, mode="dense"), partial(bare.search, encoded=True), texts))
        row("sparse", *_in_turn(partial(encoded, mode="sparse"), partial(bare.search, stage="sparse"), texts))
        row("hybrid", *_in_turn(lambda text: ours(text, words=text), bare.hybrid, texts))
        whole = partial(encoded, mode="hybrid", passages=True)
        row("hybrid, encoded, with passages", *_in_turn(whole, partial(bare.hybrid, encoded=True), texts))
        row("dense, 16 threads", *_side_by_side(ours, bare.search, texts * 4))
        many = (texts * AWAITED)[:AWAITED]

        async def theirs_awaited() -> None:
            theirs = AsyncQdrantClient(url, timeout=600, check_compatibility=False, limits=CONNECTIONS, **settings)
            await _all(bare.awaited(theirs).hybrid(text, encoded=True) for text in many)
            await theirs.close()

        async def ours_awaited() -> None:
            await _all(collection.asearch(text, LIMIT, passages=False) for text in many)

        def awaited(searches: Callable[[], Coroutine[Any, Any, None]]) -> Times:
            return _times(lambda: asyncio.run(searches()), len(many))

        row(f"hybrid, encoded, {AWAITED} awaited at once", awaited(ours_awaited), awaited(theirs_awaited))


async def _all(calls: Iterator[Awaitable[object]]) -> None:
    await asyncio.gather(*calls)


def _side_by_side(
    ours: Callable[[str], object], theirs: Callable[[str], object], texts: Sequence[str]
) -> tuple[Times, Times]:
    """Return the mean times of a search while 16 threads search."""
    with ThreadPoolExecutor(16) as pool:

        def all_of(call: Callable[[str], object], some: Sequence[str]) -> None:
            deque(pool.map(call, some), maxlen=0)

        for call in (ours, theirs):  # opens the connections
            all_of(call, texts[:64])
        first, second = (_times(partial(all_of, call, texts), len(texts)) for call in (ours, theirs))
    return first, second


def _in_turn(
    ours: Callable[[str], object], theirs: Callable[[str], object], texts: Sequence[str]
) -> tuple[Times, Times]:
    """Return the median times of two searches that take turns."""
    times: tuple[list[Times], list[Times]] = ([], [])
    for call in (ours, theirs):
        call(texts[0])
    for text in texts:
        for each, call in zip(times, (ours, theirs), strict=True):
            each.append(_times(partial(call, text)))
    first, second = (tuple(np.median(each, axis=0).tolist()) for each in times)
    return first, second


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
    """Start a program that prints its address, and ends when its input is closed."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(30)


async def _proxy(url: str, delay: float) -> None:
    """Forward bytes between client and server, and delay the answers."""
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


def _times(work: Callable[[], object], searches: int = 1) -> Times:
    cpu, start = time.process_time(), time.perf_counter()
    work()
    wall = time.perf_counter() - start
    return 1000 * wall / searches, 1000 * (time.process_time() - cpu) / searches


if __name__ == "__main__":
    main()
