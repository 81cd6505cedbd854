"""Moved and renamed files: their chunks keep the vectors that their old documents have."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twinvec_qdrant import ChunkSettings, Collection, Root
from twinvec_qdrant.records.schema import CHUNKS
from words import StateEncoder, WordEncoder, sentences

SMALL = ChunkSettings(max_tokens=32, overlap=0)


def encoder() -> WordEncoder:
    return WordEncoder(max_tokens=64)


def filled(folder: Path, count: int = 6, seed: int = 1) -> Path:
    """A folder of texts of several chunks each."""
    for row in range(count):
        (folder / f"{row % 2}").mkdir(parents=True, exist_ok=True)
        text = f"# Part {row}\n\n" + ". ".join(sentences(8, seed + row, 20)) + "."
        (folder / f"{row % 2}" / f"{row}.md").write_text(text)
    (folder / "rows.jsonl").write_text('{"id": "x", "text": "green tea"}\n{"id": "y", "text": "rye bread"}\n')
    return folder


def opened(place, words, **options) -> Collection:
    return Collection.open("notes", encoder=words, chunking=SMALL, **place, **options)


def chunks(collection: Collection) -> dict[tuple, np.ndarray]:
    """The vector of each chunk, by its document, its position and its text."""
    backend = collection._backend
    points = list(backend.scroll([CHUNKS]))
    found = backend.retrieve([point.id for point in points], None, "dense")
    return {
        (each.payload["source"], each.payload["position"], each.payload["text"]): each.dense for each in found.values()
    }


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(np.allclose(one[key], other[key], rtol=0, atol=1e-6) for key in one)


@pytest.mark.parametrize("prune", [True, False])
def test_a_renamed_folder_and_a_moved_file_encode_nothing(place, tmp_path, prune):
    docs, words = filled(tmp_path / "docs"), encoder()
    with opened(place, words) as collection:
        first = collection.ingest(Root(str(docs)))
        (docs / "0").rename(docs / "again")
        (docs / "1" / "3.md").rename(docs / "moved.md")
        (docs / "rows.jsonl").rename(docs / "table.jsonl")
        words.encoded.clear()
        assert collection.ingest(Root(str(docs)), prune=prune, dry_run=True).encoded == 0
        report = collection.ingest(Root(str(docs)), prune=prune)
        assert (report.new, report.unchanged, report.deleted) == (6, 2, 6 if prune else 0)
        assert (report.encoded, words.encoded) == (0, [])
        kept = chunks(collection)
        assert (len(kept) == first.chunks) == prune
    with Collection.open("fresh", encoder=encoder(), chunking=SMALL, **place) as fresh:
        fresh.ingest(Root(str(docs)))
        anew = chunks(fresh)
    assert same({key: vector for key, vector in kept.items() if key in anew}, anew)


def test_a_moved_file_that_was_changed_is_encoded_where_it_differs(place, tmp_path):
    docs, words = filled(tmp_path / "docs"), encoder()
    with opened(place, words) as collection:
        collection.ingest(Root(str(docs)))
        old = (docs / "0" / "0.md").read_text()
        (docs / "0" / "0.md").unlink()
        (docs / "renamed.md").write_text(f"{old}\n\n# New\n\nA new section.")
        words.encoded.clear()
        collection.ingest(Root(str(docs)), prune=True)
        assert len(words.encoded) == 1
        assert "A new section." in words.encoded[0]


def test_a_document_that_stays_is_not_searched(place, tmp_path):
    """The vectors of files that stay would serve as well, but to find them, all chunks would have to be read."""
    docs, words = filled(tmp_path / "docs"), encoder()
    with opened(place, words) as collection:
        collection.ingest(Root(str(docs)))
        (docs / "copy.md").write_text((docs / "0" / "0.md").read_text())
        assert collection.ingest(Root(str(docs))).encoded > 0


def test_vectors_that_a_caller_may_have_given_are_not_reused(tmp_path):
    docs, words = filled(tmp_path / "docs"), encoder()
    with Collection.open("notes", tmp_path / "store", encoder=words, chunking=False) as collection:
        collection.ingest(Root(str(docs)), vectors={"0/0.md": np.ones(words.dim)})
        (docs / "0").rename(docs / "again")
        assert collection.ingest(Root(str(docs)), prune=True).encoded == 3


def test_token_states_are_reused(tmp_path, place):
    docs, words = filled(tmp_path / "docs"), StateEncoder(max_tokens=64)
    with opened(place, words, late_interaction=True) as collection:
        collection.ingest(Root(str(docs)))
        (docs / "0").rename(docs / "again")
        report = collection.ingest(Root(str(docs)), prune=True)
        assert (report.encoded, report.new) == (0, 3)
        points = [each.id for each in collection._backend.scroll([CHUNKS])]
        assert collection._backend.states(points, "dense").keys() == set(points)
        assert collection.verify().sound


def test_documents_of_another_source_stay_out(tmp_path, place):
    words = encoder()
    with opened(place, words) as collection:
        collection.ingest(Root(str(filled(tmp_path / "one"))), source="one")
        collection.ingest(Root(str(filled(tmp_path / "two", seed=50))), source="two")
        (tmp_path / "two" / "0").rename(tmp_path / "two" / "again")
        report = collection.ingest(Root(str(tmp_path / "two")), source="two", prune=True)
        assert (report.encoded, report.new, report.deleted) == (0, 3, 3)
        assert len(collection.find(source="one")) == 8


def test_after_a_migration_the_vectors_of_the_new_model_are_reused(tmp_path, place):
    docs, other = filled(tmp_path / "docs"), WordEncoder(1, max_tokens=64)
    with opened(place, encoder()) as collection:
        collection.ingest(Root(str(docs)))
        collection.migrate(other)
        (docs / "0").rename(docs / "again")
        other.encoded.clear()
        report = collection.ingest(Root(str(docs)), prune=True)
        assert (report.encoded, other.encoded) == (0, [])
        points = list(collection._backend.scroll([CHUNKS]))
        name = collection._serving.current.description.vector
        found = collection._backend.retrieve([each.id for each in points], None, name)
        texts = [each.payload.get("embedded", each.payload["text"]) for each in found.values()]
        expected = other._vectors(texts)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose([each.dense for each in found.values()], expected, rtol=1e-5)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_after_any_moves_and_edits_the_collection_is_as_one_made_anew(seed, tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("moves"), random.Random(seed)
    docs, words = filled(folder / "docs"), encoder()
    with Collection.open("notes", folder / "store", encoder=words, chunking=SMALL) as collection:
        collection.ingest(Root(str(docs)))
        for _ in range(3):
            files = sorted(docs.rglob("*.md"))
            for file in rng.sample(files, k=min(len(files), 3)):
                to = docs / rng.choice(["0", "1", "2"]) / f"{rng.randrange(9)}.md"
                to.parent.mkdir(exist_ok=True)
                text = file.read_text() if rng.random() < 0.8 else file.read_text()[: rng.randrange(9, 90)]
                file.unlink()
                to.write_text(text)
            collection.ingest(Root(str(docs)), prune=True)
        updated = chunks(collection)
    with Collection.open("fresh", folder / "store", encoder=encoder(), chunking=SMALL) as fresh:
        fresh.ingest(Root(str(docs)))
        assert same(updated, chunks(fresh))
