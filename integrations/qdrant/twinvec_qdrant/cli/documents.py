"""The commands ``twinvec documents``, ``twinvec get``, ``twinvec show`` and ``twinvec delete``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import typer

from twinvec.cli.options import WAIT_SECONDS, AsJson, CollectionName, GrpcPort, StorePath, StoreUrl, Wait
from twinvec.cli.terminal import complain, show, show_json, table, tell
from twinvec_qdrant.cli.filters import parse_filter_options
from twinvec_qdrant.cli.options import AnyCollection, CollectionPlace, FilterOption, check_confirmed
from twinvec_qdrant.cli.served.documents import documents_of, nearest_hint

_SHOWN = 10
_ROWS = 1000  # rows of a table, which is laid out as a whole


def documents_command(
    collection: CollectionName,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATTERN", help="List only ids that fit; * stands for any characters, as in 'guides/*'."
        ),
    ] = None,
    path: StorePath = None,
    url: StoreUrl = None,
    where: FilterOption = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="List only the documents of this source.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Largest number of documents to list. Default: all.", show_default=False)
    ] = None,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """List the documents of a collection, sorted by id.

    With --json, each document is an object in a line of its own.

    \b
    twinvec documents --collection docs
    twinvec documents 'guides/*' --collection docs --filter lang=de --json
    """
    given = {"filter": parse_filter_options(where or ()) or None, "source": source, "pattern": patterns or None}
    chosen = {name: value for name, value in given.items() if value is not None}
    with documents_of(CollectionPlace(collection, path, url, wait, grpc_port)) as documents:
        entries = documents.entries(limit, **chosen)
        if as_json:
            for each in entries:
                show_json(each)
        elif not _show_entries(entries):
            tell("no documents with these options" if chosen else f"no documents in {collection}")


def _show_entries(entries: Iterator[Mapping[str, Any]]) -> int:
    """Print tables of at most ``_ROWS`` documents, and return the number of all documents."""
    from twinvec_qdrant.cli.results.hits import copyable, printable

    shown = 0
    while page := list(islice(entries, _ROWS)):
        lines = table("Documents", "id", "title", "source", "chunks", numbers=("chunks",))
        for each in page:
            chunks = f"{each['chunks']:,}" if each["complete"] else "incomplete"
            lines.add_row(copyable(each["id"]), printable(each["title"]), each["source"] or "", chunks)
        show(lines)
        shown += len(page)
    return shown


def get_command(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of documents, as search shows them.")],
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Print the embedded texts of documents, for programs; with --json, also the payloads.

    For people, use "twinvec show". The exit code is 1 if a document does not exist; the others are printed.

    \b
    twinvec get README.md guides/tls.md --collection docs --json
    """
    with documents_of(CollectionPlace(collection, path, url, wait, grpc_port)) as documents:
        found = documents.get(ids)
    if as_json:
        show_json({name: found[name] for name in ("documents", "missing")})
    else:
        _print_documents(found["documents"])
    _end(found["missing"], found["nearest"])


def _print_documents(documents: Sequence[Mapping[str, Any]]) -> None:
    """Print documents as the collection holds them; on a terminal, without control codes."""
    from twinvec_qdrant.cli.results.hits import copyable, printable, safe

    on_terminal = sys.stdout.isatty()
    for number, each in enumerate(documents):
        name, described, text = each["id"], each.get("described", ""), each["text"]
        if on_terminal:
            name, described, text = copyable(name), printable(described), safe(text)
        name += f" ({described})" if described else ""
        typer.echo(("\n" if number else "") + typer.style(name, bold=True) + f"\n\n{text}")


