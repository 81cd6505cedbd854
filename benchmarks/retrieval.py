"""Retrieval quality in every mode, on every set below DATA/ir and DATA/pairs, against peers in the same run.

    python benchmarks/retrieval.py --data DIR [--sets scifact,cisi] [--limit-queries N] [--limit-documents N]
        [--cache DIR] [--output FILE]

A set is a folder in the BEIR layout with judgements of a "test" split, or a file DATA/pairs/*/test.jsonl of questions
and answers, where each question's answer must be found among all answers. (The pairs are single sentences, which are
hard to find by words. They show whether fusion loses hits of the vectors.)

- Ours: ``MemoryIndex`` in each mode and with each fusion method, and with MaxSim reranking. For BEIR sets, if
  twinvec-qdrant is installed, also an embedded collection with and without chunking. A collection fuses by its own
  calibration. A ``MemoryIndex`` fuses as a collection that is not measured.
- Peers: sentence-transformers with its exact search, and bm25s with its own tokens and a Snowball stemmer.
- Measures, by ir-measures: nDCG@10 (graded) and recall@100.

The last tables search the queries of each BEIR set in the collections of all other sets
(``benchmarks/relevance.py``), and the queries of each set in small collections (``benchmarks/small_collections.py``).

``CachingEncoder`` encodes each text once in a run. With ``--cache``, the vectors and rows of each finished set are
saved, and a later run uses them. The seconds of a row are those of its searches (for a collection, also those of its
ingest); encoding has its own row.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from relevance import as_markdown, relevance_rows
from small_collections import small_table
from twinvec import Encoder, MaxSimReranker, MemoryIndex, RetrieveRerank, TwinvecError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.ir import as_run, measure_ir, search_all
from twinvec.evaluation.pairs import load_questions
from twinvec.retrieval.fusion import FusionMethod

MEASURES = ("ndcg@10", "recall@100")
DEPTH = 101  # one more than recall@100 needs, because a query's own document is left out
FUSIONS: tuple[FusionMethod, ...] = ("adaptive", "rrf", "distribution")
PACKAGES = ("twinvec", "torch", "sentence-transformers", "bm25s", "qdrant-edge-py")
HERE = Path(__file__).parent

Run = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a system on a set."""

    system: str
    ndcg: float | None
    recall: float | None
    seconds: float
    low: float | None = None
    high: float | None = None


