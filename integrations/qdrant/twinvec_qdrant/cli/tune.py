"""The command ``twinvec tune``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from twinvec.cli.options import (
    WAIT_SECONDS,
    AsJson,
    CollectionName,
    GrpcPort,
    PrecisionOption,
    Split,
    StorePath,
    StoreUrl,
    Wait,
    wrong_usage,
)
from twinvec.cli.terminal import show, show_json, table
from twinvec_qdrant.cli.options import CollectionPlace, refuse_served_precision
from twinvec_qdrant.cli.served.maintaining import maintenance_of
from twinvec_qdrant.serving.process import DEFAULT_PATH, serving_process

_SETTINGS_SHOWN = 10


def tune_command(
    ctx: typer.Context,
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    ir: Annotated[
        Path | None,
        typer.Option(help="Folder of judged queries (BEIR layout). Default: cut queries out of the documents."),
    ] = None,
    split: Split = "test",
    measure: Annotated[str, typer.Option(help="Measure that decides: ndcg@k, mrr@k, map@k, recall@k.")] = "ndcg@10",
    precision: PrecisionOption = "auto",
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Choose the best search settings of a collection, and store them with it.

    The command compares dense search, sparse search and hybrid search with several weights, each with and without
    MaxSim or feedback. It needs queries with known answers: judged queries (--ir), or passages cut out of the
    collection's own documents. With passages, the command chooses neither MaxSim nor feedback. Plain hybrid search
    stays unless a setting beats it beyond chance, and also on queries that did not take part in the choice
    (cross-validation). If a process serves the store, that process measures, and its next searches use the choice.

    \b
    twinvec tune --collection articles --ir articles-judged/
    """
    from twinvec.evaluation.beir import load_beir
    from twinvec.evaluation.measures import deepest, import_ir_measures

    place = CollectionPlace(collection, path, url, wait, grpc_port, precision)
    refuse_served_precision(ctx, place)
    if url is not None or serving_process(path or DEFAULT_PATH) is None:
        import_ir_measures()
    with wrong_usage():
        deepest([measure])
    data = load_beir(ir, split, corpus_optional=True) if ir is not None else None
    with maintenance_of(place) as opened:
        found = opened.tune(data, measure=measure)
        if as_json:
            show_json({"collection": collection, **found})
        else:
            _show_tuning(collection, found)
        opened.keep(found)  # called last, because it fails if another process is writing
    if not as_json:
        show(f"stored with the collection: twinvec search {place.as_options()} uses it")


def _show_tuning(collection: str, found: Mapping[str, Any]) -> None:
    """Show the report of ``Tuning.as_json``."""
    from twinvec.evaluation.tuning import PLAIN, first_stages
    from twinvec.retrieval.tuned_search import Setting

    figures, measure = found["figures"], found["measure"]
    chosen, single = Setting(**found["setting"]), Setting(**found["single"])
    lines = table(f"{collection}: the best of {len(figures)} search settings", "setting", measure, numbers=(measure,))
    ranked = sorted(figures, key=lambda each: -figures[each])
    plain = {str(each) for each in first_stages(feedback=True) if each.words == 1}
    shown = dict.fromkeys([*ranked[:_SETTINGS_SHOWN], str(chosen), *(each for each in ranked if each in plain)])
    for setting in shown:
        lines.add_row(f"{setting} (chosen)" if setting == str(chosen) else setting, f"{figures[setting]:.2f}")
    queries = f"{found['queries']:,} judged queries"
    if found["pseudo"]:
        queries = (
            f"{found['queries']:,} passages, each cut out of a document; the search had to find the rest of it. "
            "People ask differently: judged queries (--ir) decide better"
        )
    reason = "no other setting beats it" if chosen == PLAIN else f"it beats plain {PLAIN}"
    times = found["milliseconds"]
    plain_time = "" if chosen == PLAIN else f", and {times['plain']:,.0f} ms by plain hybrid search"
    show(
        lines,
        f"measured on {queries}",
        f"chosen: {chosen}; {reason} beyond chance (paired by query, corrected for the number of settings)",
        f"gain over plain hybrid search: {_gain(found['gain_over_plain'])}",
        f"gain over {single}, the best single stage: {_gain(found['gain'])}",
        "both gains are measured on queries that did not take part in the choice",
        f"a search takes {times['chosen']:,.0f} ms{plain_time}",
    )


def _gain(test: Mapping[str, Any]) -> str:
    from twinvec.evaluation.report.figure_tables import shown_p_value

    low, high = test["interval"]["low"], test["interval"]["high"]
    return f"{test['difference']:+.2f} ({low:+.2f} to {high:+.2f}, p {shown_p_value(test['p_value'])})"
