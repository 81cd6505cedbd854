"""The command ``twinvec search``: its options and its output.

``asking`` searches a collection, ``cli.served.searching`` sends the search to the process that serves the store, and
``cli.results.hits`` formats a hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinvec.cli.options import (
    WAIT_SECONDS,
    AsJson,
    CollectionModel,
    GrpcPort,
    PrecisionOption,
    SearchMode,
    StorePath,
    StoreUrl,
    Wait,
)
from twinvec.cli.terminal import complain, show, show_json
from twinvec_qdrant.cli.filters import filter_hints, parse_filter_options
from twinvec_qdrant.cli.options import (
    SOME_FAILED,
    AnyCollection,
    CollectionPlace,
    FilterOption,
    open_from_options,
    refuse_served_precision,
)
from twinvec_qdrant.cli.served.connecting import client_of, looks_again
from twinvec_qdrant.settings import MOST_HITS

if TYPE_CHECKING:
    from twinvec.retrieval.base import SpaceEncoder
    from twinvec_qdrant.asking import Answer, Asked
    from twinvec_qdrant.cli.results.places import RootsOf
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.stored_roots import StoredRoot

_SHOWING = "What is shown"
_NEAREST = 3  # number of hits shown if none is relevant, and of collections with hints about a filter


def search_command(
    ctx: typer.Context,
    queries: Annotated[list[str], typer.Argument(metavar="QUERY", help="One or more queries.", show_default=False)],
    collection: AnyCollection = None,
    path: StorePath = None,
    url: StoreUrl = None,
    model: CollectionModel = None,
    precision: PrecisionOption = "auto",
    mode: SearchMode = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            envvar="TWINVEC_RERANK",
            metavar="none|maxsim|MODEL",
            help="Reranker: maxsim (needs no other model), or MODEL, a cross-encoder.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_HITS, help="Number of hits for each query.")] = 10,
    offset: Annotated[
        int, typer.Option(min=0, max=MOST_HITS, help="Number of best hits to skip, to get the next page.")
    ] = 0,
    candidates: Annotated[int, typer.Option(min=1, max=MOST_HITS, help="Number of hits to rerank.")] = 100,
    where: FilterOption = None,
    words: Annotated[
        list[str] | None, typer.Option("--words", metavar="WORDS", help="The query in key words, for BM25. Repeatable.")
    ] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option("--answer", metavar="TEXT", help="A made-up answer, for the vectors (HyDE). Repeatable."),
    ] = None,
    min_relevance: Annotated[
        float | None,
        typer.Option(
            "--min-relevance", min=0, max=1, metavar="X", help="Leave out hits with a lower relevance, from 0 to 1."
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show all relevant hits instead of --limit hits (--min-relevance, default: .5)."),
    ] = False,
    chunks: Annotated[
        bool, typer.Option("--chunks", help="Show every chunk. Default: the best chunk of each document.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Show the whole text of each hit.", rich_help_panel=_SHOWING)
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the score of every stage.", rich_help_panel=_SHOWING)
    ] = False,
    files: Annotated[
        bool,
        typer.Option("--files", help="Print only the places of hits: PATH:LINE, or an id.", rich_help_panel=_SHOWING),
    ] = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Search a collection, or all collections of a store, and show the passages that answer the query.

    The defaults of --mode and --rerank are the settings that "twinvec tune" chose for the collection. If it was not
    tuned, they are hybrid and none. Without --collection, each collection is searched with its own model; the exit code
    is 3 if some collections cannot be searched.

    \b
    twinvec search "how do I renew a certificate" -c docs --rerank maxsim
    twinvec search "late fees" "refunds" -c docs --filter "year>=2020"
    twinvec search "late fees" --all --min-relevance .4 --files
    """
    from twinvec.retrieval.relevance import DEFAULT_MIN_RELEVANCE
    from twinvec_qdrant.asking import Asked
    from twinvec_qdrant.cli.served.searching import passages_for_output

    if as_json and files:
        raise typer.BadParameter("give only one of --json and --files")
    if everything and offset:
        raise typer.BadParameter("--all shows all pages: leave --offset out")
    asked = Asked(
        mode,
        rerank,
        limit,
        offset,
        candidates,
        parse_filter_options(where or []),
        chunks,
        DEFAULT_MIN_RELEVANCE if everything and min_relevance is None else min_relevance,
        everything=everything,
        phrasings={"words": words or [], "answers": answer or []} if words or answer else {},
        passages=passages_for_output(),
    )
    if not all(queries := [query.strip() for query in queries]):
        raise typer.BadParameter("the query is empty")
    place = CollectionPlace(collection or "", path, url, wait, grpc_port, precision)
    refuse_served_precision(ctx, place)
    answers, roots, failed = _search(place, model, queries, asked)
    _complain_of_unknown(answers)
    _tell_corrected(answers)
    if as_json:
        _print_json(answers, failed)
    elif files:
        _print_places(answers, roots, full=full)
    else:
        for each in answers:
            _show(each, asked, roots, named=len(answers) > 1, full=full, explain=explain)
    if not as_json:
        _tell_named(place, asked, answers)
        _hint(place, asked, answers)
    for name, error in failed.items():
        complain(f"twinvec: the collection {name!r} was not searched: {error}")
    if failed:
        raise typer.Exit(SOME_FAILED)


def _complain_of_unknown(answers: Sequence[Answer]) -> None:
    for query in (each.query for each in answers if each.unknown):
        complain(
            f"twinvec: the query {query!r} consists mostly of words that the model does not know, so a hybrid search "
            "uses words only, and vectors find little; search a collection whose model knows the query's language"
        )


