"""The command ``twinvec``: the commands of the core, and the commands that installed packages add.

A package adds commands by an entry point in the group ``twinvec.commands``: a function that takes the typer app. Every
command imports heavy modules in its body, so that ``twinvec --help`` starts quickly; ``twinvec NAME`` builds only the
command of that name (``commands``).
"""

from __future__ import annotations

import atexit
import errno
import gc
import inspect
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from twinvec.cli.commands import add_command, add_packages, load_commands
from twinvec.cli.configuration import file_defaults, warn_of_misspelt_variables
from twinvec.cli.messages import print_own_messages
from twinvec.cli.options import COLLECTIONS_PANEL, ENCODE_PANEL, TRAIN_PANEL
from twinvec.cli.streams import prepare_streams
from twinvec.cli.terminal import complain, replace_unknown_characters
from twinvec.errors import TwinvecError
from twinvec.interrupts import INTERRUPTED, tell_interrupted
from twinvec.support.checks import shortened
from twinvec.support.plain_values import convert_only_where_needed
from twinvec.support.runners import with_address
from twinvec.version import __version__

_DEBUG = "--debug"
_NEW_OBJECTS = 10_000  # new objects before a garbage collection; Python's 700 cost a second if torch is imported
_COMMANDS = (
    ("encode", ENCODE_PANEL, "encode:encode_command"),
    ("similarity", ENCODE_PANEL, "encode:similarity_command"),
    ("pairs", ENCODE_PANEL, "similar:pairs_command"),
    ("cluster", ENCODE_PANEL, "similar:cluster_command"),
    ("export", ENCODE_PANEL, "export:export_command"),
    ("train", TRAIN_PANEL, "train:train"),
    ("mine", TRAIN_PANEL, "train:mine"),
    ("evaluate", TRAIN_PANEL, "evaluate:evaluate_command"),
    ("compare", TRAIN_PANEL, "evaluate:compare_command"),
    ("init", COLLECTIONS_PANEL, "init:init_command"),
)


class _PlainFlags:
    """A command whose help shows no type after a flag, because users would take it for a value to give.

    Values that have their type already are not converted.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class that this is mixed into
        for each in parameters:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""
            convert_only_where_needed(each)
        return parameters


class _Command(_PlainFlags, TyperCommand):
    """A command; if it takes a text for an option, the error says how to give the text."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if any(each.param_type_name == "argument" for each in self.params):
                _explain_hyphen(error, given, ctx.command_path)
            raise


def _explain_hyphen(error: Any, given: Sequence[str], command: str) -> None:
    """If the refused text resembles no option, add to the error how to give a text that begins with a hyphen."""
    if not getattr(error, "possibilities", True):
        text = next((each for each in given if each.startswith(error.option_name)), error.option_name)
        error.message += f". A text that begins with a hyphen comes last, after --: {command} -- {shlex.quote(text)}"


class _Group(_PlainFlags, TyperGroup):
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run a command and end the process with its exit code.

    0: done; 1: an error, explained on standard error; 2: wrong usage; 3: done, but some documents failed; 130:
    interrupted.
    """
    if arguments is None:  # the process is the command's own
        prepare_streams()
        _collect_garbage_rarely()
        arguments = sys.argv[1:]
    debug = _DEBUG in arguments  # at any position
    print_own_messages(debug=debug)
    replace_unknown_characters()
    warn_of_misspelt_variables()
    try:
        given = with_address([each for each in arguments if each != _DEBUG])
        build_app(only=given[0] if given else None)(args=given, prog_name="twinvec")
    except KeyboardInterrupt:  # while the command is imported; while it runs, typer ends it with the exit code
        tell_interrupted()
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            tell_interrupted()
        raise
    except Exception as error:
        if debug:
            raise
        complain(*f"twinvec: {_described(error)}".split("\n"), *getattr(error, "__notes__", ()))
        raise SystemExit(1) from error


def _described(error: Exception) -> str:
    if isinstance(error, TwinvecError):
        return str(error)
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        return "the current folder was removed; change to a folder that exists"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"{shortened(str(error.filename))}: {error.strerror}"
    return f"unexpected {type(error).__name__}: {error} (twinvec {_DEBUG} ... shows the traceback)"


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _collect_garbage_rarely() -> None:
    """Collect garbage rarely, because most objects of imported modules stay; collect none at the end of the process."""
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(_skip_last_collections)


def _skip_last_collections() -> None:
    """Skip the garbage collections at the end of the process, unless triton is imported.

    The bindings of triton 3.9, made by nanobind, print each object that is not collected.
    """
    if "triton" not in sys.modules:
        gc.freeze()


def build_app(*, only: str | None = None) -> typer.Typer:
    """Return the app with the commands of the core and of all installed packages.

    If ``only`` is the name of a command, the app has this command alone, and modules of other commands are not loaded.
    """
    app = typer.Typer(
        cls=_Group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, panel, place in _COMMANDS:
        add_command(app, name, panel, f"twinvec.cli.{place}")
    if all(each.name != only for each in app.registered_commands):
        add_packages(app, only)
    load_commands(app, only)
    for added in app.registered_commands:
        added.cls = _Command
        added.help = _unwrapped(inspect.getdoc(added.callback) or "")
    return app


def _unwrapped(text: str) -> str:
    r"""Join the lines of each paragraph, because rich would keep them apart; a paragraph that begins with \b stays."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(each if each.startswith("\b") else each.replace("\n", " ") for each in paragraphs)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version)] = False,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Sentence embeddings for retrieval: encode, ingest, search, measure, train.

    \b
    twinvec ingest ./docs --collection docs
    twinvec search "how do I renew a certificate" -c docs --rerank maxsim

    "twinvec init" writes defaults, such as the collection, to a file; environment variables set them too.
    """
    ctx.default_map = file_defaults(ctx.command)
