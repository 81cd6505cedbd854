"""RTF files as Word and LibreOffice write them: Markdown with headings, lists and tables."""

from __future__ import annotations

import pytest

from twinvec_qdrant import Failure, read_source

HEAD = (
    r"{\rtf1\ansi\ansicpg1252\uc1\deff0{\fonttbl{\f0\froman\fcharset0 Times{\*\falt Serif};}{\f3\fcharset2 Symbol;}"
    r"{\f4\fcharset204 Arial Cyr;}}{\colortbl;\red0;}{\stylesheet{\ql Normal;}{\s1\keepn\outlinelevel0\b heading 1;}"
    r"{\s2\b Heading 2;}{\s3 Title;}{\s4 Subtitle;}{\s16 Body;}}{\info{\title Not this}}{\header \pard Page head\par}"
)


def read(folder, body: str | bytes, head: str = HEAD):
    data = body if isinstance(body, bytes) else f"{head}{body}}}".encode("cp1252")
    (folder / "a.rtf").write_bytes(data)
    (found,) = read_source(folder / "a.rtf")
    return found


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (r"\pard\s1 Tea\par\pard\s16 Hot.\par\pard\s2 Kinds\par Green.\par", "# Tea\n\nHot.\n\n## Kinds\n\nGreen."),
        (r"\pard\outlinelevel2 Tea\par\pard\outlinelevel9 Hot.\par", "### Tea\n\nHot."),
        (r"\pard\s3 Tea\par\pard\s4 Hot.\par", "# Tea\n\nHot."),
        (r"a\line b\par c \{d\} \\cell e\par", "a\nb\n\nc {d} \\cell e"),
        (r"f\'fcr \u8222?alle\u8220? {\f4 \'d7\'e0\'e9} \u-10179?\u-8704?", "für „alle“ Чай 😀"),
        ("für alle", "für alle"),
        (
            r"{\listtext\f3 \'b7\tab}green\par{\listtext\f3 \'b7\tab}black\par\pard Then\par{\listtext 1.\tab}one\par",
            "- green\n- black\n\nThen\n\n1. one",
        ),
        (
            r"Prices\par\trowd\cellx9\pard\intbl{kind\cell price\cell}{\trowd\cellx9\row}"
            r"\trowd\pard\intbl{green\par tea\cell 7.5\cell}{\trowd\row}\pard End\par",
            "Prices\n\n| kind | price |\n| --- | --- |\n| green tea | 7.5 |\n\nEnd",
        ),
        (r"\intbl a\cell b\cell\par", "a | b |"),
        (r"Water{\footnote \pard{\super\chftn} Soft\par is best.}, hot.\par", "Water (Soft is best.), hot."),
        (r"Kept{\deleted gone}{\v hid{\v den}}, \v not \v0 this{\v a\plain b}\par", "Kept, thisb"),
        (r"a{\*\annotation why}{\*\unknown b}c", "ac"),
        (r'{\field{\*\fldinst{HYPERLINK "https://a"}}{\fldrslt the shop}} and on', "the shop and on"),
        (r"{\pict\wmetafile8 " + "0123456789abcdef\r\n" * 99 + r"}Pot {\pict\bin7 {}}\row}seen", "Pot seen"),
        (
            r"Run C:\\bin64\\tool.exe until {\pict\bin3 \\}}it is \\\bin1 xdone.",
            r"Run C:\bin64\tool.exe until it is \done.",
        ),
        ("Phone list:" + " 555 1234" * 100 + r"\par", "Phone list:" + " 555 1234" * 100),
    ],
)
def test_what_a_reader_sees_is_text(body, wanted, tmp_path):
    found = read(tmp_path, body)
    assert found.payload == {"path": "a.rtf", "format": "markdown"}
    assert found.text == wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (rb"{\rtf1\ansi\ansicpg1251 \'d7\'e0\'e9}", "Чай"),
        (r"{\rtf1\ansi\ansicpg1251 Чай}".encode("cp1251"), "Чай"),
        (rb"{\rtf1\mac caf\'8e}", "café"),
        (rb"{\rtf1\ansi\ansicpg99999 caf\'e9}", "café"),
        (rb"{\rtf1\ansi{\fonttbl{\f0\fcharset78 A;}}\f0 caf\'e9}", "café"),
        (rb"{\rtf1 {\b Tea is cut o", "Tea is cut o"),
        (rb"{\rtf1 half \u-10179? here}", "half \ufffd here"),
    ],
)
def test_encodings_and_cut_files(body, wanted, tmp_path):
    assert read(tmp_path, body).text == wanted


def test_what_is_no_rtf_or_too_large_is_refused(tmp_path):
    found = read(tmp_path, b"Plain text.")
    assert isinstance(found, Failure)
    assert "not of the format that its name (.rtf) says" in found.reason
    found = read(tmp_path, b"{\\rtf1 " + b"tea " * 6 * 2**20 + b"}")
    assert "more than 25,165,824 bytes besides pictures" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [r"\trowd ", r"\row ", r"{\footnote ", r"{\v ", "{", r"\f1 ", r"{\fonttbl\f1\fcharset0",
     r"{\field{\*\fldinst{HYPERLINK ", r"{\s1", r"\cell ", "\ue000", r"\trowd\row "],
)  # fmt: skip
def test_the_time_is_linear_in_the_length_of_a_damaged_file(piece, tmp_path):
    read(tmp_path, (r"{\rtf1 " + piece * (2**21 // len(piece))).encode())
