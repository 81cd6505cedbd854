"""The command ``twinvec ingest``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twinvec.cli.options import (
    WAIT_SECONDS,
    AsJson,
    CollectionName,
    Dim,
    GrpcPort,
    NewCollectionModel,
    PrecisionOption,
    Ray,
    StorePath,
    StoreUrl,
    Wait,
    grpc_options,
    is_flag,
    wrong_usage,
)
from twinvec.cli.terminal import complain, properties, show, show_json
from twinvec.errors import ConfigurationError
from twinvec.support.runners import ray_runner
from twinvec_qdrant.cli.options import (
    SOME_FAILED,
    Cluster,
    CollectionPlace,
    NoPayloadIndexes,
    PayloadIndexOption,
    QuantizationOption,
    as_text,
    check_stemmer,
    cluster_settings,
    open_from_options,
    open_in_memory,
    payload_indexes,
    refuse_served_precision,
    show_not_ingested,
)
from twinvec_qdrant.cli.served.connecting import NO_DIM, client_of, looks_again
from twinvec_qdrant.cli.sources import complain_of_empty, descriptions, reading_options, roots_of
from twinvec_qdrant.serving.names import check_new_name
from twinvec_qdrant.serving.process import DEFAULT_PATH
from twinvec_qdrant.settings import ChunkSettings, IndexSettings

if TYPE_CHECKING:
    from twinvec_qdrant.cli.served.ingesting import ServedCollection
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.report import IngestReport

_reading_option = partial(typer.Option, rich_help_panel="What is read")

_HELPED_WAIT_SECONDS = 120.0  # a server may be busy with many writers


def ingest_command(
    ctx: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="Folders, files, patterns such as '*.md', or - for stdin (.jsonl)."),
    ],
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    model: NewCollectionModel = None,
    dim: Dim = None,
    precision: PrecisionOption = "auto",
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents that SOURCE no longer holds.")] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Let --prune delete all documents of an empty SOURCE or folder in it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would change, and write nothing.")] = False,
    source: Annotated[
        str | None,
        _reading_option(
            "--source",
            metavar="NAME",
            help="Name of SOURCE in the collection. Default: the name of the folder or file.",
        ),
    ] = None,
    describe: Annotated[
        list[str] | None,
        _reading_option(
            "--describe",
            metavar="[PATH=]TEXT",
            help="Your description of SOURCE, or of the folder PATH in it, for hits and info. Repeatable.",
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        _reading_option(
            metavar="PATTERN",
            help="In a folder, read only files that match, such as '*.md'. Hidden files need a pattern that names "
            "them, such as '.github/**'. Repeatable.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        _reading_option(metavar="PATTERN", help="In a folder, skip paths that match, such as 'drafts/'. Repeatable."),
    ] = None,
    no_gitignore: Annotated[
        bool, _reading_option("--no-gitignore", help="Also read files that a .gitignore in the folder excludes.")
    ] = False,
    id_column: Annotated[
        str | None,
        _reading_option(metavar="COLUMN", help="Column (in JSON, key) with each document's id. Default: id."),
    ] = None,
    text_column: Annotated[
        list[str] | None,
        _reading_option(metavar="COLUMN", help="Column with each document's text. Default: text. Repeatable."),
    ] = None,
    title_column: Annotated[
        str | None, _reading_option(metavar="COLUMN", help="Column with each document's title. Default: title.")
    ] = None,
    whole: Annotated[bool, typer.Option("--no-chunking", help="New collection: keep documents whole.")] = False,
    chunk_tokens: Annotated[
        int | None, typer.Option(min=1, help="New collection: largest chunk in tokens. Default: the model's limit.")
    ] = None,
    overlap: Annotated[
        int | None, typer.Option(min=0, help="New collection: tokens that neighbouring chunks share. Default: 0.")
    ] = None,
    surroundings: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="TOKENS",
            help="New collection: tokens of text around a chunk that are embedded with it. Default: 0.",
        ),
    ] = None,
    language: Annotated[
        str, typer.Option(help="New collection: language of the stemmer for BM25 (Snowball).")
    ] = "english",
    quantization: QuantizationOption = None,
    tenant_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="New collection: payload key that names a document's tenant.")
    ] = None,
    late_interaction: Annotated[
        bool | None,
        typer.Option("--late-interaction", help="New collection: store token states, so that maxsim is faster."),
    ] = None,
    cluster: Cluster = None,
    payload_index: PayloadIndexOption = None,
    no_payload_indexes: NoPayloadIndexes = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    ray: Ray = None,
    as_json: AsJson = False,
) -> None:
    """Add documents to a collection, and update changed ones.

    Unchanged documents are skipped. In a folder, each file is a document: text, Markdown and code, with the extra
    "documents" also PDF, Office and HTML. The id is the path. Files in .gitignore are skipped. So are hidden files,
    unless --include names them.

    Each line of a .jsonl or .ndjson file, row of a .csv or .tsv file, and e-mail of a mailbox is a document. So is
    each object with a text in a .json file. The keys are "id", "text" and optionally "title"; all other keys are
    payload for filters. An interrupted ingest resumes at the next run. If some documents fail, the others are ingested,
    and the exit code is 3; it is 1 if all fail.

    A collection records its sources. Ids of documents begin with the name of their source, except in the first source.
    --prune deletes documents that the given sources no longer hold. "twinvec update" ingests all sources again.

    \b
    twinvec ingest ./docs --collection docs --prune
    twinvec ingest ./guides ./minutes 'papers/**/*.pdf' -c docs
    twinvec ingest articles.jsonl -c articles --url http://localhost:6333
    twinvec ingest articles.jsonl -c articles --url http://host:6333 --ray
    """
    from twinvec_qdrant.report import IngestReport

    options = reading_options(include, exclude, no_gitignore, id_column, text_column, title_column)
    roots = roots_of(sources, options, allow_empty=allow_empty)
    if len(roots) > 1 and (source is not None or describe):
        raise typer.BadParameter("--source and --describe need a single SOURCE; ingest the others by separate commands")
    described = descriptions(describe, next(iter(roots.values())))
    check_stemmer(language)
    settings: dict[str, Any] = {"tenant_key": tenant_key, "late_interaction": late_interaction, "language": language}
    settings["chunking"] = _new_chunking(whole, chunk_tokens, overlap, surroundings)
    settings["index"] = None if quantization is None else IndexSettings(quantization)
    settings["cluster"] = cluster_settings(cluster)
    settings["payload_indexes"] = payload_indexes(payload_index, no_payload_indexes)
    if ray is not None and url is not None:
        wait = max(wait, _HELPED_WAIT_SECONDS)
    place = CollectionPlace(collection, path, url, wait, grpc_port, precision, dim)
    refuse_served_precision(ctx, place)
    complain_of_empty(empty := [root for root in roots.values() if root.is_empty()])
    writes = not dry_run and len(empty) < len(roots)
    with (
        helpers_on(ray, place) as helpers,
        _opened(
            place, model, helpers=helpers, keep_model=not is_flag(ctx, "model"), create=writes, **settings
        ) as opened,
    ):
        start, report = time.perf_counter(), IngestReport()
        names = list(roots) if source is None else [source]
        switches: dict[str, Any] = {"prune": prune, "allow_empty": allow_empty, "dry_run": dry_run}
        switches |= {"progress": not as_json, "allow_all_failed": True, **helpers}
        try:
            for root in roots.values():
                opened.ingest(root, **switches, report=report, source=source, describe=described)
        finally:  # documents committed before an error are reported
            if as_json:
                show_json({**asdict(report), "roots": names})
        if not as_json:
            _show_report(opened, report, names, time.perf_counter() - start, dry_run=dry_run)
        if writes:
            _complain_of_empty_collection(opened, report)
    if report.failed:
        raise typer.Exit(1 if report.all_failed else SOME_FAILED)


@contextmanager
def helpers_on(ray: str | None, place: CollectionPlace) -> Iterator[dict[str, Any]]:
    """With --ray, start Ray and yield the argument ``helpers`` of ``Collection.ingest``; without it, yield nothing.

    Raises:
        ConfigurationError: another process serves the store; no Ray cluster was started.
    """
    if ray is None:
        yield {}
        return
    if (serving := place.served_by()) is not None:
        raise ConfigurationError(
            f"--ray cannot write to {place.path or DEFAULT_PATH}, because it is served by {serving}; leave --ray out "
            "to send the documents to that process, or stop that process first"
        )
    reached = {"name": place.name, "url": place.url, "wait_seconds": place.wait}
    with ray_runner(ray).helpers({**reached, **grpc_options(place.url, place.grpc_port)}) as helpers:
        yield {"helpers": helpers}


def _new_chunking(
    whole: bool, max_tokens: int | None, overlap: int | None, surroundings: int | None
) -> ChunkSettings | Literal[False] | None:
    """Return the chunk settings that the options ask for, or None if no option for chunks is given."""
    given = [each for each in (max_tokens, overlap, surroundings) if each is not None]
    if whole:
        if given:
            raise typer.BadParameter("--no-chunking cannot be used with --chunk-tokens, --overlap or --surroundings")
        return False
    return ChunkSettings(max_tokens=max_tokens, overlap=overlap or 0, surroundings=surroundings or 0) if given else None


@looks_again
def _opened(
    place: CollectionPlace,
    /,
    model: str | None,
    *,
    helpers: Mapping[str, Any],
    keep_model: bool,
    create: bool,
    **settings: Any,
) -> Collection | ServedCollection:
    """Open the collection; if a process serves the store, return an object that talks to this process.

    If the collection does not exist and ``create`` is False, return an empty collection in memory.
    """
    if (client := client_of(place)) is None:
        return open_from_options(place, model, keep_model=keep_model, create=True, dry_run=not create, **settings)
    if place.dim is not None:
        raise ConfigurationError(NO_DIM)
    if helpers:  # the process was started after the check in ``helpers_on``
        raise ConfigurationError("--ray cannot write to a store that a process serves; stop that process first")
    from twinvec_qdrant.cli.served.ingesting import ServedCollection, exists

    if create:
        with wrong_usage():
            check_new_name(place.name)  # the process refuses a wrong name, even that of an existing collection
    if not create and not exists(client, place.name):
        return open_in_memory(place.name, model, settings)
    return ServedCollection.made(client, place.name, model, keep_model=keep_model, settings=settings)


def _complain_of_empty_collection(collection: Collection | ServedCollection, report: IngestReport) -> None:
    stored = report.new + report.updated + report.unchanged
    if not stored and not report.deleted and not collection.count():
        complain(f"twinvec: the collection {collection.name!r} exists, and is empty")


def _show_report(
    collection: Collection | ServedCollection,
    report: IngestReport,
    roots: Sequence[str],
    seconds: float,
    *,
    dry_run: bool,
) -> None:
    done = "that would be " if dry_run else ""
    figures = {
        "source" if len(roots) == 1 else "sources": list(roots),
        f"chunks {done}written": report.chunks,
        f"texts {done}encoded": report.encoded,
        "chunks longer than the model reads": report.truncated,
        **({"chunks mostly of words that the model does not know": report.unknown} if report.unknown else {}),
        "chunks in the collection": collection.count(),
    }
    shown = {name: as_text(value) for name, value in figures.items()}
    show(f"{collection.name}: {report}", properties({**shown, "seconds": f"{seconds:,.1f}"}))
    show_not_ingested(report)
