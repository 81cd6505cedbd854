"""Chunking: every chunk fits the model, no word is lost, and what belongs together stays together."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinvec import Document
from twinvec_qdrant import Chunker, ChunkSettings
from twinvec_qdrant.settings import NEWEST_READING
from words import WordEncoder

ENCODER = WordEncoder(max_tokens=24)
PARTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["# Guide", "## Install on Linux", "### Deep", "```python", "```", "~~~", "", "- item", "| a | b |"]
        ),
        st.lists(st.from_regex(r"[a-z]{1,9}[.,]?", fullmatch=True), min_size=1, max_size=40).map(" ".join),
    ),
    max_size=12,
)
GUIDE = """# Guide

Intro.

```python
{code}
```

The end.
"""


def cut(text, name="guide.md", **options):
    return Chunker(ENCODER, ChunkSettings(**options)).chunks(Document(name, text))


def words(text):
    return re.findall(r"\w+", text)


def bodies(chunks):
    return [chunk.text.removeprefix(chunk.heading).lstrip("\n") for chunk in chunks]


PORTS = "ports: 8080\n" * 60


@pytest.mark.parametrize(
    "path", ["deploy/compose.yaml", "web/PACKAGE.JSON", "Dockerfile", "lib/CMakeLists.txt", "a.sql"]
)
def test_configuration_has_its_path_as_heading(path):
    document = Document(path, PORTS, payload={"path": path, "format": "text"})
    chunks = Chunker(ENCODER).chunks(document)
    assert len(chunks) > 1
    assert {chunk.heading for chunk in chunks} == {path}
    assert all(chunk.text.startswith(f"{path}\n\nports: 8080\n") for chunk in chunks)
    (short,) = Chunker(ENCODER).chunks(replace(document, text="ports: 8080"))
    assert (short.heading, short.text) == (path, f"{path}\n\nports: 8080")


@pytest.mark.parametrize(
    ("document", "options"),
    [
        (Document("notes.txt", PORTS, payload={"path": "notes.txt", "format": "text"}), {}),
        (Document("a.pdf", PORTS, payload={"path": "a.pdf", "format": "text"}), {}),
        (Document("a.json", PORTS), {}),
        (Document("a.json", PORTS, payload={"path": "a.json", "format": "text"}), {"reading": 6}),
        (
            Document("a.json", PORTS, payload={"path": "a.json", "format": "text"}),
            {"settings": ChunkSettings(enabled=False)},
        ),
    ],
    ids=["prose", "pdf", "no file", "older collection", "whole"],
)
def test_other_texts_have_no_path_as_heading(document, options):
    assert {chunk.heading for chunk in Chunker(ENCODER, **options).chunks(document)} == {""}


def test_the_title_of_configuration_is_its_heading():
    document = Document("a.json", PORTS, "Ports", payload={"path": "a.json", "format": "text"})
    assert {chunk.heading for chunk in Chunker(ENCODER).chunks(document)} == {"Ports"}


@settings(deadline=None, max_examples=60)
@given(PARTS, st.sampled_from(["guide.md", "notes.txt"]), st.sampled_from(["\n", "\n\n"]))
def test_every_chunk_fits_and_no_word_is_lost(parts, name, between):
    text = between.join(parts)
    chunks = cut(text, name)
    assert not any(chunk.truncated for chunk in chunks)
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    found = {word for chunk in chunks for word in words(chunk.text)}
    assert found == set(words(text)) if chunks else not words(text)


@settings(deadline=None, max_examples=25)
@given(PARTS)
def test_plain_text_keeps_its_words_in_order(parts):
    text = "\n".join(parts)
    assert [word for chunk in cut(text, "notes.txt") for word in words(chunk.text)] == words(text)


def test_a_chunk_stands_below_its_headings():
    text = "# Guide\n\nOne.\n\n## Install\n\nTwo.\n\n# Other\n\nThree."
    assert [(chunk.heading, chunk.text) for chunk in cut(text)] == [
        ("Guide", "Guide\n\nOne."),
        ("Guide > Install", "Guide > Install\n\nTwo."),
        ("Other", "Other\n\nThree."),
    ]


def test_a_heading_without_text_is_a_chunk_unless_the_next_heading_path_begins_with_it():
    text = "# Install\n\n# Installation\n\n## On Linux\n\n" + "One two. " * 9
    assert [chunk.heading for chunk in cut(text)] == ["Install", *["Installation > On Linux"] * 2]


MARKED = """# The **tea** `pot` &amp; [cup][shop]

