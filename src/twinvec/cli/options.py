"""The options that several commands share, each written once, and opening the collection that they name.

The same flag has the same help text in every command. The core has no store for collections; an installed package
provides one. It declares a function ``open(name, path, *, url, encoder, create)`` in the entry-point group
``twinvec.retrievers``, which returns a retriever with ``encoder``, ``search_vector``, ``maxsim``, ``find``, ``get`` and
``notes``. The arguments ``precision`` and ``wait_seconds`` are passed only if an option changes them.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from twinvec.engines import Precision
from twinvec.errors import ConfigurationError, FilterError
from twinvec.installation import entry_points, install_line

if TYPE_CHECKING:
    from twinvec.evaluation.suite import Tasks

ENCODE_PANEL = "Encode and compare"
TRAIN_PANEL = "Train and evaluate"
COLLECTIONS_PANEL = "Collections"
MAINTENANCE_PANEL = "Maintenance"
"""The groups of commands in ``twinvec --help``."""

CONFIG_FILE = "twinvec.toml"
PROJECT_FILE = "pyproject.toml"
"""The files that may hold defaults of options."""

PROJECT_TABLE = "tool.twinvec"
"""The table of pyproject.toml that may hold defaults of options."""

MODEL_HELP = "'default', a folder, or org/name or org/name@commit on the hub."
PATH_HELP = "Folder of the embedded store. Default: ./.twinvec."
URL_HELP = "Address of a Qdrant server, instead of --path. QDRANT_API_KEY holds the key."
RERANK_HELP = "Reranker to measure as well: it reranks the hits of each --ir set."
SYSTEM_HELP = "'default', a folder, org/name, or a baseline: glove:FILE, mean:MODEL, cls:MODEL, bm25, run:FILE."

_ADDRESS = re.compile("https?:/")  # one slash, because Path has dropped the second
_SOURCES = ("COMMANDLINE", "PROMPT", "ENVIRONMENT", "DEFAULT_MAP", "DEFAULT")  # the strongest first


def _choose_store(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """If --path and --url come from different sources, keep the stronger one: flag, then environment, then file."""
    other = "url" if param.name == "path" else "path"
    if value is not None and ctx.params.get(other) is not None:
        own, others = (_rank(ctx, name) for name in (param.name, other))
        if own > others:
            return None
        if own < others:
            ctx.params[other] = None
    return store_folder(param, value) if param.name == "path" else server_address(value)


def store_folder(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Return the folder that an option gives; refuse a server's address, unless there is a folder of that name."""
    if value is not None and _ADDRESS.match(str(value)) and not value.exists():
        other = param.opts[0].replace("path", "url")
        raise typer.BadParameter(f"expected a folder; the address of a server is given with {other}")
    return value


def server_address(value: str | None) -> str | None:
    """Return the address that an option gives; refuse an invalid one without quoting it: it may hold a password."""
    if value is not None:
        from twinvec.support.checks import ADDRESS_FORM, is_server_address

        if not is_server_address(value):
            raise typer.BadParameter(f"expected the address of a server, {ADDRESS_FORM}")
    return value


def _rank(ctx: typer.Context, name: str | None) -> int:
    """Return the rank of a parameter's source in the order of precedence; 0 is the command line."""
    source = ctx.get_parameter_source(name or "")
    return _SOURCES.index(source.name) if source else len(_SOURCES)


def is_flag(ctx: typer.Context, name: str) -> bool:
    """Return whether a parameter's value comes from the command line (not environment, file or default)."""
    return _rank(ctx, name) == 0


