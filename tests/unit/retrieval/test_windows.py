"""Units and windows: worked examples of prose, tables, lists and code, and what holds for any text."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from twinvec.retrieval.base import Hit, Passage, pages_of
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The harbour\n-----------\n\nIt opens.\n", ["The harbour", "It opens."]),
        ("---\ntitle: Harbours\n---\n\nIt opens.\n", ["title: Harbours", "It opens."]),
        ("<!--\nA remark.\n-->\n\nIt opens.\n", ["A remark.", "It opens."]),
        ("> It opens.\n>\n> It shuts.\n>\n", ["> It opens.", "> It shuts."]),
        ("#\nIt opens.\n*\n", ["It opens."]),
        ("**It opens.** It *shuts.* ***Soon.***", ["**It opens.**", "It *shuts.*", "***Soon.***"]),
    ],
)
def test_marks_of_markdown_are_no_units_and_stay_with_their_words(text, expected):
    assert cut(text) == expected


@pytest.mark.parametrize("head", ["- ", "1. ", "> ", "> - ", ""])
def test_fences_of_code_are_no_units_wherever_they_stand(head):
    inner = "> " if head.startswith(">") else " " * len(head)
    code = f"Run it.\n\n{head}```sh\n{inner}make all\n{inner}```\n\nIt is done. See it."
    assert [unit.removeprefix("> ") for unit in cut(code)] == ["Run it.", "make all", "It is done.", "See it."]


def test_an_item_of_a_list_within_code_does_not_end_the_code():
    text = "```sh\ncat <<END\n- ```\nEND\n```\nThe mail is sent at noon. Nobody answers it."
    assert cut(text)[-2:] == ["The mail is sent at noon.", "Nobody answers it."]


def test_code_within_a_line_is_no_fence():
    assert cut("```make all``` builds it. Then run it.\n\nIt is done. See it.") == [
        "```make all``` builds it.",
        "Then run it.",
        "It is done.",
        "See it.",
    ]


def test_a_part_of_a_long_sentence_begins_and_ends_with_a_line_of_words():
    pieces = cut("\n".join(["the page of " + 48 * "a", "-"] * 12))
    assert len(pieces) > 4
    assert all(re.search("a", line) for piece in pieces for line in (piece.split("\n")[0], piece.split("\n")[-1]))


def test_a_window_ends_with_a_word():
    text = f"What is it:\n{'a ' * 140}** {'b' * 100}"
    first, *others = units(text)
    assert text[slice(*grown(text, [first, Span(others[0].start, len(text))], 0, 1))].endswith(" a")


def test_the_rest_of_a_block_of_code_is_code():
    assert cut("first line here\nsecond line\n```\nThen prose\ngoes on.") == [
        "first line here",
        "second line",
        "Then prose\ngoes on.",
    ]


MANUAL = """\
NAME
       uniq - report or omit repeated lines

       -c, --count
              prefix lines by the number of occurrences (see also the page of
              sort(1), which orders them). Lines that differ are kept as they
              are.

       -z     line delimiter is NUL
"""


def test_paragraphs_of_a_manual_are_prose_although_they_are_indented():
    assert [" ".join(unit.split()) for unit in cut(MANUAL)] == [
        "NAME uniq - report or omit repeated lines",
        "-c, --count prefix lines by the number of occurrences (see also the page of sort(1), which orders them).",
        "Lines that differ are kept as they are.",
        "-z line delimiter is NUL",
    ]


def test_a_line_that_introduces_what_is_below_it_is_one_unit_with_it():
    code = """\
class Server:
    def start(self, port):
        if self.is_running and not port in self.known_ports:
            return None
        return self.listen(port)