One.

## ![A kettle](kettle.png) <a id="boil"></a>boils\\_

Two.

Set in *two*
lines
---

Three.

### snake_case, 5 * 3

Four.

[shop]: https://shop.example
"""


def marked(reading):
    return Chunker(WordEncoder(max_tokens=99), reading=reading).chunks(Document("guide.md", MARKED))


def test_headings_lose_their_markup():
    chunks = marked(NEWEST_READING)
    assert [chunk.heading for chunk in chunks] == [
        "The tea pot & cup",
        "The tea pot & cup > A kettle boils_",
        "The tea pot & cup > Set in two lines",
        "The tea pot & cup > Set in two lines > snake_case, 5 * 3",
    ]
    assert bodies(chunks) == ["One.", "Two.", "Three.", "Four.\n\n[shop]: https://shop.example"]
    assert chunks[0].text == "The tea pot & cup\n\nOne."


@pytest.mark.parametrize(
    ("heading", "shown"),
    [
        ("The <code>x</code> option", "The x option"),
        ("Press <kbd>Ctrl</kbd>+<kbd>C</kbd>", "Press Ctrl+C"),
        ("Tea<br>and milk", "Tea and milk"),
        ("Tea<BR/>and milk", "Tea and milk"),
        ("Tea<!-- green --> leaves", "Tea leaves"),
    ],
)
def test_texts_of_html_in_a_heading_stay(heading, shown):
    assert [chunk.heading for chunk in cut(f"# {heading}\n\nOne.")] == [shown]


@pytest.mark.parametrize("reading", [1, 5])
def test_older_reading_versions_keep_the_markup_of_headings(reading):
    assert [chunk.heading.rpartition(" > ")[2] for chunk in marked(reading)] == [
        "The **tea** `pot` &amp; [cup][shop]",
        '![A kettle](kettle.png) <a id="boil"></a>boils\\_',
        "Set in *two* lines",
        "snake_case, 5 * 3",
    ]


@pytest.mark.parametrize("lines", [3, 12, 60])
@pytest.mark.parametrize("mark", ["```", "~~~"])
def test_the_fence_of_a_long_block_of_code_is_no_chunk_of_its_own(lines, mark):
    code = "\n".join(f"row = compute(first, second, {number})" for number in range(lines))
    found = bodies(cut(GUIDE.format(code=code).replace("```", mark)))
    assert found[0].startswith("Intro.")
    assert any(body.startswith(f"{mark}python\nrow =") or f"\n{mark}python\nrow =" in body for body in found)
    assert not any(re.fullmatch(r"\s*(```|~~~)\w*\s*", body) for body in found)


def test_a_fence_without_room_beside_its_code_keeps_its_word():
    long = "x" * 400  # one word that fills a chunk with nothing beside it
    text = GUIDE.format(code=" ".join(f"{long}{number}" for number in range(40)))
    assert "python" in {word for chunk in cut(text) for word in words(chunk.text)}


@pytest.mark.parametrize("name", ["guide.md", "notes.txt"])
def test_what_ends_with_a_colon_stays_with_what_it_introduces(name):
    items = "\n".join(f"- kind {number} of tea with milk" for number in range(2))
    text = f"{'first ' * 10}\n\nThere are two kinds:\n\n{items}\n\n{'last ' * 18}"
    assert bodies(cut(text, name)) == [
        ("first " * 10).strip(),
        f"There are two kinds:\n\n{items}",
        ("last " * 18).strip(),
    ]
    long = f"{'first ' * 6}\n\nThe kinds:\n\n{'tea ' * 22}"
    assert bodies(cut(long, name)) == [f"{'first ' * 6}\n\nThe kinds:", ("tea " * 22).strip()], "no room"


def test_an_overlap_repeats_the_end_of_the_chunk_before():
    text = " ".join(f"word{number}" for number in range(90))
    plain, overlapping = cut(text, "notes.txt"), cut(text, "notes.txt", overlap=8)
    assert len(overlapping) > len(plain)
    for before, after in pairwise(overlapping):
        assert words(after.text)[0] in words(before.text)


def test_a_document_that_is_kept_whole_is_one_chunk():
    text = "one two three " * 50
    (chunk,) = Chunker(ENCODER, ChunkSettings(enabled=False)).chunks(Document("a", text))
    assert (chunk.text, chunk.truncated) == (text, True)


@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_a_blank_document_has_no_chunk(text):
    assert cut(text) == []
