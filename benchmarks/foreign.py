"""Show how many hits are about another subject, if the questions of one data set are asked in another data set.

    python benchmarks/foreign.py --data DIR [--cache DIR]

A foreign question belongs to one data set and is asked in the collection of another. It finds something if one of its
first ten hits has a relevance of 0.5 or more. ``benchmarks/relevance.py`` counts the foreign questions that do. The
sets nfcorpus and scifact are both about medicine, so what a question finds there can be right.
``foreign_judgements.tsv`` has a sample of questions of both sets, each with its best hit and the grades of two
readers. A row counts if its document is still the best hit of the question. The lower of both grades counts:

- 2: the document answers the question or bears directly on it;
- 1: it is about the question's main subject, in the same respect;
- 0: it is about another subject.

In all other pairs of sets, everything that a question finds counts as wrong. ``FOREIGN.md`` has the result.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relevance import DEPTH, filled, is_relevant, percent
from twinvec import Encoder, Hit
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.statistics import share

JUDGEMENTS = Path(__file__).parent / "foreign_judgements.tsv"
Pair = tuple[str, str]
"""The set of the questions, and the set of the documents."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The best hit of a question: whether it counts as found, and the grades of both readers."""

    found: bool
    first: int
    second: int

    @property
    def grade(self) -> int:
        """The grade that counts."""
        return min(self.first, self.second)


def main() -> None:
    from retrieval import CachingEncoder, vectors_file

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder that holds ir/")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder for the vectors of the sets")
    options = parser.parse_args()
    sets = [load_beir(folder) for folder in sorted((options.data / "ir").iterdir())]
    encoder = CachingEncoder(Encoder("default"))
    for data in sets:
        encoder.load(vectors_file(options.cache, data), data)
        encoder.save(vectors_file(options.cache, data), data)
    print(as_markdown(best_hits(sets, encoder)))


def best_hits(sets: Sequence[BeirSet], encoder: Any) -> dict[Pair, dict[str, Hit]]:
    """Return the hit of the highest relevance of each question in the collections of the other sets."""
    best = {}
    for data in sets:
        with filled(data, encoder) as collection:
            for other in sets:
                if other.name != data.name:
                    found = collection.search_many(list(other.queries.values()), DEPTH, "hybrid")
                    best[other.name, data.name] = {
                        query: max(hits, key=lambda hit: hit.relevance or 0.0)
                        for query, hits in zip(other.queries, found, strict=True)
                    }
    return best


def judged_hits(best: Mapping[Pair, Mapping[str, Hit]]) -> dict[Pair, list[Judged]]:
    """Return the grades of each pair of sets, for the documents that are still best hits."""
    judged = defaultdict(list)
    with JUDGEMENTS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            pair = row["questions"], row["documents"]
            hit = best[pair].get(row["question"])
            if hit is not None and hit.id == row["document"]:
                judged[pair].append(Judged(is_relevant(hit), int(row["first"]), int(row["second"])))
    return judged


def as_markdown(best: Mapping[Pair, Mapping[str, Hit]]) -> str:
    """Return a table with a row for each judged pair, and a line with the percentage of wrong finds in all pairs."""
    finds = {pair: [is_relevant(hit) for hit in hits.values()] for pair, hits in best.items()}
    lines = [
        "| questions | documents | found | judged | 2 | 1 | 0 | 0 by each reader | nothing found, judged "
        "| of these 1 or 2 | kappa |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    everything = judged_hits(best)
    for pair, judged in everything.items():
        grades = [each.grade for each in judged if each.found]
        missed = [each.grade for each in judged if not each.found]
        shares = [percent([grade == each for grade in grades]) for each in (2, 1, 0)]
        readers = [[each.first for each in judged if each.found], [each.second for each in judged if each.found]]
        each_reader = " and ".join(f"{100 * reader.count(0) / len(reader):.1f}" for reader in readers)
        right = percent([grade > 0 for grade in missed])
        cells = [*pair, percent(finds[pair]), len(grades), *shares, each_reader, len(missed), right]
        lines.append(f"| {' | '.join(map(str, [*cells, f'{kappa(judged):.2f}']))} |")
    middle, low, high = wrong_finds(finds, everything, lambda each: each.grade)
    first, *_ = wrong_finds(finds, everything, lambda each: each.first)
    second, *_ = wrong_finds(finds, everything, lambda each: each.second)
    total = f"Wrong finds of all pairs: {middle:.1f}% ({low:.1f} to {high:.1f})."
    return "\n".join([*lines, "", f"{total} By the first reader alone {first:.1f}%, by the second {second:.1f}%."])


def wrong_finds(
    finds: Mapping[Pair, Sequence[bool]], judged: Mapping[Pair, Sequence[Judged]], grade: Callable[[Judged], int]
) -> list[float]:
    """Return the percentage of foreign questions that find something wrong: the estimate, its lower and upper bound."""
    wrong = np.zeros(3)
    for pair, found in finds.items():
        shares = np.full(3, 100.0)
        if pair in judged:
            value, bounds = share(np.array([grade(each) == 0 for each in judged[pair] if each.found]))
            shares = np.array([value, *bounds.bounds])
        wrong += sum(found) * shares
    return [float(each) for each in wrong / sum(map(len, finds.values()))]


def kappa(judged: Sequence[Judged]) -> float:
    """Return the agreement of both readers on "0" against "1 or 2" (Cohen 1960)."""
    first, second = (np.array(each) > 0 for each in zip(*((one.first, one.second) for one in judged), strict=True))
    chance = first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean())
    return float(((first == second).mean() - chance) / (1 - chance))


if __name__ == "__main__":
    main()
