"""Dates and words are read as Qdrant's engine reads them."""

from __future__ import annotations

import random
import unicodedata

import pytest
import qdrant_edge as edge

from twinvec.retrieval.filters.instants import moment
from twinvec.retrieval.filters.words import has_phrase, searchable_parts, words

DATES = [
    *("2024-01-05", "24-1-5", "+2024-01-05", "-0001-01-05", " 2024- 1-05", "2024-02-30", "2024-W01-1", "20240105"),
    *("2024-01-05T10:20:30Z", "2024-01-05 10:20:30.123456789 +01:00", "2024-01-05t1:2:3UTC", "2024-01-05T10:20:30+01"),
    *("2024-01-05T10:20", "2024-01-0510:20:30", "2024-01-05T10:20:60", "2024-01-05T24:00:00", "2024-01 -05 10:20:30 z"),
]
LIMITS = ["2024-01-05T10:20:30Z", "2024-01-05T09:20:30.5Z", "2020-01-01", "0001-01-05"]


@pytest.fixture
def engine(tmp_path):
    """Texts in the engine: a function that returns the rows of those that satisfy a condition."""
    shard = edge.EdgeShard.create(
        str(tmp_path), edge.EdgeConfig(vectors={"v": edge.EdgeVectorParams(size=2, distance=edge.Distance.Dot)})
    )

    def matching(texts, conditions):
        points = [edge.Point(row, {}, {"t": text}) for row, text in enumerate(texts)]
        shard.update(edge.UpdateOperation.upsert_points(points))
        found = []
        for condition in conditions:
            wanted = edge.Filter(must=[edge.FieldCondition("t", **condition)])
            records, _ = shard.scroll(edge.ScrollRequest(None, len(texts), wanted, False, False))
            found.append({record.id for record in records})
        return found

    yield matching
    shard.close()


def test_texts_are_dates_where_the_engine_reads_dates(engine):
    chosen, texts = random.Random(3), list(DATES)
    for _ in range(5000):
        changed = list(chosen.choice(DATES))
        place = chosen.randrange(len(changed))
        changed[place : place + chosen.randrange(2)] = chosen.choice("0123456789-:TtZz.+ UC")
        texts.append("".join(changed))
    above = engine(texts, [{"range": edge.RangeDateTime(gt=limit)} for limit in LIMITS])
    below = engine(texts, [{"range": edge.RangeDateTime(lte=limit)} for limit in LIMITS])
    moments = [moment(text) for text in texts]
    assert 500 < sum(each is not None for each in moments) < len(texts) - 500
    for limit, later, earlier in zip(map(moment, LIMITS), above, below, strict=True):
        for row, each in enumerate(moments):
            there = (row in later, row in earlier)
            assert there == ((each > limit, each <= limit) if each is not None else (False, False)), texts[row]


def test_words_are_those_of_the_engine(engine):
    signs = [chr(code) for code in range(0x20, 0x3000) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    (apart,) = engine([f"qx{sign}yq" for sign in signs], [{"match": edge.MatchText("qx")}])
    rare = {"Mc", "Mn", "So"}  # some marks and circled letters: Python has no table of which are letters
    wrong = [sign for row, sign in enumerate(signs) if (len(words(f"qx{sign}yq")) > 1) != (row in apart)]
    assert {unicodedata.category(sign) for sign in wrong} <= rare
    assert len(wrong) < 0.05 * len(signs)


def test_parts_of_a_text_have_all_of_its_words():
    for text in ("one, two-three", "हिन्दी पाठ — x", "naïve,x"):
        assert [word for part in searchable_parts(text) for word in words(part)] == words(text)
    assert searchable_parts("Foo-bar") == ["foo", "bar"]


def test_a_phrase_is_words_in_a_row():
    assert has_phrase("The quick, brown fox", "QUICK brown")
    assert not has_phrase("The quick, brown fox", "quick fox")
    assert not has_phrase("quick", "quick quick")
