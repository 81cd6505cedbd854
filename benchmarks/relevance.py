"""The calibration table: the shares of right and of foreign hits that reach the default threshold of relevance.

The queries of every set are searched in the collection of their own set and in the collections of all other sets, in
every mode. A query of the own set is kept if its best relevant hit reaches the threshold; queries without a relevant
hit among the first ten are left out. A query of another set is found if any of its first ten hits reaches the
threshold. ``benchmarks/retrieval.py`` runs this.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    """A collection in one mode: which queries of its own set are kept, and which queries of other sets are found."""

    collection: str
    mode: Mode
    calibration: str
    kept: Sequence[bool]
    found: Mapping[str, Sequence[bool]]


def relevance_rows(data: BeirSet, others: Sequence[BeirSet], encoder: Any) -> Iterator[Row]:
    """Yield a row for each mode."""
    with filled(data, encoder) as collection:
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


@contextmanager
def filled(data: BeirSet, encoder: Any) -> Iterator[Any]:
    """Give a collection of whole documents in a temporary folder."""
    from twinvec_qdrant import Collection

    with (
        tempfile.TemporaryDirectory() as folder,
        Collection.open(data.name, path=folder, encoder=encoder, chunking=False) as collection,
    ):
        collection.ingest(data.documents)
        yield collection


def is_kept(query: str, hits: Sequence[Hit], data: BeirSet) -> list[bool]:
    """Return a list: whether the query's best relevant hit reaches the threshold. Empty if no hit is relevant."""
    judged = [hit for hit in hits if hit.id != query][:DEPTH]
    best = next((hit for hit in judged if data.qrels[query].get(hit.id, 0) > 0), None)
    return [] if best is None else [is_relevant(best)]


def is_relevant(hit: Hit) -> bool:
    """Return whether a hit reaches the default threshold of relevance."""
    return hit.relevance is not None and hit.relevance >= DEFAULT_MIN_RELEVANCE


def as_markdown(rows: Sequence[Row]) -> str:
    """Return a table for each mode, with the total of all pairs."""
    lines = [
        "## Relevance\n",
        "Kept: the share of the set's own queries whose best relevant hit among the first ten has a relevance of "
        f"{DEFAULT_MIN_RELEVANCE} or more. Found: the share of another set's queries for which any of ten hits has "
        "such a relevance. In percent, with 95% intervals (Wilson).\n",
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