"""
    assert cut(code) == [
        "class Server:\n    def start(self, port):",
        "if self.is_running and not port in self.known_ports:\n            return None",
        "return self.listen(port)",
    ]
    assert cut("       -cmin n\n\t      minutes ago.\n\n       -empty\n\t      no content.") == [
        "-cmin n\n\t      minutes ago.",
        "-empty\n\t      no content.",
    ], "a tab ends at a multiple of eight columns"
    assert cut("the end of it\n\n    indented") == ["the end of it", "indented"], "a blank line parts them"
    assert len(cut(f"{'x' * 300}\n    {'y' * 300}")) == 2, "both together are too long"


def test_a_line_of_prose_may_end_with_a_bracket():
    text = "The harbour is open in summer (from May on to October)\nand closed in winter.\n\ncall(of, a, function)\nx"
    assert cut(text)[0] == "The harbour is open in summer (from May on to October)\nand closed in winter."
    assert cut(text)[1] == "call(of, a, function)"


def test_a_very_short_window_takes_the_beginning_of_a_long_unit():
    text = f"What is tea?\n\n{'It is made of the leaves of a plant and ' * 7}goes on to the end of three hundred."
    first, second = units(text)
    found = grown(text, [first, second], 0, 1)
    assert second.end - first.start > LONGEST >= found.end
    assert found.end > 300
    assert text[found.end] == " "
    assert grown(text.replace("\n\n", "\n\f"), [first, second], 0, 1) == first


def test_a_window_that_ends_with_a_colon_takes_what_it_introduces():
    def shown(text, first, end):
        span = grown(text, units(text), first, end)
        return text[span.start : span.end]

    before = "The first sentence has some words. The second one has more words. "
    text = f"{before}Choose one of these:\n\n- the first kind of tea\n- the second kind\n- the third kind"
    assert shown(text, 0, 3) == text.partition("\n- the second")[0]
    long = "To brew the tea as the people of the harbour of Ely brew it at home, you do this:\n\n" + "brew a pot, " * 40
    assert len(shown(long, 0, 1)) > LONGEST // 2
    full = f"{'word ' * 50}:\n\n" + "brew a pot, " * 9
    assert shown(full, 0, 1).endswith("brew a pot, brew a")


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
        assert all(re.search(r"[^\W_]", line) for line in (piece.split("\n")[0], piece.split("\n")[-1]))
        around = (text[unit.start - 1 : unit.start + 1], text[unit.end - 1 : unit.end + 1])
        assert not any(re.fullmatch(r"[a-z0-9]{2}", each) for each in around)


@given(st.lists(st.text("abc", min_size=1, max_size=LONGEST), min_size=1, max_size=40))
def test_a_long_unit_is_cut_between_words(words):
    text = " ".join(words)
    pieces = cut(text)
    assert " ".join(pieces) == text
    assert all(len(piece) <= LONGEST for piece in pieces)


LONG = {
    "data": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0" * 30,
    "an address": "https://example.org/search?" + "&".join(f"field{row}=value{row}" for row in range(90)),
    "code": "".join(f"function f{row}(a,b){{return a*{row}+b[{row}]}};" for row in range(60)),
    "Chinese": "宪法规定国家保障公民的基本权利" * 60,
    "Chinese clauses": "宪法规定国家保障公民的基本权利，" * 60,
    "Thai": "ประเทศไทยมีอากาศร้อนชื้นตลอดทั้งปีน้ำ" * 30,
    "accents": "e\u0301" * 900,
    "families": "a👩\u200d👩\u200d👧\u200d👦" * 150,
    "a word behind others": "See it here: " + "x" * 2000 + " and go on. " + "y" * 400,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_text_without_spaces_is_cut_as_others_are(text):
    found = units(text)
    pieces = [text[each.start : each.end] for each in found]
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert len(pieces) > 5
    assert all(cell_len(piece) <= LONGEST / MOST_UNITS + 20 for piece in pieces)
    whole = [grown(text, found, row, row + 1) for row in range(len(found))]
    assert all(each.end - each.start > 100 and cell_len(text[slice(*each)]) <= LONGEST + 60 for each in whole)


def test_no_character_is_torn_from_its_marks_and_clauses_stay_whole():
    assert all(piece.startswith("e") for piece in cut(LONG["accents"]))
    assert all(piece.startswith(("a", "👩")) and piece.endswith("👦") for piece in cut(LONG["families"]))
    assert not any(piece.startswith(("\u0e33", "\u0e35")) for piece in cut(LONG["Thai"]))
    assert len(cut("a" + "\u0301" * 2000)[0]) < LONGEST, "marks without end"
    assert all(piece.endswith("，") for piece in cut(LONG["Chinese clauses"]))
    assert all(piece.endswith(("&", "=", "?")) for piece in cut(LONG["an address"])[:-1])


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
    assert grown(" " * 900, spans, *window) == expected


def test_tiny_units_do_not_count():
    spans = [Span(10 * row, 10 * row + 5) for row in range(20)]
    assert grown(" " * 200, spans, 0, 1) == (0, 65)
    assert MOST_UNITS == 3


def test_a_window_does_not_grow_over_the_end_of_a_page():
    text = "One.\n\n\fTwo.\n\nThree.\n\n\fFour."
    spans = units(text)
    assert grown(text, spans, 1, 2) == grown(text, spans, 2, 3) == (spans[1].start, spans[2].end)
    assert grown(text, spans, 0, 2) == (0, spans[2].end), "a window may hold parts of two pages"


def test_a_page_is_that_of_the_part_and_not_of_the_text():
    text = "Deck\n\n\fRevenue grew.\n\n\fCosts doubled.\n\n\f\n\fOutlook"
    hit = Hit("deck.pdf", text, 1.0, payload={"heading": "Deck", "page": 3})

    def pages(part):
        return pages_of(hit, text.index(part), text.index(part) + len(part))

    assert pages("Revenue") == (4, 4)
    assert pages("\fRevenue") == (4, 4), "a part begins with its first letter"
    assert pages("Costs doubled.\n\n\f\n\fOutlook") == (5, 7)
    assert pages_of(hit, len("Deck\n\n"), len(text)) == (4, 7), "an older version has kept form feeds before a text"
    for page in (None, "3", True, 3.0):
        assert pages_of(Hit("a", text, 1.0, payload={"page": page}), 0, 5) is None


def test_the_page_of_a_hit_is_that_of_its_passage():
    hit = Hit("deck.pdf", "one\n\ftwo\n\fthree", 1.0, payload={"page": 3})
    assert hit.page == 3
    assert replace(hit, passage=Passage("two", 5, 8)).page == 4
    assert Hit("a", "one", 1.0).page is None


class Copied(str):
    """A text that counts the characters which are copied out of it."""

    count = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        self.count += len(found)
        return found


@pytest.mark.parametrize("line", ["a line of prose that goes on in the next line of the text\n", "A short sentence. "])
def test_long_texts_are_copied_a_few_times_only(line):
    text = Copied(line * 1000)
    assert len(units(text)) > 100
    assert text.count < 10 * len(text)
