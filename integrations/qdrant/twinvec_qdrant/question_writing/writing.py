"""Questions about a collection's chunks, written by a language model, and kept if a search finds their chunk again.

A language model writes the questions (InPars, Bonifacio et al. 2022; Promptagator, Dai et al. 2022), and a search
checks them (round-trip consistency, Alberti et al. 2019). Each answer is written to a partial file next to the output
when it arrives, and so survives a killed run. The next run reads these answers, and asks only for missing answers.

The questions of some documents may become judged queries, which are not checked by a search. The check would drop the
questions whose chunk the present model cannot find, and no other model could then be better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

from twinvec.errors import ConfigurationError, InputError, ModelError
from twinvec.retrieval.base import check_limit
from twinvec.support.checks import (
    check_free,
    check_methods,
    check_output_file,
    check_output_folder,
    check_settings,
    file_path,
    integer,
    number,
    shown,
    string,
)
from twinvec.support.progress import progress_bar
from twinvec.text import check_texts
from twinvec.training.mining.output_file import JobFile, line_of
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.question_writing.asking import answers
from twinvec_qdrant.question_writing.keeping import clean, is_judged, judged_files, kept_rows, write_judged
from twinvec_qdrant.question_writing.prompting import is_long_enough, prompt_for, questions_of
from twinvec_qdrant.records.documents import StoredChunk
from twinvec_qdrant.records.schema import digest

_DIGITS = 8  # characters of the job's digest in the name of its answers file
_FIRST = 20  # number of first answers; if most of them hold no question, the run ends with an error


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """How questions are made; invalid values raise ConfigurationError.

    Attributes:
        passages: Largest number of chunks to ask about.
        each: Number of questions to ask for about each chunk.
        keep_rank: Keep a question if its chunk is among the first ``keep_rank`` hits; 0 keeps all without a search.
        share: Share of the documents whose questions become judged queries, if a folder for judged queries is given.
    """

    passages: int = 1000
    each: int = 2
    keep_rank: int = 20
    share: float = 0.2

    def __post_init__(self) -> None:
        integer(self.passages, "passages", least=1)
        integer(self.each, "each", least=1)
        if integer(self.keep_rank, "keep_rank", least=0):
            check_limit(self.keep_rank, "keep_rank")
        if not 0 < number(self.share, "share") < 1:
            raise ConfigurationError(f"share must lie between 0 and 1, got {self.share}")


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """The counts of a run.

    Attributes:
        passages: Chunks that were drawn and have enough words.
        short: Chunks that were drawn and left out because they have too few words.
        asked: Chunks that this call asked about. Chunks with an answer from an earlier run are not counted.
        unanswered: Chunks whose answer was empty, was cut, or held no question.
        questions: Questions in the answers.
        malformed: Questions that were dropped because they have only one word or are very long.
        copied: Questions that were dropped because they are copied from their chunk.
        repeated: Questions that were dropped because an earlier question is the same.
        unfound: Questions that were dropped because the search did not find their chunk.
        pairs: Rows written for training.
        judged: Judged queries written.
    """

    passages: int
    short: int
    asked: int
    unanswered: int
    questions: int
    malformed: int
    copied: int
    repeated: int
    unfound: int
    pairs: int
    judged: int


def write_questions(
    collection: Collection,
    ask: Callable[[str], str | None],
    output: str | Path,
    *,
    judged: str | Path | None = None,
    options: QuestionOptions | None = None,
    like: Sequence[str] = (),
    model: str = "",
    parallel: int = 4,
    progress: bool = False,
) -> QuestionReport:
    """Write questions about chunks as training rows with ``anchor``, ``positive``, ``id`` and ``rank``.

    The anchor is the question, the positive is the embedded text of the chunk, and the id is the id of the document.
    The rank is the chunk's rank among the hits for the question (missing if ``keep_rank`` is 0). If the run is
    interrupted, the next call goes on, and uses the answers that have arrived. The output is then the same as without
    the interruption, unless the collection has changed.

    Args:
        collection: The collection; ``sample`` draws its chunks.
        ask: The language model: takes a prompt and returns its answer, or None if the answer was cut. Threads call it.
        output: The file to make (.jsonl).
        judged: Folder for judged queries in BEIR's layout. A document with judged queries has no rows in ``output``.
        options: How questions are made.
        like: Real questions; each prompt has some of them as examples.
        model: Name of the language model; a partial file of another model is refused. If the name is given, the answers
            are kept next to the output, in a file that ends in ".answers", and a later run reads them.
        parallel: Number of prompts sent at once.
        progress: Show progress: a bar on a terminal, a line a minute elsewhere.

    Raises:
        ConfigurationError: an argument is invalid, the output exists, another process is writing it, its partial file
            belongs to another job, or the collection has many tenants and ``keep_rank`` is not 0.
        InputError: the collection has no chunk to ask about, or no question is left.
        ModelError: most of the first answers hold no question.
        Exception: ``ask`` has raised this error.
    """
    check_methods(collection, ("sample", "search_many"), "collection", "a collection, as Collection.open returns it")
    check_methods(ask, ("__call__",), "ask", "a function that takes a prompt")
    check_settings(options, QuestionOptions, "options")
    chosen, examples = options or QuestionOptions(), check_texts(like, name="like", argument="like")
    integer(parallel, "parallel", least=1)
    path = file_path(output, "output")
    folder = None if judged is None else file_path(judged, "judged")
    check_output_file(path)
    if folder is not None and path.resolve() in _written_for(folder.resolve()):
        raise ConfigurationError(f"{path}: is also part of the folder for judged queries; name another file")
    info = collection.info()
    job = digest("questions", info["name"], info["location"], string(model, "model"), str(chosen.each), *examples)
    file = JobFile(path, job, "another collection, language model, number of questions or examples", "writing it")

    def answer(chunk: StoredChunk) -> str | None:
        return _checked(ask(prompt_for(chunk, chosen.each, examples)))

    kept = path.with_name(f"{path.name}.{job[:_DIGITS]}.answers") if model else None
    with file.locked():
        for each in (path, *(judged_files(folder) if folder and not file.begun else ())):
            _check_free(each)
        if kept is not None and not file.begun:
            file.take(kept)
        if chosen.keep_rank:
            _check_searchable(collection, info["tenant_key"])
        counts: Counter[str] = Counter()
        chunks = _drawn(collection, chosen.passages, counts)
        received = _ask(file, chunks, answer, parallel, counts, progress)
        questions = clean(chunks, received, chosen.each, counts)
        share = 0.0 if folder is None else chosen.share
        apart = [each for each in questions if is_judged(each.chunk.document, share)]
        training = [each for each in questions if not is_judged(each.chunk.document, share)]
        rows = list(kept_rows(collection, training, chosen.keep_rank, progress))
        counts.update(unfound=len(training) - len(rows), pairs=len(rows), judged=len(apart))
        report = QuestionReport(**{each.name: counts[each.name] for each in fields(QuestionReport)})
        if not rows:
            raise InputError(_none_left(report, file.partial))
        if folder is not None:
            write_judged(folder, apart)
        with file.final(kept) as final:
            final.writelines(map(line_of, rows))
    return report


def _written_for(folder: Path) -> tuple[Path, ...]:
    """Return the files and folders that judged queries in a folder need."""
    return (folder, *folder.parents, *judged_files(folder), judged_files(folder)[1].parent)


def _check_free(path: Path) -> None:
    """Raise ConfigurationError if a file exists, so that no run overwrites it."""
    check_output_folder(path.parent)
    check_free(path)


def _check_searchable(collection: Collection, tenant_key: str | None) -> None:
    """Raise an error if the collection cannot be searched, before an answer costs money."""
    if tenant_key is not None:
        raise ConfigurationError(
            f"{collection.name}: the collection has many tenants, so questions cannot be checked by a search; keep all "
            "questions (--keep-rank 0, keep_rank=0)"
        )
    collection.search("?", 1)  # loads the model


def _checked(answer: object) -> str | None:
    if not isinstance(answer, str | None):
        raise ConfigurationError(f"ask must return a string or None, got {shown(answer)}")
    return answer


def _drawn(collection: Collection, limit: int, counts: Counter[str]) -> list[StoredChunk]:
    drawn = collection.sample(limit)
    chunks = [each for each in drawn if is_long_enough(each)]
    if not chunks:
        raise InputError(f"{collection.name}: the collection has no chunk with enough words to ask about")
    counts.update(passages=len(chunks), short=len(drawn) - len(chunks))
    return chunks


def _ask(
    file: JobFile,
    chunks: Sequence[StoredChunk],
    answer: Callable[[StoredChunk], str | None],
    parallel: int,
    counts: Counter[str],
    progress: bool,
) -> dict[str, str | None]:
    """Return the answer for each chunk, by the chunk's id; answers in the partial file are reused."""
    file.resume()
    received = {piece["chunk"]: piece["answer"] for piece in file.pieces()}
    unasked = [each for each in chunks if each.id not in received]
    done = len(chunks) - len(unasked)
    if len(received) >= _FIRST:
        _check_first(received, file.partial)
    with (
        progress_bar("Asking", len(chunks), "chunks", done=done, shown=progress) as advance,
        closing(answers(answer, unasked, parallel)) as found,
    ):
        pieces = ({"chunk": chunk.id, "answer": text} for chunk, text in found)
        for piece in file.add(pieces):
            received[piece["chunk"]] = piece["answer"]
            counts["asked"] += 1
            advance(1, failed=not questions_of(piece["answer"] or "", 1))
            if len(received) == _FIRST:
                _check_first(received, file.partial)
    _check_first(received, file.partial)
    return received


def _check_first(received: Mapping[str, str | None], partial: Path) -> None:
    """Raise ModelError if most of the first answers hold no question."""
    first = list(islice(received.values(), _FIRST))
    useless = [each for each in first if not questions_of(each or "", 1)]
    if 2 * len(useless) > len(first):
        example = next(filter(None, useless), None)
        such = f"such as {shown(example)}" if example else "since they are empty, or cut at the model's limit of tokens"
        raise ModelError(
            f"{len(useless)} of the first {len(first)} answers of the language model hold no question, {such}; a model "
            f"that thinks may need a higher limit of tokens. The answers are in {partial}: delete it to ask again"
        )


def _none_left(report: QuestionReport, partial: Path) -> str:
    reasons = ", ".join(f"{getattr(report, name)} {name}" for name in ("malformed", "copied", "repeated", "unfound"))
    apart = f", {report.judged} judged" if report.judged else ""
    return (
        f"no question is left for training, of {report.questions} that were written: {reasons}{apart}. The answers are "
        f"in {partial}: run again with --keep-rank 0 (keep_rank=0) to keep the unfound questions, or delete the file "
        "to ask again"
    )
