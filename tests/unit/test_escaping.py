"""Control characters of names: escaped for a terminal, and in JSON without another value."""

from __future__ import annotations

import json
import sys

from twinvec.escaping import CONTROL, escaped, escaped_json

ALL = "".join(map(chr, range(sys.maxunicode + 1))).replace("\udbff\udc00", "\udbff \udc00")  # else it is a pair


def test_a_text_without_control_characters_stays():
    usual = "".join(each for each in ALL if not CONTROL.match(each))
    assert len(ALL) - len(usual) == 32 + 33 + 7 + 4 + 2048  # C0, DEL and C1, lines and directions, isolates, surrogates
    assert escaped(usual) is usual or escaped(usual) == usual


def test_control_characters_are_written_as_python_writes_them():
    assert escaped("a\x1b[31m\r\n\u202e\ud800b") == r"a\x1b[31m\r\n\u202e\ud800b"
    assert escaped("a\n\x1bb", keep="\n") == "a\n\\x1bb"


def test_json_keeps_its_value():
    for ascii_only in (True, False):
        text = escaped_json(json.dumps(ALL, ensure_ascii=ascii_only))
        assert not CONTROL.search(text)
        assert json.loads(text) == ALL
