"""Hard negatives: texts that any retriever finds for an anchor and that are not positives of the anchor.

Negatives are the hits of a range of ranks, without the known positives of the anchor. If the row's positive is not
among the hits, because a collection splits documents in another way, hits that share most words with the positive are
left out too. If the hits are only the best chunk of each document, a second search looks for the positive among all
chunks. Two options leave out more hits: a margin by which negatives must score below the positive (Moreira et al.
2024), and a cross-encoder that must reject negatives (RocketQA, Qu et al. 2021). Memory holds hashes of the pairs and
one window of anchors.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from itertools import islice, tee
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import ConfigurationError, InputError
from twinvec.models.cross_encoder_spec import read_classifier
from twinvec.models.finding import find_model
from twinvec.models.space import classifier_digest
from twinvec.rerankers.cross_encoder import CrossEncoderReranker
from twinvec.retrieval.base import MAX_LIMIT, Hit, Retriever, body_start
from twinvec.retrieval.retrieve_rerank import search_many, without_passages
from twinvec.support.checks import check_methods, integer, number
from twinvec.support.progress import progress_bar
from twinvec.training.data.text_hash import normalised
from twinvec.training.mining.dense_index import DenseIndex
from twinvec.training.mining.known_positives import KnownPositives, contains_either_way, overlaps, text_variants
from twinvec.training.mining.output_file import MinedFile
from twinvec.training.mining.pair_file import PairFile

_WINDOW = 256
_FEW = 0.05  # share of the rows whose positive may be missing without a warning

logger = logging.getLogger(__name__)


FindChunks = Callable[[Sequence[str], int], list[list[Hit]]]
"""Function that takes queries and a limit, and returns for each query at most ``limit`` chunks, best first."""


ScorePairs = Callable[[Sequence[tuple[str, str]]], Any]
"""Function that takes n pairs (query, text), and returns their scores: (n,)."""


class PairScorer(Protocol):
    """A model that scores pairs (query, text) to find false negatives, such as a ``CrossEncoderReranker``."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """Return (n,) scores for n pairs (query, text)."""


class ProbabilityScorer:
    """A ``CrossEncoderReranker`` with the sigmoid of its logits as scores; ``identity`` is a digest of the model."""

    def __init__(self, model: str) -> None:
        self.identity = classifier_digest(read_classifier(find_model(model).path))
        self._scorer = CrossEncoderReranker(model)

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probabilities of pairs (query, text), in their order: (n,)."""
        return self._scorer.relevance_counted(pairs)[0]

    def logits(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the logits of pairs (query, text), in their order: (n,)."""
        return self._scorer.logits(pairs)


@dataclass(frozen=True, slots=True)
class MiningOptions:
    """The choice of hits that become negatives; a value out of range raises ConfigurationError.

    Attributes:
        negatives: Largest number of negatives for a row.
        first_rank: First rank that may become a negative, counted from 1 without the positives.
        last_rank: Last rank that may become a negative.
        margin: Keep only hits whose cosine is at least this much below the cosine of the row's positive. A row whose
            positive is not found gets no negatives. None: no margin. Hits without a score "dense" compare by ``score``.
        denoise_above: With a scorer, leave out hits that it scores higher than this (RocketQA uses 0.1).
    """

    negatives: int = 4
    first_rank: int = 1
    last_rank: int = 50
    margin: float | None = None
    denoise_above: float = 0.1

    def __post_init__(self) -> None:
        integer(self.negatives, "negatives", least=1)
        integer(self.first_rank, "first_rank")
        integer(self.last_rank, "last_rank")
        if not 1 <= self.first_rank <= self.last_rank:
            raise ConfigurationError(
                f"expected ranks with 1 <= first_rank <= last_rank, got first_rank {self.first_rank} and "
                f"last_rank {self.last_rank}"
            )
        margin = 0.0 if self.margin is None else self.margin
        for name, value in (("margin", margin), ("denoise_above", self.denoise_above)):
            if not math.isfinite(number(value, name)):
                raise ConfigurationError(f"{name} must be a finite number, got {value}")


@dataclass(frozen=True, slots=True)
class MiningJob:
    """The mining of a .jsonl file of pairs (``source``); ``output`` gets its rows with ``negatives`` added.

    ``identity`` is a digest of the retriever's model and content and of the scorer's model. ``scorer`` denoises.

    ``teacher``, such as ``CrossEncoderReranker.logits``, gives the rows ``scores``, as the objective ``margin_mse``
    reads them: of the positive, then of each negative. Rows without negatives, which it cannot use, are then left out.
    If the teacher is not the scorer's model, ``identity`` covers it too.
    """

    source: Path
    output: Path
    options: MiningOptions = MiningOptions()
    identity: str = ""
    scorer: PairScorer | None = None
    teacher: ScorePairs | None = None

    def open(self) -> MinedFile:
        """Return the output file, after a check that it can be written."""
        denoised = str(self.scorer is not None)
        scored = () if self.teacher is None else ("scores",)
        return MinedFile(self.source, self.output, json.dumps(asdict(self.options)), self.identity, denoised, *scored)


@dataclass(frozen=True, slots=True)
class MiningReport:
    """The counts of a mining run.

    Attributes:
        without: Rows without a negative; they are written too, unless the job has a teacher.
        unfound: Rows whose positive was not among the hits. A margin leaves them without negatives.
    """

    rows: int
    negatives: int
    without: int
    unfound: int


@dataclass(frozen=True, slots=True)
class Mined:
    """The negatives of a pair, hardest first, and whether its positive was among the hits."""

    negatives: list[str]
    found: bool


def mine_negatives(
    pairs: Iterable[tuple[str, str]],
    retriever: Retriever,
    known: KnownPositives,
    options: MiningOptions | None = None,
    *,
    scorer: PairScorer | None = None,
    find_chunks: FindChunks | None = None,
) -> Iterator[Mined]:
    """Yield the negatives of each pair (anchor, positive), in order.

    Each anchor is searched once in a window of pairs. ``known`` has the positives of all pairs; ``scorer`` denoises the
    negatives. If ``retriever`` finds only the best chunk of each document, ``find_chunks`` searches all chunks for the
    positives that ``retriever`` does not find.
    """
    chosen = options or MiningOptions()
    check_methods(retriever, ("search",), "retriever", "a retriever, such as MemoryIndex(...) or a collection")
    check_methods(known, ("count", "of"), "known", "KnownPositives(...)")
    if find_chunks is not None:
        check_methods(find_chunks, ("__call__",), "find_chunks", "a function")
    stream = iter(pairs)
    while window := list(islice(stream, _WINDOW)):
        anchors = list(dict.fromkeys(anchor for anchor, _ in window))
        depth = min(chosen.last_rank + max(known.count(anchor) for anchor in anchors) + 1, MAX_LIMIT)
        hits_lists = search_many(retriever, anchors, depth, **without_passages(retriever))
        found = _candidates(anchors, hits_lists, known)
        positives = [found[anchor].positive(text) for anchor, text in window]
        missing = list(dict.fromkeys(anchor for (anchor, _), at in zip(window, positives, strict=True) if at is None))
        if find_chunks is not None and missing:
            among = _candidates(missing, find_chunks(missing, depth), known)
            pairs_found = zip(window, positives, strict=True)
            positives = [among[anchor].positive(text) if at is None else at for (anchor, text), at in pairs_found]
        rows = [found[a].chosen(text, at, chosen) for (a, text), at in zip(window, positives, strict=True)]
        if scorer is not None:
            rows = _denoised([anchor for anchor, _ in window], rows, scorer, chosen.denoise_above)
        for texts, at in zip(rows, positives, strict=True):
            yield Mined(texts[: chosen.negatives], at is not None)


def reserve_output(job: MiningJob) -> None:
    """Begin the partial file of ``job.output`` before the search is prepared, so that no other job uses the output.

    The errors are those of ``mine_file``.
    """
    file = job.open()
    with file.locked():
        PairFile(job.source)
        file.resume(_WINDOW)


def mine_file(
    job: MiningJob, retriever: Retriever, *, find_chunks: FindChunks | None = None, progress: bool = False
) -> MiningReport:
    """Write the rows of ``job.source`` to ``job.output``, with ``negatives`` added to their other fields.

    ``find_chunks`` is passed to ``mine_negatives``. Rows go to a partial file next to ``output``, which becomes
    ``output`` at the end. A second call continues a partial file of the same pairs, options and ``identity``; its
    output equals that of an uninterrupted run.

    Raises:
        InputError: ``source`` has no pairs, or a line is not a pair; the message names file and row. Or the teacher
            does not return one finite score for each pair.
        ConfigurationError: the errors of ``MinedFile``, or another process is mining into ``output``.
    """
    check_methods(job, ("source", "output", "open"), "job", "MiningJob(...)")
    if job.teacher is not None:
        check_methods(job.teacher, ("__call__",), "teacher", "a function, such as CrossEncoderReranker(...).logits")
    file = job.open()
    with file.locked():
        pairs = PairFile(job.source)
        known = KnownPositives(pairs)
        done = file.resume(_WINDOW)
        with progress_bar("Mining", len(pairs), "rows", shown=progress) as advance:
            advance(done)
            rows, again = tee(pairs.rows(done))
            asked = ((row["anchor"], row["positive"]) for row in again)
            mined = mine_negatives(asked, retriever, known, job.options, scorer=job.scorer, find_chunks=find_chunks)
            both = zip(rows, mined, strict=True)
            made = ((row | {"negatives": each.negatives}, each.found) for row, each in both)
            for _ in file.write(made if job.teacher is None else _scored(made, job.teacher)):
                advance(1)
        finished = file.finish(without_negatives=job.teacher is None)
        counts = [(len(row["negatives"]), found, "scores" in row) for row, found in finished]
    numbers = [number for number, _, _ in counts]
    unfound = sum(not found for _, found, _ in counts)
    if job.teacher is None and any(scored for _, _, scored in counts):
        logger.warning(
            "%s: rows keep the field 'scores', whose scores are not those of the new negatives; remove the field, or "
            "let a teacher score the rows (twinvec mine --denoise MODEL --scores)",
            job.output,
        )
    report = MiningReport(len(counts), sum(numbers), numbers.count(0), unfound)
    _warn(report, job, searched_positives=isinstance(retriever, DenseIndex))
    return report


class _Positive(NamedTuple):
    """A row's positive among the hits: its score, and whether it is a chunk with its heading."""

    score: float
    headed: bool


class _Candidates:
    """The hits for an anchor, for all rows with this anchor.

    An anchor may have thousands of rows. Each row therefore looks up its positive by text, and each hit that a
    row reads is compared with the known positives once for all rows.
    """

    def __init__(self, anchor: str, hits: Sequence[Hit], known: KnownPositives) -> None:
        self._hits = hits
        self._variants = [text_variants(hit) for hit in hits]
        # prefers dense scores, because a fused score is not a cosine
        dense = all("dense" in hit.scores for hit in hits)
        self._scores = [hit.scores["dense"] if dense else hit.score for hit in hits]
        self._best: dict[str, float] = {}  # by text, the best score of the hits with this text
        for texts, score in zip(self._variants, self._scores, strict=True):
            self._best |= {text: max(score, self._best.get(text, score)) for text in texts}
        self._headed = {texts[0] for texts in self._variants if len(texts) > 1}
        is_positive = known.of(anchor)
        # positions of the hits that are not known positives; copies of a ``tee`` share the positions found so far
        (self._others,) = tee((at for at, texts in enumerate(self._variants) if not is_positive(texts)), 1)

    def positive(self, text: str) -> _Positive | None:
        """Return the positive ``text`` with the score of the best hit of the same text.

        Without such a hit, the best hit counts whose text is a part of ``text``, or contains ``text``. Return None if
        there is no hit of these kinds.
        """
        wanted = normalised(text)
        score = self._best.get(wanted)
        if score is None:
            found = zip(self._variants, self._scores, strict=True)
            score = max((score for texts, score in found if contains_either_way(texts, wanted)), default=None)
        return None if score is None else _Positive(score, wanted in self._headed)

    def chosen(self, own: str, positive: _Positive | None, options: MiningOptions) -> list[str]:
        """Return the texts that may be negatives, hardest first.

        Chunks keep their headings only if ``own``, the row's positive, is a chunk with a heading. Otherwise a model
        could recognise negatives by their headings.
        """
        limit = math.inf
        if options.margin is not None:
            if positive is None:
                return []
            limit = positive.score - options.margin
        headed = positive is not None and positive.headed
        others: Iterator[int] = copy(self._others)
        if positive is None:
            wanted = normalised(own)
            others = (at for at in others if not overlaps(self._variants[at], wanted))
        ranked = [at for at in islice(others, options.first_rank - 1, options.last_rank) if self._scores[at] <= limit]
        hits = [self._hits[at] for at in ranked]
        return list(dict.fromkeys(hit.text if headed else hit.text[body_start(hit) :] for hit in hits))


def _candidates(
    anchors: Sequence[str], hits_lists: Sequence[Sequence[Hit]], known: KnownPositives
) -> dict[str, _Candidates]:
    return {each: _Candidates(each, hits, known) for each, hits in zip(anchors, hits_lists, strict=True)}


def _denoised(anchors: list[str], rows: list[list[str]], scorer: PairScorer, above: float) -> list[list[str]]:
    asked = [(anchor, text) for anchor, texts in zip(anchors, rows, strict=True) for text in texts]
    scores = iter(scorer.score(asked) if asked else ())
    return [[text for text in texts if next(scores) <= above] for texts in rows]


def _scored(rows: Iterator[tuple[dict[str, Any], bool]], teacher: ScorePairs) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the rows with ``scores``, window by window, so that a resumed run scores the same batches."""
    while window := list(islice(rows, _WINDOW)):
        texts = [[row["positive"], *row["negatives"]] if row["negatives"] else [] for row, _ in window]
        asked = [(row["anchor"], text) for (row, _), each in zip(window, texts, strict=True) for text in each]
        given = np.asarray(teacher(asked) if asked else [], dtype=np.float64)
        if given.shape != (len(asked),) or not np.isfinite(given).all():
            raise InputError(f"teacher: expected {len(asked)} finite scores, one for each pair, got {str(given)[:80]}")
        scores = iter(given.tolist())
        for (row, found), each in zip(window, texts, strict=True):
            yield row | {"scores": [next(scores) for _ in each]}, found


def _warn(report: MiningReport, job: MiningJob, *, searched_positives: bool) -> None:
    """Warn if many positives were not found (their rows lack negatives or have false ones), or no row has a negative.

    ``searched_positives`` says that the hits are positives of the file, not documents of a collection.
    """
    options = job.options
    rejecting = [("the margin", "lower the margin (--margin)")] if options.margin is not None else []
    if job.scorer is not None:
        rejecting.append(("the cross-encoder", "raise the probability that it lets pass (--denoise-above)"))
    many = report.unfound > _FEW * report.rows
    if options.margin is not None and many:
        logger.warning(
            "%s: %d of %d rows have no negatives, because their positive was not among the hits, and the margin needs "
            "its score. Raise the last rank (--last-rank)%s",
            job.output,
            report.unfound,
            report.rows,
            ", or mine without a margin"
            if searched_positives
            else ", mine without a margin, or search a collection that holds the positives",
        )
    elif many and report.negatives and not searched_positives:
        logger.warning(
            "%s: the positives of %d of %d rows were not among the hits, whole or in part. The negatives of these "
            "rows may be false: they may answer the anchor in other words. Split the positives as the "
            "collection splits its documents, or search the positives of all rows (twinvec mine without --collection)",
            job.output,
            report.unfound,
            report.rows,
        )
    elif not report.negatives:
        logger.warning(
            "%s: no row has a negative: ranks %d to %d hold only positives or nothing%s. Lower the first rank "
            "(--first-rank), or raise the last rank (--last-rank)%s",
            job.output,
            options.first_rank,
            options.last_rank,
            f", or {' or '.join(name for name, _ in rejecting)} rejects all other hits" if rejecting else "",
            "".join(f", or {remedy}" for _, remedy in rejecting),
        )
