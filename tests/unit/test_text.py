"""The input gate."""

from __future__ import annotations

import pytest

from twinvec.errors import TextError
from twinvec.text import MAX_TEXT_BYTES, check_text, check_texts


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "\ufffd", "\U0010ffff", "e\u0301", "\u200b\ufeff", "a" * 1000, "👩‍👩‍👧"]
)
def test_let_through_unchanged(text):
    assert check_text(text, "text") is text


@pytest.mark.parametrize("value", [None, 3, 2.5, b"text", ["text"], object(), True])
def test_what_is_no_string(value):
    with pytest.raises(TextError, match=rf"^notes/a\.md: expected a string, got {type(value).__name__}$"):
        check_text(value, "notes/a.md")


@pytest.mark.parametrize(("text", "place"), [("\ud800", 0), ("ab\udfff", 2), ("\udc80 from surrogateescape", 0)])
def test_lone_surrogates(text, place):
    with pytest.raises(TextError, match=rf"^text 3: lone surrogate U\+{ord(text[place]):04X} at character {place}"):
        check_text(text, "text 3")


def test_size_is_measured_in_bytes():
    assert check_text("é" * 5, "text", max_bytes=10)
    assert check_text("e" * 10, "text", max_bytes=10)
    for text in ("é" * 5 + "e", "e" * 11):
        with pytest.raises(TextError, match=r"11 bytes, more than the limit of 10; split it first"):
            check_text(text, "text", max_bytes=10)
    assert check_text("a" * MAX_TEXT_BYTES, "text")
    with pytest.raises(TextError, match="8,388,609 bytes"):
        check_text("a" * (MAX_TEXT_BYTES + 1), "text")


def test_lists_name_the_index():
    assert check_texts(["a", ""]) == ["a", ""]
    assert check_texts(text for text in ("a", "b")) == ["a", "b"]
    with pytest.raises(TextError, match=r"^text 1: expected a string"):
        check_texts(["a", None, None])


@pytest.mark.parametrize(("library", "make"), [("pandas", "DataFrame"), ("pyarrow", "table")])
def test_a_table_is_refused_with_what_to_give_instead(library, make):
    table = getattr(pytest.importorskip(library), make)({"text": ["a"]})
    with pytest.raises(TextError, match="give the column of texts: ") as caught:
        check_texts(table)
    given = eval(str(caught.value).rpartition(": ")[2], {"table": table, "list": list})
    assert check_texts(given) == ["a"]


@pytest.mark.parametrize("value", ["text", b"text", None, 3])
def test_what_is_no_list(value):
    with pytest.raises(TextError, match="expected a list of strings"):
        check_texts(value)
