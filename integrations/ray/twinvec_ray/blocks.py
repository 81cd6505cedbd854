"""Compares the blocks of two Ray datasets, pair by pair, in tasks.

The blocks of one dataset are held in the object store. The other dataset is streamed: each of its blocks is compared
with every held block, and then dropped. A task gets one block of each, and merges their result with the earlier result
of the held block. The process that submits the tasks has only references.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray
from ray.exceptions import RayError

from twinvec.errors import ConfigurationError, InputError
from twinvec_ray.cluster import plan
from twinvec_ray.pool import cause_of

if TYPE_CHECKING:
    from ray.data import Dataset

BLOCK_ROWS = 16_384
"""Default number of rows in a block: 24 MB with vectors of 384 numbers."""

_AHEAD = 2  # number of blocks that wait for each running task


def blocks(
    dataset: Dataset, what: str, columns: Sequence[str] | None, block_rows: int, prepare: Callable[[pa.Table], pa.Table]
) -> Generator[tuple[Any, int]]:
    """Compute a dataset, and yield the reference and the number of rows of each prepared block.

    Small blocks are joined. Raise ConfigurationError if a column is missing, InputError if the dataset has no rows, and
    the errors of ``prepare`` and of the dataset's own steps.

    Args:
        dataset: Any Ray dataset.
        what: Name of the dataset in errors.
        columns: Columns that ``prepare`` needs; None for all columns. Ray reads only these columns if the format of
            the files permits.
        block_rows: Rows that ``prepare`` gets at once.
        prepare: Function that takes a block, and returns the block to yield.
    """
    if columns is not None:
        schema = dataset.schema(fetch_if_missing=False)
        if schema is not None:
            check_columns(schema.names, columns, what)
            dataset = dataset.select_columns(list(dict.fromkeys(columns)))
    prepared = dataset.map_batches(prepare, batch_size=block_rows, batch_format="pyarrow")
    found = False
    with raising_causes(prepared):
        for bundle in prepared.iter_internal_ref_bundles():
            for reference, rows in zip(bundle.block_refs, (each.num_rows for each in bundle.metadata), strict=True):
                if rows:
                    found = True
                    yield reference, rows
    if not found:
        raise InputError(f"{what}: the dataset is empty")


@contextmanager
def raising_causes(dataset: Dataset) -> Iterator[None]:
    """In the block, raise the original error of a step of the dataset, without the error that Ray wraps around it."""
    context = dataset.context
    wrapping, context.raise_original_map_exception = context.raise_original_map_exception, True
    try:
        yield
    except RayError as error:
        raise cause_of(error) from None
    finally:
        context.raise_original_map_exception = wrapping


def check_columns(names: Sequence[str], wanted: Sequence[str], what: str) -> None:
    """Raise ``ConfigurationError`` unless all ``wanted`` columns are among the ``names``."""
    for name in wanted:
        if name not in names:
            raise ConfigurationError(f"{what}: no column {name!r}; the dataset's columns: {', '.join(names)}")


def fold(
    held: Sequence[tuple[Any, ...]],
    stream: Generator[tuple[Any, int]],
    compare: Callable[..., pa.Table],
    merge: Callable[..., pa.Table],
) -> list[Any]:
    """Compare each block of a stream with every held block; return a reference to the result of each held block.

    If fewer blocks are held than the cluster has workers, several tasks compare a held block at the same time. Their
    tables are merged at the end. Errors are those of ``compare`` and ``merge``.

    Args:
        held: A tuple for each held block: its reference, then further arguments of ``compare`` and ``merge``.
        stream: Blocks from ``blocks``.
        compare: Function that takes a block of the stream, a held block and the further arguments; returns a table.
        merge: Function that takes a list of tables of ``compare`` for one held block, and the further arguments;
            returns one table.
    """
    lanes = ceil(plan().most / len(held))
    tables: list[list[Any]] = [[None] * lanes for _ in held]
    running: deque[list[Any]] = deque()
    with closing(stream):
        for number, (block, _) in enumerate(stream):
            lane = number % lanes
            told = []
            for (reference, *arguments), kept in zip(held, tables, strict=True):
                kept[lane], done = submit(_step, compare, merge, kept[lane], block, reference, *arguments)
                told.append(done)
            running.append(told)
            if len(running) > _AHEAD * lanes:
                get(running.popleft())
    for told in running:
        get(told)
    return results([(_join, merge, arguments, *kept) for (_, *arguments), kept in zip(held, tables, strict=True)])


def results(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run calls (each a function and its arguments) in tasks; once all are done, return references to their results.

    Errors are as for ``get``.
    """
    given = [submit(*call) for call in calls]
    get([done for _, done in given])
    return [result for result, _ in given]


def submit(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    """Run a call in a task. Return references to its result, and to None, for waiting without fetching the result."""
    told: tuple[Any, Any] = _TASK.remote(function, *arguments)
    return told


def get(references: Any) -> Any:
    """Wait for tasks, and return their results; raise a TwinvecError of a task, and any other error as EngineError."""
    try:
        return ray.get(references)
    except RayError as error:
        raise cause_of(error) from None


def _call(function: Callable[..., Any], *arguments: Any) -> tuple[Any, None]:
    return function(*arguments), None


_TASK: Any = ray.remote(num_returns=2)(_call)


def _step(
    compare: Callable[..., pa.Table],
    merge: Callable[..., pa.Table],
    before: pa.Table | None,
    block: pa.Table,
    held: pa.Table,
    *arguments: Any,
) -> pa.Table:
    found = compare(block, held, *arguments)
    return found if before is None else merge([before, found], *arguments)


def _join(merge: Callable[..., pa.Table], arguments: list[Any], *kept: pa.Table | None) -> pa.Table:
    tables = [table for table in kept if table is not None]
    return tables[0] if len(tables) == 1 else merge(tables, *arguments)
