"""Blocks that stream by meet all blocks that are held, also where processes die."""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from twinvec.errors import InputError
from twinvec_ray.blocks import blocks, fold

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


def products(block, held, folder):
    """Which numbers of two blocks have met; the process that sees 13 for the first time dies."""
    if 13 in block.column("id").to_pylist():
        try:
            (folder / "died").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    pairs = [(a, b) for a in held.column("id").to_pylist() for b in block.column("id").to_pylist()]
    return pa.table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]})


def together(tables, folder):
    return pa.concat_tables(tables)


def counted(batch):
    return batch.append_column("twice", pc.multiply(batch.column("id"), 2))


@pytest.mark.parametrize("rows", [10, 3])
def test_each_meets_each_once_though_a_process_dies(cluster, tmp_path, rows):
    held = [(each, tmp_path) for each, _ in blocks(cluster.data.range(10), "held", ["id"], rows, counted)]
    assert (len(held) == 1) == (rows == 10)
    stream = blocks(cluster.data.range(30, override_num_blocks=30), "stream", ["id"], 4, counted)
    tables = cluster.get(fold(held, stream, products, together))
    assert (tmp_path / "died").exists()
    met = [pair for table in tables for pair in zip(*table.to_pydict().values(), strict=True)]
    assert sorted(met) == [(a, b) for a in range(10) for b in range(30)]


def test_an_error_of_a_comparison_is_told_and_the_stream_ends(cluster):
    def refused(block, held):
        raise InputError("no such number")

    stream = blocks(cluster.data.range(30, override_num_blocks=30), "stream", ["id"], 1, counted)
    held = [(each,) for each, _ in blocks(cluster.data.range(2), "held", ["id"], 9, counted)]
    with pytest.raises(InputError, match=r"^no such number$"):
        fold(held, stream, refused, pa.concat_tables)
    assert next(stream, None) is None
