"""The options that several commands share, each written once, and the data that they name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from twinvec.evaluation.suite import Tasks

MODEL_HELP = "default, a folder, or org/name[@commit] on the hub."
SYSTEM_HELP = "default, a folder, org/name, or a baseline: glove:FILE, mean:MODEL, cls:MODEL, bm25, run:FILE."

Split = Annotated[str, typer.Option(help="Which judgements of the retrieval sets: qrels/SPLIT.tsv.")]
Place = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the collection's store.")]
Url = Annotated[str | None, typer.Option(help="Server of the collection, in place of a folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
_Files = list[Path]


@dataclass(frozen=True)
class TaskOptions:
    """What to measure on."""

    sts: Annotated[
        _Files | None, typer.Option(help="Scored pairs: score, sentence1, sentence2; a folder counts as one set.")
    ] = None
    ir: Annotated[_Files | None, typer.Option(help="A retrieval set in the BEIR layout.")] = None
    split: Split = "test"
    questions: Annotated[
        _Files | None, typer.Option(help="Questions and answers: anchor, positive (.jsonl or .tsv).")
    ] = None
    nli: Annotated[_Files | None, typer.Option(help="Inference: label, premise, hypothesis.")] = None
    nli_train: Annotated[
        Path | None,
        typer.Option(help="Where the head for inference is fitted; else the model's own head, or 5-fold on each file."),
    ] = None
    pairs: Annotated[_Files | None, typer.Option(help="Labelled pairs: label (0 or 1), sentence1, sentence2.")] = None
    triplets: Annotated[_Files | None, typer.Option(help="Triplets: anchor, positive, negative (.jsonl or .tsv).")] = (
        None
    )
    winogender: Annotated[Path | None, typer.Option(help="Gender bias: the folder of Winogender.")] = None
    winobias: Annotated[Path | None, typer.Option(help="Gender bias: the folder of WinoBias.")] = None
    measures: Annotated[
        str, typer.Option(help="Ranking measures, parted by commas: ndcg@k, mrr@k, map@k, recall@k, precision@k.")
    ] = "ndcg@10,mrr@10,map@100,recall@10,recall@100,precision@10"
    rerank: Annotated[
        str | None,
        typer.Option(metavar="maxsim|MODEL", help="Also rerank the hits of each --ir; tells the gain."),
    ] = None
    candidates: Annotated[int, typer.Option(min=1, help="How many hits to rerank.")] = 100

    def load(self) -> Tasks:
        """Read all files.

        Raises:
            InputError: a file is at fault; the message names file and line.
            ConfigurationError: an unknown measure.
        """
        from twinvec.evaluation.suite import load_tasks

        return load_tasks(
            sts=self.sts or (),
            ir=self.ir or (),
            split=self.split,
            questions=self.questions or (),
            nli=self.nli or (),
            nli_train=self.nli_train,
            pairs=self.pairs or (),
            triplets=self.triplets or (),
            winogender=self.winogender,
            winobias=self.winobias,
            measures=[name.strip().lower() for name in self.measures.split(",") if name.strip()],
            rerank=self.rerank,
            candidates=self.candidates,
        )


def takes_tasks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of ``TaskOptions`` in place of its parameter ``tasks``."""
    hints = get_type_hints(TaskOptions, include_extras=True)
    shared = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(TaskOptions)
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(tasks=TaskOptions(**{each.name: given.pop(each.name) for each in shared}), **given)

    own = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        parameters += shared if parameter.name == "tasks" else named
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
