"""Options that several commands for collections share, and opening the collection that the options name.

Options that commands of the core share too are in ``twinvec.cli.options``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from twinvec.cli.options import check_store, collection_option, grpc_options, is_flag, wrong_usage
from twinvec.cli.terminal import complain
from twinvec.engines import Precision
from twinvec.errors import CollectionNotFoundError, ConfigurationError, SpaceMismatchError
from twinvec.support.checks import shortened
from twinvec_qdrant.serving.names import can_be_served, check_new_name
from twinvec_qdrant.serving.process import DEFAULT_PATH, ServingProcess, serving_process
from twinvec_qdrant.settings import OTHER_KEYS, ClusterSettings, PayloadIndexes, Quantization

if TYPE_CHECKING:
    from twinvec.retrieval.base import SpaceEncoder
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.report import IngestReport

_SHOWN = 10
SOME_FAILED = 3
"""The exit code of a command that failed for some documents or sources only."""

AnyCollection = Annotated[
    str | None,
    collection_option(
        envvar="TWINVEC_COLLECTION",
        help="Name of the collection. Default: all collections of the store.",
        show_default=False,
    ),
]
Cluster = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="NAME=VALUE",
        help="Setting of a collection on a server: shards, replication_factor, write_consistency_factor, on_disk, "
        "read_consistency, tenant_shards (names separated by commas). Repeatable.",
    ),
]
QuantizationOption = Annotated[
    Quantization | None,
    typer.Option(
        "--quantization",
        metavar="FORMAT",
        help="Number format of the small copies of vectors that the index searches: int8, binary, turbo, or none.",
    ),
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="KEY=VALUE|JSON",
        help="Filter on a payload field or on id; also !=, >=, <=, >, <. Repeat to AND; of several = for one "
        "field, one is enough. Values are parsed as JSON: 5 is a number, '\"5\"' is text. "
        'JSON states any filter: \'{"or": [{"lang": "en"}, {"year": {"exists": false}}]}\'.',
    ),
]
PayloadIndexOption = Annotated[
    list[str] | None,
    typer.Option(
        "--payload-index",
        metavar="KEY:TYPE",
        help="Index a payload key for filters: keyword, float, bool, integer, datetime, text, geo, uuid or none. "
        "Repeatable. Other keys get an index automatically.",
    ),
]
NoPayloadIndexes = Annotated[
    bool, typer.Option("--no-payload-indexes", help="Index only the payload keys that --payload-index names.")
]


class CollectionPlace(NamedTuple):
    """The options of a command by which it opens a collection.

    The options are the collection's name, the folder or the address of its store, the longest wait in seconds, the port
    for gRPC, the number format in which the model computes, and the dimensions to which it truncates vectors.
    """

    name: str
    path: Path | None
    url: str | None
    wait: float
    grpc_port: int | None = None
    precision: Precision = "auto"
    dim: int | None = None

    def store(self) -> dict[str, Any]:
        """Return the arguments of ``Collection.open`` for the store and the connection to it."""
        reached = grpc_options(self.url, self.grpc_port)
        return {"path": self.path, "url": self.url, "wait_seconds": self.wait, **reached}

    def as_options(self) -> str:
        """Return the options for a command on this collection that a message suggests: "-c docs --path x"."""
        given = {"-c": self.name, "--path": self.path, "--url": self.url}
        return " ".join(f"{option} {quote(str(value))}" for option, value in given.items() if value)

    def served_by(self) -> ServingProcess | None:
        """Return the other process that serves the store; None if no other process does."""
        found = serving_process(self.path or DEFAULT_PATH) if self.url is None else None
        return None if found is None or found.is_this_process else found


def refuse_served_precision(ctx: typer.Context, place: CollectionPlace) -> None:
    """Refuse --precision if another process serves the store, because that process encodes in its own precision."""
    if is_flag(ctx, "precision") and (serving := place.served_by()) is not None:
        raise ConfigurationError(
            f"--precision has no effect, because {place.path or DEFAULT_PATH} is served by {serving}, which encodes "
            "the texts; leave --precision out, or start that process again with twinvec serve --precision"
        )


def open_from_options(
    place: CollectionPlace,
    model: str | None = None,
    *,
    encoder: SpaceEncoder | None = None,
    keep_model: bool = False,
    create: bool = False,
    dry_run: bool = False,
    **settings: Any,
) -> Collection:
    """Open the collection that the options of a command name.

    Args:
        place: The collection and its store.
        model: Name of the model; default: the recorded model of the collection.
        encoder: The encoder of the model, if it is loaded already.
        keep_model: Use the recorded model of an existing collection instead of ``model``.
        create: Create the collection if it does not exist.
        dry_run: If the collection does not exist, return an empty collection in memory.
        settings: Arguments of ``Collection.open`` for a new collection.

    Raises:
        typer.BadParameter: the collection would be created, and its name could not be used with ``twinvec serve``.
    """
    from twinvec.encoder import Encoder
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.stores.embedded.store import check_not_local_mode

    check_store(place.path, place.url)
    store = place.store()
    if keep_model and (model is not None or place.dim is not None):
        with suppress(CollectionNotFoundError):
            opened = Collection.open(place.name, create=False, precision=place.precision, **store, **settings)
            _check_dim(opened, place)
            return opened
    if model is not None or place.dim is not None:
        encoder = Encoder(model or "default", dim=place.dim, precision=place.precision)
    settings |= {"precision": place.precision} if encoder is None else {"encoder": encoder}
    made = create and not dry_run and can_be_served(place.name)
    try:
        return Collection.open(place.name, create=made, **store, **settings)
    except CollectionNotFoundError:
        if create:
            with wrong_usage():
                check_new_name(place.name)
            if place.url is None:
                check_not_local_mode(place.path or DEFAULT_PATH)
        if not dry_run:
            raise
        return open_in_memory(place.name, None, settings)


def _check_dim(opened: Collection, place: CollectionPlace) -> None:
    """Raise ``SpaceMismatchError`` if --dim differs from the collection's dimensions, and close the collection."""
    recorded = None if place.dim is None else opened.info()["dim"]
    if place.dim != recorded:
        opened.close()
        raise SpaceMismatchError(
            f"the vectors of the collection {place.name!r} have {recorded} dimensions, not {place.dim}: leave --dim "
            f"out, or migrate the collection (twinvec migrate {place.as_options()} --to MODEL --dim {place.dim})"
        )


