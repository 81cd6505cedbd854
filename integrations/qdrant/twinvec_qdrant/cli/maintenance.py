"""The commands of upkeep: what there is, whether it is sound, the way to another model, and the end."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinvec.cli.terminal import properties, show, show_json, table
from twinvec_qdrant.cli.options import (
    WAIT_SECONDS,
    AsJson,
    Name,
    Place,
    Url,
    Wait,
    check_place,
    open_collection,
    plain,
)
from twinvec_qdrant.settings import IndexSettings, Quantization

if TYPE_CHECKING:
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.maintenance.migration_check import JudgedCheck


def verify_command(
    collection: Name,
    path: Place = None,
    url: Url = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove left-over chunks; let the next ingest restore what is missing.")
    ] = False,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Look whether the store still holds all that it acknowledged. Exit code 1 if it does not.

    \b
    twinvec verify --collection docs --repair
    """
    with open_collection(collection, path, url, None, create=False, wait=wait) as opened:
        report = opened.verify(repair=repair)
    if as_json:
        show_json({**asdict(report), "sound": report.sound})
    else:
        figures = {"documents": report.sources, "chunks": report.chunks, "stray chunks": report.stray}
        shown = {name: f"{value:,}" for name, value in figures.items()}
        damaged = {"incomplete": report.incomplete, "forgotten": report.forgotten}
        counts = {f"{kind} documents": f"{len(sources):,}" for kind, sources in damaged.items()}
        show(collection, properties({**shown, **counts}))
        for kind, sources in damaged.items():
            for source in sources:
                typer.echo(f"{kind}: {source}{': ingest it again' if repair else ''}", err=True)
    if not report.sound and not repair:
        typer.echo("--repair mends it; documents that are named here have to be ingested again then", err=True)
        raise typer.Exit(1)


