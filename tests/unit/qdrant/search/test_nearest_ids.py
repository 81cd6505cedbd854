"""The ids that are named instead of an unknown one."""

import pytest

from twinvec.errors import TextError
from twinvec_qdrant import Collection
from twinvec_qdrant.search.nearest_ids import nearest_ids
from words import WordEncoder

IDS = ["guides/install.md", "guides/upgrade.md", "tax/2023/report.pdf", "tax/2024/report.pdf", "minutes:2024/march.md"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("guides/instal.md", ["guides/install.md"]),
        ("install.md", ["guides/install.md"]),
        ("GUIDES/Install.MD", ["guides/install.md"]),
        ("report.pdf", ["tax/2023/report.pdf", "tax/2024/report.pdf"]),
        ("tax/2024/reprot.pdf", ["tax/2024/report.pdf", "tax/2023/report.pdf"]),
        ("march.md", ["minutes:2024/march.md"]),
        ("up", []),
        ("upg", ["guides/upgrade.md"]),
        ("2024", ["tax/2024/report.pdf", "minutes:2024/march.md"]),
        ("guides", ["guides/install.md", "guides/upgrade.md"]),
        ("zebra", []),
    ],
)
def test_the_closest_ids_come_first(asked, expected):
    assert nearest_ids(asked, IDS, 2)[: len(expected) or 2] == expected
    assert nearest_ids(asked, [], 2) == []


def test_a_collection_names_the_closest_of_many(tmp_path):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as collection:
        collection.ingest([*({"id": each, "text": each} for each in IDS)])
        assert collection.nearest_ids("guides/instal.md", 1) == ["guides/install.md"]
        with pytest.raises(TextError):
            collection.nearest_ids("\ud800")


def test_a_hundred_thousand_ids_are_compared():
    many = [f"folder{n % 100}/document-{n}.txt" for n in range(100_000)]
    assert nearest_ids("folder7/documnt-4307.txt", many, 1) == ["folder7/document-4307.txt"]
