"""The commands ``ingest``, ``search`` and ``info``, and the options that all commands of collections share.

Options in, tables or JSON out; ``verify`` and ``migrate`` are in ``upkeep``.

Everything heavy is imported within a command, so that ``twinvec --help`` stays quick.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twinvec.cli.terminal import named_text, properties, show, show_json, table
from twinvec_qdrant.cli.filters import _filter
from twinvec_qdrant.cli.options import WAIT_SECONDS, AsJson, Model, Name, Place, Url, Wait, open_collection, plain
from twinvec_qdrant.settings import IndexSettings, Quantization

if TYPE_CHECKING:
    from twinvec.rerankers.cross_encoder import CrossEncoderReranker
    from twinvec.rerankers.maxsim import MaxSimReranker
    from twinvec.retrieval.base import Hit, Reranker
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.report import IngestReport
    from twinvec_qdrant.settings import ChunkSettings


_FAILURES_SHOWN = 10


def ingest_command(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A folder, a file, a .jsonl file, or - for stdin.")],
    collection: Name,
    path: Place = None,
    url: Url = None,
    model: Model = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove documents that are no longer in SOURCE.")] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Let --prune remove everything where SOURCE holds no documents.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    whole: Annotated[bool, typer.Option("--no-chunking", help="Keep documents whole (new collections).")] = False,
    chunk_tokens: Annotated[
        int | None, typer.Option(min=1, help="Largest chunk, in tokens; the model's limit unless given.")
    ] = None,
    overlap: Annotated[int | None, typer.Option(min=0, help="Tokens a chunk repeats of the one before.")] = None,
    language: Annotated[str, typer.Option(help="Snowball language of BM25 (new collections).")] = "english",
    quantization: Annotated[
        Quantization | None, typer.Option(help="Small copies of vectors to search by (new collections).")
    ] = None,
    tenant_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Payload key that names a document's tenant (new collections).")
    ] = None,
    late_interaction: Annotated[
        bool | None,
        typer.Option("--late-interaction", help="Keep token states, so that maxsim need not compute them (new)."),
    ] = None,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Take documents into a collection; again for updates.

    What is unchanged costs nothing. A folder gives a document a file, with its path as id; hidden files are left
    out. A .jsonl file gives one a line: "id", "text", perhaps "title"; everything else is payload to filter by. Killed
    at any moment, the next run goes on. A broken document stops no other; the exit code is 1 where all are broken.

    \b
    twinvec ingest ./docs --collection docs --prune
    twinvec ingest articles.jsonl --collection articles --url http://localhost:6333
    """
    from twinvec_qdrant.ingest.reading import read_source
    from twinvec_qdrant.report import IngestReport

    documents = read_source(source)
    chunking = _chunking(whole, chunk_tokens, overlap)
    index = None if quantization is None else IndexSettings(quantization)
    with open_collection(
        collection,
        path,
        url,
        model,
        chunking=chunking,
        index=index,
        tenant_key=tenant_key,
        late_interaction=late_interaction,
        create=not dry_run,
        dry_run=dry_run,
        language=language,
        wait=wait,
    ) as opened:
        start, report = time.perf_counter(), IngestReport()
        try:
            opened.ingest(
                documents,
                prune=prune,
                allow_empty=allow_empty,
                dry_run=dry_run,
                progress=not as_json,
                report=report,
            )
        finally:  # also where it ends with an error: what was committed stays
            if as_json:
                show_json(asdict(report))
        if not as_json:
            _show_report(opened, report, time.perf_counter() - start)
    if report.failed and not report.new + report.updated + report.unchanged:
        raise typer.Exit(1)