def migrate_command(
    collection: Name,
    to: Annotated[str | None, typer.Option(metavar="MODEL", help="default, a folder, or org/name@commit.")] = None,
    path: Place = None,
    url: Url = None,
    rate: Annotated[float | None, typer.Option(min=0.01, help="Chunks a second, at most.")] = None,
    ir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Judged queries (BEIR's files): switch only if --to finds no worse."),
    ] = None,
    quantization: Annotated[
        Quantization | None, typer.Option(help="Index the vectors anew, with these small copies to search by.")
    ] = None,
    drop: Annotated[
        bool, typer.Option("--drop-others", help="Remove the vectors of every model but the one in force.")
    ] = False,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Bring a collection over to another model while it is searched; killed, the next run goes on.

    The old vectors stay, so that migrating back is quick, until --drop-others. With --ir, nDCG@10 before and after is
    shown, and the old model stays in force, with exit code 1, where it falls beyond chance (paired test, 95%).

    \b
    twinvec migrate --collection docs --to ./my-model --ir ./questions
    twinvec migrate --collection docs --quantization int8
    twinvec migrate --collection docs --drop-others
    """
    from twinvec.encoder import Encoder

    if [to is not None, quantization is not None, drop].count(True) != 1:
        raise typer.BadParameter("give one of --to MODEL, --quantization and --drop-others")
    if ir is not None and to is None:
        raise typer.BadParameter("--ir goes with --to")
    with open_collection(collection, path, url, None, create=False, wait=wait) as opened:
        if quantization is not None:
            _reindex(opened, quantization, as_json)
            return
        if to is None:
            dropped = opened.drop_others()
            if as_json:
                show_json({"dropped": dropped})
            else:
                typer.echo(f"dropped the vectors of {', '.join(dropped)}" if dropped else "there are no others")
            return
        check = None if ir is None else _judged(opened, ir)
        report = opened.migrate(Encoder(to), check=check, chunks_per_second=rate, progress=not as_json)
    if as_json:
        show_json({**asdict(report), **(check.figures if check else {})})
    else:
        figures = {"chunks encoded": f"{report.encoded:,}", "longer than the model reads": f"{report.truncated:,}"}
        if check is not None:
            figures |= {name.replace("_", " "): plain(value) for name, value in check.figures.items()}
        in_force = f"now of {report.model}" if report.switched else f"not of {report.model}: it finds worse"
        show(f"{collection}: {in_force}", properties(figures))
    if not report.switched:
        raise typer.Exit(1)


def _judged(collection: Collection, folder: Path) -> JudgedCheck:
    from twinvec.evaluation.beir import load_beir
    from twinvec_qdrant.maintenance.migration_check import JudgedCheck

    return JudgedCheck(collection, load_beir(folder))


def _reindex(collection: Collection, quantization: Quantization, as_json: bool) -> None:
    settings = replace(IndexSettings.from_dict(collection.info()["index"]), quantization=quantization)
    report = collection.reindex(settings)
    if as_json:
        show_json(asdict(report))
        return
    recall = "no chunks" if report.recall is None else f"{report.recall:.3f}"
    figures = {"vectors indexed": f"{report.indexed:,} of {report.chunks:,}", "recall@10 of a sample": recall}
    show(f"{collection.name}: {report.settings}", properties(figures))


def push_command(
    collection: Name,
    path: Place = None,
    url: Url = None,
    to_path: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the other store.")] = None,
    to_url: Annotated[str | None, typer.Option(help="Server to copy to; its key from QDRANT_API_KEY.")] = None,
    to_collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name there; the same unless given.")
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove there what is not here.")] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Let --prune remove everything where there are no documents here.")
    ] = False,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Copy a collection to another store, vectors included; again for what is new. Killed, the next run goes on.

    \b
    twinvec push --collection docs --to-url https://qdrant.example.org:6333
    twinvec push --collection docs --url http://localhost:6333 --to-path ./backup
    """
    if (to_path is None) == (to_url is None):
        raise typer.BadParameter("give one of --to-path and --to-url")
    with open_collection(collection, path, url, None, create=False, wait=wait) as opened:
        report = opened.push(
            to_path,
            url=to_url,
            name=to_collection,
            prune=prune,
            allow_empty=allow_empty,
            progress=not as_json,
            wait_seconds=wait,
        )
    if as_json:
        show_json(asdict(report))
    else:
        figures = ("copied", "chunks", "unchanged", "deleted")
        show(f"{collection}: pushed", properties({name: f"{getattr(report, name):,}" for name in figures}))
        for source in report.missed:
            typer.echo(f"missed: {source}: push again; if it stays, twinvec verify", err=True)
    if report.missed:
        raise typer.Exit(1)


def collections_command(
    path: Place = None, url: Url = None, wait: Wait = WAIT_SECONDS, as_json: AsJson = False
) -> None:
    """List the collections of a store.

    \b
    twinvec collections
    twinvec collections --url http://localhost:6333
    """
    from twinvec_qdrant.list_and_drop import list_collections

    check_place(path, url)
    found = list_collections(path, url=url, wait_seconds=wait)
    if as_json:
        show_json({"collections": [asdict(each) for each in found]})
        return
    if not found:
        typer.echo("no collections")
        return
    lines = table("Collections", "name", "model", "dimensions", numbers=("dimensions",))
    for each in found:
        lines.add_row(each.name, each.model or "not twinvec's, or damaged", str(each.dim or ""))
    show(lines)


def drop_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The collection.")],
    path: Place = None,
    url: Url = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Remove a collection with all it holds, for good.

    \b
    twinvec drop docs --yes
    """
    from twinvec_qdrant.list_and_drop import drop_collection

    check_place(path, url)
    if not yes:
        typer.confirm(f"remove the collection {name!r} with all it holds?", abort=True)
    drop_collection(name, path, url=url, wait_seconds=wait)
    if as_json:
        show_json({"dropped": name})
    else:
        typer.echo(f"dropped {name}")
