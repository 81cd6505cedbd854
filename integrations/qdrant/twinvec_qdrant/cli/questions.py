"""The command ``twinvec questions``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinvec.cli.options import (
    WAIT_SECONDS,
    AsJson,
    CollectionName,
    GrpcPort,
    PrecisionOption,
    StorePath,
    StoreUrl,
    Wait,
    is_flag,
    wrong_usage,
)
from twinvec.cli.terminal import properties, show, show_json
from twinvec.support.checks import check_overwrites
from twinvec_qdrant.cli.options import CollectionPlace, open_from_options

if TYPE_CHECKING:
    from twinvec_qdrant.question_writing.writing import QuestionReport

_SHOWN = {
    "short": "chunks that are too short",
    "unanswered": "chunks without a question",
    "malformed": "questions of one word or too long",
    "copied": "questions copied from their chunk",
    "repeated": "repeated questions",
    "unfound": "questions whose chunk no search finds",
}
"""Counts of left-out chunks and questions in the report, with their names in the output."""


def questions_command(
    ctx: typer.Context,
    collection: CollectionName,
    llm_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="OpenAI-compatible address of the language model, to which texts of chunks are sent. Its key is in "
            "TWINVEC_LLM_KEY, or for OpenAI in OPENAI_API_KEY.",
        ),
    ],
    llm: Annotated[str, typer.Option(metavar="MODEL", help="Name of the language model at --llm-url.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PAIRS.jsonl", help="New file for the pairs.")],
    judged: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Set some documents apart, and write their questions to this folder (BEIR layout)."
        ),
    ] = None,
    share: Annotated[float, typer.Option(help="With --judged: share of the documents to set apart.")] = 0.2,
    passages: Annotated[
        int, typer.Option(min=1, help="Largest number of chunks to write questions for; a sample is drawn.")
    ] = 1000,
    each: Annotated[int, typer.Option(min=1, help="Number of questions for each chunk.")] = 2,
    like: Annotated[
        Path | None,
        typer.Option(metavar="FILE.txt", help="Questions of real users, one a line, as examples for the model."),
    ] = None,
    keep_rank: Annotated[
        int,
        typer.Option(min=0, help="Keep a question only if a search finds its chunk among this many hits; 0 keeps all."),
    ] = 20,
    parallel: Annotated[int, typer.Option(min=1, help="Number of simultaneous requests.")] = 4,
    path: StorePath = None,
    url: StoreUrl = None,
    precision: PrecisionOption = "auto",
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Let a language model write questions for the documents, as training data.

    The texts of the drawn chunks are sent to the address of --llm-url. A question is kept if a search finds its chunk.
    Run an interrupted command again to resume it; answered requests are not sent again.

    \b
    twinvec questions -c docs --llm-url http://localhost:11434/v1 --llm MODEL \\
      -o pairs.jsonl --judged judged
    """
    from twinvec_qdrant.question_writing.chat_endpoint import ChatEndpoint
    from twinvec_qdrant.question_writing.writing import QuestionOptions, write_questions

    if judged is None and is_flag(ctx, "share"):
        raise typer.BadParameter("--share needs --judged")
    with wrong_usage():
        options = QuestionOptions(passages, each, keep_rank, share)
        endpoint = ChatEndpoint(llm_url, llm)
    examples: list[str] = []
    if like is not None:
        from twinvec.evaluation.tsv import read_nonblank_texts

        check_overwrites(output, like)
        examples = read_nonblank_texts(like)
    with open_from_options(CollectionPlace(collection, path, url, wait, grpc_port, precision)) as opened:
        report = write_questions(
            opened,
            endpoint,
            output,
            judged=judged,
            options=options,
            like=examples,
            model=llm,
            parallel=parallel,
            progress=not as_json,
        )
    if as_json:
        show_json(asdict(report))
    else:
        _show(report, output, judged)


def _show(report: QuestionReport, output: Path, judged: Path | None) -> None:
    figures = {"chunks asked about": report.passages, "questions written": report.questions}
    figures |= {told: getattr(report, name) for name, told in _SHOWN.items() if getattr(report, name)}
    apart = "" if judged is None else f"; {judged}: {report.judged:,} judged queries"
    show(f"{output}: {report.pairs:,} pairs{apart}", properties({name: f"{each:,}" for name, each in figures.items()}))
