"""A small retrieval set on disk, and one with known relevance."""

from __future__ import annotations

import json

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
