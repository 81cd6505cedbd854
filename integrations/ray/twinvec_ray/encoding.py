"""Encode the texts of a Ray dataset: a pool of workers, each with an engine of its own, adds a column of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twinvec.errors import ConfigurationError, TwinvecError
from twinvec.storage import Storage
from twinvec.support.checks import integer, shown, string
from twinvec.text import check_text
from twinvec_ray.cluster import Plan, Workers, check_dataset, plan
from twinvec_ray.recipes import EncoderRecipe, encoder_recipe

if TYPE_CHECKING:
    from ray.data import Dataset

BATCH_ROWS = 256
"""Rows that a worker gets at once; it cuts them into batches under the engine's token budget.

Ray cuts a dataset into blocks by bytes. Without smaller blocks, a single worker would encode 1 MB of text for a minute.
"""


def encode(
    dataset: Dataset,
    model: str | Path = "default",
    text: str = "text",
    *,
    column: str = "vector",
    prompt: str | None = None,
    storage: Storage | None = None,
    num_workers: Workers = None,
    use_gpu: bool = False,
    threads: int = 1,
    batch_rows: int = BATCH_ROWS,
    **options: Any,
) -> Dataset:
    """Return the dataset with a new column of vectors, which are equal to the vectors of ``Encoder.encode``.

    Args:
        dataset: Any Ray dataset; rows are computed when the result is read.
        model: See ``Encoder``. Each worker loads the model by its name, and checks that it is the same model.
        text: Column of the texts.
        column: Column of the vectors: lists of ``dim`` numbers.
        prompt: See ``Encoder.encode``.
        storage: See ``Encoder.encode``; default: float32.
        num_workers: Number of workers, or a pair (least, most): the least start at once, and more are added while
            there is work. Default: one for each GPU, or for ``threads`` cores.
        use_gpu: Whether each worker gets its own GPU.
        threads: Threads of a worker that computes on a CPU.
        batch_rows: Rows that a worker gets at once.
        options: Other arguments of ``Encoder``, such as ``engine`` and ``dim``.

    Raises:
        ConfigurationError: an argument is invalid, or the cluster lacks the resources for the workers.
        ModelError: the model is not found, damaged or not supported.
    """
    check_dataset(dataset, "dataset")
    string(text, "text")
    string(column, "column")
    integer(batch_rows, "batch_rows", least=1)
    recipe = encoder_recipe(model, {"device": "cuda", **options} if use_gpu else options)
    workers = plan(num_workers, threads=threads, use_gpu=use_gpu)
    return encoded(dataset, recipe, workers, batch_rows, text=text, column=column, prompt=prompt, storage=storage)


def encoded(
    dataset: Dataset, recipe: EncoderRecipe, workers: Plan, batch_rows: int = BATCH_ROWS, **how: Any
) -> Dataset:
    """Return the dataset with vectors from a pool of workers; ``how`` are the other arguments of ``BatchEncoder``."""
    from ray.data import ActorPoolStrategy

    return dataset.repartition(target_num_rows_per_block=batch_rows).map_batches(
        BatchEncoder,
        fn_constructor_kwargs={"recipe": recipe, "threads": workers.threads, **how},
        batch_size=batch_rows,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(min_size=workers.least, max_size=workers.most),
        **workers.options,
    )


class BatchEncoder:
    """A worker, which adds a column of vectors to tables, and tells the actor ``counter`` the number of their rows."""

    def __init__(
        self,
        recipe: EncoderRecipe,
        threads: int,
        text: str,
        column: str,
        prompt: str | None,
        storage: Storage | None,
        counter: Any = None,
    ) -> None:
        self._counter = counter
        self._refused: TwinvecError | None = None  # raised later: Ray shows a constructor's error only as a traceback
        try:
            self._encoder = recipe.load(threads)
        except TwinvecError as error:
            self._refused = error
        self._text = text
        self._column = column
        self._options: dict[str, Any] = {"prompt": prompt, "storage": storage}

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the table with its vectors.

        Raise TextError if a text is refused, and ConfigurationError if the model lacks the prompt or the storage, the
        table lacks the column of texts, or a column has the name for the vectors already.
        """
        if self._refused is not None:
            raise self._refused
        names = table.column_names
        if self._text not in names or self._column in names:
            wrong = f"no column {self._text!r}" if self._text not in names else f"already a column {self._column!r}"
            raise ConfigurationError(f"the dataset has {wrong}; its columns: {', '.join(names)}")
        texts = table.column(self._text).to_pylist()
        for row, text in enumerate(texts):
            check_text(text, f"column {self._text!r}, {self._named(table, row)}", self._encoder.max_text_bytes)
        vectors = self._encoder.encode(texts, **self._options)
        if self._counter is not None:
            self._counter.add.remote(len(texts))
        return table.append_column(self._column, vector_array(vectors))

    def _named(self, table: pa.Table, row: int) -> str:
        """Return a name for a row of a block: its value in the first column that is not the text."""
        for name in table.column_names:
            if name != self._text:
                return f"row with {name} {shown(table.column(name)[row].as_py())}"
        return f"row {row} of a block"


def vector_array(vectors: np.ndarray) -> pa.FixedSizeListArray:
    """Return vectors, shape (n, dim), as a column of lists of one size."""
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
