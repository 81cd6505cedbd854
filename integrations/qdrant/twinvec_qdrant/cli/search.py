"""The command ``twinvec search``: this module prints its hits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from twinvec.cli.options import (
    COLLECTIONS_PANEL,
    AsJson,
    CollectionModel,
    CollectionName,
    SearchMode,
    StorePath,
    StoreUrl,
)
from twinvec.cli.terminal import named_text, show, show_json, table
from twinvec_qdrant.cli.filters import parse_filter_options
from twinvec_qdrant.cli.options import WAIT_SECONDS, CollectionPlace, FilterOption, GrpcPort, Wait, open_from_options

if TYPE_CHECKING:
    from twinvec.retrieval.base import Hit, Reranker
    from twinvec_qdrant.collection import Collection


def register(app: typer.Typer) -> None:
    """Add the command to ``twinvec``."""
    app.command("search", rich_help_panel=COLLECTIONS_PANEL)(search_command)


def search_command(
    queries: Annotated[list[str], typer.Argument(metavar="QUERY", help="One or more queries.")],
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    model: CollectionModel = None,
    mode: SearchMode = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            envvar="TWINVEC_RERANK",
            metavar="none|maxsim|MODEL",
            help="maxsim needs no other model. MODEL is a cross-encoder.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of hits for each query.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="Skip the best N hits: the earlier pages.")] = 0,
    candidates: Annotated[int, typer.Option(min=1, help="Number of hits to rerank.")] = 100,
    where: FilterOption = None,
    chunks: Annotated[
        bool, typer.Option("--chunks", help="Show every chunk. Default: the best chunk of each document.")
    ] = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Search a collection, and show the score of every stage.

    The defaults of --mode and --rerank are the settings that "twinvec tune" chose for the collection, else hybrid and
    none.

    \b
    twinvec search "how do I renew a certificate" -c docs --rerank maxsim
    twinvec search "late fees" "refunds" -c docs --filter "year>=2020"
    """
    from twinvec.retrieval.tuned_search import Setting, TunedSearch

    conditions = parse_filter_options(where or [])
    with open_from_options(CollectionPlace(collection, path, url, wait, grpc_port), model) as opened:
        reranker: Reranker | None
        if mode is None and rerank is None:
            tuned = TunedSearch(opened)
            setting, reranker = tuned.setting, tuned.reranker
            candidates = setting.candidates or candidates
        else:
            setting, reranker = Setting(mode or "hybrid"), _reranker(rerank or "none", opened)
        if setting.mode != "sparse":
            opened.encoder.encode_query(["ready"])  # load the model first: the times below are those of the queries
        depth, skipped = (limit, offset) if reranker is None else (max(limit + offset, candidates), 0)
        options = {"filter": conditions, "group": not chunks, "offset": skipped, **setting.first_stage}
        results = []
        for query in queries:
            start = time.perf_counter()
            hits = opened.search(query, depth, **options)
            retrieved = time.perf_counter()
            if reranker is not None:
                hits = reranker.rerank(query, hits, limit + offset)[offset:]
            seconds = (retrieved - start, time.perf_counter() - retrieved)
            described = _described(opened, hits, chunks=chunks)
            results.append(
                {"query": query, "hits": [asdict(hit) | said for hit, said in zip(hits, described, strict=True)]}
            )
            if not as_json:
                _show_hits(query, hits, described, seconds, reranked=reranker is not None)
    if as_json:
        show_json({"hits": results[0]["hits"]} if len(results) == 1 else {"results": results})


def _reranker(name: str, collection: Collection) -> Reranker | None:
    from twinvec.rerankers.cross_encoder import CrossEncoderReranker

    if name == "none":
        return None
    return collection.maxsim() if name == "maxsim" else CrossEncoderReranker(name)


def _described(collection: Collection, hits: Sequence[Hit], *, chunks: bool) -> list[dict[str, str]]:
    """Return for each hit what the user has said of its source, under "described"; nothing for most collections."""
    sources = [hit.id.rpartition("#")[0] if chunks else hit.id for hit in hits]
    found = collection.described(sources)
    return [{"described": found[source]} if source in found else {} for source in sources]


def _show_hits(
    query: str,
    hits: Sequence[Hit],
    described: Sequence[Mapping[str, str]],
    seconds: tuple[float, float],
    *,
    reranked: bool,
) -> None:
    """Print the hits of one query; ``seconds`` are those of the search and of the reranker."""
    stages = list(dict.fromkeys(stage for hit in hits for stage in hit.scores))
    total = ("score",) if reranked else ()  # a reranker may mix its score with the score before
    lines = table(query, "", "source and text", *stages, *total, numbers=("", *stages, *total), rest="source and text")
    for rank, (hit, said) in enumerate(zip(hits, described, strict=True), 1):
        scores = (f"{hit.scores[stage]:.3f}" if stage in hit.scores else "" for stage in stages)
        body = hit.text.removeprefix(str(hit.payload.get("heading", "")))
        name = f"{hit.id} ({said['described']})" if said else hit.id
        lines.add_row(str(rank), named_text(name, body), *scores, *(f"{hit.score:.3f}" for _ in total))
    times = f"found in {1000 * seconds[0]:,.0f} ms"
    if reranked:
        times += f", reranked in {1000 * seconds[1]:,.0f} ms"
    show(lines, f"{times if hits else 'nothing found'}\n")
