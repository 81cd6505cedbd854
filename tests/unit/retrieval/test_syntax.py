"""The syntax of queries: phrases that must occur, words that must not, and everything else as text."""

import pytest

from twinvec.errors import TextError
from twinvec.retrieval.syntax import parse_query


@pytest.mark.parametrize(
    ("query", "text", "phrases", "excluded"),
    [
        ("late fees", "late fees", (), ()),
        ('"late fees" refund', "late fees  refund", (("late", "fees"),), ()),
        ("fees -refund", "fees", (), (("refund",),)),
        ("fees -re-fund", "fees", (), (("re", "fund"),)),
        ('fees -"late fees" "Im März"', "fees    Im März", (("im", "marz"),), (("late", "fees"),)),
        ("„späte Gebühr“ “exact”", "späte Gebühr   exact", (("spate", "gebuhr"), ("exact",)), ()),
        ('"-not a word"', "-not a word", (("not", "a", "word"),), ()),
        ("«mot de passe» »Im März« a", "mot de passe   Im März  a", (("mot", "de", "passe"), ("im", "marz")), ()),
        ("「掃除」 -『カー』", "掃除", (("掃", "除"),), (("カ", "ー"),)),
    ],
)
def test_a_query_is_taken_apart(query, text, phrases, excluded):
    parsed = parse_query(query)
    assert (parsed.text, parsed.phrases, parsed.excluded) == (text, phrases, excluded)


@pytest.mark.parametrize("query", ["--dry-run", "a - b", "well-known", "-5 degrees", 'a 5" disk', '""', "x -", "", " "])
def test_what_only_looks_like_syntax_is_text(query):
    parsed = parse_query(query)
    assert parsed.text == query
    assert not parsed.has_conditions
    assert parsed.admits("anything")


@pytest.mark.parametrize("query", ["-refund", '-"late fees"', "-one -two !"])
def test_a_query_that_only_excludes_is_refused(query):
    with pytest.raises(TextError, match="has only exclusions"):
        parse_query(query)


def test_texts_are_admitted_by_their_words():
    parsed = parse_query('fees "late fee" -refund -"no way"')
    assert parsed.admits("A LATE FEE is due.")
    assert parsed.admits("late-fee; refunds; no such way")
    for text in ("late fees", "a fee is late", "late fee, refund", "A late fee: no way!", ""):
        assert not parsed.admits(text)
    assert parse_query('"late fee"').admits("Fees", "A late fee")
    assert not parse_query('"late fee"').admits("It is late", "fee")
    assert parse_query('"cafe creme"').admits("Café Crème")
    assert parse_query('"get_environment variable"').admits("get environment_variable")


def test_each_chinese_character_is_a_word():
    assert parse_query('"北京"').admits("我们在北京见面。")
    assert not parse_query('"北京"').admits("京北")
    assert parse_query('"東京に"').admits("私は東京に住んでいます")
    assert not parse_query("城市 -大阪").admits("从大阪来")


def test_each_kana_is_a_word():
    assert parse_query('"フィルター"').admits("排水フィルターを掃除")
    assert parse_query('"フィルター"').admits("排水ﾌｨﾙﾀｰ")
    assert not parse_query("掃除 -フィルター").admits("フィルターの掃除")
    assert not parse_query('"フィルター"').admits("フィター")


def test_each_letter_of_thai_is_a_word():
    assert parse_query('"น้ำดื่ม"').admits("ควรซื้อน้ำดื่มสะอาด")
    assert not parse_query('"น้ำดื่ม"').admits("ดื่มน้ำ")
    assert not parse_query("สะอาด -น้ำ").admits("น้ำสะอาด")