def _tell_corrected(answers: Sequence[Answer]) -> None:
    for each in answers:
        if each.corrected:
            complain(f"twinvec: the collection lacks a word of {each.query!r}; searched for {each.corrected!r}")


def _tell_named(place: CollectionPlace, asked: Asked, answers: Sequence[Answer]) -> None:
    """On the first page, print a command that shows the document named in a query, unless it is the best hit."""
    from twinvec_qdrant.cli.results.hits import copyable

    if asked.offset:
        return
    for each in answers:
        for identity in each.named_elsewhere():
            name = copyable(identity)
            shown = quote(identity) if name == identity else name  # ``copyable`` quotes control characters
            command = " ".join(filter(None, ("twinvec show", shown, place.as_options())))
            complain(f"twinvec: the query names a document; show it with: {command}")


def _hint(place: CollectionPlace, asked: Asked, answers: Sequence[Answer]) -> None:
    """If a filter found nothing, print its probable mistakes, unless it has none in one of the searched collections."""
    from twinvec_qdrant.cli.collections import collection_info, store_entries

    if not asked.filter or any(each.hits for each in answers):
        return
    names = [place.name] if place.name else [each["name"] for each in store_entries(place) if each["model"]]
    found: dict[str, list[str]] = {}
    for name in names:
        found[name] = list(filter_hints(asked.filter, collection_info(place._replace(name=name))))
        if not found[name]:  # the filter has no mistake in this collection
            return
    for name, hints in islice(found.items(), _NEAREST):
        complain(f"twinvec: {'' if place.name else f'{name}: '}{'; '.join(hints)}")


@looks_again
def _search(
    place: CollectionPlace, model: str | None, queries: Sequence[str], asked: Asked
) -> tuple[list[Answer], RootsOf, dict[str, str]]:
    """Search the named collection, or all of the store; return answers, roots, and errors by collection."""
    from twinvec_qdrant.cli.served.searching import search_served

    if (client := client_of(place)) is not None:
        with client:
            return search_served(client, place, model, queries, asked)
    from twinvec_qdrant.asking import search_as_asked

    if place.name:
        with open_from_options(place, model) as opened:
            return search_as_asked(opened, queries, asked, load_first=True), {"": opened.roots()}, {}
    return _search_all(place, model, queries, asked)


def _search_all(
    place: CollectionPlace, model: str | None, queries: Sequence[str], asked: Asked
) -> tuple[list[Answer], RootsOf, dict[str, str]]:
    from twinvec_qdrant.asking import joined_answers, search_as_asked
    from twinvec_qdrant.list_and_drop import list_collections
    from twinvec_qdrant.several import collections_of, in_each

    entries = collections_of(list_collections(**place.store()), server=place.url or "", path=place.path)

    def opened_one(name: str, encoder: SpaceEncoder | None) -> Collection:
        return open_from_options(place._replace(name=name), model, encoder=encoder)

    def searched(opened: Collection) -> tuple[list[Answer], list[StoredRoot]]:
        return search_as_asked(opened, queries, whole, load_first=True), opened.roots()

    several = len(entries) > 1
    whole = replace(asked, limit=asked.limit + asked.offset, offset=0) if several else asked
    done, errors = in_each(entries, opened_one, searched)
    failed = {name: str(error) for name, error in errors.items()}
    if not several:
        found, roots = done[entries[0].name]
        return found, {"": roots}, failed
    answers = zip(*(each for each, _ in done.values()), strict=True)
    joined = [joined_answers(dict(zip(done, each, strict=True)), asked) for each in answers]
    return joined, {name: roots for name, (_, roots) in done.items()}, failed


def _print_json(answers: Sequence[Answer], failed: dict[str, str]) -> None:
    results: list[dict[str, Any]] = [
        {"query": each.query, "hits": [found.as_fields() for found in each.hits]}
        | ({"named": each.named} if each.named else {})
        | ({"corrected": each.corrected} if each.corrected else {})
        for each in answers
    ]
    printed: dict[str, Any] = {"results": results}
    if len(results) == 1:
        printed = {name: value for name, value in results[0].items() if name != "query"}
    show_json(printed | ({"failed": failed} if failed else {}))


def _print_places(answers: Sequence[Answer], roots: RootsOf, *, full: bool) -> None:
    from twinvec_qdrant.cli.results.hits import place
    from twinvec_qdrant.cli.results.places import placed

    for line in dict.fromkeys(place(each) for answer in answers for each in placed(answer.hits, roots, full=full)):
        typer.echo(line)


def _show(answer: Answer, asked: Asked, roots: RootsOf, *, named: bool, full: bool, explain: bool) -> None:
    """Print the hits of one query for people."""
    from rich.text import Text

    from twinvec.retrieval.relevance import DEFAULT_MIN_RELEVANCE
    from twinvec.retrieval.syntax import parse_query
    from twinvec_qdrant.cli.results.hits import rendered
    from twinvec_qdrant.cli.results.places import placed

    if named:
        show(Text(answer.query, "bold underline"), "")
    hits, times = answer.hits, f"found in {1000 * answer.searched:,.0f} ms"
    if answer.reranked is not None:
        times += f", reranked in {1000 * answer.reranked:,.0f} ms"
    if not hits:
        times = "nothing found" if asked.least is None else "nothing relevant found"
    elif (
        asked.least is None
        and not parse_query(answer.query).has_conditions
        and all(each.hit.relevance is not None and each.hit.relevance < DEFAULT_MIN_RELEVANCE for each in hits)
    ):
        hits = hits[:_NEAREST]
        show(Text("nothing relevant found; the nearest:", "bold"), "")
    ranked = enumerate(placed(hits, roots, full=full), asked.offset + 1)
    show(*rendered(ranked, full=full, explain=explain), Text(times, "dim"), *([""] if named else []))