Model = Annotated[
    str, typer.Option("--model", envvar="TWINVEC_MODEL", help=f"{MODEL_HELP} Default: 'default'.", show_default=False)
]
CollectionModel = Annotated[
    str | None, typer.Option(help=f"{MODEL_HELP} Default: the model that the collection records.", show_default=False)
]
NewCollectionModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        envvar="TWINVEC_MODEL",
        help=f"{MODEL_HELP} A collection that exists keeps its model.",
        show_default=False,
    ),
]
collection_option = functools.partial(typer.Option, "--collection", "-c", metavar="NAME")
CollectionName = Annotated[
    str, collection_option(envvar="TWINVEC_COLLECTION", help="Name of the collection.", show_default=False)
]
StorePath = Annotated[
    Path | None,
    typer.Option(
        "--path", envvar="TWINVEC_PATH", metavar="DIR", help=PATH_HELP, show_default=False, callback=_choose_store
    ),
]
StoreUrl = Annotated[
    str | None, typer.Option("--url", envvar="TWINVEC_URL", help=URL_HELP, show_default=False, callback=_choose_store)
]
GrpcPort = Annotated[
    int | None,
    typer.Option(
        "--grpc-port",
        min=1,
        max=65_535,
        metavar="PORT",
        help="Speak gRPC with the server of --url, at this port (usually 6334).",
    ),
]
WAIT_SECONDS = 10.0
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        min=0,
        metavar="SECONDS",
        help="Longest wait for a busy server, or for another process that uses the store.",
    ),
]
SearchMode = Annotated[
    Literal["hybrid", "dense", "sparse"] | None,
    typer.Option(
        "--mode",
        envvar="TWINVEC_MODE",
        help="By meaning (dense), by words (sparse, BM25), or both fused (hybrid).",
        show_default=False,
    ),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision",
        envvar="TWINVEC_PRECISION",
        help="Number format of the computation. bfloat16 is the fastest on processors with AMX.",
    ),
]
Dim = Annotated[
    int | None,
    typer.Option(
        "--dim", min=1, metavar="N", help="Truncate vectors to the first N dimensions (for Matryoshka models)."
    ),
]
TextField = Annotated[str, typer.Option(help="Key of the text in each object of a .jsonl file.")]
Split = Annotated[str, typer.Option(help="Judgements to use in each retrieval set: qrels/SPLIT.tsv.")]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Run on a Ray cluster, such as HOST:6379. Without ADDRESS: the cluster of RAY_ADDRESS, or this machine.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Turn a twinvec error inside the block into a usage error, with exit code 2.

    The block must only check the command line; it must not open a file, a model or a collection.
    """
    try:
        yield
    except (ConfigurationError, FilterError) as error:
        raise typer.BadParameter(str(error)) from error


def check_field(ctx: typer.Context, source: Path | None) -> None:
    """Refuse --field for texts that do not come from JSON lines, such as those of a collection (None)."""
    from twinvec.support.lines import is_jsonl, is_table_file

    if is_flag(ctx, "field") and (source is None or not (is_jsonl(source) or is_table_file(source))):
        raise typer.BadParameter("--field names the key of the text in a .jsonl file; leave it out for other texts")


def check_store(path: Path | None, url: str | None) -> None:
    """Refuse --path together with --url."""
    if path is not None and url is not None:
        raise typer.BadParameter("give --path or --url (TWINVEC_PATH or TWINVEC_URL), not both")


def grpc_options(url: str | None, port: int | None) -> dict[str, Any]:
    """Return the arguments of ``Collection.open`` for --grpc-port."""
    if port is None:
        return {}
    if url is None:
        raise typer.BadParameter("--grpc-port needs --url")
    return {"grpc": True, "grpc_port": port}


def open_collection(
    name: str,
    path: Path | None = None,
    *,
    url: str | None = None,
    model: str | None = None,
    dim: int | None = None,
    precision: Precision = "auto",
    wait: float = WAIT_SECONDS,
    grpc_port: int | None = None,
) -> Any:
    """Open an existing collection, as a context manager, in the folder ``path`` (default: ./.twinvec) or on a server.

    ``model``, whose vectors are truncated to ``dim`` dimensions, computes in ``precision``; it defaults to the model
    that the collection records, with the recorded dimensions. ``wait`` is the longest wait in seconds for a busy
    server, or for another process that uses the store. With ``grpc_port``, requests to the server go over gRPC, to this
    port.

    Raises:
        ConfigurationError: no installed package provides a store, or both ``path`` and ``url`` are given.
        TwinvecError: the store cannot open the collection.
    """
    from twinvec.encoder import Encoder

    reached = grpc_options(url, grpc_port)
    given: dict[str, Any] = {"encoder": None if model is None else Encoder(model, dim=dim, precision=precision)}
    if model is None and precision != "auto":
        given["precision"] = precision
    if wait != WAIT_SECONDS:
        given["wait_seconds"] = wait
    for entry in entry_points(group="twinvec.retrievers"):
        return entry.load()(name, path, url=url, create=False, **given, **reached)
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
        typer.Option(
            help="Rows to fit the inference head on. Default: the model's own head, or 5-fold cross-validation."
        ),
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
    rerank: Annotated[str | None, typer.Option(metavar="none|maxsim|MODEL", help=RERANK_HELP)] = None
    candidates: Annotated[int, typer.Option(min=1, help="Number of hits to rerank.")] = 100

    def load(self, *, corpus_optional: bool = False) -> Tasks:
        """Read all files, as ``load_tasks`` does.

        Raise BadParameter (exit code 2) if no file is given, or if an option has no effect on the given ones.
        """
        from twinvec.evaluation.measures import deepest
        from twinvec.evaluation.suite import load_tasks

        data = (self.sts, self.ir, self.questions, self.nli, self.pairs, self.triplets, self.winogender, self.winobias)
        if not any(data):
            raise typer.BadParameter("nothing to evaluate on: give --ir FOLDER, --sts FILE.tsv or other data")
        given: dict[str, Any] = {name: value for name, value in vars(self).items() if value is not None}
        if self.rerank == "none":
            del given["rerank"]
        if "rerank" in given and not self.ir:
            raise typer.BadParameter("--rerank reranks the hits of retrieval sets: give --ir")
        if self.nli_train is not None and not self.nli:
            raise typer.BadParameter("--nli-train fits the head that --nli measures: give --nli")
        given["measures"] = [name.strip().lower() for name in self.measures.split(",") if name.strip()]
        with wrong_usage():
            deepest(given["measures"])
        if self.measures != TaskOptions.measures:
            given["question_measures"] = given["measures"]
        return load_tasks(**given, corpus_optional=corpus_optional)


@dataclass(frozen=True)
class SearchTaskOptions(TaskOptions):
    """The data and the measures of a command that can measure the searches of a collection."""

    rerank: Annotated[
        str | None,
        typer.Option(
            envvar="TWINVEC_RERANK",
            metavar="none|maxsim|MODEL",
            help=f"{RERANK_HELP} The environment variable and the file count only with --collection.",
            show_default=False,
        ),
    ] = None


def takes_tasks(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``tasks`` of a command by options: one for each field of the parameter's type."""
    own = inspect.signature(command, eval_str=True)
    kind: type[TaskOptions] = own.parameters["tasks"].annotation
    hints = get_type_hints(kind, include_extras=True)
    shared = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(kind)
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(tasks=kind(**{each.name: given.pop(each.name) for each in shared}), **given)

    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        parameters += shared if parameter.name == "tasks" else named
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
