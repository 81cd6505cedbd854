"""The command ``twinvec tune``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinvec.cli.options import AsJson, Place, Split, Url
from twinvec.cli.terminal import show, show_json, table

if TYPE_CHECKING:
    from twinvec.evaluation.tuning.search_settings import Tuning


_SETTINGS_SHOWN = 10


def tune_command(
    collection: Annotated[str, typer.Option(metavar="NAME", help="The collection.")],
    path: Place = None,
    url: Url = None,
    ir: Annotated[
        Path | None, typer.Option(help="Judged queries in the BEIR layout; passages of the documents unless given.")
    ] = None,
    split: Split = "test",
    measure: Annotated[str, typer.Option(help="What to choose by: ndcg@k, mrr@k, map@k, recall@k.")] = "ndcg@10",
    as_json: AsJson = False,
) -> None:
    """Choose how a collection is searched, and keep the choice with it.

    Compares searching by vectors, by words, and by both with several weights, each alone and with MaxSim behind it, on
    queries whose answers are known: judged ones (--ir), or else passages cut out of the collection's own documents.
    What the choice gains is told by cross-validation: on queries that had no say in it.

    \b
    twinvec tune --collection articles --ir articles-judged/
    """
    from twinvec.encoder import Encoder
    from twinvec.evaluation.beir import load_beir
    from twinvec.evaluation.measures import import_ir_measures
    from twinvec.evaluation.tuning.search_settings import tune, tune_by_documents
    from twinvec.retrieval.open_collection import open_collection
    from twinvec.retrieval.tuned_search import save

    import_ir_measures()
    data = load_beir(ir, split) if ir is not None else None
    with open_collection(collection, path, url=url) as opened:
        if data is None:
            found = tune_by_documents(opened, measure=measure, progress=True)
        else:
            encoder = opened.encoder if isinstance(opened.encoder, Encoder) else None
            found = tune(opened, data, encoder=encoder, measure=measure, progress=True)
        save(opened, found.setting, measure)
    if as_json:
        show_json({"collection": collection, **found.as_json()})
    else:
        _show_tuning(collection, found)


def _show_tuning(collection: str, found: Tuning) -> None:
    from twinvec.evaluation.tuning.search_settings import PLAIN

    title = f"{collection}: the best of {len(found.figures)} ways to search it"
    lines = table(title, "way", found.measure, numbers=(found.measure,))
    ranked = sorted(found.figures, key=lambda each: -found.figures[each])
    plain = [each for each in ranked if not each.mix and each.words == 1]
    for setting in dict.fromkeys([*ranked[:_SETTINGS_SHOWN], found.setting, *plain]):
        name = f"{setting} (chosen)" if setting == found.setting else str(setting)
        lines.add_row(name, f"{found.figures[setting]:.2f}")
    queries = f"{found.queries:,} judged queries"
    if found.pseudo:
        queries = (
            f"{found.queries:,} passages, each cut out of a document of the collection, whose rest had to be found; "
            "people ask otherwise, so give judged queries (--ir) where there are some"
        )
    reason = "nothing beats it" if found.setting == PLAIN else f"it beats {PLAIN}"
    gain = found.gain
    show(
        lines,
        f"measured on {queries}",
        f"chosen: {found.setting}; query by query {reason} beyond chance",
        f"gain over {found.single}, the best single stage: {gain.difference:+.2f} ({gain.interval.low:+.2f} to "
        f"{gain.interval.high:+.2f}, p {gain.p_value:.2f}), on queries that had no say in the choice",
        f"kept with the collection: twinvec search --collection {collection} goes by it",
    )