class CachingEncoder:
    """An encoder that computes the vectors and token states of each text once."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[tuple[str, str], Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def load(self, path: Path | None, data: BeirSet) -> None:
        """Take the vectors of a set's documents and queries from a file, if it is there."""
        if path is not None and path.exists():
            vectors = np.load(path)
            for kind, texts in texts_of(data).items():
                self._known.update(zip(((kind, text) for text in texts), vectors[kind], strict=True))

    def save(self, path: Path | None, data: BeirSet) -> None:
        """Write the vectors of a set's documents and queries to a file."""
        if path is not None and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            encode = {"document": self.encode_document, "query": self.encode_query}
            np.savez(path, **{kind: encode[kind](texts) for kind, texts in texts_of(data).items()})

    def encode_query(self, texts: Sequence[str], **options: Any) -> Any:
        return self._cached("query", self._encoder.encode_query, texts, options)

    def encode_document(self, texts: Sequence[str], **options: Any) -> Any:
        return self._cached("document", self._encoder.encode_document, texts, options)

    def encode_tokens(self, texts: Sequence[str], **options: Any) -> list[Any]:
        kind = f"tokens {options.get('prompt')}"
        return self._each(kind, self._encoder.encode_tokens, texts, options)

    def _cached(self, kind: str, encode: Callable[..., Any], texts: Sequence[str], options: Any) -> Any:
        if not len(texts):
            return encode(texts, **options)
        return np.stack(self._each(kind, encode, texts, options))

    def _each(self, kind: str, encode: Callable[..., Any], texts: Sequence[str], options: Any) -> list[Any]:
        new = [text for text in dict.fromkeys(texts) if (kind, text) not in self._known]
        if new:
            self._known.update(zip(((kind, text) for text in new), encode(new, **options), strict=True))
        return [self._known[kind, text] for text in texts]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder that holds ir/")
    parser.add_argument("--sets", default="", metavar="A,B", help="names of the sets; default: all")
    parser.add_argument("--limit-queries", type=int, metavar="N", help="only the first N queries of each set")
    parser.add_argument(
        "--limit-documents",
        type=int,
        metavar="N",
        help="only the judged documents of each set and the first others, N in all",
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder for the vectors and rows of finished sets")
    parser.add_argument("--output", type=Path, default=HERE / "RETRIEVAL.md", metavar="FILE")
    arguments = parser.parse_args()
    try:
        places = find_sets(arguments.data, [name for name in arguments.sets.split(",") if name])
        sets = [limited(read_set(place), arguments.limit_queries, arguments.limit_documents) for place in places]
        encoder = Encoder("default")
        results: list[tuple[BeirSet, list[Row]]] = []
        for place, data in zip(places, sets, strict=True):
            rows = kept_rows(arguments.cache, data)
            if not rows:
                for row in measured(data, encoder, arguments.cache, with_collection=place.is_dir()):
                    rows.append(row)
                    print(f"{data.name:<12} {line(row)}", flush=True)
                keep_rows(arguments.cache, data, rows)
            results.append((data, rows))
        judged = [each for each, place in zip(sets, places, strict=True) if place.is_dir()]
        relevance = relevance_tables(sets, judged, arguments.cache, encoder)
    except TwinvecError as error:
        print(error, file=sys.stderr)
        return 1
    tables = [as_table(data, rows) for data, rows in results]
    arguments.output.write_text("\n".join([header(encoder), overview(results), relevance, *tables]), encoding="utf-8")
    return 0


def find_sets(data: Path, names: list[str]) -> list[Path]:
    """Return the folders and files of the sets, each kind in the order of names."""
    known = {path.parent.name: path.parent for path in sorted(data.glob("ir/*/corpus.jsonl"))}
    known |= {path.parent.name: path for path in sorted(data.glob("pairs/*/test.jsonl"))}
    missing = [name for name in names if name not in known]
    if missing or not known:
        raise TwinvecError(f"{data} has no set {', '.join(missing)}; its sets: {', '.join(known) or 'none'}")
    return [place for name, place in known.items() if not names or name in names]


def read_set(place: Path) -> BeirSet:
    return load_beir(place) if place.is_dir() else load_questions(place)


def limited(data: BeirSet, queries: int | None, documents: int | None) -> BeirSet:
    """Return the first ``queries`` queries, with their judged documents and the first others: ``documents`` in all."""
    kept = list(data.queries)[:queries]
    qrels = {key: data.qrels[key] for key in kept}
    judged = {document for found in qrels.values() for document in found}
    judged_first = sorted(data.documents, key=lambda document: document.id not in judged)
    return replace(
        data,
        documents=data.documents if documents is None else judged_first[:documents],
        queries={key: data.queries[key] for key in kept},
        qrels=qrels,
    )


def texts_of(data: BeirSet) -> dict[str, list[str]]:
    """Return the texts to encode, by kind."""
    return {"document": [each.full_text for each in data.documents], "query": list(data.queries.values())}


def kept_rows(cache: Path | None, data: BeirSet) -> list[Row]:
    """Return the rows of a set that an earlier run saved."""
    path = None if cache is None else cache / f"{slug(data)}.json"
    return [Row(**each) for each in json.loads(path.read_text())] if path is not None and path.exists() else []


def keep_rows(cache: Path | None, data: BeirSet, rows: list[Row]) -> None:
    """Save the rows of a set for later runs."""
    if cache is not None:
        (cache / f"{slug(data)}.json").write_text(json.dumps([asdict(row) for row in rows]))


def vectors_file(cache: Path | None, data: BeirSet) -> Path | None:
    """Return the file that caches the vectors of a set."""
    return None if cache is None else cache / f"{slug(data)}.npz"


def slug(data: BeirSet) -> str:
    """Return a file name for a set and its number of queries."""
    return f"{data.name.replace('/', '-')}-{len(data.queries)}"


def relevance_tables(sets: list[BeirSet], judged: list[BeirSet], cache: Path | None, encoder: Encoder) -> str:
    """Return the tables of relevance; an empty string for a single set or without twinvec-qdrant."""
    if len(sets) < 2 or not find_spec("twinvec_qdrant"):
        return ""
    known = CachingEncoder(encoder)
    for data in sets:
        known.load(vectors_file(cache, data), data)
    pairs = as_markdown([row for data in judged for row in relevance_rows(data, judged, known)])
    return f"{pairs}\n{small_table(sets, known)}"


def measured(data: BeirSet, encoder: Encoder, cache: Path | None, *, with_collection: bool) -> Iterator[Row]:
    """Yield a row for every system."""
    known = CachingEncoder(encoder)
    known.load(vectors_file(cache, data), data)
    with stopwatch() as seconds:
        known.encode_document([document.full_text for document in data.documents], progress=True)
    yield Row("encoding the documents, once", None, None, seconds())
    known.save(vectors_file(cache, data), data)
    for retriever, label, options in memory_systems(data, known):
        yield search_row(label, retriever, data, **options)
    if with_collection and find_spec("twinvec_qdrant"):
        yield from collection_rows(data, known)
    del known
    yield from peer_rows(data)


def memory_systems(data: BeirSet, encoder: Any) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    indexes = {fusion: MemoryIndex(encoder, data.documents, fusion=fusion) for fusion in FUSIONS}
    default = indexes[FUSIONS[0]]
    yield default, "dense", {"mode": "dense"}
    yield default, "sparse (BM25)", {"mode": "sparse"}
    for fusion, index in indexes.items():
        yield index, f"hybrid, {fusion}{' (default)' if index is default else ''}", {"mode": "hybrid"}
    reranked = RetrieveRerank(default, MaxSimReranker(encoder), candidates=100)
    yield reranked, "dense + MaxSim", {"mode": "dense"}
    yield reranked, "hybrid + MaxSim", {"mode": "hybrid"}


def collection_rows(data: BeirSet, encoder: Any) -> Iterator[Row]:
    from twinvec_qdrant import ChunkSettings, Collection

    for chunked in (False, True):
        label = "collection, chunks" if chunked else "collection, whole documents"
        with (
            tempfile.TemporaryDirectory() as folder,
            Collection.open(
                data.name, path=folder, encoder=encoder, chunking=ChunkSettings(enabled=chunked)
            ) as collection,
        ):
            with stopwatch() as seconds:
                collection.ingest(data.documents, progress=True)
            yield Row(f"{label}: ingestion", None, None, seconds())
            for mode in ("dense", "hybrid") if chunked else ("dense", "sparse", "hybrid"):
                yield search_row(f"{label}: {mode}", collection, data, mode=mode)


def search_row(label: str, retriever: Any, data: BeirSet, **options: Any) -> Row:
    with stopwatch() as seconds:
        found = search_all(retriever, data, DEPTH, **options)
    return scored_row(label, as_run(found), data, seconds())


def peer_rows(data: BeirSet) -> Iterator[Row]:
    from sentence_transformers import SentenceTransformer, util

    from twinvec.models.finding import find_model

    texts = [f"{document.title} {document.text}".strip() for document in data.documents]
    queries = list(data.queries.values())
    model = SentenceTransformer(str(find_model("default").path), device="cpu")
    with stopwatch() as seconds:
        corpus = model.encode(texts, show_progress_bar=sys.stderr.isatty(), convert_to_tensor=True)
    yield Row("peer: sentence-transformers, encoding the documents", None, None, seconds())
    with stopwatch() as seconds:
        found = util.semantic_search(model.encode(queries, convert_to_tensor=True), corpus, top_k=DEPTH)
    run = {
        query: {data.documents[int(hit["corpus_id"])].id: float(hit["score"]) for hit in hits}
        for query, hits in zip(data.queries, found, strict=True)
    }
    yield scored_row("peer: sentence-transformers, dense", run, data, seconds())
    with stopwatch() as seconds:
        run = bm25s_run(data, texts, queries)
    yield scored_row("peer: bm25s", run, data, seconds())


def bm25s_run(data: BeirSet, texts: list[str], queries: list[str]) -> Run:
    import bm25s
    import Stemmer

    def tokens(values: list[str]) -> Any:
        return bm25s.tokenize(values, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)

    index = bm25s.BM25()
    index.index(tokens(texts), show_progress=False)
    rows, scores = index.retrieve(tokens(queries), k=min(DEPTH, len(texts)), show_progress=False)
    return {
        query: {data.documents[row].id: float(score) for row, score in zip(rows[at], scores[at], strict=True)}
        for at, query in enumerate(data.queries)
    }


def scored_row(label: str, run: Run, data: BeirSet, seconds: float) -> Row:
    found = measure_ir(run, data, measures=MEASURES)
    bounds = found.interval.bounds if found.interval else (None, None)
    return Row(label, found.figures["ndcg@10"], found.figures["recall@100"], seconds, *bounds)


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the seconds since the start of the block, up to its end."""
    start = time.perf_counter()
    end: list[float] = []
    yield lambda: (end[0] if end else time.perf_counter()) - start
    end.append(time.perf_counter())


def line(row: Row) -> str:
    figures = " ".join("      " if value is None else f"{value:6.2f}" for value in (row.ndcg, row.recall))
    return f"{row.system:<52} {figures} {row.seconds:8.1f} s"


def as_table(data: BeirSet, rows: list[Row]) -> str:
    """Return the rows of a set in Markdown."""
    lines = [
        f"## {data.name}: {len(data.documents):,} documents, {len(data.queries):,} queries\n",
        "| system | nDCG@10 | 95% interval | recall@100 | seconds |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        ndcg, recall = ("" if value is None else f"{value:.2f}" for value in (row.ndcg, row.recall))
        bounds = "" if row.low is None else f"{row.low:.1f} to {row.high:.1f}"
        lines.append(f"| {row.system} | {ndcg} | {bounds} | {recall} | {row.seconds:.1f} |")
    return "\n".join(lines) + "\n"


def overview(results: list[tuple[BeirSet, list[Row]]]) -> str:
    """Return a table of nDCG@10, with a column for each system that ran on every set."""
    figures = [{row.system: row.ndcg for row in rows if row.ndcg is not None} for _, rows in results]
    systems = [name for name in figures[0] if all(name in each for each in figures)]
    lines = ["## nDCG@10\n", f"| set | {' | '.join(systems)} |", "|---|" + "---:|" * len(systems)]
    for (data, _), each in zip(results, figures, strict=True):
        lines.append(f"| {data.name} | {' | '.join(f'{each[name]:.2f}' for name in systems)} |")
    return "\n".join(lines) + "\n"


def header(encoder: Encoder) -> str:
    """Return the command, the machine and the versions."""
    installed = [f"{name} {version(name)}" for name in PACKAGES if find_spec_of(name)]
    return "\n".join(
        [
            "# Retrieval quality\n",
            f"Written by `python benchmarks/retrieval.py {' '.join(sys.argv[1:])}`; "
            "its docstring says what the rows mean.\n",
            f"Model {encoder.name}. {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
            f"Python {platform.python_version()}. {', '.join(installed)}.\n",
        ]
    )


def find_spec_of(distribution: str) -> bool:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import distribution as find

    try:
        find(distribution)
    except PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
