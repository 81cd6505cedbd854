"""reStructuredText: its headings make sections, its directives do nothing, and no word is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from twinvec import Document
from twinvec_qdrant import Chunker, ChunkSettings
from twinvec_qdrant.ingest.cutting.restructured_text import restructured_text_sections
from twinvec_qdrant.ingest.cutting.sections import bodies
from words import WordEncoder

GUIDE = """\
.. _guide:

=======
The Pot
=======

Intro.

Using ``brew`` and :mod:`!tea.leaf`
===================================

One.

A :ref:`kettle <boiling>` in *two* `steps`_
-------------------------------------------

Two.

=====

Three.

After
=====
Four.

.. _steps: https://tea.example
"""


def sections(text: str, title: tuple[str, ...] = ()) -> list[tuple[list[str], str]]:
    return [(path, body.strip()) for path, body in bodies(text, restructured_text_sections(text, list(title)))]


def test_a_section_stands_below_its_headings_without_their_markup():
    using = "Using brew and tea.leaf"
    assert sections(GUIDE) == [
        ([], ""),
        (["The Pot"], "Intro."),
        (["The Pot", using], "One."),
        (["The Pot", using, "A kettle in two steps"], "Two.\n\n=====\n\nThree."),
        (["The Pot", "After"], "Four.\n\n.. _steps: https://tea.example"),
    ]


def test_labels_belong_to_the_heading_below_them():
    two = "Two::\n\n   .. _pot:"
    labels = ".. _tea:\n.. _Green tea:\n\n.. _`a: b`:"
    text = f"One.\n\n{labels}\n\nTea\n===\n\n{two}\n\nPot\n===\n.. _tin:\n\nThree.\n"
    assert sections(text) == [([], "One."), (["Tea"], two), (["Pot"], ".. _tin:\n\nThree.")]
    linked = ".. _tea: https://tea.example"
    assert sections(f"{linked}\n\nTea\n===\n\nTwo.\n") == [([], linked), (["Tea"], "Two.")]


def test_a_title_that_repeats_the_first_heading_is_there_once():
    found = sections(GUIDE, ("The Pot",))
    assert [path for path, _ in found][:3] == [["The Pot"], ["The Pot"], ["The Pot", "Using brew and tea.leaf"]]


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\t"])
def test_lines_are_those_of_the_file(end):
    text = f"One{end}line.\n\nTea\n===\n\nTwo{end}words.\n\nPot\n===\n\nThree.\n"
    assert sections(text) == [([], f"One{end}line."), (["Tea"], f"Two{end}words."), (["Pot"], "Three.")]


def test_a_heading_that_follows_another_at_once_keeps_its_lines():
    assert sections("A\n=\nB\n=\nText.\n") == [([], ""), (["A"], ""), (["B"], "Text.")]


@pytest.mark.parametrize("directive", ["include:: secret.txt", "raw:: html\n   :file: secret.txt", "only:: html"])
def test_directives_do_nothing(directive, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("Secret\n======\n\nText.\n")
    body = f".. {directive}\n\n   Inner\n   =====\n\nEnd."
    assert sections(f"Tea\n===\n\n{body}\n") == [([], ""), (["Tea"], body)]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "".join(" " * row + "a\n\n" for row in range(600)),
        "A\n=\n\nB\n-\n\nC\n~\n\nD\n=\n\nE\n~\n",
        "*" * 9000,
        "x\0\n=",
    ],
)
def test_what_docutils_refuses_stays_text(text):
    assert "".join(re.findall(r"\w", text)) == "".join(
        re.findall(r"\w", "".join((path[-1] if path else "") + body for path, body in sections(text)))
    )


PARTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["Tea\n===", "A long pot\n----------", "====\nTin\n====", ".. note::", "   deep", "::", "- item"]
        ),
        st.lists(st.from_regex(r"[a-z]{1,9}[.,:]?", fullmatch=True), min_size=1, max_size=40).map(" ".join),
        st.text(st.sampled_from("=-~`*|_: .ab\n\t"), max_size=30),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(PARTS, st.sampled_from(["\n", "\n\n"]))
def test_every_chunk_fits_and_no_word_is_lost(parts, between):
    text = between.join(parts)
    assume(not re.search(r"^\.\. _", text, re.MULTILINE))  # a label belongs to the heading below it
    chunks = Chunker(WordEncoder(max_tokens=24)).chunks(Document("guide.rst", text))
    assert not any(chunk.truncated for chunk in chunks)
    assert {word for chunk in chunks for word in re.findall(r"[a-z]+", chunk.text)} == set(re.findall(r"[a-z]+", text))


@pytest.mark.parametrize(
    ("document", "is_cut"),
    [
        (Document("guide.rst", GUIDE), True),
        (Document("guide.txt", GUIDE, payload={"format": "rst"}), True),
        (Document("guide.rst", GUIDE, payload={"format": "text"}), False),
        (Document("guide.txt", GUIDE), False),
    ],
)
def test_which_documents_are_cut_at_headings(document, is_cut):
    encoder = WordEncoder(max_tokens=999)
    cut = Chunker(encoder, ChunkSettings()).chunks(document)
    assert len(cut) == (4 if is_cut else 1)
    assert cut[-1].heading == ("The Pot > After" if is_cut else "")
    assert len(Chunker(encoder, reading=5).chunks(document)) == 1
