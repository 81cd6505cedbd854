"""The calibration table: what the relevance of hits keeps, and what it lets through.

Every set of queries is asked of the collection of its own set and of all others, in every mode. Kept are the queries
whose best relevant hit, of those that have one among the first ten, has the default least relevance. Found are the
queries of another set for which any of the first ten hits has it. ``benchmarks/retrieval.py`` runs this.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from twinvec import Hit
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.statistics import share
from twinvec.retrieval.base import Mode
from twinvec.retrieval.relevance import DEFAULT_MIN_RELEVANCE

DEPTH = 10
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Row:
    """One collection in one mode: which of its own queries are kept, and which of each other set find something."""

    collection: str
    mode: Mode
    calibration: str
    kept: Sequence[bool]
    found: Mapping[str, Sequence[bool]]


def relevance_rows(data: BeirSet, others: Sequence[BeirSet], encoder: Any) -> Iterator[Row]:
    """Yield a row for each mode."""
    from twinvec_qdrant import Collection

    with (
        tempfile.TemporaryDirectory() as folder,
        Collection.open(data.name, path=folder, encoder=encoder, chunking=False) as collection,
    ):
        collection.ingest(data.documents)
        measured = collection.info().get("calibration", {})
        known = ", ".join(f"{name} {measured[name]:.2f}" for name in ("unrelated", "near", "words") if name in measured)
        for mode in MODES:
            own = collection.search_many(list(data.queries.values()), DEPTH + 1, mode)
            kept = [each for query, hits in zip(data.queries, own, strict=True) for each in is_kept(query, hits, data)]
            found = {
                other.name: [
                    any(is_relevant(hit) for hit in hits)
                    for hits in collection.search_many(list(other.queries.values()), DEPTH, mode)
                ]
                for other in others
                if other.name != data.name
            }
            yield Row(data.name, mode, known, kept, found)


def is_kept(query: str, hits: Sequence[Hit], data: BeirSet) -> list[bool]:
    """Return whether the best relevant hit of a judged query is kept; nothing if no hit is relevant."""
    judged = [hit for hit in hits if hit.id != query][:DEPTH]
    best = next((hit for hit in judged if data.qrels[query].get(hit.id, 0) > 0), None)
    return [] if best is None else [is_relevant(best)]


def is_relevant(hit: Hit) -> bool:
    """Whether a hit has the default least relevance."""
    return hit.relevance is not None and hit.relevance >= DEFAULT_MIN_RELEVANCE


def as_markdown(rows: Sequence[Row]) -> str:
    """Return a table for each mode, with the total of all pairs."""
    lines = [
        "## Relevance\n",
        f"Kept are the queries whose best relevant hit of the first ten has a relevance of {DEFAULT_MIN_RELEVANCE} "
        "or more. "
        "Found are queries of another set for which any of ten hits has it. In percent, with 95% intervals (Wilson).\n",
    ]
    for mode in ("hybrid", "dense", "sparse"):
        part = [row for row in rows if row.mode == mode]
        names = [row.collection for row in part]
        lines += [
            f"### {mode}\n",
            f"| collection | calibration | kept | {' | '.join(f'found by {name}' for name in names)} |",
            "|---|---|---:|" + "---:|" * len(names),
        ]
        for row in part:
            cells = [percent(row.found[name]) if name in row.found else "" for name in names]
            lines.append(f"| {row.collection} | {row.calibration} | {percent(row.kept)} | {' | '.join(cells)} |")
        kept = [each for row in part for each in row.kept]
        found = [each for row in part for queries in row.found.values() for each in queries]
        lines.append(f"| all |  | {percent(kept)} | {percent(found)} of all pairs |" + " |" * (len(names) - 1))
        lines.append("")
    return "\n".join(lines)


def percent(chosen: Sequence[bool]) -> str:
    """Return a share with its interval."""
    if not chosen:
        return ""
    value, bounds = share(np.array(chosen))
    return f"{value:.1f} ({bounds.low:.0f} to {bounds.high:.0f})"
