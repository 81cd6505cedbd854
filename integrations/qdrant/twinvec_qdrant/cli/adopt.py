"""The command ``twinvec adopt``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinvec.cli.options import (
    MODEL_HELP,
    URL_HELP,
    WAIT_SECONDS,
    AsJson,
    CollectionName,
    GrpcPort,
    Wait,
    grpc_options,
    server_address,
    store_folder,
)
from twinvec.cli.terminal import complain, properties, show, show_json
from twinvec.errors import CollectionNotFoundError, TwinvecError
from twinvec_qdrant.cli.options import SOME_FAILED, CollectionPlace, check_stemmer, open_from_options
from twinvec_qdrant.framework_layout import LayoutName
from twinvec_qdrant.list_and_drop import drop_collection

if TYPE_CHECKING:
    from twinvec.encoder import Encoder
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.report import AdoptReport

_SHOWN = 10


def adopt_command(
    collection: CollectionName,
    layout: Annotated[LayoutName, typer.Option(help="Framework that filled the collection: langchain or llama_index.")],
    model: Annotated[
        str | None,
        typer.Option(
            help=f"The model that gave the stored vectors: {MODEL_HELP} "
            "Default: the recorded model of a collection that was adopted before.",
            show_default=False,
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help=URL_HELP, show_default=False, callback=server_address)] = None,
    local_path: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of a QdrantClient(path=...); needs --to-path or --to-url."),
    ] = None,
    to_path: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Copy the documents into a collection of this embedded store.", callback=store_folder
        ),
    ] = None,
    to_url: Annotated[
        str | None, typer.Option(help="Copy the documents into a collection of this server.", callback=server_address)
    ] = None,
    to_collection: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the copy. Default: the same name. Without --to-path and --to-url, the copy is on the same "
            "server.",
        ),
    ] = None,
    document_prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Prompt that documents were encoded with; '' for none. Default: the model's prompt."
        ),
    ] = None,
    text_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Payload key of texts. Default: page_content, or text for llama_index."),
    ] = None,
    metadata_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="LangChain's payload key of metadata. Default: metadata.")
    ] = None,
    vector_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the dense vectors. Default: the framework's.")
    ] = None,
    language: Annotated[
        str, typer.Option(help="Language of the stemmer for BM25 (Snowball); fixed by the first adoption.")
    ] = "english",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and count; write nothing.")] = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Adopt a collection of LangChain's or LlamaIndex's own Qdrant class, without encoding its documents again.

    First, a sample of the stored vectors is compared with new vectors of the model. Then every point becomes a document
    of twinvec: it keeps its id, its vectors and its payload, and gets BM25 weights and a record. The framework's
    application can go on reading and writing. Interrupted adoptions resume at the next run. Run the command again to
    adopt the documents that the application has written since. The exit code is 3 if some points could not be adopted.

    \b
    twinvec adopt --url http://host:6333 -c docs --layout langchain --model NAME
    twinvec adopt --local-path qdrant --to-path store -c docs --layout langchain \\
      --model NAME
    """
    if (url is None) == (local_path is None):
        raise typer.BadParameter("give one of --url and --local-path")
    if to_path is not None and to_url is not None:
        raise typer.BadParameter("give one of --to-path and --to-url")
    copies = to_path is not None or to_url is not None or to_collection is not None
    if local_path is not None and not copies:
        raise typer.BadParameter("--local-path needs --to-path or --to-url, because twinvec cannot open such a folder")
    check_stemmer(language)
    from twinvec_qdrant.adopting.adopt import adopt_collection

    encoder = None if model is None else _encoder(model, document_prompt)
    with ExitStack() as stack:
        options: dict[str, Any] = {**grpc_options(url, grpc_port), "wait_seconds": wait}
        if copies:
            place = CollectionPlace(to_collection or collection, to_path, None if to_path else to_url or url, wait)
            target = _target(place, dry_run=dry_run, encoder=encoder, chunking=False, language=language)
            options["into"] = stack.enter_context(target)
        report = adopt_collection(
            collection,
            layout=layout,
            encoder=encoder,
            url=url,
            local_path=local_path,
            text_key=text_key,
            metadata_key=metadata_key,
            vector_name=vector_name,
            language=language,
            dry_run=dry_run,
            progress=not as_json,
            **options,
        )
    _show(collection, report, dry_run, as_json)
    if report.skipped:
        raise typer.Exit(SOME_FAILED)


@contextmanager
def _target(place: CollectionPlace, *, dry_run: bool, **settings: Any) -> Iterator[Collection]:
    """Open or create the collection for the documents; drop a new collection again if nothing could be stored."""
    try:
        target, made = open_from_options(place, **settings), False
    except CollectionNotFoundError:
        target, made = open_from_options(place, create=True, dry_run=dry_run, **settings), not dry_run
    with target:
        try:
            yield target
            return
        except TwinvecError as error:
            refused, unused = error, made and target.count() == 0
    if unused:
        drop_collection(place.name, place.path, url=place.url, wait_seconds=place.wait)
    raise refused


def _encoder(model: str, document_prompt: str | None) -> Encoder:
    from twinvec.encoder import Encoder

    if document_prompt is None:
        return Encoder(model)
    return Encoder(model, prompts={**Encoder(model).prompts, "document": document_prompt})


def _show(collection: str, report: AdoptReport, dry_run: bool, as_json: bool) -> None:
    if as_json:
        show_json(asdict(report))
        return
    figures = {name: f"{getattr(report, name):,}" for name in ("adopted", "unchanged", "skipped", "removed")}
    if report.lowest_cosine is not None:
        figures["sample"] = f"{report.compared} vectors, lowest cosine {report.lowest_cosine:.4f}"
    show(f"{collection}: {'would be ' if dry_run else ''}adopted ({report.layout})", properties(figures))
    for point, reason in report.skips[:_SHOWN]:
        complain(f"skipped: {point}: {reason}")
    if report.skipped > _SHOWN:
        complain(f"... and {report.skipped - _SHOWN:,} more; --json lists {len(report.skips):,}")
