"""Tuning: what the choice of ``twinvec tune`` is worth on queries that did not take part in it.

    python benchmarks/tuning.py --data DIR [--sets A,B] [--queries 150] [--output FILE]

For every set below DATA/ir and DATA/pairs, all settings are measured once for each query, over all documents, in
memory. Then, many times, a few queries are drawn at random, a setting is chosen by them as ``tune`` does, and measured
on all other queries: against the better of vectors alone and words alone, and against plain hybrid search. The rows
"passages" are chosen by passages taken out of the documents, without judgements.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinvec import Encoder, MemoryIndex
from twinvec.errors import InputError, TwinvecError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.pairs import load_questions
from twinvec.evaluation.statistics import Values
from twinvec.evaluation.tuning import PLAIN, by_passages, choose, measure_settings, pseudo_queries
from twinvec.retrieval.tuned_search import Setting

MEASURE = "ndcg@10"
DRAWN = (10, 20, 40, 80)
DRAWS = 100
PASSAGES = 120
DOCUMENTS = 1000
SINGLES = (Setting("dense"), Setting("sparse"))
SEED = 0
HERE = Path(__file__).parent

Measured = Mapping[Setting, Values]


@dataclass(frozen=True, slots=True)
class Row:
    """The gain of choices from a number of queries, in points: mean, tenth percentile and worst of all draws."""

    queries: str
    over_single: float
    one_in_ten: float
    worst: float
    over_plain: float


def main() -> int:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder that holds ir/ and pairs/")
    parser.add_argument("--sets", default="", metavar="A,B", help="only these sets")
    parser.add_argument(
        "--queries", type=int, default=150, help="largest number of queries of each set, drawn at random"
    )
    parser.add_argument("--output", type=Path, default=HERE / "TUNING.md")
    options = parser.parse_args()
    encoder = Encoder("default")
    tables = []
    try:
        for data in read_sets(options.data, [name for name in options.sets.split(",") if name]):
            tables.append(table(data.name, *measure(sampled(data, options.queries), encoder)))
            print(tables[-1], flush=True)
    except TwinvecError as error:
        print(error, file=sys.stderr)
        return 1
    options.output.write_text("\n".join([HEADER, *tables]), encoding="utf-8")
    return 0


def read_sets(data: Path, names: list[str]) -> Iterator[BeirSet]:
    """Yield the sets."""
    folders = sorted(path.parent for path in data.glob("ir/*/corpus.jsonl"))
    files = sorted(data.glob("pairs/*/test.jsonl"))
    for path in (*folders, *files):
        name = path.name if path.is_dir() else path.parent.name
        if not names or name in names:
            yield replace(load_beir(path) if path.is_dir() else load_questions(path), name=name)


def sampled(data: BeirSet, count: int) -> BeirSet:
    """Return the set with ``count`` of its queries."""
    ids = list(data.queries)
    kept = [ids[row] for row in sorted(np.random.default_rng(SEED).permutation(len(ids))[:count])]
    return replace(data, queries={key: data.queries[key] for key in kept}, qrels={key: data.qrels[key] for key in kept})


def measure(data: BeirSet, encoder: Encoder) -> tuple[Measured, Measured | None]:
    """Measure the settings on the judged queries, and on passages if the documents are long enough."""
    judged = measure_settings(MemoryIndex(encoder, data.documents), data, encoder, MEASURE, progress=True)
    rows = np.random.default_rng(SEED).permutation(len(data.documents))[:DOCUMENTS]
    try:
        passages = pseudo_queries([data.documents[row] for row in rows], PASSAGES)
    except InputError:
        return judged, None
    return judged, measure_settings(MemoryIndex(encoder, passages.documents), passages, encoder, MEASURE, progress=True)


def table(name: str, judged: Measured, passages: Measured | None) -> str:
    """Return the rows of a set in Markdown."""
    count = len(judged[PLAIN])
    plain = ", ".join(f"{setting} {judged[setting].mean():.2f}" for setting in (*SINGLES, PLAIN))
    best = max(judged, key=lambda setting: float(judged[setting].mean()))
    lines = [
        f"## {name}: {count} queries\n",
        f"Over all of them: {plain}; the best of all {len(judged)} settings, {best}: {judged[best].mean():.2f}.\n",
        "| chosen by | over the better single stage: mean | worst tenth below | worst | over plain hybrid: mean |",
        "|---|---:|---:|---:|---:|",
    ]
    rows = [drawn(judged, size) for size in DRAWN if size <= count // 2]
    if passages is not None:
        rows.append(chosen_by_passages(judged, passages))
    for row in rows:
        figures = (row.over_single, row.one_in_ten, row.worst, row.over_plain)
        lines.append(f"| {row.queries} | " + " | ".join(f"{figure:+.2f}" for figure in figures) + " |")
    return "\n".join(lines) + "\n"


def drawn(judged: Measured, size: int) -> Row:
    """Return the gains of choices by ``size`` queries, measured on the others."""
    random = np.random.default_rng(SEED)
    gains = []
    for _ in range(DRAWS):
        order = random.permutation(len(judged[PLAIN]))
        setting = choose({each: figures[order[:size]] for each, figures in judged.items()})
        gains.append(gain({each: figures[order[size:]] for each, figures in judged.items()}, setting))
    over_single, over_plain = np.array(gains).T
    low = float(np.percentile(over_single, 10))
    return Row(f"{size} queries", float(over_single.mean()), low, float(over_single.min()), float(over_plain.mean()))


def chosen_by_passages(judged: Measured, passages: Measured) -> Row:
    """Return the gain of the choice by passages, measured on all judged queries."""
    setting = choose(by_passages(passages))
    over_single, over_plain = gain(judged, setting)
    return Row(f"passages: {setting}", over_single, over_single, over_single, over_plain)


def gain(values: Measured, setting: Setting) -> tuple[float, float]:
    """Return the gain of a setting over the better single stage, and over plain hybrid search."""
    figure = float(values[setting].mean())
    return figure - max(float(values[single].mean()) for single in SINGLES), figure - float(values[PLAIN].mean())


HEADER = f"""# What tuning is worth

Written by `python benchmarks/tuning.py`; its docstring says what the rows mean. Points of nDCG@10 x 100,
the default model, {DRAWS} draws each.
"""


if __name__ == "__main__":
    sys.exit(main())
