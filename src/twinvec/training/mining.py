"""Hard negatives: what a retriever finds for an anchor, close to its positives but none of them.

Works with anything that searches. Negatives come from a range of ranks, leave out every text that any pair of the
file judges positive for the anchor, and may have to lie below the positive's score by a margin (Moreira et al. 2024)
or be denied by a cross-encoder (Qu et al. 2021, RocketQA, denoised negatives).

Memory holds the hashes of the pairs and one window of anchors, not the texts. Rows are written as they are found; a
run that is killed goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from twinvec.errors import ConfigurationError, InputError
from twinvec.progress import progress_bar
from twinvec.retrieval import Hit, Retriever, search_many
from twinvec.text import check_text
from twinvec.training.masks import text_hash

_WINDOW = 256


class PairScorer(Protocol):
    """What denoises: ``CrossEncoderReranker``, or anything that scores pairs between 0 and 1."""

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
        margin: Keep only hits whose score lies at least this much below that of the row's positive; a row whose
            positive is not found gets none. None: any score.
        denoise_above: With a scorer, leave out hits it gives more than this (RocketQA takes 0.1).

    Raises:
        ConfigurationError: ranks or counts that cannot work.
    """

    negatives: int = 4
    first_rank: int = 1
    last_rank: int = 50
    margin: float | None = None
    denoise_above: float = 0.1

    def __post_init__(self) -> None:
        if self.negatives < 1 or not 1 <= self.first_rank <= self.last_rank:
            raise ConfigurationError(
                "mining needs at least one negative and ranks 1 <= first_rank <= last_rank, got "
                f"{self.negatives}, {self.first_rank}, {self.last_rank}"
            )


@dataclass(frozen=True, slots=True)
class MiningReport:
    """Rows written, negatives among them, and rows for which none was found (they are written without)."""

    rows: int
    negatives: int
    without: int


class Judged:
    """The positives of each anchor in a whole file, by hash."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._positives: dict[int, set[int]] = {}
        for anchor, positive in pairs:
            self._positives.setdefault(text_hash(anchor), set()).add(text_hash(positive))

    def count(self, anchor: str) -> int:
        """How many positives an anchor has."""
        return len(self._positives.get(text_hash(anchor), ()))

    def is_negative(self, anchor: str, text: str) -> bool:
        """Whether no pair judges ``text`` positive for ``anchor``, and it is not the anchor."""
        anchor_hash, found = text_hash(anchor), text_hash(text)
        return found != anchor_hash and found not in self._positives.get(anchor_hash, ())


def mine_negatives(
    pairs: Iterable[tuple[str, str]],
    retriever: Retriever,
    judged: Judged,
    options: MiningOptions | None = None,
    *,
    scorer: PairScorer | None = None,
) -> Iterator[list[str]]:
    """For each pair (anchor, positive), in order, its negatives, hardest first.

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
        hits = dict(zip(anchors, search_many(retriever, anchors, depth), strict=True))
        rows = [_candidates(anchor, positive, hits[anchor], judged, chosen) for anchor, positive in window]
        if scorer is not None:
            rows = _denoised([anchor for anchor, _ in window], rows, scorer, chosen.denoise_above)
        for texts in rows:
            yield texts[: chosen.negatives]


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
    """Read pairs from a .jsonl file (``anchor``, ``positive``), write them with ``negatives`` to another.

    Rows go to a partial file beside ``output``, which takes its place in the end; a second call goes on with it, if
    it belongs to the same pairs, options and ``identity`` (name the retriever's model and content there).

    Raises:
        InputError: a line of ``source`` that is no pair; it names file and row.
        ConfigurationError: the partial file belongs to another job.
    """
    judged = Judged(read_pairs(source))
    total = sum(1 for _ in read_pairs(source))
    partial = output.with_name(output.name + ".partial")
    job = file_digest(source, json.dumps(asdict(options)), identity, str(scorer is not None))
    done = _resume(partial, job)
    rows = negatives = without = 0
    with partial.open("a", encoding="utf-8") as file, progress_bar("Mining", total, "rows", shown=progress) as advance:
        advance(done)
        if done == 0 and file.tell() == 0:
            file.write(json.dumps({"job": job}) + "\n")
        found = mine_negatives(islice(read_pairs(source), done, None), retriever, judged, options, scorer=scorer)
        for (anchor, positive), texts in zip(islice(read_pairs(source), done, None), found, strict=True):
            row = {"anchor": anchor, "positive": positive, "negatives": texts}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            advance(1)
    with (
        partial.open(encoding="utf-8") as lines,
        output.with_name(output.name + ".new").open("w", encoding="utf-8") as final,
    ):
        next(lines)
        for line in lines:
            final.write(line)
            count = len(json.loads(line)["negatives"])
            rows, negatives, without = rows + 1, negatives + count, without + (count == 0)
        final.flush()
        os.fsync(final.fileno())
    output.with_name(output.name + ".new").replace(output)
    partial.unlink()
    return MiningReport(rows, negatives, without)


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """The pairs of a .jsonl file.

    Raises:
        InputError: a line that is no object with two texts.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                yield parse_pair(line, f"{path}, row {number}")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def parse_pair(line: bytes, where: str) -> tuple[str, str]:
    """Anchor and positive of a line of JSON.

    Raises:
        InputError: it is no object with two texts.
    """
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: no valid JSON: {error}") from None
    for field in ("anchor", "positive"):
        value = row.get(field) if isinstance(row, dict) else None
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}, field {field!r}: expected a text, got {value!r}")
        check_text(value, f"{where}, field {field!r}")
    return row["anchor"], row["positive"]


def _candidates(anchor: str, positive: str, hits: list[Hit], judged: Judged, options: MiningOptions) -> list[str]:
    limit = None
    if options.margin is not None:
        wanted = text_hash(positive)
        scores = [hit.score for hit in hits if text_hash(hit.text) == wanted]
        if not scores:
            return []
        limit = scores[0] - options.margin
    others = [hit for hit in hits if judged.is_negative(anchor, hit.text)]
    ranked = others[options.first_rank - 1 : options.last_rank]
    return list(dict.fromkeys(hit.text for hit in ranked if limit is None or hit.score <= limit))


def _denoised(anchors: list[str], rows: list[list[str]], scorer: PairScorer, above: float) -> list[list[str]]:
    asked = [(anchor, text) for anchor, texts in zip(anchors, rows, strict=True) for text in texts]
    scores = iter(scorer.score(asked) if asked else ())
    return [[text for text in texts if next(scores) <= above] for texts in rows]


def _resume(partial: Path, job: str) -> int:
    """How many rows a partial file holds; a torn last line is cut off."""
    if not partial.is_file():
        return 0
    content = 0
    lines = -1
    with partial.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            if lines < 0 and json.loads(line) != {"job": job}:
                raise ConfigurationError(f"{partial}: belongs to other pairs or options; delete it to start anew")
            content += len(line)
            lines += 1
    with partial.open("rb+") as file:
        file.truncate(content)
    return max(lines, 0)


def file_digest(path: Path, *settings: str) -> str:
    """Fingerprint of a file's content and of what is done with it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(json.dumps(settings).encode())
    return digest.hexdigest()
