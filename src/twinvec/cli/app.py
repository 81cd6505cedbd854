"""The command ``twinvec``: the core's own commands and those that installed packages add.

A package adds commands by an entry point in the group ``twinvec.commands``: a function that takes the typer app.
Every module of commands imports what is heavy within the command, so that ``twinvec --help`` is there at once.
"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from twinvec.cli import evaluate as evaluation_commands
from twinvec.cli import export as export_command
from twinvec.cli import train as training_commands
from twinvec.cli.encode import encode_command, similarity_command
from twinvec.errors import TwinvecError
from twinvec.version import __version__

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


def _fail(message: str) -> None:
    print(f"twinvec: {message}", file=sys.stderr)  # noqa: T201
    sys.stderr.flush()
    raise SystemExit(1)
