"""Mine hard negatives in datasets that are larger than memory, by the rules of ``twinvec.training.mining``.

Pairs are grouped into blocks by their anchors, so that a block has all positives of its anchors. The nearest vectors
are found block by block, then their texts, and each block is mined as ``mine_negatives`` of the core mines a file.
"""

from __future__ import annotations

from functools import cache, partial
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray

from twinvec.errors import InputError
from twinvec.models.finding import find_model
from twinvec.retrieval.base import Hit
from twinvec.retrieval.filters import Filter
from twinvec.support.checks import check_settings, integer, string
from twinvec.training.data.text_hash import text_hash
from twinvec.training.mining.hard_negatives import MiningOptions, PairScorer, ProbabilityScorer
from twinvec.training.mining.hard_negatives import mine_negatives as mine_alone
from twinvec.training.mining.known_positives import KnownPositives
from twinvec.training.mining.pair_file import check_pair_text
from twinvec_ray.blocks import blocks, check_columns, fold, get, results
from twinvec_ray.cluster import check_dataset
from twinvec_ray.neighbours import as_ids, compared, merged, vector_table

if TYPE_CHECKING:
    from ray.data import Dataset

BLOCK_ROWS = 8192
"""Default number of pairs in a block. The texts of all hits for a block are in the memory of one process."""


def mine_negatives(
    pairs: Dataset,
    corpus: Dataset,
    options: MiningOptions | None = None,
    *,
    denoise: str | None = None,
    column: str = "vector",
    id: str = "id",
    text: str = "text",
    corpus_column: str | None = None,
    block_rows: int = BLOCK_ROWS,
) -> Dataset:
    """Find hard negatives for pairs: texts that are near to an anchor, and not among its positives.

    The mining runs when this function is called. It compares by cosine, and follows the rules of
    ``twinvec.training.mining``: ranks, margins and known positives. The corpus is read twice, first its vectors, then
    its texts. Therefore write the result of ``encode`` to files first, and pass a dataset that reads these files.

    Args:
        pairs: Rows with ``anchor``, ``positive``, and the anchor's vector, as ``encode`` makes it with
            ``text="anchor"`` and the prompt of queries. Other columns stay.
        corpus: Rows with an id, a text and its vector, such as the positives of the pairs, each once.
        options: Which hits become negatives.
        denoise: Name or folder of a cross-encoder; hits that it scores as answers are removed.
        column: Column of the vectors.
        id: Column of the corpus' ids: texts or whole numbers.
        text: Column of the corpus' texts.
        corpus_column: Column of the corpus' vectors; default: ``column``.
        block_rows: Number of pairs in a block. A task holds one block of pairs with the texts of all hits.

    Returns:
        The rows of ``pairs`` without their vectors, in any order. The column ``negatives`` is new, or replaces an older
        one: a list of texts, hardest first.

    Raises:
        ConfigurationError: an argument is invalid, or a column is missing.
        InputError: as for ``nearest``; or an anchor or a positive is blank, or a text of the corpus is missing.
        ModelError: the cross-encoder is not found, damaged or not supported.
    """
    import ray.data

    check_dataset(pairs, "pairs")
    check_dataset(corpus, "corpus")
    check_settings(options, MiningOptions, "options")
    for value, name in ((column, "column"), (id, "id"), (text, "text"), (corpus_column or column, "corpus_column")):
        string(value, name)
    integer(block_rows, "block_rows", least=1)
    if denoise is not None:
        find_model(denoise)
    chosen = options or MiningOptions()
    place = corpus_column or column
    groups = _grouped(pairs, column, block_rows)
    held = [(anchors, chosen.last_rank + most + 1) for _, anchors, most in groups]
    prepare = partial(vector_table, what="corpus", id=id, column=place, measure="cosine", distinct=True)
    found = fold(held, blocks(corpus, "corpus", (id, place), block_rows, prepare), compared, merged)
    prepare = partial(_texts, id=id, text=text)
    wanted = [(table,) for table in found]
    texts = fold(wanted, blocks(corpus, "corpus", (id, text), block_rows, prepare), _wanted, _together)
    calls = zip((rows for rows, _, _ in groups), found, texts, strict=True)
    return ray.data.from_arrow_refs(results([(_mined, *tables, chosen, denoise) for tables in calls]))


