"""A worker adds to a table the vectors that ``Encoder.encode`` gives."""

from __future__ import annotations

import logging
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twinvec import Encoder
from twinvec.errors import ConfigurationError, InputError, SpaceMismatchError
from twinvec_ray import runner
from twinvec_ray.blocks import raising_causes
from twinvec_ray.cluster import plan
from twinvec_ray.encoding import BatchEncoder, encoded
from twinvec_ray.recipes import EncoderRecipe, encoder_recipe
from twinvec_ray.runner import Runner

TEXTS = ["a dog runs", "", "stocks fell", "a dog runs", "日本語 " * 40]


@pytest.fixture
def model(tiny_model):
    return tiny_model("bert")


@pytest.fixture
def recipe(model, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return encoder_recipe(model, {"engine": "torch"})


def vectors(table, column="vector"):
    return np.stack(table.column(column).to_numpy(zero_copy_only=False))


def test_vectors_are_those_of_the_encoder(recipe, model):
    work = BatchEncoder(recipe, 1, "body", "vector", None, None)
    table = pa.table({"body": TEXTS, "row": range(len(TEXTS))})
    found = work(table)
    assert found.column("row").to_pylist() == [0, 1, 2, 3, 4]
    assert found.schema.field("vector").type == pa.list_(pa.float32(), vectors(found).shape[1])
    expected = Encoder(model, engine="torch").encode(TEXTS)
    np.testing.assert_allclose(vectors(found), expected, atol=1e-6)
    assert work(table.slice(0, 0)).num_rows == 0


def test_vectors_are_stored_in_other_types(recipe, model):
    found = BatchEncoder(recipe, 1, "text", "bits", None, "binary")(pa.table({"text": TEXTS}))
    expected = Encoder(model, engine="torch").encode(TEXTS, storage="binary")
    np.testing.assert_array_equal(vectors(found, "bits"), expected)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ({"body": TEXTS}, ConfigurationError, "no column 'text'; its columns: body"),
        ({"text": TEXTS, "vector": TEXTS}, ConfigurationError, "already a column 'vector'"),
        ({"text": ["a", None]}, InputError, "column 'text', row 1 of a block: expected a string, got NoneType"),
        ({"text": ["a", None], "id": ["x", "y"]}, InputError, "column 'text', row with id 'y': expected a string"),
        ({"n": [7, 8], "text": [1, 2]}, InputError, "column 'text', row with n 7: expected a string, got int"),
    ],
)
def test_a_table_that_cannot_be_encoded_says_why(recipe, table, error, message):
    with pytest.raises(error, match=message):
        BatchEncoder(recipe, 1, "text", "vector", None, None)(pa.table(table))


def test_another_model_of_the_same_name_is_refused(recipe):
    with pytest.raises(SpaceMismatchError, match="the same model on all machines"):
        EncoderRecipe(recipe.name, "0" * 64, recipe.options).load(1)


@pytest.mark.slow
def test_a_worker_with_another_model_says_so_without_a_traceback(cluster, exported_model):
    recipe = EncoderRecipe(str(exported_model), "0" * 64)
    how = {"text": "text", "column": "vector", "prompt": None, "storage": None}
    rows = encoded(cluster.data.from_items([{"text": "a"}]), recipe, plan(1), **how)
    with pytest.raises(SpaceMismatchError) as raised, raising_causes(rows):
        rows.take_all()
    assert str(raised.value).endswith("put the same model on all machines")


@pytest.mark.slow
@pytest.mark.timeout(580)
def test_one_block_is_shared_among_the_workers(cluster, model):
    """Ray's blocks are cut by bytes, so that all texts of a small file lie in one."""
    from twinvec_ray import encode

    texts = [f"the number {row}" for row in range(100)]
    given = cluster.data.from_arrow(pa.table({"text": texts, "row": range(100)}))
    found = encode(given, model, engine="torch", batch_rows=16, num_workers=2).materialize()
    blocks = cluster.get(found.to_arrow_refs())
    sizes = sorted(block.num_rows for block in blocks)
    assert sizes in ([4, *[16] * 6], [*[16] * 5, 20])  # Ray 2.51 joins the rest with a full block
    got = pa.concat_tables(blocks)
    order = np.argsort(got.column("row").to_numpy())
    expected = Encoder(model, engine="torch").encode(texts)
    np.testing.assert_allclose(vectors(got)[order], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(580)
def test_a_range_of_workers_begins_with_the_least_and_grows(cluster, tmp_path):
    """One alone would never be done; the texts come when the first one has started."""

    def once_one_has_started(table):
        import time

        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
        return table

    class Waiting:
        def load(self, threads):
            import os
            import time

            started = tmp_path / str(os.getpid())
            started.write_text(str(len(list(tmp_path.iterdir()))))

            class Encoder:
                max_text_bytes = 100

                def encode(self, texts, **options):
                    while len(list(tmp_path.iterdir())) < 2:
                        time.sleep(0.01)
                    return np.ones((len(texts), 2), dtype=np.float32)

            return Encoder()

    given = cluster.data.from_arrow(pa.table({"text": [f"text {row}" for row in range(64)]}))
    given = given.map_batches(once_one_has_started, batch_format="pyarrow")
    how = {"text": "text", "column": "vector", "prompt": None, "storage": None}
    assert encoded(given, Waiting(), plan((1, 2)), batch_rows=4, **how).materialize().count() == 64
    assert sorted(each.read_text() for each in tmp_path.iterdir())[:2] == ["0", "1"]


def test_only_the_output_of_ray_data_is_silenced(caplog):
    """Ray Data's log file and the user's handlers keep their levels; ``log_levels`` checks pytest's own handler."""
    import ray.data  # noqa: F401 - makes the logger's handlers

    logger = logging.getLogger("ray.data")
    before = {handler.name: handler.level for handler in logger.handlers}
    users = logging.NullHandler(logging.INFO)
    logger.addHandler(users)
    try:
        runner._print_nothing_of_ray_data()
        assert users.level == logging.INFO
        after = {handler.name: handler.level for handler in logger.handlers if handler is not users}
        assert after == before | {"console": logging.CRITICAL}
    finally:
        logger.removeHandler(users)


@pytest.mark.slow
@pytest.mark.timeout(580)
def test_a_bar_follows_the_workers_of_the_command(cluster, exported_model, tmp_path, monkeypatch):
    bars = []

    @contextmanager
    def bar(label, total, unit):
        advances = []
        bars.append((total, unit, advances))
        yield advances.append

    monkeypatch.setattr(runner, "progress_bar", bar)
    rows = pa.table({"body": [f"the number {row}" for row in range(700)]})
    pq.write_table(rows, tmp_path / "texts.parquet")
    options = {"field": "body", "prompt": None, "storage": None, "use_gpu": False}
    places = (str(tmp_path / "texts.parquet"), str(tmp_path / "vectors.parquet"))
    done = Runner("local").encode(*places, model=exported_model, progress=True, **options)
    assert (done["texts"], done["columns"]) == (700, 32)
    ((total, unit, advances),) = bars
    assert (total, unit, sum(advances)) == (700, "texts", 700)
    assert Runner("local").encode(*places, model=exported_model, progress=False, **options) == done
    assert len(bars) == 1
