"""Passages by words: the window that answers, and where the query's words stand in it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import Hit
from twinvec.retrieval.passages import has_all_words, state_passages, with_passages, word_passages

LEAVE = (
    "Handbook > Leave\n\nThe company was founded in 1970 in a small town. It makes pumps and other machines for "
    "farms, and it has had the same owners ever since then. Its halls stand where the old mill stood. "
    "Renewals of certificates are requested two weeks ahead. The office closes at noon on Fridays in summer. "
    "Visitors sign the book at the gate, and they get a badge. Parking is free for everybody, and the trains stop near."
)


def passage(query, text, heading=""):
    (found,) = word_passages(query, [Hit("a", text, 1.0, payload={"heading": heading})], Analyzer())
    assert found.text == text[found.start : found.end]
    return found


def marked(found):
    return [found.text[start:end] for start, end in found.matches]


def test_the_sentence_that_answers_is_in_the_passage_and_its_words_are_marked():
    found = passage("how do I renew a certificate?", LEAVE, "Handbook > Leave")
    assert found.text.startswith("Renewals of certificates are requested two weeks ahead.")
    assert marked(found) == ["Renewals", "certificates"]
    assert 60 <= len(found.text) <= 320


def test_a_word_that_few_sentences_of_all_hits_have_counts_more():
    texts = ["The pump is new. " * 6 + "A" * 310 + ". The valve is old.", "The pump is red and the pump is loud. " * 5]
    hits = [Hit(str(row), text, 1.0) for row, text in enumerate(texts)]
    first, _ = word_passages("pump valve", hits, Analyzer())
    assert first.text == "The valve is old."
    assert marked(first) == ["valve"]


def test_a_word_that_is_a_little_rarer_counts_a_little_more():
    common = [f"The pump number {row} is described at some length in the {row}th volume." for row in range(9)]
    rarer = [each.replace("pump", "valve") for each in common[:8]]
    between = ["Nothing is said here about machines, or about the parts of which they are made."] * 9
    assert set(marked(passage("pump valve", " ".join(common + between + rarer)))) == {"valve"}


def test_equal_windows_give_the_first_one():
    text = " ".join(f"The pump number {row} is described at some length in the {row}th volume." for row in range(9))
    assert passage("pump", text).start == 0


def test_without_a_word_of_the_query_the_body_begins_the_passage():
    found = passage("holidays", LEAVE, "Handbook > Leave")
    assert found.text.startswith("The company was founded in 1970 in a small town.")
    assert found.matches == ()


def test_parts_of_identifiers_and_accents_are_marked_where_they_stand():
    text = "Call get_environment_variable() on the Pokémon, or 国語辞典 twice; twice."
    hits = [Hit("a", text, 1.0)]
    for query, expected in {
        "environment variables": ["environment", "variable"],
        "pokemon": ["Pokémon"],
        "辞": ["辞"],
        "get_environment_variable": ["get_environment_variable"],
        "twice": ["twice", "twice"],
    }.items():
        (found,) = word_passages(query, hits, Analyzer(version=2))
        assert marked(found) == expected, query


def test_pairs_of_kana_are_marked_as_the_word_that_they_make():
    found = word_passages("フィルター", [Hit("a", "排水フィルターの掃除", 1.0)], Analyzer("english", 3))[0]
    assert marked(found) == ["フィルター"]


def test_words_that_only_ask_choose_nothing():
    text = f"How do you do, and what is this? {'It was a long day. ' * 20} The pump is red."
    assert marked(passage("what do I do with the pump", text)) == ["pump"]
    assert marked(passage("what do you do", text))[:2] == ["do", "you"], "a query of nothing else is taken as it is"


@pytest.mark.parametrize("text", ["", " \n", "---", "Guide > Leave", "|---|---|"])
def test_a_text_without_a_sentence_is_a_passage_whole(text):
    found = passage("leave", text, "Guide > Leave")
    assert found.text == text


@pytest.mark.parametrize("signs", ["-" * 10_000, "= " * 10_000, "\n|---|---|" * 2_000, "👩\u200d👩\u200d👧" * 2_000])
@pytest.mark.parametrize("heading", ["", "Guide > Leave"])
def test_the_passage_of_a_long_text_without_a_sentence_is_its_beginning(signs, heading):
    found = passage("leave", f"{heading}\n\n{signs}" if heading else signs, heading)
    assert 60 <= len(found.text) <= 320
    assert signs.strip().startswith(found.text)


def test_hits_keep_all_else():
    hit = Hit("a", "A pump.", 1.0, {"dense": 0.5}, {"x": 1}, relevance=0.25)
    (found,) = with_passages("pump", [hit], Analyzer())
    assert (found.id, found.score, found.scores, found.payload, found.relevance) == (
        *("a", 1.0, {"dense": 0.5}, {"x": 1}, 0.25),
    )
    assert found.passage.matches == ((2, 6),)
    assert with_passages("pump", [], Analyzer()) == []


@given(st.lists(st.text(max_size=60), max_size=4), st.text(max_size=20))
def test_any_text_has_a_passage_with_matches_in_order(texts, query):
    hits = [Hit(str(row), text, 1.0, payload={"heading": text[:3]}) for row, text in enumerate(texts)]
    for hit, found in zip(hits, word_passages(query, hits, Analyzer()), strict=True):
        assert found.text == hit.text[found.start : found.end]
        assert list(found.matches) == sorted(found.matches)
        assert all(0 <= start < end <= len(found.text) for start, end in found.matches)


def by_states(query, text, near, **payload):
    """The passage of a text whose words are tokens, of which those in ``near`` have cosines with the query's tokens."""
    words = [word.span() for word in re.finditer(r"\w+", text)]
    cosines = [[1.0, 1.0], *(near.get(text[start:end], [0.0, 0.0]) for start, end in words)]
    spans = np.array([(0, 0), *words])  # a special token comes first
    hit = Hit("a", text, 1.0, payload=payload)
    (found,) = state_passages(query, [hit], [np.array(cosines, np.float32)], [spans], Analyzer())
    assert found.text == text[found.start : found.end]
    return found


