"""A small retrieval set on disk, and one with known relevance."""

from __future__ import annotations

import json

import numpy as np
import pytest

DOCUMENTS = {
    "cats": ("Cats", "Cats sleep most of the day and hunt at dusk."),
    "dogs": ("", "Dogs bark at strangers and fetch sticks."),
    "moon": ("The Moon", "In 1969 two astronauts walked on the moon."),
    "tides": ("", "The moon's gravity causes the tides of the sea."),
    "bread": ("Baking", "Bread is made of flour, water, salt and yeast."),
}
QUERIES = {"q1": "When did people first land on the moon?", "q2": "pets that hunt", "q3": "how to bake a loaf"}
QRELS = {"q1": {"moon": 2, "tides": 1}, "q2": {"cats": 1}, "q3": {"bread": 1}}


def write_set(folder, documents=DOCUMENTS, queries=QUERIES, qrels=QRELS):
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": name, "title": title, "text": text}) for name, (title, text) in documents.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in queries.items())
    )
    judged = [f"{query}\t{name}\t{score}\n" for query, scores in qrels.items() for name, score in scores.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged))
    return folder


@pytest.fixture
def beir(tmp_path):
    """A folder in the BEIR layout."""
    return write_set(tmp_path / "small")


@pytest.fixture
def make_beir(tmp_path):
    """Write other sets."""
    return lambda name, **content: write_set(tmp_path / name, **content)


class TableModel:
    """A model whose vectors are written down, text by text."""

    name = "table"

    def __init__(self, vectors):
        self._vectors = vectors
        self.encoded = []

    def encode(self, texts, *, progress=False):
        self.encoded.extend(texts)
        return np.array([self._vectors[text] for text in texts], dtype=np.float32)

    encode_query = encode
    encode_document = encode


@pytest.fixture
def table_model():
    """``table_model({text: vector})``"""
    return TableModel


@pytest.fixture
def write(tmp_path):
    """``write(name, content)``: the path of a new file below the test's folder."""

    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    return write_file


class Remembering:
    """The default model; a text that several tests measure is encoded once."""

    def __init__(self, encoder):
        self.name = encoder.name
        self._encoder = encoder
        self._known = {}

    def encode(self, texts, *, progress=False):
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._known[text] for text in texts])

    encode_query = encode
    encode_document = encode


@pytest.fixture(scope="session")
def remembering(encoder):
    return Remembering(encoder)