def search_command(
    queries: Annotated[list[str], typer.Argument(metavar="QUERY", help="One or more.")],
    collection: Name,
    path: Place = None,
    url: Url = None,
    model: Model = None,
    mode: Annotated[
        Literal["hybrid", "dense", "sparse"] | None,
        typer.Option(help="By meaning (dense), by words (sparse, BM25), or both fused (hybrid)."),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(metavar="none|maxsim|MODEL", help="maxsim needs no further model; MODEL is a cross-encoder."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Hits a query.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many of the best: the pages before.")] = 0,
    candidates: Annotated[int, typer.Option(min=1, help="How many hits to rerank.")] = 100,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="KEY=VALUE",
            help="On what hits show, or on id; also >=, <=, >, <. All must hold. 5 and true are no texts, '\"5\"' is.",
        ),
    ] = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="Show every chunk, not the best of each document.")] = False,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Search a collection; every stage's score is shown.

    Without --mode and --rerank as "twinvec tune" has chosen for the collection; hybrid and none, where it has not.

    \b
    twinvec search "how do I renew a certificate" --collection docs --rerank maxsim
    twinvec search "late fees" "refunds" --collection docs --filter lang=en --filter "year>=2020"
    """
    from twinvec.retrieval.tuned_search import Setting, TunedSearch

    conditions = _filter(where or [])
    with open_collection(collection, path, url, model, create=False, wait=wait) as opened:
        reranker: Reranker | None
        if mode is None and rerank is None:
            tuned = TunedSearch(opened)
            setting, reranker = tuned.setting, tuned.reranker
            candidates = setting.candidates or candidates
        else:
            setting, reranker = Setting(mode or "hybrid"), _reranker(rerank or "none", opened)
        if setting.mode != "sparse":
            opened.encoder.encode_query(["ready"])  # what is loaded at first use is no part of a query's time
        results = []
        for query in queries:
            start = time.perf_counter()
            depth, skipped = (limit, offset) if reranker is None else (max(limit + offset, candidates), 0)
            hits = opened.search(
                query, depth, filter=conditions, group=not chunks, offset=skipped, **setting.first_stage
            )
            retrieved = time.perf_counter()
            if reranker is not None:
                hits = reranker.rerank(query, hits, limit + offset)[offset:]
            took = (retrieved - start, time.perf_counter() - retrieved)
            results.append({"query": query, "hits": [asdict(hit) for hit in hits]})
            if not as_json:
                _show_hits(query, hits, took, reranked=reranker is not None)
    if as_json:
        show_json({"hits": results[0]["hits"]} if len(results) == 1 else {"results": results})


def info_command(
    collection: Name, path: Place = None, url: Url = None, wait: Wait = WAIT_SECONDS, as_json: AsJson = False
) -> None:
    """Show what a collection holds and its model.

    \b
    twinvec info --collection docs
    """
    with open_collection(collection, path, url, None, create=False, wait=wait) as opened:
        values = opened.info()
    if as_json:
        show_json(values)
        return
    shown = {key.replace("_", " "): plain(value) for key, value in values.items() if key not in ("name", "location")}
    show(f"{values['name']} at {values['location']}", properties(shown))


def _chunking(whole: bool, max_tokens: int | None, overlap: int | None) -> ChunkSettings | Literal[False] | None:
    """What the options say; None where they say nothing, and the collection's own settings hold."""
    from twinvec_qdrant.settings import ChunkSettings

    if whole:
        if max_tokens is not None or overlap is not None:
            raise typer.BadParameter("--no-chunking leaves no meaning to --chunk-tokens and --overlap")
        return False
    if max_tokens is None and overlap is None:
        return None
    return ChunkSettings(max_tokens=max_tokens, overlap=overlap or 0)


def _reranker(name: str, collection: Collection) -> MaxSimReranker | CrossEncoderReranker | None:
    from twinvec.rerankers.cross_encoder import CrossEncoderReranker

    if name == "none":
        return None
    return collection.maxsim() if name == "maxsim" else CrossEncoderReranker(name)


def _show_report(collection: Collection, report: IngestReport, seconds: float) -> None:
    figures = {
        "chunks written": report.chunks,
        "texts encoded": report.encoded,
        "chunks longer than the model reads": report.truncated,
        "chunks in the collection": collection.count(),
    }
    shown = {name: plain(value) for name, value in figures.items()}
    show(f"{collection.name}: {report}", properties({**shown, "seconds": f"{seconds:,.1f}"}))
    for source, reason in report.failures[:_FAILURES_SHOWN]:
        typer.echo(f"failed: {source}: {reason}", err=True)
    if len(report.failures) > _FAILURES_SHOWN:
        typer.echo(f"... and {len(report.failures) - _FAILURES_SHOWN:,} more; --json lists all", err=True)


def _show_hits(query: str, hits: Sequence[Hit], took: tuple[float, float], *, reranked: bool) -> None:
    stages = list(dict.fromkeys(stage for hit in hits for stage in hit.scores))
    total = ("score",) if reranked else ()  # the reranker's may be mixed with the score before
    lines = table(query, "", "source and text", *stages, *total, numbers=("", *stages, *total), rest="source and text")
    for rank, hit in enumerate(hits, 1):
        scores = (f"{hit.scores[stage]:.3f}" if stage in hit.scores else "" for stage in stages)
        body = hit.text.removeprefix(str(hit.payload.get("heading", "")))
        lines.add_row(str(rank), named_text(hit.id, body), *scores, *(f"{hit.score:.3f}" for _ in total))
    times = f"found in {1000 * took[0]:,.0f} ms"
    if reranked:
        times += f", reranked in {1000 * took[1]:,.0f} ms"
    show(lines, f"{times if hits else 'nothing found'}\n")
