"""Drawings (SVG): what they say is text, and a drawing that says nothing is empty, like a picture."""

from __future__ import annotations

import re

import pytest

from twinvec_qdrant import Empty, Failure, Root, read_source
from twinvec_qdrant.ingest.reading.files import read_file
from twinvec_qdrant.ingest.reading.web.drawings import text_of_drawing

SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:dc="http://purl.org/dc/elements/1.1/">{}</svg>'


def test_a_drawing_is_its_title_descriptions_and_texts(tmp_path):
    parts = (
        "<title>Making tea</title><desc>From  leaves\n to cups</desc><style>text { fill: red }</style>",
        "<metadata><dc:title>no</dc:title></metadata><script>let no</script><path d='M0 0'/>",
        "<g><title>Pot</title><text x='1'>hot w<tspan>at</tspan>er<title>no</title></text></g>",
        "<text><tspan x='1' y='2'>first line</tspan><tspan x='1' dy='3'>second line</tspan></text><text> </text>",
        "<switch><foreignObject><div xmlns='http://www.w3.org/1999/xhtml'>a long<br/>label</div></foreignObject>"
        "<text>a lo...</text></switch>",
        "<dc:title>no</dc:title><!-- no -->",
    )
    (tmp_path / "a.SVG").write_text('<?xml version="1.0"?>\n<!DOCTYPE svg>\n' + SVG.format("".join(parts)))
    (found,) = Root(str(tmp_path)).read()
    assert found.text == "Making tea\nFrom leaves to cups\nPot\nhot water\nfirst line second line\na long label"
    assert found.payload == {"path": "a.SVG", "format": "text"}
    assert read_file(tmp_path / "a.SVG", "a.SVG", 4).text == (tmp_path / "a.SVG").read_text()


@pytest.mark.parametrize("inner", ["", "<path d='M0 0'/><text> </text>"])
def test_a_drawing_that_says_nothing_is_empty(inner, tmp_path):
    (tmp_path / "a.svg").write_text(SVG.format(inner))
    (found,) = read_source(tmp_path)
    assert found == Empty("a.svg", "a drawing, which holds no text")


def test_a_drawing_is_in_the_encoding_that_it_states_and_may_name_no_space():
    drawing = (
        '<?xml version="1.0" encoding="{}"?><!DOCTYPE svg [<!ENTITY pot "Kännchen">]><svg><text>&pot;</text></svg>'
    )
    for encoding in ("utf-8", "iso-8859-1", "utf-16"):
        assert text_of_drawing(drawing.format(encoding).encode(encoding)) == "Kännchen"


@pytest.mark.parametrize(
    "data",
    [
        b"<svg><text>Tea</svg>",
        b"\x1f\x8b\0",
        b'<?xml version="1.0" encoding="klingon"?><svg/>',
        b"<!DOCTYPE a [" + b'<!ENTITY a "aaaaaaaa">' + b"".join(
            b'<!ENTITY %c "%s">' % (name + 1, b"&%c;" % name * 10) for name in b"abcdefghijk"
        ) + b"]><svg><text>&l;</text></svg>",
    ],
    ids=["open", "compressed", "encoding", "entities"],
)  # fmt: skip
def test_what_is_no_xml_fails(data, tmp_path):
    (tmp_path / "a.svg").write_bytes(data)
    (found,) = read_source(tmp_path)
    assert isinstance(found, Failure)
    assert re.fullmatch(r"damaged drawing: not valid XML \(.+\); get the file again", found.reason)


def test_a_drawing_that_is_nested_very_deeply_stops_nothing(tmp_path):
    (tmp_path / "a.svg").write_text(SVG.format("<g>" * 100_000 + "<text>Tea</text>" + "</g>" * 100_000))
    (tmp_path / "b.txt").write_text("tea")
    found, other = read_source(tmp_path)
    assert isinstance(found, Failure)
    assert "nested too deeply" in found.reason
    assert other.text == "tea"
