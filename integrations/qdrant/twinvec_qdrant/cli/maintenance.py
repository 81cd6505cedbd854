"""The commands ``twinvec verify``, ``twinvec migrate``, ``twinvec reindex`` and ``twinvec push``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from twinvec.cli.options import (
    WAIT_SECONDS,
    AsJson,
    CollectionName,
    Dim,
    GrpcPort,
    PrecisionOption,
    StorePath,
    StoreUrl,
    Wait,
    server_address,
    store_folder,
)
from twinvec.cli.terminal import complain, properties, show, show_json, tell
from twinvec.support.progress import progress_bar
from twinvec_qdrant.cli.options import (
    Cluster,
    CollectionPlace,
    NoPayloadIndexes,
    PayloadIndexOption,
    QuantizationOption,
    as_text,
    cluster_settings,
    open_from_options,
    payload_indexes,
    refuse_served_precision,
)
from twinvec_qdrant.cli.served.connecting import client_of, looks_again
from twinvec_qdrant.cli.served.maintaining import ServedMaintenance, maintenance_of
from twinvec_qdrant.opening_store import GRPC_PORT
from twinvec_qdrant.report import IndexReport, RepairReport, VerifyReport, report_of
from twinvec_qdrant.serving.names import collection_path
from twinvec_qdrant.settings import LEAST_RATE, Quantization

_NOTES_LOST = (
    "notes of the collection are lost, perhaps the list of its sources; if twinvec info shows no sources, ingest each "
    "source again with its old --source NAME, in the original order"
)


def verify_command(
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Save the readable parts of damaged files, delete stray chunks, and let the next ingest write missing "
            "chunks.",
        ),
    ] = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Check that no document or chunk of a collection is missing or damaged.

    The exit code is 1 if something is missing. With --repair, the next ingest of the sources restores what is missing,
    and the exit code is 1 only if documents have left no trace. If a process serves the store, that process checks or
    repairs the collection.

    \b
    twinvec verify --collection docs --repair
    """
    with progress_bar("Verifying", None, "", shown=not as_json):
        report = _verified(CollectionPlace(collection, path, url, wait, grpc_port), repair=repair)
    lost = report.lost if isinstance(report, RepairReport) else 0
    if as_json:
        show_json({**asdict(report), "sound": report.sound})
    else:
        figures = {"documents": report.sources, "chunks": report.chunks, "stray chunks": report.stray}
        figures["documents with missing chunks"] = len(report.incomplete)
        figures["documents without a record"] = len(report.forgotten)
        if isinstance(report, RepairReport):
            figures |= {"damaged files": len(report.damaged), "documents without a trace": lost}
        show(collection, properties({name: as_text(value) for name, value in figures.items()}))
        if lost:
            complain(f"{lost} documents have left no trace; ingest all documents again")
        if isinstance(report, RepairReport) and report.lost_notes:
            complain(_NOTES_LOST)
        remedy = "; ingest it again" if repair else ""
        for source in report.incomplete:
            complain(f"{source}: some of its chunks are missing or damaged{remedy}")
        for source in report.forgotten:
            complain(f"{source}: has chunks but no record, so searches do not show it{remedy}")
    if not report.sound and not repair:
        complain("run verify with --repair, and then ingest these documents again")
    if lost or not (report.sound or repair):
        raise typer.Exit(1)


@looks_again
def _verified(place: CollectionPlace, *, repair: bool) -> VerifyReport:
    """Verify a collection; if a process serves the store, let that process verify it."""
    if (client := client_of(place)) is not None:
        with client:
            if repair:
                return ServedMaintenance(client, place.name).repair()
            return report_of(VerifyReport, client.get(collection_path(place.name, "/verify")))
    mends: dict[str, Any] = {"repair": True} if repair and place.url is None else {}
    with open_from_options(place, **mends) as opened:
        return opened.verify(repair=repair)


