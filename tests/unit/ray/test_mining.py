"""Pairs that are mined on a cluster get the negatives that one process finds for them in a file."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from twinvec import Encoder
from twinvec.arrays import unit
from twinvec.errors import ConfigurationError, InputError, ModelNotFoundError
from twinvec.training.mining.dense_index import DenseIndex
from twinvec.training.mining.hard_negatives import MiningJob, MiningOptions, ProbabilityScorer, mine_file
from twinvec_ray import encode, mine_negatives, read
from twinvec_ray.encoding import vector_array
from vector_blocks import cut

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

WORDS = ("dog", "moon", "file", "street", "rain", "bread", "sun", "fox", "cat", "search", "query", "words", "letters")
DEPTH = 12


def texts(kind, count):
    """Different texts."""
    random = np.random.default_rng(len(kind))
    return [f"{kind} {row}: {' '.join(random.choice(WORDS, 6))}" for row in range(count)]


@pytest.fixture(scope="module")
def encoder(tiny_model):
    """A random model."""
    return Encoder(tiny_model("bert"), engine="torch")


@pytest.fixture(scope="module")
def rows(encoder):
    """Two or three pairs an anchor, whose best hits are so far apart that rounding does not reorder them."""
    anchors, positives = texts("question", 240), texts("answer", 300)
    vectors = unit(encoder.encode_query(anchors)).astype(float), unit(encoder.encode_document(positives)).astype(float)
    best = np.argsort(-vectors[0] @ vectors[1].T, axis=1)[:, : 5 * DEPTH]
    scores = np.take_along_axis(vectors[0] @ vectors[1].T, best, axis=1)
    apart = np.flatnonzero(np.diff(-scores, axis=1).min(axis=1) > 3e-6).tolist()
    assert len(apart) > 100
    found = [(anchors[row], best[row, rank]) for row in apart for rank in (1, 5)]
    found += [(anchors[row].upper(), best[row, 3]) for row in apart[::9]]  # a spelling of the same anchor
    order = np.random.default_rng(0).permutation(len(found)).tolist()
    return [{"anchor": found[row][0], "positive": positives[found[row][1]], "row": row} for row in order]


@pytest.fixture(scope="module")
def folder(rows, encoder, tmp_path_factory):
    """The pairs as a file, and pairs and positives with their vectors."""
    place = tmp_path_factory.mktemp("pairs")
    (place / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


@pytest.fixture(scope="module")
def given(cluster, rows, encoder):
    """The pairs and the corpus with their vectors, in uneven blocks."""
    positives = list(dict.fromkeys(row["positive"] for row in rows))
    pairs = pa.Table.from_pylist(rows).append_column(
        "vector", vector_array(encoder.encode_query([row["anchor"] for row in rows]))
    )
    corpus = pa.table(
        {"id": range(len(positives)), "text": positives, "vector": vector_array(encoder.encode_document(positives))}
    )
    return [cluster.data.from_arrow(cut(table, [1, 30, 9, 77])) for table in (pairs, corpus)]


def in_order(found):
    """Mined rows by their number, and how many negatives there are."""
    rows = sorted(found, key=lambda row: row["row"])
    return rows, sum(len(row["negatives"]) for row in rows)


@pytest.mark.parametrize(
    "options",
    [
        {"last_rank": DEPTH},
        {"first_rank": 3, "last_rank": DEPTH, "negatives": 7},
        {"last_rank": DEPTH, "margin": 0.01, "negatives": 9},
    ],
)
@pytest.mark.parametrize("block_rows", [50, 10_000])
def test_negatives_are_those_of_one_process(given, folder, encoder, tmp_path, options, block_rows):
    chosen = MiningOptions(**options)
    job = MiningJob(folder / "pairs.jsonl", tmp_path / "mined.jsonl", chosen)
    report = mine_file(job, DenseIndex(encoder, folder / "pairs.jsonl", folder / "vectors.npy"))
    expected = in_order(map(json.loads, (tmp_path / "mined.jsonl").read_text().splitlines()))
    assert expected[1] == report.negatives > 100
    assert in_order(mine_negatives(*given, chosen, block_rows=block_rows).take_all()) == expected


def test_a_cross_encoder_leaves_out_what_it_thinks_is_an_answer(given, folder, encoder, tiny_cross_encoder, tmp_path):
    model = str(tiny_cross_encoder("bert"))
    scorer = ProbabilityScorer(model)
    chosen = MiningOptions(last_rank=DEPTH, denoise_above=0.4)
    job = MiningJob(folder / "pairs.jsonl", tmp_path / "mined.jsonl", chosen, scorer=scorer)
    report = mine_file(job, DenseIndex(encoder, folder / "pairs.jsonl", folder / "vectors.npy"))
    assert 0 < report.without < report.rows
    expected = in_order(map(json.loads, (tmp_path / "mined.jsonl").read_text().splitlines()))
    assert in_order(mine_negatives(*given, chosen, denoise=model, block_rows=50).take_all()) == expected


def test_pairs_and_corpus_from_encode(cluster, exported_model, tmp_path):
    answers = texts("answer", 30)
    questions = texts("question", 30)
    pairs = [{"anchor": q, "positive": a, "negatives": ["older"]} for q, a in zip(questions, answers, strict=True)]
    corpus = [{"name": f"a{row}", "body": text} for row, text in enumerate(answers)]
    options = {"engine": "openvino"}
    encode(cluster.data.from_items(corpus), exported_model, "body", prompt="document", **options).write_parquet(
        str(tmp_path)
    )
    found = mine_negatives(
        encode(cluster.data.from_items(pairs), exported_model, "anchor", prompt="query", **options),
        read(str(tmp_path)),
        id="name",
        text="body",
    )
    assert found.columns() == ["anchor", "positive", "negatives"]
    mined = found.take_all()
    assert sorted(row["anchor"] for row in mined) == sorted(questions)
    for row in mined:
        assert len(row["negatives"]) == 4
        assert set(row["negatives"]) < set(answers) - {row["positive"]}


PAIR = {"anchor": ["a"], "positive": ["b"], "vector": [[1.0, 0.0]]}
CORPUS = {"id": [1], "text": ["b"], "vector": [[1.0, 0.0]]}


@pytest.mark.parametrize(
    ("pairs", "corpus", "options", "error", "message"),
    [
        ({"positive": None}, {}, {}, ConfigurationError, "pairs: no column 'positive'"),
        ({"anchor": [" "]}, {}, {}, InputError, "column 'anchor': expected a text, got ' '"),
        ({"positive": [7]}, {}, {}, InputError, "column 'positive': expected a text, got 7"),
        ({}, {"text": None}, {}, ConfigurationError, "corpus: no column 'text'"),
        ({}, {"text": [3]}, {}, InputError, "corpus, column 'text': a row has no text"),
        ({}, {"vector": [[1.0]]}, {}, InputError, "have 2 numbers, vectors have 1"),
        ({}, {}, {"denoise": "./nowhere"}, ModelNotFoundError, "nowhere"),
        ({}, {}, {"block_rows": 0}, ConfigurationError, "block_rows"),
    ],
)
def test_errors_say_why(cluster, pairs, corpus, options, error, message):
    tables = [
        pa.table({name: values for name, values in (columns | changed).items() if values is not None})
        for columns, changed in ((PAIR, pairs), (CORPUS, corpus))
    ]
    with pytest.raises(error, match=message):
        mine_negatives(*map(cluster.data.from_arrow, tables), **options)
