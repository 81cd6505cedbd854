"""Ranking measures and TREC run files. The measures are those of ir-measures (trec_eval), with graded gains for nDCG.

| name here      | ir-measures | meaning over the first k hits |
|----------------|-------------|-------------------------------|
| ``ndcg@k``     | nDCG@k      | discounted gain, linear in relevance, over the ideal (Järvelin, Kekäläinen 2002) |
| ``mrr@k``      | RR@k        | 1 / rank of the first relevant document |
| ``map@k``      | AP@k        | mean of the precision at each relevant document |
| ``recall@k``   | R@k         | share of the relevant documents found |
| ``precision@k``| P@k         | share of the k hits that are relevant |

A judgement of 1 or more is relevant. Equal scores are ordered as in trec_eval: by document id, descending.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.beir import Qrels, check_judgements
from twinvec.evaluation.statistics import Values
from twinvec.evaluation.tsv import parse_number
from twinvec.support.atomic import replaced
from twinvec.support.checks import as_list, file_path, shown
from twinvec.support.extras import import_extra
from twinvec.support.lines import read_lines
from twinvec.text import check_text

Run = Mapping[str, Mapping[str, float]]
"""Query id -> document id -> score; a larger score is better."""

MEASURES = ("ndcg@10", "mrr@10", "map@100", "recall@10", "recall@100", "precision@10")
"""The default measures."""

_TAG_CHARACTERS = 60
_NAMES = {"ndcg": "nDCG", "mrr": "RR", "map": "AP", "recall": "R", "precision": "P"}


@dataclass(frozen=True, slots=True)
class Measured:
    """Measures of one run.

    Attributes:
        queries: Ids of the judged queries.
        per_query: Measure -> its value for each of ``queries``, x 100; 0 for a query without hits.
    """

    queries: list[str]
    per_query: dict[str, Values]

    @property
    def main(self) -> str:
        """The name of the first measure."""
        return next(iter(self.per_query))

    @property
    def figures(self) -> dict[str, float]:
        """Measure -> mean over the queries."""
        return {name: float(values.mean()) for name, values in self.per_query.items()}


def measure_run(run: Run, qrels: Qrels, measures: Sequence[str] = MEASURES) -> Measured:
    """Measure a run against judgements. All judged queries count, and only these, as in trec_eval.

    Raises ConfigurationError if a measure is unknown, InputError if ``qrels`` is empty.
    """
    deepest(measures)  # raises if no measure is named, or one is unknown
    depths = {name: cutoff(name) for name in measures}
    check_judgements("qrels", qrels)
    check_run(run)
    if not qrels:
        raise InputError("qrels: no judged queries; give at least one")
    package = import_ir_measures()
    # parse_measure of ir-measures 0.4.3 fails with Python 3.14, whose ast has no Num
    names = {getattr(package, _NAMES[name.split("@")[0]]) @ depth: name for name, depth in depths.items()}
    rows = {query: row for row, query in enumerate(qrels)}
    per_query: dict[str, Values] = {name: np.zeros(len(rows)) for name in measures}
    # numbers replace ids, because trec_eval crashes at an id with a lone surrogate, and ends an id at a NUL character
    numbers: dict[str, str] = defaultdict(lambda: str(len(numbers)))
    # trec_eval crashes at a query whose grades are all below -1
    judged = {
        str(row): {numbers[name]: max(int(grade), 0) for name, grade in qrels[query].items()}
        for query, row in rows.items()
    }
    # ranks replace scores, because the providers of ir-measures order equal scores differently
    ranked = {
        str(rows[query]): {numbers[name]: float(-rank) for rank, (name, _) in enumerate(best_first(hits))}
        for query, hits in run.items()
        if query in rows
    }
    for value in package.iter_calc(names, judged, ranked):
        per_query[names[value.measure]][int(value.query_id)] = 100 * value.value
    return Measured(list(rows), per_query)


def check_run(run: Run) -> None:
    """Raise InputError unless a run maps ids of queries to mappings of documents' ids to scores."""
    if not isinstance(run, Mapping):
        raise InputError(f"run: expected a mapping of query ids to mappings of hits, got {shown(run)}")
    for query, hits in run.items():
        if not isinstance(hits, Mapping):
            raise InputError(f"run: query {query!r}: expected a mapping of document ids to scores, got {shown(hits)}")
        wrong = [each for each in (query, *hits) if not isinstance(each, str)]
        if wrong:
            raise InputError(f"run: query {query!r}: the id {wrong[0]!r} must be a string; write str(id)")
        try:
            scores = np.fromiter(hits.values(), np.float64, len(hits))
        except (TypeError, ValueError, OverflowError):
            scores = np.array([np.nan])
        if np.isnan(scores).any():
            raise InputError(f"run: query {query!r}: expected numbers as scores, got {shown(list(hits.values()))}")


