"""Keeping questions: drops useless ones, checks the others by a search for their chunks, and makes the output rows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twinvec.errors import ConfigurationError
from twinvec.support.atomic import atomic_write
from twinvec.support.checks import check_output_folder
from twinvec.support.progress import progress_bar
from twinvec.training.data.text_hash import normalised
from twinvec.training.mining.output_file import line_of
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.question_writing.prompting import is_copied, is_malformed, questions_of
from twinvec_qdrant.records.documents import StoredChunk
from twinvec_qdrant.records.schema import digest
from twinvec_qdrant.stores.points import pages

_SEARCHED = 64  # questions per call of search_many
_QUERIES, _QRELS = "queries.jsonl", "qrels/test.tsv"
_BREAKS = frozenset("\t\r\n")

logger = logging.getLogger(__name__)


class Question(NamedTuple):
    """A question, and the chunk that it is about."""

    text: str
    chunk: StoredChunk


def clean(
    chunks: Sequence[StoredChunk], received: Mapping[str, str | None], most: int, counts: Counter[str]
) -> list[Question]:
    """Return the questions of all answers in the order of the chunks, without malformed, copied and repeated ones."""
    kept: dict[str, Question] = {}
    for chunk in chunks:
        found = questions_of(received[chunk.id] or "", most)
        counts.update(questions=len(found), unanswered=not found)
        for text in found:
            key = normalised(text)
            if is_malformed(text):
                counts["malformed"] += 1
            elif is_copied(text, chunk):
                counts["copied"] += 1
            elif key in kept:
                counts["repeated"] += 1
            else:
                kept[key] = Question(text, chunk)
    return list(kept.values())


def is_judged(document: str, share: float) -> bool:
    """Return whether a document's questions become judged queries; never if its id has a tab or a line break."""
    return int(digest("judged", document)[:8], 16) < share * 2**32 and _BREAKS.isdisjoint(document)


def kept_rows(
    collection: Collection, questions: Sequence[Question], keep_rank: int, progress: bool
) -> Iterator[dict[str, Any]]:
    """Yield the rows of questions whose chunk is among the first ``keep_rank`` hits; for 0, rows of all questions."""
    with progress_bar("Searching", len(questions), "questions", shown=progress and keep_rank > 0) as advance:
        for page in pages(questions, _SEARCHED):
            ranks = _ranks(collection, page, keep_rank) if keep_rank else [None] * len(page)
            for (text, chunk), rank in zip(page, ranks, strict=True):
                row = {"anchor": text, "positive": chunk.embedded, "id": chunk.document}
                if not keep_rank:
                    yield row
                elif rank is not None:
                    yield {**row, "rank": rank}
            advance(len(page))


def write_judged(folder: Path, questions: Sequence[Question]) -> None:
    """Write judged queries in BEIR's layout; a document is relevant to its own questions."""
    if not questions:
        logger.warning("%s: there is no judged query: raise --share (share), or ask about more passages", folder)
    named = [(digest(each.text), each) for each in questions]
    queries = b"".join(line_of({"_id": key, "text": each.text}) for key, each in named)
    qrels = "".join(f"{key}\t{each.chunk.document}\t1\n" for key, each in named)
    contents = (queries, f"query-id\tcorpus-id\tscore\n{qrels}".encode())
    for path, content in zip(judged_files(folder), contents, strict=True):
        check_output_folder(path.parent)
        if path.exists() and path.read_bytes() != content:
            raise ConfigurationError(f"{path}: exists already, with other content; remove it, or name another folder")
        atomic_write(path, content)


def judged_files(folder: Path) -> tuple[Path, Path]:
    """Return the files that ``write_judged`` writes: the queries, and the judgements."""
    return folder / _QUERIES, folder / _QRELS


def _ranks(collection: Collection, questions: Sequence[Question], keep_rank: int) -> list[int | None]:
    """Return the rank of each question's chunk, from 1; None if the search does not find the chunk."""
    found = collection.search_many([each.text for each in questions], keep_rank, group=False, passages=False)
    ranks: list[int | None] = []
    for (_, chunk), hits in zip(questions, found, strict=True):
        # ids of the hit: the first if the collection has whole documents, the second if it has chunks
        names = (chunk.document, f"{chunk.document}#{chunk.position}")
        ranks.append(next((rank for rank, hit in enumerate(hits, 1) if hit.id in names), None))
    return ranks
