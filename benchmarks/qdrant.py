"""Collections: rates of ingestion, latency and recall of search, bytes on disk, at several sizes.

    python benchmarks/qdrant.py --data DIR [--texts N] [--sizes 10000,50000] [--local 10000]

Texts are those of the sets below DATA/ir, chunking off. First, N are encoded, then ingested, then ingested again
unchanged: the first two rates show what storing costs. Then collections of every size are filled with vectors that are
there already: those of the texts, and above their number copies of them moved by noise. Searched is by vectors moved
further; latency is without encoding, recall@10 is against exact search with numpy. The embedded engine is compared with
qdrant-client's local mode (in memory) up to the size given by --local.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from qdrant_client import QdrantClient

from twinvec import Document, Encoder
from twinvec.engines.base import FloatArray
from twinvec.evaluation.beir import load_beir
from twinvec_qdrant import Collection

QUERIES = 200
LIMIT = 10


class Precomputed:
    """Stands for a model whose vectors are there already; it encodes the probes only."""

    name = space = "precomputed"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def encode_document(self, texts: Sequence[str]) -> FloatArray:
        """Vectors by the texts' lengths."""
        rows = [np.random.default_rng(len(text)).normal(size=self.dim) for text in texts]
        return np.array(rows, dtype=np.float32)

    encode_query = encode_document


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--sizes", default="10000,50000")
    parser.add_argument("--local", type=int, default=10_000)
    options = parser.parse_args()
    documents = list(islice(_documents(options.data), options.texts))
    base_ND = _pipeline(documents)
    for size in map(int, options.sizes.split(",")):
        vectors_ND, queries_QD = _grown(base_ND, size), _moved(base_ND[:QUERIES], 0.5, seed=1)
        with TemporaryDirectory() as folder:
            with Collection.open("b", folder, encoder=Precomputed(base_ND.shape[1]), chunking=False) as collection:
                _store("embedded", collection, vectors_ND, queries_QD)
            used = sum(file.stat().st_blocks * 512 for file in Path(folder).rglob("*"))
            print(f"embedded, {size:,}: {used / size:,.0f} bytes on disk a point, log included")
        if size <= options.local:
            client = QdrantClient(":memory:")
            with Collection.open(
                "b", client=client, encoder=Precomputed(base_ND.shape[1]), chunking=False
            ) as collection:
                _store("local mode", collection, vectors_ND, queries_QD)


def _documents(data: Path) -> Iterator[Document]:
    for folder in sorted((data / "ir").iterdir()):
        for document in load_beir(folder, "test").documents:
            yield Document(f"{folder.name}/{document.id}", document.text, document.title)


def _pipeline(documents: list[Document]) -> FloatArray:
    """Rates of the encoder alone, of an ingest, and of the same ingest again."""
    encoder = Encoder("default")
    encoder.encode(["ready"])
    start = time.perf_counter()
    vectors_ND: FloatArray = encoder.encode_document([document.full_text for document in documents])
    alone = len(documents) / (time.perf_counter() - start)
    with TemporaryDirectory() as folder, Collection.open("b", folder, encoder=encoder, chunking=False) as collection:
        start = time.perf_counter()
        collection.ingest(documents)
        first = len(documents) / (time.perf_counter() - start)
        start = time.perf_counter()
        assert collection.ingest(documents).encoded == 0
        again = len(documents) / (time.perf_counter() - start)
    print(f"{len(documents):,} texts a second: encoded {alone:,.1f}, ingested {first:,.1f}, unchanged {again:,.0f}")
    return vectors_ND


def _store(name: str, collection: Collection, vectors_ND: FloatArray, queries_QD: FloatArray) -> None:
    size = len(vectors_ND)
    ids = [str(row) for row in range(size)]
    start = time.perf_counter()
    collection.ingest(((key, f"text {key}") for key in ids), vectors=dict(zip(ids, vectors_ND, strict=True)))
    filled = time.perf_counter() - start
    exact = np.argsort(-(queries_QD @ vectors_ND.T), axis=1)[:, :LIMIT]
    times, found = [], 0
    for query_D, best in zip(queries_QD, exact, strict=True):
        start = time.perf_counter()
        hits = collection.search_vector(query_D, LIMIT)
        times.append(1000 * (time.perf_counter() - start))
        found += len({hit.id for hit in hits} & {str(row) for row in best})
    median, slow = np.percentile(times, [50, 99])
    print(
        f"{name}, {size:,}: {size / filled:,.0f} points/s stored; search {median:.1f} ms median, {slow:.1f} ms 99th "
        f"percentile, recall@{LIMIT} {found / LIMIT / len(queries_QD):.3f}"
    )


def _grown(base_ND: FloatArray, size: int) -> FloatArray:
    """The first ``size`` vectors; above their number copies moved by noise."""
    copies = -(-size // len(base_ND))
    parts = [base_ND, *(_moved(base_ND, 0.3, seed=10 + copy) for copy in range(copies - 1))]
    grown_ND: FloatArray = np.concatenate(parts)[:size]
    return grown_ND


def _moved(vectors_ND: FloatArray, by: float, seed: int) -> FloatArray:
    """Vectors of length 1, moved by noise of length ``by``."""
    noise_ND = np.random.default_rng(seed).normal(size=vectors_ND.shape)
    moved_ND = vectors_ND + by * noise_ND / np.linalg.norm(noise_ND, axis=1, keepdims=True)
    unit_ND: FloatArray = (moved_ND / np.linalg.norm(moved_ND, axis=1, keepdims=True)).astype(np.float32)
    return unit_ND


if __name__ == "__main__":
    main()