def migrate_command(
    ctx: typer.Context,
    collection: CollectionName,
    to: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The new model: default, a folder, or org/name@commit.")
    ] = None,
    dim: Dim = None,
    path: StorePath = None,
    url: StoreUrl = None,
    rate: Annotated[
        float | None, typer.Option(min=LEAST_RATE, help="Largest number of chunks to encode per second.")
    ] = None,
    ir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Judged queries (BEIR layout); migrate only if the new model is not worse."),
    ] = None,
    allow_truncation: Annotated[
        bool, typer.Option("--allow-truncation", help="Migrate even if the new model truncates some of the chunks.")
    ] = False,
    quantization: Annotated[
        Quantization | None, typer.Option(metavar="FORMAT", help="The same as twinvec reindex --quantization.")
    ] = None,
    drop: Annotated[
        bool, typer.Option("--drop-others", help="Delete the vectors of every model but the current one.")
    ] = False,
    precision: PrecisionOption = "auto",
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Migrate a collection to another model while searches go on.

    An interrupted migration resumes at the next run. The old vectors stay until --drop-others, so that a migration back
    is quick. With --ir, the command compares nDCG@10 of both models. If the new model is significantly worse (paired
    test, 95%), the collection keeps the old model, and the exit code is 1. If a process serves the store, that process
    migrates, to a model that it was started with; --ir needs the store for itself.

    \b
    twinvec migrate --collection docs --to ./my-model --ir ./questions
    twinvec migrate --collection docs --drop-others
    """
    if [to is not None, quantization is not None, drop].count(True) != 1:
        raise typer.BadParameter("give one of --to MODEL, --quantization and --drop-others")
    if ir is not None and to is None:
        raise typer.BadParameter("--ir needs --to")
    if dim is not None and to is None:
        raise typer.BadParameter("--dim needs --to")
    place = CollectionPlace(collection, path, url, wait, grpc_port, precision)
    refuse_served_precision(ctx, place)
    with maintenance_of(place) as opened:
        if quantization is not None:
            _show_indexes(collection, opened.reindex(quantization=quantization, progress=not as_json), as_json)
            return
        if to is None:
            _show_dropped(opened.drop_others(), as_json)
            return
        settings: dict[str, Any] = {"rate": rate, "allow_truncation": allow_truncation}
        report, check = opened.migrate(to, dim=dim, ir=ir, progress=not as_json, **settings)
    if as_json:
        show_json({**asdict(report), **(check.figures if check else {})})
    else:
        figures = {"chunks encoded": f"{report.encoded:,}", "longer than the model reads": f"{report.truncated:,}"}
        if check is not None:
            figures |= check.shown
        model = report.model if dim is None else f"{report.model} ({dim} dimensions)"
        outcome = f"now has {model}" if report.switched else f"keeps its model, because {model} is worse"
        show(f"{collection} {outcome}", properties(figures))
    if not report.switched:
        raise typer.Exit(1)


def reindex_command(
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    quantization: QuantizationOption = None,
    cluster: Cluster = None,
    payload_index: PayloadIndexOption = None,
    no_payload_indexes: NoPayloadIndexes = False,
    cut_code: Annotated[
        bool | None,
        typer.Option(
            "--cut-code/--no-cut-code",
            help="From the next ingest, cut code at functions and classes, in all installed languages.",
        ),
    ] = None,
    pages: Annotated[
        bool | None,
        typer.Option("--pages/--no-pages", help="From the next ingest, keep the page of each chunk of a PDF."),
    ] = None,
    surroundings: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="TOKENS",
            help="Tokens of text around a chunk that are embedded with it, from the next ingest.",
        ),
    ] = None,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the indexes of a collection, with new settings if options give them.

    Searches go on meanwhile. The command reports the recall of the vectors' index on a sample, and the payload keys
    with an index. If the only options are for payload keys or for chunks, the vectors' index stays as it is. Otherwise,
    deleted and replaced texts are erased from the files of an embedded collection, and the next ingest or "twinvec
    update" reads files as the newest version of twinvec does.

    --cut-code, --pages and --surroundings apply from the next ingest or "twinvec update" on. That run
    cuts documents again if their chunks change, and encodes the changed chunks.

    \b
    twinvec reindex --collection docs --quantization int8
    twinvec reindex -c docs --payload-index team:keyword
    twinvec reindex -c docs --surroundings 64 && twinvec update -c docs
    """
    wanted, wanted_cluster = payload_indexes(payload_index, no_payload_indexes), cluster_settings(cluster)
    cutting = {"cut_code": cut_code, "pages": pages, "surroundings": surroundings}
    settings = {"quantization": quantization, "cluster": wanted_cluster, "payload_indexes": wanted, **cutting}
    place = CollectionPlace(collection, path, url, wait, grpc_port)
    with maintenance_of(place) as opened:
        _show_indexes(collection, opened.reindex(**settings, progress=not as_json), as_json)
    if any(each is not None for each in cutting.values()) and not as_json:
        tell(f'the next ingest cuts documents again; "twinvec update {place.as_options()}" ingests all documents')


