"""Writing: ingests of documents with given vectors, compared with the bare engine and the bare client, in one run.

    python benchmarks/writing.py [--documents N] [--rounds R] [--url URL] [-o FILE.md]

Each round ingests N documents of each length into a new embedded collection, and upserts the same points, without
records, into a new shard of the engine. Then it does both on a server, where the bare client uploads the points
(``upload_points``, waiting for each batch). The time of the bare engine includes the conversion of points into its own
objects. The objects of the bare client are made once, outside the measured time. At the end of an ingest, a collection
that has grown is calibrated, by searching for some of its own texts. This time has a column of its own.

Without ``--url`` or QDRANT_URL, the tests' stand-in for a server runs in a separate process. It is slow, and gets a
fifth of the documents. Texts are random words of a vocabulary with a natural distribution (Zipf).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import qdrant_edge as edge
from qdrant_client import QdrantClient, models

from output import Output, seconds_of
from qdrant import Precomputed
from server import server_or_stand_in
from twinvec import Document
from twinvec.arrays import FloatArray, unit
from twinvec.errors import CollectionNotFoundError
from twinvec_qdrant import Collection, drop_collection
from twinvec_qdrant.stores.embedded.values import edge_point
from twinvec_qdrant.stores.points import DENSE, SPARSE, Point, pages
from twinvec_qdrant.stores.server.values import client_points

DIM = 384
WORDS = (10, 60, 200)
NAME, BARE = "twinvec-writing", "twinvec-writing-bare"
COLUMNS = ("store", "words a text", "ours, documents/s", "bare, points/s", "ratio", "calibration, s")


class Seconds(NamedTuple):
    """Seconds of an ingest, and of the calibration at its end."""

    writing: float
    calibrating: float


class Corpus:
    """Documents of one length with their vectors."""

    def __init__(self, count: int, words: int) -> None:
        rng = np.random.default_rng(words)
        ranks_NW = np.minimum(rng.zipf(1.2, (count, words)), 50_000)
        self.documents = [
            Document(
                f"document {row}",
                " ".join(f"word{rank:x}" for rank in ranks_W),
                f"Title {row}",
                {"team": f"t{row % 50}", "year": 2000 + row % 25},
            )
            for row, ranks_W in enumerate(ranks_NW)
        ]
        vectors_ND: FloatArray = unit(rng.normal(size=(count, DIM)).astype(np.float32))
        self.vectors = dict(zip((each.id for each in self.documents), vectors_ND, strict=True))
        self.points: list[Point] = []

    def ingest(self, collection: Collection) -> Seconds:
        """Ingest the documents, and save the chunks that are written."""
        calibrating: list[float] = []
        calibrate = collection._calibrate
        write = collection._backend.upsert

        def timed(**options: bool) -> None:
            calibrating.append(seconds_of(partial(calibrate, **options)))

        def kept(points: Sequence[Point]) -> None:
            self.points += [point for point in points if point.payload["kind"] == "chunk"]
            write(points)

        collection._calibrate = timed  # type: ignore[method-assign]
        if len(self.points) < len(self.documents):
            self.points.clear()
            collection._backend.upsert = kept  # type: ignore[method-assign]
        start = time.perf_counter()
        report = collection.ingest(self.documents, vectors=self.vectors)
        seconds = time.perf_counter() - start
        assert report.new == len(self.documents)
        return Seconds(seconds - sum(calibrating), sum(calibrating))


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--url", default=os.environ.get("QDRANT_URL"))
    parser.add_argument("-o", "--output", type=Path, help="also write the output to this file")
    options = parser.parse_args()
    say = Output(options.output)
    say("| " + " | ".join(COLUMNS) + " |")
    say("| --- |" + " ---: |" * (len(COLUMNS) - 1))
    for words in WORDS:
        corpus = Corpus(options.documents, words)
        rounds = [(_embedded(corpus), _bare_engine(corpus.points)) for _ in range(options.rounds)]
        _row(say, "embedded", words, rounds, len(corpus.documents))
    with server_or_stand_in(options.url) as url:
        for words in WORDS:
            corpus = Corpus(options.documents if options.url else options.documents // 5, words)
            rounds = [(_on_server(corpus, url), _bare_client(corpus.points, url)) for _ in range(options.rounds)]
            _row(say, "server" if options.url else "stand-in", words, rounds, len(corpus.documents))
    say.write()


def _row(
    say: Callable[[str], None], store: str, words: int, rounds: Sequence[tuple[Seconds, float]], documents: int
) -> None:
    """Print the median rates, the median ratio of a round, and the median seconds of the calibration."""
    ours, bare, ratio, calibrating = np.median(
        [(documents / ours.writing, documents / bare, bare / ours.writing, ours.calibrating) for ours, bare in rounds],
        axis=0,
    )
    say(f"| {store} | {words} | {ours:,.0f} | {bare:,.0f} | {ratio:.2f} | {calibrating:.1f} |")


def _embedded(corpus: Corpus) -> Seconds:
    with (
        TemporaryDirectory() as folder,
        Collection.open(NAME, folder, encoder=Precomputed(DIM), chunking=False) as collection,
    ):
        collection._backend.build_index = lambda *args, **options: False  # type: ignore[method-assign]
        return corpus.ingest(collection)


def _bare_engine(points: Sequence[Point]) -> float:
    vectors = {DENSE: edge.EdgeVectorParams(size=DIM, distance=edge.Distance.Cosine)}
    sparse = {SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)}
    with TemporaryDirectory() as folder:
        shard = edge.EdgeShard.create(folder, edge.EdgeConfig(vectors=vectors, sparse_vectors=sparse))
        for field in ("kind", "source"):
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))

        def write() -> None:
            for page in pages(points, 512):
                shard.update(edge.UpdateOperation.upsert_points([edge_point(point) for point in page]))
            shard.flush()

        seconds = seconds_of(write)
        shard.close()
        return seconds


def _on_server(corpus: Corpus, url: str) -> Seconds:
    with suppress(CollectionNotFoundError):
        drop_collection(NAME, url=url)
    with Collection.open(NAME, url=url, encoder=Precomputed(DIM), chunking=False, wait_seconds=60) as collection:
        seconds = corpus.ingest(collection)
    drop_collection(NAME, url=url)
    return seconds


def _bare_client(points: Sequence[Point], url: str) -> float:
    client = QdrantClient(url, timeout=60, check_compatibility=False)
    client.delete_collection(BARE)
    client.create_collection(
        BARE,
        vectors_config={DENSE: models.VectorParams(size=DIM, distance=models.Distance.COSINE)},
        sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    for field in ("kind", "source"):
        client.create_payload_index(BARE, field, models.PayloadSchemaType.KEYWORD)
    stored = client_points(points)
    seconds = seconds_of(lambda: client.upload_points(BARE, stored, wait=True))
    client.delete_collection(BARE)
    client.close()
    return seconds


if __name__ == "__main__":
    main()
