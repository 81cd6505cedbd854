"""The command ``twinvec update``."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinvec.cli.options import WAIT_SECONDS, AsJson, GrpcPort, PrecisionOption, StorePath, StoreUrl, Wait, check_store
from twinvec.cli.terminal import complain, show_json, tell
from twinvec_qdrant.cli.collections import store_entries
from twinvec_qdrant.cli.options import (
    SOME_FAILED,
    AnyCollection,
    CollectionPlace,
    refuse_served_precision,
    show_not_ingested,
)
from twinvec_qdrant.cli.served.connecting import opened_or_served

if TYPE_CHECKING:
    from twinvec.retrieval.base import SpaceEncoder
    from twinvec_qdrant.cli.served.ingesting import ServedCollection
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.updates.updating import UpdateReport


def update_command(
    ctx: typer.Context,
    collection: AnyCollection = None,
    path: StorePath = None,
    url: StoreUrl = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running, and ingest changed files at once.")] = False,
    no_prune: Annotated[
        bool, typer.Option("--no-prune", help="Keep documents that their source no longer holds.")
    ] = False,
    precision: PrecisionOption = "auto",
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Ingest all sources of a collection again, with the options of their last ingest.

    Documents that a source no longer holds are deleted. If a source is missing or empty, its documents stay, and the
    exit code is 3, or 1 if no source could be updated. With --watch, the store is open only while changes are ingested,
    and "twinvec serve" may start and stop meanwhile; Ctrl-C ends the command. With --watch and --json, each update of a
    collection is printed at once, as JSON in a line.

    \b
    twinvec update --collection docs
    twinvec update --watch
    """
    check_store(path, url)
    place = CollectionPlace("", path, url, wait, grpc_port, precision)
    refuse_served_precision(ctx, place)
    names = [each["name"] for each in store_entries(place) if each["model"]] if collection is None else [collection]
    if watch:
        _watch(names, place, prune=not no_prune, as_json=as_json)
        return
    from twinvec_qdrant.updates.updating import update_collection

    reports = {}
    for name in names:
        with _updatable(name, place) as opened:
            start = time.perf_counter()
            reports[name] = update_collection(opened, prune=not no_prune, progress=not as_json)
        if not as_json:
            _show(place._replace(name=name), reports[name], time.perf_counter() - start)
    if as_json:
        show_json({"collections": [{"name": name, **asdict(report)} for name, report in reports.items()]})
    _end(reports)


def _updatable(
    name: str, place: CollectionPlace, encoder: SpaceEncoder | None = None
) -> AbstractContextManager[Collection | ServedCollection]:
    """Open a collection, with its encoder if it is loaded already, or connect to the process that serves the store."""
    from twinvec_qdrant.cli.served.ingesting import ServedCollection

    return opened_or_served(place._replace(name=name), lambda opened: opened, ServedCollection, encoder)


def _watch(names: list[str], place: CollectionPlace, *, prune: bool, as_json: bool) -> None:
    from twinvec_qdrant.updates.watching import watch

    last: dict[str, UpdateReport] = {}

    def told(name: str, report: UpdateReport) -> None:
        first, last[name] = name not in last, report
        if as_json:
            show_json({"name": name, **asdict(report)})
        elif first or report.changed or report.failed or report.missing:
            _show(place._replace(name=name), report)

    if not as_json:
        tell(f"watching the sources of {', '.join(names) or 'no collection'}; Ctrl-C ends")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        watch(names, lambda name, encoder: _updatable(name, place, encoder), told, prune=prune)
    except KeyboardInterrupt:
        if not as_json:
            typer.echo("ended")
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(place: CollectionPlace, report: UpdateReport, seconds: float | None = None) -> None:
    name, options = place.name, place.as_options()
    time_taken = "" if seconds is None else f" ({seconds:,.1f} s)"
    if not (report.roots or report.placeless or report.missing):
        complain(f"{name}: no source is recorded, so nothing is updated; run twinvec ingest SOURCE {options}")
        return
    sources = ", ".join(report.roots) or "no source"
    tell(f"{name}: {report}, from {sources}{time_taken}")
    if report.placeless:
        tell(
            f"not updated, because they were not read from files on this machine: {', '.join(report.placeless)}; if "
            f"the files of one are here now, run twinvec ingest PATH {options} --source NAME"
        )
    for source, reason in report.missing:
        complain(f"not updated: {source}: {reason}")
        if source in report.unexpected:
            continue
        named = f"{options} --source {quote(source)}"
        complain(f"if it has moved, run twinvec ingest NEWPATH {named}; to remove it, run twinvec delete {named}")
    show_not_ingested(report)


def _end(reports: Mapping[str, Any]) -> None:
    """Exit with code 3 if some sources or documents failed, and with 1 if all failed."""
    done = any(each.new + each.updated + each.unchanged + each.deleted for each in reports.values())
    if any(each.failed or each.missing for each in reports.values()):
        raise typer.Exit(SOME_FAILED if done else 1)