def push_command(
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    to_path: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the other store.", callback=store_folder)
    ] = None,
    to_url: Annotated[
        str | None,
        typer.Option(help="Address of the other server. QDRANT_API_KEY holds the key.", callback=server_address),
    ] = None,
    to_collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name in the other store. Default: the same name.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete documents of the copy that the collection no longer holds.")
    ] = False,
    allow_empty: Annotated[
        bool,
        typer.Option("--allow-empty", help="Let --prune delete all documents of the copy if the collection is empty."),
    ] = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    to_grpc_port: Annotated[
        int | None, typer.Option(min=1, max=65_535, metavar="PORT", help="Speak gRPC with the server of --to-url.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a collection with its vectors to another store.

    Run the command again to copy changes. An interrupted push resumes at the next run.

    \b
    twinvec push --collection docs --to-url https://qdrant.example.org:6333
    twinvec push --collection docs --url http://localhost:6333 --to-path ./backup
    """
    if (to_path is None) == (to_url is None):
        raise typer.BadParameter("give one of --to-path and --to-url")
    if to_grpc_port is not None and to_url is None:
        raise typer.BadParameter("--to-grpc-port needs --to-url")
    with open_from_options(CollectionPlace(collection, path, url, wait, grpc_port)) as opened:
        report = opened.push(
            to_path,
            url=to_url,
            name=to_collection,
            prune=prune,
            allow_empty=allow_empty,
            progress=not as_json,
            wait_seconds=wait,
            grpc=to_grpc_port is not None,
            grpc_port=to_grpc_port or GRPC_PORT,
        )
    if as_json:
        show_json(asdict(report))
    else:
        figures = ("copied", "chunks", "unchanged", "deleted")
        show(f"{collection}: pushed", properties({name: f"{getattr(report, name):,}" for name in figures}))
        for source in report.missed:
            complain(f"not copied: {source}; push again, and if it is reported again, run twinvec verify")
    if report.missed:
        raise typer.Exit(1)


def _show_dropped(dropped: list[str], as_json: bool) -> None:
    if as_json:
        show_json({"dropped": dropped})
    else:
        tell(f"dropped the vectors of {', '.join(dropped)}" if dropped else "no vectors of other models")


def _show_indexes(collection: str, report: IndexReport, as_json: bool) -> None:
    if as_json:
        show_json(asdict(report))
        return
    recall = "not measured" if report.recall is None else f"{report.recall:.3f}"
    figures = {"vectors indexed": f"{report.indexed:,} of {report.chunks:,}", "recall@10 of a sample": recall}
    if report.payload_indexes:
        figures["payload keys indexed"] = as_text(report.payload_indexes)
    if report.erased:
        figures["deleted and replaced texts"] = "erased from the files"
    show(f"{collection}: {report.settings}", properties(figures))