def _grouped(pairs: Dataset, column: str, block_rows: int) -> list[tuple[Any, Any, int]]:
    """Group pairs into blocks by their anchors.

    Return for each block its pairs, its anchors with their vectors, and the largest number of positives of an anchor.
    """
    read = list(blocks(pairs, "pairs", None, block_rows, partial(_pairs, column=column)))
    number = ceil(sum(rows for _, rows in read) / block_rows)
    split: Any = ray.remote(num_returns=number)(_split)
    pieces = [[reference] if number == 1 else split.remote(reference, number) for reference, _ in read]
    gather: Any = ray.remote(num_returns=3)(_gathered)
    gathered = [gather.remote(column, *of_block) for of_block in zip(*pieces, strict=True)]
    counts = get([most for _, _, most in gathered])
    return [(*tables, most) for (*tables, _), most in zip(gathered, counts, strict=True) if most]


def _pairs(batch: pa.Table, column: str) -> pa.Table:
    """Check a block of pairs, and return it."""
    check_columns(batch.column_names, ("anchor", "positive", column), "pairs")
    for name in ("anchor", "positive"):
        for value in batch.column(name).to_pylist():
            check_pair_text(value, f"pairs, column {name!r}")
    return batch


def _split(pairs: pa.Table, number: int) -> list[pa.Table]:
    """Split pairs into ``number`` tables; pairs with equal anchors come into the same table."""
    places = np.array([text_hash(anchor) % number for anchor in pairs.column("anchor").to_pylist()])
    return [pairs.filter(pa.array(places == place)) for place in range(number)]


def _gathered(column: str, *pieces: pa.Table) -> tuple[pa.Table, pa.Table | None, int]:
    """Return a block's pairs, its distinct anchors, and the largest number of positives (0 for an empty block)."""
    pairs = _together(list(pieces))
    anchors, positives = (pairs.column(name).to_pylist() for name in ("anchor", "positive"))
    if not anchors:
        return pairs, None, 0
    known = KnownPositives(list(zip(anchors, positives, strict=True)))
    rows = {anchor: row for row, anchor in reversed(list(enumerate(anchors)))}
    distinct = vector_table(pairs.take(sorted(rows.values())), "pairs", "anchor", column, "cosine")
    old = [name for name in (column, "negatives") if name in pairs.column_names]
    return pairs.drop_columns(old), distinct, max(map(known.count, rows))


def _texts(batch: pa.Table, id: str, text: str) -> pa.Table:
    """Return a block of the corpus as a table with the columns ``id`` and ``text``."""
    check_columns(batch.column_names, (id, text), "corpus")
    texts = batch.column(text)
    if texts.null_count or not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise InputError(f"corpus, column {text!r}: a row has no text")
    return pa.table({"id": as_ids(batch.column(id), f"corpus, column {id!r}"), "text": texts.cast(pa.large_string())})


def _wanted(texts: pa.Table, found: pa.Table) -> pa.Table:
    """Return the rows of ``texts`` whose ids were found."""
    ids = pc.unique(found.column("ids").combine_chunks().flatten())
    return texts.filter(pc.is_in(texts.column("id"), value_set=ids))


def _together(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()


def _mined(pairs: pa.Table, found: pa.Table, texts: pa.Table, options: MiningOptions, denoise: str | None) -> pa.Table:
    """Return a block of pairs with their negatives."""
    asked = list(zip(*(pairs.column(name).to_pylist() for name in ("anchor", "positive")), strict=True))
    scorer = None if denoise is None else _scorer(denoise)
    rows = mine_alone(asked, _Found(found, texts), KnownPositives(asked), options, scorer=scorer)
    negatives = pa.array([row.negatives for row in rows], pa.list_(pa.string()))
    return pairs.append_column("negatives", negatives)


@cache
def _scorer(model: str) -> PairScorer:
    return ProbabilityScorer(model)


class _Found:
    """A retriever that returns hits that were found earlier."""

    def __init__(self, found: pa.Table, texts: pa.Table) -> None:
        self._found = found
        self._rows = {query: row for row, query in enumerate(found.column("query").to_pylist())}
        self._texts = dict(zip(*(texts.column(name).to_pylist() for name in ("id", "text")), strict=True))

    def search(self, query: str, limit: int = 10, filter: Filter | None = None) -> list[Hit]:
        """Return the hits of a query, best first; with a filter, return none."""
        if filter is not None:
            return []
        row = self._rows[query]
        ids, scores = (self._found.column(name)[row].as_py()[:limit] for name in ("ids", "scores"))
        return [self._hit(*each) for each in zip(ids, scores, strict=True)]

    def _hit(self, id: Any, score: float) -> Hit:
        if id not in self._texts:
            raise InputError(f"corpus: the id {id!r} has lost its text: the dataset changed while it was read")
        return Hit(str(id), self._texts[id], score, {"dense": score})
