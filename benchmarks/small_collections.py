"""Relevance in small collections: the shares of right and of foreign hits that it keeps, by the number of documents.

    python benchmarks/small_collections.py --data DIR

For each question of a set, a ``MemoryIndex`` holds the document that answers it best, and other documents of the set
that do not answer it. The question is searched in this index, and two questions of other sets as well. Questions of a
set about the same subject are left out. ``benchmarks/retrieval.py`` runs this too.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relevance import DEPTH, is_relevant, percent
from twinvec import Document, Encoder, MemoryIndex
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.pairs import load_questions
from twinvec.retrieval.relevance import DEFAULT_MIN_RELEVANCE

SIZES = (1, 2, 4, 8, 16, 32)
QUESTIONS = 80
"""Of each set."""

POOL = 250
SEED = 7
MEDICINE = ("nfcorpus", "scifact", "medquad/test")
LEFT_OUT = ("wikisplit/test",)  # its questions have nearly all words of their answers
COSINES = "median cosine of the best foreign text"


def small_table(sets: Sequence[BeirSet], encoder: Any) -> str:
    """Return a table with a row for each number of documents."""
    chance = random.Random(SEED)
    asked = {each.name: _questions(each, chance) for each in sets if each.name not in LEFT_OUT}
    lines = [
        "## Relevance in small collections\n",
        "Kept: the share of questions whose answer has a relevance of "
        f"{DEFAULT_MIN_RELEVANCE} or more. Found: the share of questions of other sets for which any document has such "
        f"a relevance. {QUESTIONS} questions of each of {len(asked)} sets were searched. In percent, with 95% "
        "intervals (Wilson).\n",
        f"| documents | kept | found | {COSINES} |",
        "|---:|---:|---:|---:|",
    ]
    for size in SIZES:
        kept, found, cosines = [], [], []
        for each in sets:
            others = [name for name in asked if name != each.name and not {name, each.name} <= {*MEDICINE}]
            for question, answer in asked.get(each.name, ()):
                index = MemoryIndex(encoder, [answer, *_others(each, question, size - 1, chance)])
                hits = index.search(each.queries[question], DEPTH)
                kept.append(any(hit.id == answer.id and is_relevant(hit) for hit in hits))
                for name in chance.sample(others, min(2, len(others))):
                    other = next(one for one in sets if one.name == name)
                    hits = index.search(other.queries[chance.choice(asked[name])[0]], DEPTH)
                    found.append(any(map(is_relevant, hits)))
                    cosines.append(max((hit.scores["dense"] for hit in hits), default=0.0))
        lines.append(f"| {size} | {percent(kept)} | {percent(found)} | {np.median(cosines):.2f} |")
    return "\n".join([*lines, ""])


def _questions(data: BeirSet, chance: random.Random) -> list[tuple[str, Document]]:
    """Return questions, each with the document of the highest grade."""
    documents = {document.id: document for document in data.documents}
    found = []
    for question in data.queries:
        judged = {key: grade for key, grade in data.qrels[question].items() if grade > 0 and key in documents}
        if judged:
            found.append((question, documents[max(judged, key=lambda key: judged[key])]))
    return chance.sample(found, min(QUESTIONS, len(found)))


def _others(data: BeirSet, question: str, count: int, chance: random.Random) -> list[Document]:
    """Return random documents of the first ``POOL`` of the set that do not answer the question."""
    pool = [each for each in data.documents[:POOL] if data.qrels[question].get(each.id, 0) <= 0]
    return chance.sample(pool, min(count, len(pool)))


def main() -> None:
    from retrieval import CachingEncoder

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    sets = [load_beir(folder) for folder in sorted((options.data / "ir").iterdir())]
    sets += [load_questions(path) for path in sorted((options.data / "pairs").glob("*/test.jsonl"))]
    print(small_table(sets, CachingEncoder(Encoder("default"))))


if __name__ == "__main__":
    main()
