"""Subtitles: what is said stays, and times, numbers, tags and comments go."""

from __future__ import annotations

import pytest

from twinvec_qdrant import read_source
from twinvec_qdrant.ingest.reading.subtitles import SUBTITLES, text_of_subtitles

SUBRIP = """1
00:00:01,000 --> 00:00:04,000 X1:40 X2:600
<i>Green tea</i> is brewed
at 80 °C.

2
00:00:05,500 --> 00:00:07,000
{\\an8}For <font color="#fff">two minutes</font>.
3
00:00:07,100 --> 00:00:09,000
80

4
00:00:09,100 --> 00:00:09,900

"""
WEBVTT = """WEBVTT - Tea for all
Kind: captions

STYLE
::cue { color: green }

NOTE
This was checked
by Bo.

intro
00:01.000 --> 00:04.000 align:start position:0%
<v.loud Ann Lee>Is 3 &lt; 4?</v> Yes, a < b.

01:02:03.000 --> 01:02:05.000
<c.green>Note<00:00:01.500> well</c>
NOTE that I drink <u>tea</u>.

00:05.000 --> 00:06.000
NOTE that I drink tea.
And milk.
"""
SAID = "Ann Lee: Is 3 < 4? Yes, a < b.\nNote well\nNOTE that I drink tea.\nAnd milk."


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_what_is_said_stays(ends):
    said = "Green tea is brewed\nat 80 °C.\nFor two minutes.\n80"
    assert text_of_subtitles(SUBRIP.replace("\n", ends), ".srt") == said
    assert text_of_subtitles(WEBVTT.replace("\n", ends), ".vtt") == SAID


@pytest.mark.parametrize("suffix", SUBTITLES)
@pytest.mark.parametrize("text", ["", "A table of\n\n1\n\n00:00:01,000 --> later", "How tea is made"])
def test_a_text_in_another_format_stays(text, suffix):
    assert text_of_subtitles(text, suffix) == text


def test_a_file_becomes_a_text(tmp_path):
    (tmp_path / "talk.VTT").write_text(WEBVTT)
    (document,) = read_source(tmp_path)
    assert (document.text, document.payload) == (SAID, {"path": "talk.VTT", "format": "text"})


def test_a_file_in_which_nothing_is_said_is_empty(tmp_path):
    (tmp_path / "a.srt").write_text("1\n00:00:01,000 --> 00:00:04,000\n\n")
    (empty,) = read_source(tmp_path)
    assert empty.reason == "holds no text"


@pytest.mark.parametrize(("beginning", "suffix"), [("1", ".srt"), ("WEBVTT\n", ".vtt")])
@pytest.mark.parametrize("text", ["<v ", "{\\", "<", "\n ", "00:", "1\n"])
def test_a_large_text_without_ends_is_read(text, beginning, suffix):
    large = f"{beginning}\n00:00:01.000 --> 00:00:04.000\n{text * 200_000}{' ' * 1_000_000}"
    assert isinstance(text_of_subtitles(large, suffix), str)
