"""Collections: rates of ingestion, latency and recall of search, disk and memory, at several sizes.

    python benchmarks/qdrant.py --data DIR [--texts N] [--vectors M] [--sizes 10000,50000,200000] [-o FILE.md]

The texts are those of the sets below DATA/ir, without chunking. In each of three rounds, N texts are encoded, then
ingested, then ingested again unchanged. The difference between the first two rates is the cost of storing. Some texts
are stored in a collection with token states, and candidates are reranked with computed and with stored states.

Then a collection of every size is filled with precomputed vectors: those of M texts, followed by copies of them with
added noise. For each quantisation, and for a search that keeps more candidates (ef), the index is built. A separate
process opens the collection and searches by vectors with more noise. Latency excludes encoding, recall@10 compares with
exact search by numpy, disk excludes the engine's log, and memory is the growth of the process, including pages of
files. qdrant-client's local mode (in memory) is measured up to the size given by --local.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from qdrant_client import QdrantClient

from output import Output, seconds_of
from twinvec import Document, Encoder, MaxSimReranker
from twinvec.arrays import FloatArray
from twinvec.evaluation.beir import load_beir
from twinvec_qdrant import Collection, IndexSettings

QUERIES = 500
RERANKED = 300  # number of texts whose token states are stored
CANDIDATES = 100
ROUNDS = 3
LIMIT = 10
INDEXES = (
    IndexSettings("none"),
    IndexSettings("int8"),
    IndexSettings("turbo"),
    IndexSettings("binary"),
    IndexSettings("none", ef=512),
)
COLUMNS = ("points", "store", "built, s", "median, ms", "99th percentile, ms", "recall@10", "disk, B", "memory, B")


class Precomputed:
    """An encoder whose texts have precomputed vectors; it encodes only the probes."""

    name = space = "precomputed"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def encode_document(self, texts: Sequence[str]) -> FloatArray:
        """Return random vectors, seeded by the lengths of the texts."""
        rows = [np.random.default_rng(len(text)).normal(size=self.dim) for text in texts]
        return np.array(rows, dtype=np.float32)

    encode_query = encode_document


@dataclass(frozen=True)
class Searched:
    """Latency, recall and memory of many searches."""

    median: float
    slow: float
    recall: float
    memory: int


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--vectors", type=int, default=10_000)
    parser.add_argument("--sizes", default="10000,50000,200000")
    parser.add_argument("--local", type=int, default=10_000)
    parser.add_argument("-o", "--output", type=Path, help="also write the output to this file")
    parser.add_argument("--probe", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe is not None:
        print(json.dumps(vars(_probe(options.probe))))
        return
    say = Output(options.output)
    _pipeline(list(islice(_documents(options.data), options.texts)), say)
    _reranking(list(islice(_documents(options.data), min(options.texts, RERANKED))), say)
    texts = [document.full_text for document in islice(_documents(options.data), options.vectors)]
    base_ND = Encoder("default").encode_document(texts)
    say("")
    say("| " + " | ".join(COLUMNS) + " |")
    say("|" + " ---: |" * len(COLUMNS))
    for size in map(int, options.sizes.split(",")):
        with TemporaryDirectory() as folder:
            _measure(
                Path(folder), _grown(base_ND, size), _moved(base_ND[:QUERIES], 0.5, seed=1), size, options.local, say
            )
    say.write()


def _documents(data: Path) -> Iterator[Document]:
    for folder in sorted((data / "ir").iterdir()):
        for document in load_beir(folder, "test").documents:
            yield Document(f"{folder.name}/{document.id}", document.text, document.title)


def _pipeline(documents: list[Document], say: Callable[[str], None]) -> None:
    """Print the rates of the encoder alone, of an ingest, and of the same ingest again."""
    encoder = Encoder("default")
    encoder.encode(["ready"])
    texts = [document.full_text for document in documents]
    rounds: list[tuple[float, float, float]] = []  # in turn, because only ratios are comparable on a busy machine
    for _ in range(ROUNDS):
        start = time.perf_counter()
        encoder.encode_document(texts)
        alone = len(documents) / (time.perf_counter() - start)
        with (
            TemporaryDirectory() as folder,
            Collection.open("b", folder, encoder=encoder, chunking=False) as collection,
        ):
            first = len(documents) / seconds_of(partial(collection.ingest, documents))
            again = len(documents) / seconds_of(partial(collection.ingest, documents))
            assert collection.count() == len(documents)
        rounds.append((alone, first, again))
    alone, first, again = np.median(rounds, axis=0)
    share = np.median([each[1] / each[0] for each in rounds])
    queries = [document.text[:60] for document in documents[:100]]
    times = [seconds_of(partial(encoder.encode_query, [query])) for query in queries]
    say(
        f"{len(documents):,} texts a second: encoded {alone:,.1f}, ingested {first:,.1f} ({share:.0%}), "
        f"unchanged {again:,.0f}. A query is encoded in {1000 * np.median(times):.1f} ms."
    )


def _reranking(documents: list[Document], say: Callable[[str], None]) -> None:
    """Print the cost of stored token states, and the time that they save."""
    encoder = Encoder("default")
    queries = [document.text[:60] for document in documents[:10]]
    with TemporaryDirectory() as folder:
        with Collection.open("plain", folder, encoder=encoder) as collection:
            plain = seconds_of(partial(collection.ingest, documents))
        with Collection.open("kept", folder, encoder=encoder, late_interaction=True) as collection:
            kept = seconds_of(partial(collection.ingest, documents))
            found = collection.search_many(queries, CANDIDATES, group=False)
            computed, stored = (
                np.median([seconds_of(partial(each.rerank, *asked)) for asked in zip(queries, found, strict=True)])
                for each in (MaxSimReranker(encoder), collection.maxsim())
            )
            size = collection.info()["late_interaction"]["bytes_a_chunk"]
    say(
        f"{CANDIDATES} candidates reranked in {1000 * computed:,.0f} ms with computed token states, in "
        f"{1000 * stored:,.0f} ms with kept ones, which take {size:,} bytes a chunk; ingests that keep them take "
        f"{kept / plain:.1f} times as long."
    )


def _measure(
    folder: Path, vectors_ND: FloatArray, queries_QD: FloatArray, size: int, local: int, say: Callable[[str], None]
) -> None:
    """Print the rows of one size."""
    ids = [str(row) for row in range(size)]
    given = dict(zip(ids, vectors_ND, strict=True))
    encoder = Precomputed(vectors_ND.shape[1])
    np.save(folder / "queries.npy", queries_QD)
    np.save(folder / "best.npy", np.argsort(-(queries_QD @ vectors_ND.T), axis=1)[:, :LIMIT])
    with Collection.open("b", folder, encoder=encoder, chunking=False) as collection:
        collection._backend.build_index = lambda *args, **options: False  # type: ignore[method-assign]
        filled = seconds_of(lambda: collection.ingest(((key, f"text {key}") for key in ids), vectors=given))
        again = seconds_of(lambda: collection.ingest(((key, f"text {key}") for key in ids), vectors=given))
    rates = f"{size / filled:,.0f} points/s stored, {size / again:,.0f} documents/s unchanged"
    _row(say, size, f"embedded, no index ({rates})", 0.0, _probed(folder), _disk(folder) / size)
    for settings in INDEXES:
        with Collection.open("b", folder, encoder=encoder) as collection:
            built = seconds_of(partial(collection.reindex, settings))
        name = f"embedded, {settings.quantization}" + (f", ef {settings.ef}" if settings.ef else "")
        _row(say, size, name, built, _probed(folder), _disk(folder) / size)
    if size <= local:
        with Collection.open("b", client=QdrantClient(":memory:"), encoder=encoder, chunking=False) as collection:
            filled = seconds_of(lambda: collection.ingest(((key, f"text {key}") for key in ids), vectors=given))
            found = _search(collection, queries_QD, np.load(folder / "best.npy"))
            _row(say, size, f"local mode of the client ({size / filled:,.0f} points/s stored)", 0.0, found, None)


def _probed(folder: Path) -> Searched:
    """Search in a separate process."""
    done = subprocess.run(
        [sys.executable, __file__, "--probe", str(folder)], capture_output=True, text=True, check=True
    )
    return Searched(**json.loads(done.stdout))


def _probe(folder: Path) -> Searched:
    queries_QD, best_QK = np.load(folder / "queries.npy"), np.load(folder / "best.npy")
    before = _resident()
    with Collection.open("b", folder, encoder=Precomputed(queries_QD.shape[1])) as collection:
        found = _search(collection, queries_QD, best_QK)
        return Searched(found.median, found.slow, found.recall, _resident() - before)


def _search(collection: Collection, queries_QD: FloatArray, best_QK: FloatArray) -> Searched:
    times, found = [], 0
    collection.search_vector(queries_QD[0], LIMIT)
    for query_D, best in zip(queries_QD, best_QK, strict=True):
        start = time.perf_counter()
        hits = collection.search_vector(query_D, LIMIT)
        times.append(1000 * (time.perf_counter() - start))
        found += len({hit.id for hit in hits} & {str(row) for row in best})
    median, slow = np.percentile(times, [50, 99])
    return Searched(float(median), float(slow), found / best_QK.size, 0)


def _row(say: Callable[[str], None], size: int, store: str, built: float, found: Searched, disk: float | None) -> None:
    memory = f"{found.memory / size:,.0f}" if found.memory else ""
    values = (
        f"{size:,}",
        store,
        f"{built:,.1f}" if built else "",
        f"{found.median:.1f}",
        f"{found.slow:.1f}",
        f"{found.recall:.3f}",
        f"{disk:,.0f}" if disk else "",
        memory,
    )
    say("| " + " | ".join(values) + " |")


def _disk(folder: Path) -> float:
    """Return the bytes of the collection without the engine's log, which has a fixed size."""
    files = (folder / "b" / "shard" / "segments").rglob("*")
    return float(sum(file.stat().st_blocks * 512 for file in files))


def _resident() -> int:
    """Return the bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _grown(base_ND: FloatArray, size: int) -> FloatArray:
    """Return ``size`` vectors: the given ones, then copies of them with added noise."""
    copies = -(-size // len(base_ND))
    parts = [base_ND, *(_moved(base_ND, 0.3, seed=10 + copy) for copy in range(copies - 1))]
    grown_ND: FloatArray = np.concatenate(parts)[:size]
    return grown_ND


def _moved(vectors_ND: FloatArray, by: float, seed: int) -> FloatArray:
    """Return vectors with added noise of length ``by``, normalised."""
    noise_ND = np.random.default_rng(seed).normal(size=vectors_ND.shape)
    moved_ND = vectors_ND + by * noise_ND / np.linalg.norm(noise_ND, axis=1, keepdims=True)
    unit_ND: FloatArray = (moved_ND / np.linalg.norm(moved_ND, axis=1, keepdims=True)).astype(np.float32)
    return unit_ND


if __name__ == "__main__":
    main()
