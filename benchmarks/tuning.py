"""Tuning: the gain of the choice of ``twinvec tune`` on queries that were not used for the choice.

    python benchmarks/tuning.py --data DIR [--sets A,B] [--queries 400] [--cache DIR] [--output FILE]

For every set below DATA/ir and DATA/pairs, all settings are measured once for each query, over all documents, in
memory. Then random draws are repeated many times: a few queries, or half of them, choose a setting as ``tune`` does,
and the setting is compared with plain hybrid search on all other queries. The columns "uncorrected" choose by the rule
of version 0.2.0, in the same draws: the largest mean gain less 1.645 standard errors. In the rows "passages", passages
taken from the documents choose the setting, without judgements; a set whose documents are too short has no such row.
``--cache`` saves the figures of each query, so that another run only draws.
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinvec import Encoder, MemoryIndex
from twinvec.errors import InputError, TwinvecError
from twinvec.evaluation.beir import BeirSet, load_beir, pseudo_queries
from twinvec.evaluation.pairs import load_questions
from twinvec.evaluation.statistics import Values
from twinvec.evaluation.tuning import PLAIN, by_passages, choose, measure_settings
from twinvec.retrieval.tuned_search import Setting

MEASURE = "ndcg@10"
DRAWN = (10, 20, 40)
DRAWS = 200
PASSAGES = 120
DOCUMENTS = 1000
SINGLES = (Setting("dense"), Setting("sparse"))
SEED = 0
HERE = Path(__file__).parent

Measured = Mapping[Setting, Values]
Choose = Callable[[Measured], Setting]


@dataclass(frozen=True, slots=True)
class Row:
    """The gains over plain hybrid search, in points of nDCG@10 x 100, of the settings that ``queries`` chose.

    ``changed`` is the percentage of draws that chose another setting, and ``harmed`` the percentage that lost by it.
    """

    queries: str
    mean: float
    worst: float
    changed: float
    harmed: float


def main() -> int:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder that holds ir/ and pairs/")
    parser.add_argument("--sets", default="", metavar="A,B", help="only these sets")
    parser.add_argument(
        "--queries", type=int, default=400, help="largest number of queries of each set, drawn at random"
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder for the figures of each query")
    parser.add_argument("--output", type=Path, default=HERE / "TUNING.md")
    options = parser.parse_args()
    encoder = Encoder("default")
    tables = []
    try:
        for data in read_sets(options.data, [name for name in options.sets.split(",") if name]):
            measured = cached(data, options.queries, encoder, options.cache)
            tables.append(table(data.name, *measured))
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


def cached(data: BeirSet, count: int, encoder: Encoder, folder: Path | None) -> tuple[Measured, Measured | None]:
    """Return the result of ``measure`` for ``count`` of the queries, from the folder if an earlier run saved it."""
    file = None if folder is None else folder / f"{data.name}-{count}.pickle"
    if file is not None and file.exists():
        known: tuple[Measured, Measured | None] = pickle.loads(file.read_bytes())
        return known
    measured = measure(sampled(data, count), encoder)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(measured))
    return measured


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
    return judged, measure_settings(MemoryIndex(encoder, passages.documents), passages, None, MEASURE, progress=True)


def table(name: str, judged: Measured, passages: Measured | None) -> str:
    """Return the rows of a set in Markdown."""
    count = len(judged[PLAIN])
    plain = ", ".join(f"{setting} {judged[setting].mean():.2f}" for setting in (*SINGLES, PLAIN))
    best = max(judged, key=lambda setting: float(judged[setting].mean()))
    lines = [
        f"## {name}: {count} queries\n",
        f"nDCG@10 over all queries: {plain}. The best of all {len(judged)} settings is ({best}): "
        f"{judged[best].mean():.2f}.\n",
        "| chosen by | over plain hybrid: mean | worst | another chosen | harmed | uncorrected: mean | harmed |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for size in sorted({*(size for size in DRAWN if size <= count // 2), count // 2}):
        row, former = drawn(judged, size, choose), drawn(judged, size, uncorrected)
        figures = f"{row.mean:+.2f} | {row.worst:+.2f} | {row.changed:.0f}% | {row.harmed:.0f}%"
        lines.append(f"| {row.queries} | {figures} | {former.mean:+.2f} | {former.harmed:.0f}% |")
    if passages is not None:
        setting = choose(by_passages(passages))
        lines.append(f"| passages: {setting} | {gain(judged, setting):+.2f} | | | | | |")
    return "\n".join(lines) + "\n"


def drawn(judged: Measured, size: int, chooses: Choose) -> Row:
    """Return the gains of choices by ``size`` queries, measured on the others."""
    random = np.random.default_rng(SEED)
    gains, changed = [], 0
    for _ in range(DRAWS):
        order = random.permutation(len(judged[PLAIN]))
        setting = chooses({each: figures[order[:size]] for each, figures in judged.items()})
        gains.append(gain({each: figures[order[size:]] for each, figures in judged.items()}, setting))
        changed += setting != PLAIN
    harmed = np.mean(np.array(gains) < 0)
    return Row(f"{size} queries", float(np.mean(gains)), min(gains), 100 * changed / DRAWS, 100 * float(harmed))


def uncorrected(values: Measured) -> Setting:
    """Return the setting with the largest mean gain less 1.645 standard errors, without correcting for their number."""

    def assured(setting: Setting) -> float:
        gains = values[setting] - values[PLAIN]
        return float(gains.mean() - 1.645 * gains.std(ddof=1) / np.sqrt(len(gains)))

    return max((PLAIN, *values), key=assured)


def gain(values: Measured, setting: Setting) -> float:
    """Return the gain of a setting over plain hybrid search."""
    return float(values[setting].mean()) - float(values[PLAIN].mean())


HEADER = f"""# What tuning is worth

Written by `python benchmarks/tuning.py`; its docstring says what the rows mean. Points of nDCG@10 x 100,
the default model, {DRAWS} draws each.
"""


if __name__ == "__main__":
    sys.exit(main())
