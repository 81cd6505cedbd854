"""The command ``twinvec init``: write the file with the defaults of options (``configuration``)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError

from twinvec.cli.options import CONFIG_FILE, PATH_HELP, URL_HELP, collection_option
from twinvec.cli.settings_file import Settings, fault
from twinvec.engines import Precision
from twinvec.errors import ConfigurationError
from twinvec.support.atomic import atomic_write

_HEAD = """\
# Defaults of twinvec's options, for this folder and all below it. All keys are optional.
# A flag wins over an environment variable (TWINVEC_COLLECTION, ...), and this over the file.
# Secrets are not for this file: QDRANT_API_KEY holds the key of a server.
"""
_EXAMPLES = {
    "collection": ("Name of the collection.", "docs"),
    "path": ("Folder of the embedded store. A relative path counts from this file.", ".twinvec"),
    "url": ("Address of a Qdrant server, instead of path.", "http://localhost:6333"),
    "model": ("Model of new collections, and of commands that encode: default, a folder, or org/name.", "default"),
    "mode": ("Search by meaning (dense), by words (sparse), or both (hybrid).", "hybrid"),
    "rerank": ("Reranker of searches: none, maxsim, or a cross-encoder.", "maxsim"),
    "precision": ("Number format in which models compute: bfloat16 is the fastest with AMX.", "bfloat16"),
}
"""Key -> its comment, and an example for a key without a value."""


def init_command(
    collection: Annotated[str | None, collection_option(help="Name of the collection.")] = None,
    path: Annotated[str | None, typer.Option(metavar="DIR", help=PATH_HELP)] = None,
    url: Annotated[str | None, typer.Option(help=URL_HELP)] = None,
    model: Annotated[str | None, typer.Option(help="Model of new collections, and of commands that encode.")] = None,
    mode: Annotated[Literal["hybrid", "dense", "sparse"] | None, typer.Option(help="How to search.")] = None,
    rerank: Annotated[str | None, typer.Option(metavar="none|maxsim|MODEL", help="Reranker of searches.")] = None,
    precision: Annotated[Precision | None, typer.Option(help="Number format in which models compute.")] = None,
    force: Annotated[bool, typer.Option("--force", help=f"Replace {CONFIG_FILE} if it exists.")] = False,
) -> None:
    """Write twinvec.toml: defaults for the commands in this folder and below, such as the collection.

    Without options, the command asks for the values. A key without a value is written as a comment.

    \b
    twinvec init
    twinvec init --collection docs --rerank maxsim
    """
    target = Path(CONFIG_FILE)
    if target.exists() and not force:
        raise ConfigurationError(f"{target.absolute()}: exists; --force replaces it")
    values: dict[str, Any] = {
        "collection": collection,
        "path": path,
        "url": url,
        "model": model,
        "mode": mode,
        "rerank": rerank,
        "precision": precision,
    }
    if all(value is None for value in values.values()) and sys.stdin.isatty():
        values |= _asked()
    if values["url"] is None and values["path"] is None:
        values["path"] = _EXAMPLES["path"][1]  # without a path, every folder below would have a store of its own
    try:
        Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("\n".join(map(fault, error.errors()))) from None
    try:
        atomic_write(target, _text(values))
    except OSError as error:
        raise ConfigurationError(f"{target.absolute()}: cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {target.absolute()}")


def _asked() -> dict[str, str | None]:
    name = typer.prompt("Collection", default="docs")
    url = typer.prompt("Address of a Qdrant server (empty: a store in a folder)", default="", show_default=False)
    path = None if url else typer.prompt("Folder of the store", default=_EXAMPLES["path"][1])
    model = typer.prompt("Model", default="default")
    return {"collection": name, "url": url or None, "path": path, "model": model}


def _text(values: dict[str, str | None]) -> str:
    parts = [_HEAD]
    for key, (comment, example) in _EXAMPLES.items():
        value = values[key]
        line = f"{key} = {_quoted(example if value is None else value)}"
        parts.append(f"# {comment}\n{'# ' if value is None else ''}{line}\n")
    return "\n".join(parts)


def _quoted(value: str) -> str:
    """Return a TOML string: a JSON string in which DEL is escaped as well."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
