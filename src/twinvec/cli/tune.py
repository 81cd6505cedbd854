"""The command ``twinvec tune``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinvec.cli.options import AsJson, CollectionName, Split, StorePath, StoreUrl, open_collection, wrong_usage
from twinvec.cli.terminal import show, show_json, table

if TYPE_CHECKING:
    from twinvec.evaluation.statistics import PairedTest
    from twinvec.evaluation.tuning import Tuning

_SETTINGS_SHOWN = 10


def tune_command(
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    ir: Annotated[
        Path | None,
        typer.Option(help="Folder of judged queries (BEIR layout). Default: cut queries out of the documents."),
    ] = None,
    split: Split = "test",
    measure: Annotated[str, typer.Option(help="Measure that decides: ndcg@k, mrr@k, map@k, recall@k.")] = "ndcg@10",
    as_json: AsJson = False,
) -> None:
    """Choose the best search settings of a collection, and store them with it.

    The command compares dense, sparse and hybrid search, the last with several weights, with and without MaxSim or
    feedback. The queries have known answers: they are judged (--ir), or passages cut out of the collection's own
    documents. Such passages cannot choose MaxSim or feedback. Plain hybrid search stays unless a setting beats it
    beyond chance, and also on queries that did not take part in the choice (cross-validation).

    \b
    twinvec tune --collection articles --ir articles-judged/
    """
    from twinvec.encoder import Encoder
    from twinvec.evaluation.beir import load_beir
    from twinvec.evaluation.ir import check_answers_held
    from twinvec.evaluation.measures import deepest, import_ir_measures
    from twinvec.evaluation.tuning import tune, tune_by_documents
    from twinvec.retrieval.tuned_search import save

    import_ir_measures()
    with wrong_usage():
        deepest([measure])
    data = load_beir(ir, split, corpus_optional=True) if ir is not None else None
    with open_collection(collection, path, url=url) as opened:
        if data is None:
            found = tune_by_documents(opened, measure=measure, progress=True)
        else:
            check_answers_held(opened, data)
            encoder = opened.encoder if isinstance(opened.encoder, Encoder) else None
            found = tune(opened, data, encoder=encoder, measure=measure, progress=True)
        if as_json:
            show_json({"collection": collection, **found.as_json()})
        else:
            _show_tuning(collection, found)
        save(opened, found.setting, measure)  # done last, because it fails if another process is writing
    if not as_json:
        show(f"stored with the collection: twinvec search --collection {collection} uses it")


def _show_tuning(collection: str, found: Tuning) -> None:
    from twinvec.evaluation.tuning import PLAIN

    title = f"{collection}: the best of {len(found.figures)} search settings"
    lines = table(title, "setting", found.measure, numbers=(found.measure,))
    ranked = sorted(found.figures, key=lambda each: -found.figures[each])
    plain = [each for each in ranked if not each.mix and each.words == 1]
    for setting in dict.fromkeys([*ranked[:_SETTINGS_SHOWN], found.setting, *plain]):
        name = f"{setting} (chosen)" if setting == found.setting else str(setting)
        lines.add_row(name, f"{found.figures[setting]:.2f}")
    queries = f"{found.queries:,} judged queries"
    if found.pseudo:
        queries = (
            f"{found.queries:,} passages, each cut out of a document; the search had to find the rest of it. "
            "People ask differently: judged queries (--ir) decide better"
        )
    reason = "no other setting beats it" if found.setting == PLAIN else f"it beats plain {PLAIN}"
    times = found.milliseconds
    plain_time = "" if found.setting == PLAIN else f", and {times['plain']:,.0f} ms by plain hybrid search"
    show(
        lines,
        f"measured on {queries}",
        f"chosen: {found.setting}; {reason} beyond chance (paired by query, corrected for the number of settings)",
        f"gain over plain hybrid search: {_gain(found.gain_over_plain)}",
        f"gain over {found.single}, the best single stage: {_gain(found.gain)}",
        "both gains are measured on queries that did not take part in the choice",
        f"a search takes {times['chosen']:,.0f} ms{plain_time}",
    )


def _gain(test: PairedTest) -> str:
    low, high = test.interval.bounds
    return f"{test.difference:+.2f} ({low:+.2f} to {high:+.2f}, p {test.p_value:.2f})"
