"""Hybrid search against its better stage, on any judged sets: a table of nDCG@10.

    python benchmarks/stages.py FOLDER[=LANGUAGE] [FOLDER[=LANGUAGE] ...] [--queries 500] [--cache DIR] [--output FILE]

A folder is in the BEIR layout, with judgements of a "test" split. LANGUAGE is the language of the stemmer; default:
english. Each set is searched by the default model in an embedded collection, once with its documents in chunks and once
with whole documents, and in a ``MemoryIndex``. Of a set with more queries, the first ``--queries`` are searched. The
difference between hybrid search and its better stage should not be below -0.5 anywhere. ``--cache`` keeps the vectors.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from retrieval import CachingEncoder, limited, vectors_file
from twinvec import Encoder, MemoryIndex, TwinvecError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.ir import as_run, measure_ir, search_all
from twinvec.retrieval.base import Mode
from twinvec_qdrant import ChunkSettings, Collection

MEASURE = "ndcg@10"
DEPTH = 11  # one more than the measure needs, because a query's own document is left out
TITLE = """# Hybrid search against its better stage

Written by `python benchmarks/stages.py`; its docstring says what is measured. nDCG@10 x 100, the default model.
"""
HEAD = """| set | documents | queries | searched in | vectors | words | hybrid | hybrid - better stage |
|---|---:|---:|---|---:|---:|---:|---:|"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="FOLDER[=LANGUAGE]")
    parser.add_argument("--queries", type=int, default=500, metavar="N")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder for the vectors")
    parser.add_argument("--output", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    encoder, lines = Encoder("default"), [TITLE, HEAD]
    print(HEAD)
    try:
        for given in arguments.sets:
            folder, _, language = given.partition("=")
            data = limited(load_beir(Path(folder)), arguments.queries, None)
            for line in rows(data, encoder, language or "english", arguments.cache):
                print(line, flush=True)
                lines.append(line)
    except TwinvecError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def rows(data: BeirSet, encoder: Encoder, language: str, cache: Path | None) -> Iterator[str]:
    """Yield the lines of a set."""
    known: Any = CachingEncoder(encoder)
    known.load(vectors_file(cache, data), data)
    for label, chunked in (("collection, chunks", True), ("collection, whole documents", False)):
        with (
            tempfile.TemporaryDirectory() as path,
            Collection.open(
                "measured", path, encoder=known, language=language, chunking=ChunkSettings(enabled=chunked)
            ) as collection,
        ):
            collection.ingest(data.documents)
            yield row(data, language, label, collection)
    yield row(data, language, "`MemoryIndex`", MemoryIndex(known, data.documents, language=language))
    known.save(vectors_file(cache, data), data)


def row(data: BeirSet, language: str, label: str, retriever: Any) -> str:
    found = {mode: measured(data, retriever, mode) for mode in get_args(Mode)}
    name = data.name if language == "english" else f"{data.name}, {language.capitalize()}"
    figures = " | ".join(f"{found[mode]:.2f}" for mode in ("dense", "sparse", "hybrid"))
    gain = found["hybrid"] - max(found["dense"], found["sparse"])
    return f"| {name} | {len(data.documents):,} | {len(data.queries):,} | {label} | {figures} | {gain:+.2f} |"


def measured(data: BeirSet, retriever: Any, mode: str) -> float:
    run = as_run(search_all(retriever, data, DEPTH, mode=mode))
    return measure_ir(run, data, measures=(MEASURE,)).figures[MEASURE]


if __name__ == "__main__":
    sys.exit(main())
