"""Retrieval among single sentences: the gain from embedding each one with its title and the text around it.

    python benchmarks/context.py --data DIR [--sets cisi,scifact] [--documents N] [--output FILE]

Each set is a folder in the BEIR layout. N of its documents are used: first the judged ones, then others at random. They
are cut into chunks of about a sentence (``--tokens``), and searched in an embedded collection. The hits are documents,
each with the score of its best chunk. The program measures nDCG@10 with ir-measures: with and without titles, and with
``ChunkSettings.surroundings``. For comparison, the rows "whole documents" have one chunk for each document, truncated
at the model's token limit. The seconds are those of the ingest.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from twinvec import Encoder, TwinvecError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.ir import as_run, measure_ir, search_all
from twinvec_qdrant import ChunkSettings, Collection

MODES = ("dense", "sparse", "hybrid")
SURROUNDINGS = (0, 64)
DEPTH = 11  # one more than nDCG@10 needs, because a query's own document is left out
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: the kind of chunks, nDCG@10 by mode, and the size and seconds of the ingest."""

    kept: str
    figures: dict[str, float]
    chunks: int
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder that holds ir/")
    parser.add_argument("--sets", default="cisi,scifact", metavar="A,B")
    parser.add_argument("--documents", type=int, default=200, metavar="N", help="documents of each set")
    parser.add_argument("--tokens", type=int, default=40, metavar="N", help="largest size of a chunk with its title")
    parser.add_argument("--output", type=Path, default=HERE / "CONTEXT.md", metavar="FILE")
    arguments = parser.parse_args()
    try:
        encoder = Encoder("default")
        tables = []
        for name in arguments.sets.split(","):
            data = part(load_beir(arguments.data / "ir" / name), arguments.documents)
            rows = []
            for row in measured(data, encoder, arguments.tokens):
                rows.append(row)
                print(f"{name:<10} {line(row)}", flush=True)
            tables.append(as_table(data, rows))
    except TwinvecError as error:
        print(error, file=sys.stderr)
        return 1
    arguments.output.write_text("\n".join([header(encoder), *tables]), encoding="utf-8")
    return 0


def part(data: BeirSet, count: int) -> BeirSet:
    """Return the set with ``count`` of its documents, judged ones first, and with the queries that they answer."""
    judged = {document for each in data.qrels.values() for document in each}
    documents = random.Random(0).sample(data.documents, len(data.documents))
    kept = sorted(documents, key=lambda document: document.id not in judged)[:count]
    ids = {document.id for document in kept}
    qrels = {query: {key: value for key, value in each.items() if key in ids} for query, each in data.qrels.items()}
    qrels = {query: each for query, each in qrels.items() if any(value > 0 for value in each.values())}
    return replace(data, documents=kept, qrels=qrels, queries={query: data.queries[query] for query in qrels})


def measured(data: BeirSet, encoder: Encoder, tokens: int) -> Iterator[Row]:
    """Yield a row for each kind of chunks."""
    for titled in (False, True):
        documents = data.documents if titled else [replace(document, title="") for document in data.documents]
        among = replace(data, documents=documents)
        label = "with titles" if titled else "without titles"
        yield measured_row(f"whole documents, {label}", among, encoder, ChunkSettings())
        for surroundings in SURROUNDINGS:
            settings = ChunkSettings(max_tokens=tokens, surroundings=surroundings)
            around = f", surroundings {surroundings}" if surroundings else ""
            yield measured_row(f"sentences, {label}{around}", among, encoder, settings)


def measured_row(label: str, data: BeirSet, encoder: Encoder, settings: ChunkSettings) -> Row:
    with (
        tempfile.TemporaryDirectory() as folder,
        Collection.open("context", folder, encoder=encoder, chunking=settings) as collection,
    ):
        start = time.perf_counter()
        report = collection.ingest(data.documents, progress=True)
        seconds = time.perf_counter() - start
        found = {mode: as_run(search_all(collection, data, DEPTH, mode=mode)) for mode in MODES}
    figures = {mode: measure_ir(run, data, measures=("ndcg@10",)).figures["ndcg@10"] for mode, run in found.items()}
    return Row(label, figures, report.chunks, seconds)


def line(row: Row) -> str:
    figures = " ".join(f"{row.figures[mode]:6.2f}" for mode in MODES)
    return f"{row.kept:<46} {figures} {row.chunks:6,} chunks {row.seconds:6.1f} s"


def as_table(data: BeirSet, rows: list[Row]) -> str:
    """Return the rows of a set in Markdown."""
    lines = [
        f"## {data.name}: {len(data.documents):,} documents, {len(data.queries):,} queries\n",
        f"| chunks | {' | '.join(MODES)} | number of chunks | seconds |",
        "|---|" + "---:|" * (len(MODES) + 2),
    ]
    for row in rows:
        figures = " | ".join(f"{row.figures[mode]:.2f}" for mode in MODES)
        lines.append(f"| {row.kept} | {figures} | {row.chunks:,} | {row.seconds:.0f} |")
    return "\n".join(lines) + "\n"


def header(encoder: Encoder) -> str:
    """Return the command and the machine."""
    return "\n".join(
        [
            "# Context of single sentences\n",
            f"Written by `python benchmarks/context.py {' '.join(sys.argv[1:])}`; its docstring says what the rows "
            "mean.\n",
            f"Model {encoder.name}. {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
            f"Python {platform.python_version()}.\n",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