def open_in_memory(name: str, model: str | None, settings: Mapping[str, Any]) -> Collection:
    """Return an empty collection in memory; ``settings`` are arguments of ``Collection.open``."""
    from qdrant_client import QdrantClient

    from twinvec.encoder import Encoder
    from twinvec_qdrant.collection import Collection

    given = dict(settings) if model is None else {**settings, "encoder": Encoder(model)}
    return Collection.open(name, client=QdrantClient(":memory:"), **given)


def check_confirmed(yes: bool, *, as_json: bool) -> None:
    """Refuse --json without --yes, because a program that reads JSON cannot answer the confirmation question."""
    if as_json and not yes:
        raise typer.BadParameter("--json cannot ask for confirmation: add --yes")


def cluster_settings(given: list[str] | None) -> ClusterSettings | None:
    """Parse the values of --cluster; return None without the option."""
    if not given:
        return None
    values: dict[str, Any] = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign:
            raise typer.BadParameter(f"--cluster {each!r}: expected NAME=VALUE")
        if name == "tenant_shards":
            values[name] = [each.strip() for each in value.split(",")]
            continue
        values[name] = {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value)
    with wrong_usage():
        return ClusterSettings.from_dict(values)


def payload_indexes(given: list[str] | None, only: bool) -> Mapping[str, Any] | None:
    """Parse the options for payload indexes; without them, return None, which stands for the collection's setting."""
    if not given and not only:
        return None
    types: dict[str, Any] = {OTHER_KEYS: False} if only else {}
    for each in given or ():
        key, colon, kind = each.rpartition(":")
        if not colon or not key:
            raise typer.BadParameter(f"--payload-index {each!r}: expected KEY:TYPE, such as team:keyword")
        types[key] = False if kind == "none" else kind
    with wrong_usage():
        PayloadIndexes.of(types)
    return types


def check_stemmer(language: str) -> None:
    """Raise a usage error if the language has no stemmer."""
    from twinvec.retrieval.analysis import Analyzer

    with wrong_usage():
        Analyzer(language)


def show_not_ingested(report: IngestReport) -> None:
    """Print failed and empty documents on standard error: first one document for each reason, then others."""
    for kind, found in (("failed", report.failures), ("empty", report.empties)):
        firsts: dict[str, tuple[str, str]] = {}
        for each in found:
            # reasons that differ only in quoted names and numbers count as one
            firsts.setdefault(re.sub(r"'[^']*'|\d+", "", each[1]), each)
        shown = list(dict.fromkeys([*firsts.values(), *found]))[:_SHOWN]
        for source, reason in shown:
            complain(f"{kind}: {shortened(source)}: {reason}")
        if len(found) > len(shown):
            complain(f"... and {len(found) - len(shown):,} more {kind}; --json lists all")


def as_text(value: Any) -> str:
    """Format a value of a report: thousands separators, four significant digits, lists and dicts in one line."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {as_text(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(as_text, value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