def show_command(
    identity: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a document, as search shows it, or the path of its file.")
    ],
    collection: AnyCollection = None,
    path: StorePath = None,
    url: StoreUrl = None,
    launch: Annotated[
        bool, typer.Option("--open", help="Open the document's file or web address in the system's default program.")
    ] = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
) -> None:
    """Print a document for people, or open it.

    A text file is read from the disk; of any other document, the text in the collection is printed. Without
    --collection, the document is looked up in all collections of the store.

    \b
    twinvec show guides/tls.md -c docs
    twinvec show contracts/lease.pdf --open
    """
    from twinvec_qdrant.cli.results.show_document import find_document, open_document, print_document

    found = find_document(CollectionPlace(collection or "", path, url, wait, grpc_port), identity)
    if not (launch and open_document(found)):
        print_document(found)


def delete_command(
    collection: CollectionName,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of documents.")] = None,
    path: StorePath = None,
    url: StoreUrl = None,
    where: FilterOption = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="NAME", help="Delete a source of the collection with its documents."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report what would be deleted, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --filter or --source: do not ask for confirmation.")] = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Delete documents from a collection by id or by filter, or delete a source with its documents.

    The files of the documents stay, so the next ingest or update adds these documents again, unless their source was
    deleted. The exit code is 1 if a document does not exist; the others are deleted.

    \b
    twinvec delete README.md --collection docs
    twinvec delete --filter lang=de --collection docs --dry-run
    twinvec delete --source minutes --collection docs
    """
    if sum(map(bool, (ids, where, source is not None))) != 1:
        raise typer.BadParameter("give one of ID, --filter and --source")
    if not (ids or dry_run):
        check_confirmed(yes, as_json=as_json)
    chosen: dict[str, Any] = {"filter": parse_filter_options(where)} if where else {"source": source}
    place = CollectionPlace(collection, path, url, wait, grpc_port)
    nearest: Mapping[str, Sequence[str]] = {}
    with documents_of(place) as documents:
        if ids:
            found = documents.delete(ids=ids, dry_run=dry_run)
            if found["missing"]:
                nearest = documents.get(found["missing"])["nearest"]
        else:
            found = documents.delete(**chosen, dry_run=dry_run or not yes)
    if not (ids or yes or dry_run) and (found["documents"] or source is not None):
        found = _deleted_if_confirmed(place, found["documents"], source)
    _print_deleted(found, dry_run=dry_run, as_json=as_json)
    _end(found["missing"], nearest)


def _print_deleted(found: Mapping[str, Any], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        show_json({name: found[name] for name in ("deleted", "documents", "missing")})
    elif dry_run:
        typer.echo(f"would delete {_documents(len(found['documents']))}")
        _list(found["documents"])
    else:
        typer.echo(f"deleted {_documents(found['deleted'])}")


def _deleted_if_confirmed(place: CollectionPlace, ids: Sequence[str], source: str | None) -> dict[str, Any]:
    """Ask for confirmation, and delete the source, or without ``source`` the documents with these ids.

    Documents that are stored after the question are kept, even if they satisfy the filter.
    """
    _list(ids)
    what = _documents(len(ids)) if source is None else f"the source {source!r} and its {_documents(len(ids))}"
    typer.confirm(f"Delete {what} from {place.name!r}?", abort=True, err=True)
    with documents_of(place) as documents:
        if source is not None:
            return documents.delete(source=source)
        # all ids existed before the question; one that is gone was deleted by another process
        return {**documents.delete(ids=ids), "missing": []}


def _list(ids: Sequence[str]) -> None:
    from twinvec_qdrant.cli.results.hits import copyable

    for each in ids[:_SHOWN]:
        typer.echo(f"  {copyable(each)}", err=True)
    if len(ids) > _SHOWN:
        typer.echo(f"  ... and {len(ids) - _SHOWN:,} more", err=True)


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count:,} documents"


def _end(missing: Sequence[str], nearest: Mapping[str, Sequence[str]]) -> None:
    """Print the ids of missing documents, and similar ids; exit with code 1 if a document is missing."""
    for each in missing[:_SHOWN]:
        complain(f"twinvec: the collection has no document {each!r}{nearest_hint(nearest.get(each, ()))}")
    if len(missing) > _SHOWN:
        complain(f"twinvec: ... and {len(missing) - _SHOWN:,} more unknown ids; --json lists all")
    if missing:
        raise typer.Exit(1)