def test_token_states_find_an_answer_in_other_words():
    near = {"badge": [0.9, 0.1], "gate": [0.2, 0.8], "company": [0.5, 0.5]}
    found = by_states("entry pass for visitors", LEAVE, near, heading="Handbook > Leave")
    assert "Visitors sign the book at the gate, and they get a badge." in found.text
    assert marked(found) == ["Visitors"]
    assert passage("entry pass", LEAVE, "Handbook > Leave").text.startswith("The company was founded")


def test_a_passage_has_all_words_of_a_query_in_any_form():
    found = passage("how do I renew a certificate?", LEAVE, "Handbook > Leave")
    assert has_all_words("how do I renew a certificate?", found, Analyzer())
    assert not has_all_words("renew a certificate online", found, Analyzer())


def test_a_larger_window_has_to_be_nearer():
    text = "The pump is red and stands in the hall. The valve is blue and stands in the yard. " + "A b c d. " * 99
    assert by_states("x y", text, {"pump": [0.5, 0.5], "valve": [0.505, 0.4]}).start == 0
    assert by_states("x y", text, {"c": [0.5, 0.5]}).start > 80


def test_a_token_over_all_of_a_text_leaves_the_passage_short():
    """A model that knows no word of a text without spaces reads all of it as one token."""
    text = "ประเทศไทยมีอากาศร้อนชื้นตลอดทั้งปี" * 40
    tokens = [np.array([(0, len(text))]), np.empty((0, 2), dtype=np.int64)]
    for spans in tokens:
        cosines = np.full((len(spans), 1), 0.5, dtype=np.float32)
        (found,) = state_passages("x", [Hit("a", text, 1.0)], [cosines], [spans], Analyzer())
        assert found.start == 0
        assert 100 < len(found.text) < 330


def test_a_text_longer_than_the_model_reads_has_a_passage_in_the_part_read():
    text = "The pump is red. The valve is blue. The rest is never read."
    spans = np.array([(4, 8), (21, 26)])
    cosines = np.array([[0.1], [0.9]], dtype=np.float32)
    (found,) = state_passages("valve", [Hit("a", text, 1.0)], [cosines], [spans], Analyzer())
    assert "valve" in found.text
    (found,) = state_passages("", [Hit("a", text, 1.0)], [cosines[:, :0]], [spans], Analyzer())
    assert found.text == text
