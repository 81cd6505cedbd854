"""Units and windows: worked examples of prose, tables, lists and code, and what holds for any text."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinvec.retrieval.windows import LONGEST, MOST_UNITS, Span, grown, units, windows


def cut(text, start=0):
    return [text[unit.start : unit.end] for unit in units(text, start)]


def test_sentences_end_where_a_reader_ends_them():
    text = "Dr. Smith pays 3.5 percent, e.g. in May. See Fig. 3 of the U.S. report! Is v1.2 out? 日本語です。次の文。"
    assert cut(text) == [
        "Dr. Smith pays 3.5 percent, e.g. in May.",
        "See Fig. 3 of the U.S. report!",
        "Is v1.2 out?",
        "日本語です。",
        "次の文。",
    ]


def test_a_line_of_prose_ends_no_sentence():
    assert cut("The quick brown\nFox jumps.\nIt rests\nnow.\n\nA new paragraph") == [
        "The quick brown\nFox jumps.",
        "It rests\nnow.",
        "A new paragraph",
    ]


def test_lines_of_tables_lists_headings_and_code_are_units():
    text = """# Taxes
Pay early.
| due | to whom |
|---|---|
| July. Late | the state |

- one item
  goes on. It has two sentences.
- another
1. a third

```python
x = 1.  # one
y = 2
```
    indented(code)
<!-- a comment -->
"""
    assert cut(text) == [
        "# Taxes",
        "Pay early.",
        "| due | to whom |",
        "| July. Late | the state |",
        "- one item\n  goes on.",
        "It has two sentences.",
        "- another",
        "1. a third",
        "x = 1.  # one",
        "y = 2",
        "indented(code)",
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", ["var x=f(1);y=g(2);" * 80_000 + "z", "The call f(x) is here. " * 80_000])
def test_a_line_of_a_megabyte_is_cut_as_a_short_one_is(line):
    long, short = cut(line), cut(line[: len(line) // 80])
    assert long[:10] == short[:10]
    assert " ".join(long) == line.strip()


def test_the_rest_of_a_block_of_code_is_code():
    assert cut("first line here\nsecond line\n```\nThen prose\ngoes on.") == [
        "first line here",
        "second line",
        "Then prose\ngoes on.",
    ]


def test_a_text_may_begin_behind_its_heading():
    assert cut("Guide > Taxes\n\nPay early.", 15) == ["Pay early."]


@given(st.text(st.sampled_from("ab1.!? \n\t|-#`'\"()。é日_…"), max_size=200) | st.text(max_size=100))
def test_units_hold_every_word_whole(text):
    found = units(text)
    assert found == sorted(found)
    assert all(before.end <= after.start for before, after in pairwise(found))
    for unit in found:
        piece = text[unit.start : unit.end]
        assert piece == piece.strip()
        assert re.search(r"\w", piece)
        around = (text[unit.start - 1 : unit.start + 1], text[unit.end - 1 : unit.end + 1])
        assert not any(re.fullmatch(r"[a-z0-9]{2}", each) for each in around)


@given(st.lists(st.text("abc", min_size=1, max_size=400), min_size=1, max_size=40))
def test_a_long_unit_is_cut_between_words(words):
    text = " ".join(words)
    pieces = cut(text)
    assert " ".join(pieces) == text
    assert all(len(piece) <= LONGEST or " " not in piece for piece in pieces)


def test_windows_are_short_and_the_small_ones_come_first():
    spans = [Span(0, 100), Span(101, 200), Span(201, 319), Span(320, 330), Span(400, 900)]
    assert list(windows(spans)) == [
        *((0, 1), (1, 2), (2, 3), (3, 4), (4, 5)),
        *((0, 2), (1, 3), (2, 4)),
        *((0, 3), (1, 4)),
    ]
    assert list(windows([])) == []


@pytest.mark.parametrize(
    ("window", "expected"),
    [((0, 1), (0, 319)), ((3, 4), (101, 330)), ((4, 5), (400, 900)), ((1, 3), (101, 330))],
)
def test_a_window_grows_behind_and_then_before(window, expected):
    spans = [Span(0, 100), Span(101, 200), Span(201, 319), Span(320, 330), Span(400, 900)]
    assert grown(spans, *window) == expected


def test_tiny_units_do_not_count():
    spans = [Span(10 * row, 10 * row + 5) for row in range(20)]
    assert grown(spans, 0, 1) == (0, 65)
    assert MOST_UNITS == 3
