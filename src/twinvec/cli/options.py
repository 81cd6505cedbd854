"""The options that several commands share, each written once, and opening the collection that they name.

The same flag has the same words everywhere. The core has no store for collections; an installed package provides one.
It declares a function ``open(name, path, *, url, encoder, create)`` in the entry-point group ``twinvec.retrievers``,
which returns a retriever with ``encoder``, ``search_vector``, ``maxsim``, ``find``, ``get`` and ``notes``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from twinvec.errors import ConfigurationError
from twinvec.installation import install_line

if TYPE_CHECKING:
    from twinvec.evaluation.suite import Tasks

ENCODE_PANEL = "Encode and compare"
TRAIN_PANEL = "Train and evaluate"
COLLECTIONS_PANEL = "Collections"
MAINTENANCE_PANEL = "Maintenance"
"""The groups of commands in ``twinvec --help``."""

MODEL_HELP = "default, a folder, or org/name or org/name@commit on the hub."
SYSTEM_HELP = "default, a folder, org/name, or a baseline: glove:FILE, mean:MODEL, cls:MODEL, bm25, run:FILE."

Model = Annotated[str, typer.Option(help=MODEL_HELP)]
CollectionModel = Annotated[
    str | None, typer.Option(help=f"{MODEL_HELP} Default: the model that the collection records.", show_default=False)
]
CollectionName = Annotated[str, typer.Option("--collection", metavar="NAME", help="Name of the collection.")]
StorePath = Annotated[
    Path | None, typer.Option("--path", metavar="DIR", help="Folder of the embedded store. Default: ./.twinvec.")
]
StoreUrl = Annotated[
    str | None,
    typer.Option("--url", help="Address of a Qdrant server, instead of --path. QDRANT_API_KEY holds the key."),
]
TextField = Annotated[str, typer.Option(help="Key of the text in each object of a .jsonl file.")]
Split = Annotated[str, typer.Option(help="Judgements of the retrieval sets to use: qrels/SPLIT.tsv.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def check_store(path: Path | None, url: str | None) -> None:
    """Refuse --path together with --url."""
    if path is not None and url is not None:
        raise typer.BadParameter("give --path or --url, not both")


def open_collection(name: str, path: Path | None = None, *, url: str | None = None, model: str | None = None) -> Any:
    """Open an existing collection, as a context manager: from the folder ``path`` (default: the store's) or a server.

    ``model`` defaults to the model that the collection records. Raise ConfigurationError if no installed package
    provides a store or both ``path`` and ``url`` are given, and a TwinvecError if the store cannot open the collection.
    """
    from twinvec.encoder import Encoder

    encoder = None if model is None else Encoder(model)
    for entry in entry_points(group="twinvec.retrievers"):
        return entry.load()(name, path, url=url, encoder=encoder, create=False)
    raise ConfigurationError(f"the collection {name!r} needs a store: {install_line('twinvec-qdrant')}")


_Files = list[Path]


@dataclass(frozen=True)
class TaskOptions:
    """The data to measure on, and the measures."""

    sts: Annotated[
        _Files | None, typer.Option(help="Scored pairs: score, sentence1, sentence2. A folder counts as one set.")
    ] = None
    ir: Annotated[_Files | None, typer.Option(help="A retrieval set in the BEIR layout.")] = None
    split: Split = "test"
    questions: Annotated[
        _Files | None, typer.Option(help="Questions and answers: anchor, positive (.jsonl or .tsv).")
    ] = None
    nli: Annotated[_Files | None, typer.Option(help="Inference: label, premise, hypothesis.")] = None
    nli_train: Annotated[
        Path | None,
        typer.Option(help="Rows that fit the inference head. Default: the model's own head, or 5-fold on each file."),
    ] = None
    pairs: Annotated[_Files | None, typer.Option(help="Labelled pairs: label (0 or 1), sentence1, sentence2.")] = None
    triplets: Annotated[_Files | None, typer.Option(help="Triplets: anchor, positive, negative (.jsonl or .tsv).")] = (
        None
    )
    winogender: Annotated[Path | None, typer.Option(help="Gender bias: the folder of Winogender.")] = None
    winobias: Annotated[Path | None, typer.Option(help="Gender bias: the folder of WinoBias.")] = None
    measures: Annotated[
        str, typer.Option(help="Ranking measures, comma-separated: ndcg@k, mrr@k, map@k, recall@k, precision@k.")
    ] = "ndcg@10,mrr@10,map@100,recall@10,recall@100,precision@10"
    rerank: Annotated[
        str | None,
        typer.Option(metavar="maxsim|MODEL", help="Also rerank the hits of each --ir set, and report the gain."),
    ] = None
    candidates: Annotated[int, typer.Option(min=1, help="Number of hits to rerank.")] = 100

    def load(self) -> Tasks:
        """Read all files.

        Raises:
            InputError: a file cannot be used; the message names the file and the line.
            ConfigurationError: a measure is unknown.
        """
        from twinvec.evaluation.suite import load_tasks

        given: dict[str, Any] = {name: value for name, value in vars(self).items() if value is not None}
        given["measures"] = [name.strip().lower() for name in self.measures.split(",") if name.strip()]
        return load_tasks(**given)


def takes_tasks(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``tasks`` of a command by the options of ``TaskOptions``."""
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
