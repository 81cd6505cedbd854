"""Hard negatives: what a retriever finds for an anchor, close to its positives but none of them.

Works with anything that searches. Negatives come from a range of ranks, leave out every text that any pair of the
file judges positive for the anchor (``judged``), and may have to lie below the positive's score by a margin (Moreira et
al. 2024) or be denied by a cross-encoder (Qu et al. 2021, RocketQA, denoised negatives).

Memory holds hashes of the pairs and one window of anchors, not the texts. Rows are written as they are found; a
run that is killed goes on where it stopped.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import Hit, Retriever
from twinvec.retrieval.retrieve_rerank import search_many
from twinvec.support.progress import progress_bar
from twinvec.training.data.text_hash import normalised
from twinvec.training.mining.known_positives import KnownPositives, contains_either_way, text_variants
from twinvec.training.mining.output_file import MinedFile
from twinvec.training.mining.pair_file import PairFile

_WINDOW = 256

logger = logging.getLogger(__name__)


class PairScorer(Protocol):
    """What denoises: ``CrossEncoderReranker``, or anything that scores pairs."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """(n,) for n pairs (query, text)."""
        ...


@dataclass(frozen=True, slots=True)
class MiningOptions:
    """Which hits become negatives.

    Attributes:
        negatives: How many a row at most.
        first_rank: Skip hits above this rank, counted from 1 after the positives are taken out.
        last_rank: Look no deeper than this.
        margin: Keep only hits whose cosine lies at least this much below that of the row's positive; a row whose
            positive is not found gets none. None: any score. Hits without a score "dense" are compared by ``score``.
        denoise_above: With a scorer, leave out hits it gives more than this (RocketQA takes 0.1).

    Raises:
        ConfigurationError: ranks, counts or scores that cannot work.
    """

    negatives: int = 4
    first_rank: int = 1
    last_rank: int = 50
    margin: float | None = None
    denoise_above: float = 0.1

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise ConfigurationError(f"negatives must be at least 1, got {self.negatives}")
        if not 1 <= self.first_rank <= self.last_rank:
            raise ConfigurationError(
                "ranks count from 1, the first no deeper than the last (1 <= first_rank <= last_rank), got "
                f"{self.first_rank} and {self.last_rank}"
            )
        for name in ("margin", "denoise_above"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ConfigurationError(f"{name} must be a finite number, got {value}")


@dataclass(frozen=True, slots=True)
class MiningReport:
    """What was mined.

    Attributes:
        rows: Rows written.
        negatives: Negatives among them.
        without: Rows for which none was found; they are written without.
        unfound: Rows whose positive was not among the candidates, so that a margin leaves them without negatives.
    """

    rows: int
    negatives: int
    without: int
    unfound: int


@dataclass(frozen=True, slots=True)
class Mined:
    """The negatives of a pair, hardest first, and whether its positive was found among the candidates."""

    negatives: list[str]
    found: bool


def mine_negatives(
    pairs: Iterable[tuple[str, str]],
    retriever: Retriever,
    judged: KnownPositives,
    options: MiningOptions | None = None,
    *,
    scorer: PairScorer | None = None,
) -> Iterator[Mined]:
    """For each pair (anchor, positive), in order, its negatives.

    Args:
        pairs: Any length; taken in windows.
        retriever: Searched once for each anchor of a window.
        judged: The positives of all pairs there are.
        options: See ``MiningOptions``.
        scorer: Denoises, if given.
    """
    chosen = options or MiningOptions()
    stream = iter(pairs)
    while window := list(islice(stream, _WINDOW)):
        anchors = list(dict.fromkeys(anchor for anchor, _ in window))
        depth = chosen.last_rank + max(judged.count(anchor) for anchor in anchors) + 1
        hits_lists = search_many(retriever, anchors, depth)
        found = {a: _Candidates(a, hits, judged) for a, hits in zip(anchors, hits_lists, strict=True)}
        scores = [found[anchor].of_positive(positive) for anchor, positive in window]
        rows = [found[anchor].chosen(score, chosen) for (anchor, _), score in zip(window, scores, strict=True)]
        if scorer is not None:
            rows = _denoised([anchor for anchor, _ in window], rows, scorer, chosen.denoise_above)
        for texts, score in zip(rows, scores, strict=True):
            yield Mined(texts[: chosen.negatives], score is not None)


def mine_file(
    source: Path,
    output: Path,
    retriever: Retriever,
    options: MiningOptions,
    *,
    scorer: PairScorer | None = None,
    identity: str = "",
    progress: bool = False,
) -> MiningReport:
    """Read pairs from a .jsonl file (``anchor``, ``positive``), write its rows with ``negatives`` to another.

    Other fields of a row stay as they are; ``negatives`` that it has are replaced. Rows go to a partial file beside
    ``output``, which takes its place in the end; a second call goes on with it, if it belongs to the same pairs,
    options and ``identity`` (name the retriever's model and content there), and ends with the bytes of one that was
    not cut off.

    Raises:
        InputError: ``source`` has no pairs, or a line of it is none; it names file and row.
        ConfigurationError: as for ``MinedFile``, or another process is mining into ``output``.
    """
    file = open_mined(source, output, options, identity, denoised=scorer is not None)
    with file.held():
        pairs = PairFile(source)
        judged = KnownPositives(pairs)
        done = file.resume(_WINDOW)
        with progress_bar("Mining", len(pairs), "rows", shown=progress) as advance:
            advance(done)
            mined = mine_negatives(pairs.pairs(done), retriever, judged, options, scorer=scorer)
            rows = zip(pairs.rows(done), mined, strict=True)
            for _ in file.write((row | {"negatives": each.negatives}, each.found) for row, each in rows):
                advance(1)
        report = _counted(file.finish())
    _warn(report, options, output)
    return report


def open_mined(source: Path, output: Path, options: MiningOptions, identity: str, *, denoised: bool) -> MinedFile:
    """The file that ``mine_file`` writes to, which says before any work whether it can.

    Raises:
        ConfigurationError: as for ``MinedFile``.
    """
    return MinedFile(source, output, json.dumps(asdict(options)), identity, str(denoised))


def _counted(rows: Iterable[tuple[dict[str, Any], bool]]) -> MiningReport:
    """What there is in rows that come with whether their positive was found."""
    counts: list[int] = []
    unfound = 0
    for row, found in rows:
        counts.append(len(row["negatives"]))
        unfound += not found
    return MiningReport(len(counts), sum(counts), counts.count(0), unfound)


class _Candidates:
    """The hits for an anchor, and which of them nothing judges positive."""

    def __init__(self, anchor: str, hits: Sequence[Hit], judged: KnownPositives) -> None:
        self._hits = hits
        self._readings = [text_variants(hit) for hit in hits]
        self._judged = judged.verdicts(anchor, self._readings)
        dense = all("dense" in hit.scores for hit in hits)  # what a fusion gives is no cosine
        self._scores = [hit.scores["dense"] if dense else hit.score for hit in hits]

    def of_positive(self, positive: str) -> float | None:
        """The score of a positive: its own or, where only parts of it or texts around it are found, their best."""
        wanted = normalised(positive)
        found = list(zip(self._readings, self._scores, strict=True))
        same = [score for texts, score in found if wanted in texts]
        return max(same or (score for texts, score in found if contains_either_way(texts, wanted)), default=None)

    def chosen(self, of_positive: float | None, options: MiningOptions) -> list[str]:
        """The texts that may be negatives, hardest first."""
        limit = math.inf
        if options.margin is not None:
            if of_positive is None:
                return []
            limit = of_positive - options.margin
        hits = zip(self._hits, self._judged, self._scores, strict=True)
        others = [(hit.text, score) for hit, judged, score in hits if not judged]
        ranked = others[options.first_rank - 1 : options.last_rank]
        return list(dict.fromkeys(text for text, score in ranked if score <= limit))


def _denoised(anchors: list[str], rows: list[list[str]], scorer: PairScorer, above: float) -> list[list[str]]:
    asked = [(anchor, text) for anchor, texts in zip(anchors, rows, strict=True) for text in texts]
    scores = iter(scorer.score(asked) if asked else ())
    return [[text for text in texts if next(scores) <= above] for texts in rows]


def _warn(report: MiningReport, options: MiningOptions, output: Path) -> None:
    if options.margin is not None and 2 * report.unfound > report.rows:
        logger.warning(
            "%s: %d of %d rows have no negatives, because their positive was not found among the candidates and no "
            "margin can be kept: look deeper (last rank), leave the margin out, or search where the positives are",
            output,
            report.unfound,
            report.rows,
        )
    elif not report.negatives:
        logger.warning(
            "%s: no row has a negative: nothing but positives lies in ranks %d to %d, or margin and cross-encoder "
            "leave out all there is",
            output,
            options.first_rank,
            options.last_rank,
        )
