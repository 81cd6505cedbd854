"""The warning of few documents that hold most of the new chunks."""

from __future__ import annotations

import random

import pytest

from twinvec_qdrant import Collection
from twinvec_qdrant.ingest.largest import LargestDocuments
from words import WordEncoder


def counted(sizes: dict[str, int]) -> LargestDocuments:
    largest = LargestDocuments()
    for source, size in sizes.items():
        largest.add(source, size)
    return largest


def small(number: int, size: int = 1) -> dict[str, int]:
    return {f"{row}.md": size for row in range(number)}


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        (
            {**small(19), "a.min.js": 1177, "lock": 1178, "b.min.js": 1177},
            "3 of 22 documents hold 3,532 of 3,551 new chunks: lock (1,178), a.min.js (1,177), b.min.js (1,177); if",
        ),
        ({**small(19), "lock": 1000}, "1 of 20 documents holds 1,000 of 1,019 new chunks: lock (1,000); if"),
        ({**small(18), "lock": 1000}, ""),
        ({**small(19), "lock": 980}, ""),
        ({**small(19), "lock": 981}, "1 of 20 documents holds 981 of 1,000 new chunks: lock (981); if"),
        ({**small(100, 10), "lock": 1000}, "2 of 101 documents hold 1,010 of 2,000 new chunks: lock (1,000), ...; if"),
        ({**small(100, 10), "lock": 1001}, "1 of 101 documents holds 1,001 of 2,001 new chunks: lock (1,001); if"),
        (
            {**small(17, 0), "a": 400, "b": 400, "c": 400},
            "3 of 20 documents hold 1,200 of 1,200 new chunks: a (400), b (400), c (400); if",
        ),
        ({**small(16, 0), "a": 400, "b": 400, "c": 400, "d": 400}, ""),
        (
            {**small(45), "a": 400, "b": 400, "c": 400, "d": 400, "e": 400},
            "3 of 50 documents hold 1,200 of 2,045 new chunks: a (400), b (400), c (400); if",
        ),
        (
            {**small(45), **{f"{row}.js": 100 for row in range(5)}, "a": 50, **{f"m{row}": 100 for row in range(9)}},
            "",
        ),
        (
            {**small(90), **{f"{row}.js": 200 for row in range(7)}},
            "4 of 97 documents hold 800 of 1,490 new chunks: 0.js (200), 1.js (200), 2.js (200), ...; if",
        ),
    ],
)
def test_few_documents_with_most_of_the_chunks_are_named(sizes, told):
    warning = counted(sizes).warning()
    assert warning.startswith(told)
    assert bool(warning) == bool(told)
    assert not warning or warning.endswith("files, leave them out: --exclude PATTERN")


def test_parts_are_counted_as_a_whole():
    numbers = random.Random(1)
    for _ in range(200):
        sizes = {str(row): int(numbers.paretovariate(0.5)) for row in range(numbers.randint(15, 60))}
        whole, merged = counted(sizes), LargestDocuments()
        for start in range(0, len(sizes), 7):
            merged.merge(counted(dict(list(sizes.items())[start : start + 7])))
        assert merged == whole
        ranked = sorted(sizes.values(), reverse=True)
        few = max(len(ranked) // 10, 1)
        is_told = len(ranked) >= 20 and sum(ranked) >= 1000 and sum(ranked[:few]) * 2 > sum(ranked)
        assert bool(whole.warning()) == is_told


def test_an_ingest_warns_of_the_largest_documents_of_its_source(tmp_path, caplog):
    documents = [(f"d{row}", "tea " * (9000 if row == 4 else 3)) for row in range(22)]
    with Collection.open("notes", tmp_path, encoder=WordEncoder(max_tokens=8)) as collection:
        collection.ingest([("a", "tea")], source="first")
        foreseen = [
            each for each in collection.ingest(documents, source="src", dry_run=True).warnings if "hold" in each
        ]
        (warning,) = (each for each in collection.ingest(documents, source="src").warnings if "hold" in each)
        assert foreseen == [warning]
        assert warning in caplog.messages
        assert warning.startswith("1 of 22 documents holds ")
        assert ": d4 (" in warning
        assert not any("hold" in each for each in collection.ingest(documents, source="src").warnings)
