"""The command ``twinvec``: the core's own commands and those that installed packages add.

A package adds commands by an entry point in the group ``twinvec.commands``: a function that takes the typer app.
Every module of commands imports what is heavy within the command, so that ``twinvec --help`` is there at once.
"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from twinvec import __version__
from twinvec.cli import evaluate as evaluation_commands
from twinvec.cli import export as export_command
from twinvec.cli import train as training_commands
from twinvec.engines.select import EngineName, Precision
from twinvec.errors import TwinvecError
from twinvec.storage import Storage

_DEBUG = "--debug"
_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run a command and leave the process with its exit code.

    0: done; 1: an error, explained on standard error; 2: wrong usage; 130: interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = _DEBUG in arguments  # wherever it stands
    warnings = logging.StreamHandler()
    warnings.setLevel(logging.WARNING)  # of the handler too: bm25s sets its own logger to DEBUG
    logging.basicConfig(format="twinvec: %(message)s", handlers=[warnings])
    try:
        build_app()(args=[each for each in arguments if each != _DEBUG], prog_name="twinvec")
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            print("twinvec: interrupted; the same command goes on where its work is kept", file=sys.stderr)  # noqa: T201
        raise
    except TwinvecError as error:
        if debug:
            raise
        _fail("\n".join([str(error), *getattr(error, "__notes__", ())]))
    except Exception as error:
        if debug:
            raise
        told = f"unexpected {type(error).__name__}: {error} (twinvec {_DEBUG} ... shows where)"
        _fail("\n".join([told, *getattr(error, "__notes__", ())]))


def build_app() -> typer.Typer:
    """The app with the commands of the core and of all installed packages."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    app.command("encode")(encode_command)
    app.command("similarity")(similarity_command)
    export_command.register(app)
    evaluation_commands.register(app)
    training_commands.register(app)
    for entry in sorted(entry_points(group="twinvec.commands"), key=lambda entry: entry.name):
        try:
            entry.load()(app)
        except Exception as error:  # one broken package must not take the others' commands away
            package = entry.dist.name if entry.dist else entry.value
            print(f"twinvec: no commands of {package}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version)] = False,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show a traceback where something fails.")] = False,
) -> None:
    """Sentence embeddings for retrieval: encode, ingest, search, measure, train.

    \b
    twinvec ingest ./docs --collection docs
    twinvec search "how do I renew a certificate" --collection docs --rerank maxsim
    """


def encode_command(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="One text a line (.txt), or objects (.jsonl).")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.npy", help="Where the vectors go.")],
    model: Annotated[str, typer.Option(help="default, a folder, or org/name[@commit] on the hub.")] = "default",
    prompt: Annotated[str | None, typer.Option(help="Name of the model's prompt, such as query or document.")] = None,
    field: Annotated[str, typer.Option(help="Where the text stands in an object of a .jsonl file.")] = "text",
    storage: Annotated[Storage | None, typer.Option(help="float16, int8 or binary; float32 unless given.")] = None,
    dim: Annotated[int | None, typer.Option(help="Keep so many leading dimensions.")] = None,
    engine: Annotated[EngineName, typer.Option(help="What computes the vectors.")] = "auto",
    precision: Annotated[Precision, typer.Option(help="In what precision.")] = "auto",
    devices: Annotated[
        list[str] | None,
        typer.Option("--device", help="cpu, cuda, cuda:1, mps; the best there is unless given; may be given again."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Encode the texts of a file into an array.

    One row a line, in their order.
    Memory stays bounded, however long the file. The array appears when it is complete.

    \b
    twinvec encode texts.txt -o vectors.npy
    twinvec encode questions.jsonl -o questions.npy --field question --prompt query
    twinvec encode texts.txt -o vectors.npy --device cuda:0 --device cuda:1
    """
    import time

    from twinvec.cli.terminal import show_json
    from twinvec.encoder import Encoder
    from twinvec.vector_files import encode_file

    single = devices[0] if devices and len(devices) == 1 else None  # in this process
    several = None if single else devices or None
    encoder = Encoder(model, engine=engine, precision=precision, device=single, devices=several, dim=dim)
    start = time.perf_counter()
    shape = encode_file(encoder, source, output, field=field, prompt=prompt, storage=storage, progress=not as_json)
    seconds = time.perf_counter() - start
    if as_json:
        fields = {"texts": shape[0], "columns": shape[1], "truncated": encoder.truncated, "seconds": round(seconds, 3)}
        show_json({"output": str(output), "model": encoder.name, "space": encoder.space, **fields})
    else:
        cut = f", {encoder.truncated:,} texts cut after {encoder.max_tokens} tokens" if encoder.truncated else ""
        typer.echo(f"{output}: {shape[0]:,} vectors of {shape[1]} numbers, {shape[0] / seconds:,.0f} texts/s{cut}")


def similarity_command(
    first: Annotated[str, typer.Argument(metavar="TEXT", help="This text ...")],
    others: Annotated[list[str], typer.Argument(metavar="OTHER...", help="... against each of these.")],
    model: Annotated[str, typer.Option(help="default, a folder, or org/name[@commit] on the hub.")] = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compare one text with others: cosine similarity.

    \b
    twinvec similarity "a dog runs" "a puppy is running" "stocks fell"
    """
    from twinvec.arrays import unit
    from twinvec.cli.terminal import show, show_json, table
    from twinvec.encoder import Encoder

    vectors_ND = unit(Encoder(model).encode([first, *others]))
    cosines = vectors_ND[1:] @ vectors_ND[0]
    found = [{"text": text, "score": float(score)} for text, score in zip(others, cosines, strict=True)]
    if as_json:
        show_json({"text": first, "similarities": found})
        return
    lines = table(first, "cosine", "text", numbers=("cosine",))
    for text, score in zip(others, cosines, strict=True):
        lines.add_row(f"{score:.4f}", text)
    show(lines)


def _fail(message: str) -> None:
    print(f"twinvec: {message}", file=sys.stderr)  # noqa: T201
    sys.stderr.flush()
    raise SystemExit(1)