def best_first(hits: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return a query's hits in the order of trec_eval: by score as float32, and by document id, both descending."""
    with np.errstate(over="ignore"):
        scores = np.fromiter(hits.values(), np.float32, len(hits)).tolist()
    ranked = sorted(zip(scores, hits.items(), strict=True), key=lambda hit: (hit[0], hit[1][0]), reverse=True)
    return [hit for _, hit in ranked]


def deepest(measures: Sequence[str]) -> int:
    """Return the largest k of measures; raise ConfigurationError if a measure is unknown, or no measure is named."""
    named = as_list(measures, "measures", "measures")
    if not named:
        raise ConfigurationError(f"no measure is named; the default is {', '.join(MEASURES)}")
    return max(map(cutoff, named))


def cutoff(measure: str) -> int:
    """Return the k of a measure such as ``ndcg@k``; raise ConfigurationError if the measure is unknown."""
    match = re.fullmatch(r"(\w+)@([1-9][0-9]{0,8})", measure) if isinstance(measure, str) else None
    if match is None or match[1] not in _NAMES:
        known = ", ".join(f"{name}@k" for name in _NAMES)
        raise ConfigurationError(f"measure {measure!r} is not one of {known}, with k from 1 to 999,999,999")
    return int(match[2])


def write_run(run: Run, path: str | Path, tag: str = "twinvec") -> None:
    """Write a TREC run file, best hits first, atomically; raise InputError if an id or the tag has white space.

    ``tag`` names the system in every line; ``run_tag`` makes a valid tag.
    """
    check_run(run)
    check_run_ids([tag], "tag")
    path = file_path(path, "path")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as partial, partial.open("w", encoding="utf-8") as file:
        for query, hits in run.items():
            for rank, (document, score) in enumerate(best_first(hits), 1):
                check_run_ids((query, document))
                file.write(f"{query} Q0 {document} {rank} {float(score)!r} {tag}\n")


def run_tag(*parts: str) -> str:
    """Return a system's name as a tag for a TREC run and its file: letters, digits and ``+-._@`` only.

    A slash becomes ``--``, as in the hub's cache. If the tag cannot show the whole name, it ends with a part of the
    name's hash, so that no two systems share a file.
    """
    name = "-".join(parts).removeprefix("./")
    tag = re.sub(r"[^\w+.@-]+", "-", name.replace("/", "--")).strip("-.") or "twinvec"
    if tag.replace("--", "/") != name or len(tag) > _TAG_CHARACTERS:
        tag = f"{tag[: _TAG_CHARACTERS - 9]}-{sha256(name.encode()).hexdigest()[:8]}"
    return tag


def check_run_ids(ids: Iterable[str], what: str = "id") -> None:
    """Raise InputError if a TREC run cannot hold one of the ids; ``what`` names an id in the message."""
    for each in ids:
        refusal = f"a TREC run cannot hold the {what} {each!r}"
        if len(check_text(each, refusal).split()) != 1:
            raise InputError(f"{refusal}: it is empty or has white space")


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """Read a TREC run file; raise InputError if it is missing, empty or malformed, or repeats a document of a query."""
    path = file_path(path, "path")
    run: dict[str, dict[str, float]] = {}
    for line_number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        place = f"{path}:{line_number}"
        fields = line.split()
        if len(fields) != 6:
            raise InputError(f"{place}: {len(fields)} fields, expected 6: query Q0 document rank score tag")
        query, _, document, _, score, _ = fields
        hits = run.setdefault(query, {})
        if document in hits:
            raise InputError(f"{place}: the document {document!r} comes twice for the query {query!r}")
        hits[document] = parse_number(score, place)
    if not run:
        raise InputError(f"{path}: the file is empty; expected a TREC run")
    return run


def import_ir_measures() -> Any:
    """Import ir_measures; errors are those of ``import_extra``."""
    return import_extra("ir_measures", "eval", "measuring retrieval")
