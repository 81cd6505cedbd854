"""Rich text (RTF 1.9.1) -> Markdown, by striprtf.

striprtf gives plain text. To keep headings, tables and footnotes, this module writes characters of Unicode's private
area into the file, which striprtf passes on. Deleted text of tracked changes, hidden text, comments, pictures, page
headers and page footers are left out. Parentheses enclose a footnote where its mark is.
"""

from __future__ import annotations

import codecs
import re

from twinvec.errors import DocumentError
from twinvec.support.extras import import_extra

RICH_TEXT = ".rtf"
BEGINNING = b"{\\rtf"

_MOST_BYTES = 24 * 2**20  # without pictures; reading this much takes up to a minute
_BINARY = re.compile(rb"\\(?:\\|bin(\d{1,9}) ?)")  # also an escaped backslash, since "C:\\bin64" is text
_PICTURE = re.compile(rb"[0-9A-Fa-f\r\n]{512,}")  # a picture or embedded object; blanks separate other numbers
_CODE_PAGE = re.compile(rb"\\ansicpg(\d+) ?")
_MAC = re.compile(rb"\\mac(?![a-z])")
_FONT = re.compile(r"\\(f|fcharset)(\d+)(?!\d)")
_UNKNOWN_FONTS = range(78, 90)  # character sets of old Macs, some of which Python does not know
_STYLE = re.compile(r"\{\\s(\d+)(?!\d)([^{};]*);")
_OUTLINE = re.compile(r"\\outlinelevel([0-8])(?!\d)|heading ([1-9])$| title$", re.IGNORECASE)
_TOKEN = re.compile(
    r"\\[\\{}]|[{}]"
    r"|\\(?:(cell|fldinst|footnote|line|plain|row|trowd)(?![a-z])|(deleted|outlinelevel|s|v)(\d*)(?![a-z\d])) ?"
)
_CELL, _ROW, _ROW_START, _LINE, _NOTE, _NOTE_END, _HIDDEN, _HIDDEN_END = map(chr, range(0xE000, 0xE008))
_HEADINGS = [chr(0xE010 + level) for level in range(9)]
_SKIPPED = "\\*"  # readers skip a group that begins so
_MARKS = {"cell": _CELL, "line": _LINE, "row": _ROW, "trowd": _ROW_START}
_TABLE = re.compile(rf"(?:{_ROW_START}[^{_ROW}]*{_ROW}\s*)+")
_NOTES = re.compile(rf"{_NOTE}([^{_NOTE}{_NOTE_END}]*){_NOTE_END}")
_UNSEEN = re.compile(rf"{_HIDDEN}[^{_HIDDEN}{_HIDDEN_END}]*{_HIDDEN_END}")
_MARK = re.compile("[\ue000-\ue018]")
_ITEM = re.compile(r"\A(?:[·•▪§o-]|(\w{1,4}[.)]))\t\s*")


def read_rich_text(data: bytes) -> str:
    """Return the Markdown of an RTF file.

    Raises:
        DocumentError: the file has too much text.
        MissingExtraError: striprtf is missing.
        Exception: the file is damaged.
    """
    library = import_extra("striprtf.striprtf", "documents", f"reading {RICH_TEXT} files", "twinvec-qdrant")
    data = _PICTURE.sub(b"", _without_binary(data))
    if len(data) > _MOST_BYTES:
        raise DocumentError(f"the file has more than {_MOST_BYTES:,} bytes besides pictures; split it first")
    encoding = _encoding(data)
    text = _with_fonts(_Marking().marked(_CODE_PAGE.sub(rb"\\ansi ", data).decode(encoding, "replace")))
    plain = library.rtf_to_text(text, encoding, "replace")
    return _markdown(plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _without_binary(data: bytes) -> bytes:
    """Return a file without binary data, which follow ``\\bin`` and are mostly pictures."""
    parts: list[bytes] = []
    start = place = 0
    while found := _BINARY.search(data, place):
        place = found.end()
        if found[1]:
            parts.append(data[start : found.start()])
            start = place = place + int(found[1])
    return b"".join([*parts, data[start:]])


def _encoding(data: bytes) -> str:
    stated = _CODE_PAGE.search(data)
    name = f"cp{int(stated[1])}" if stated else "mac_roman" if _MAC.search(data) else "cp1252"
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def _with_fonts(text: str) -> str:
    """Return a file that begins with a short list of the fonts' character sets.

    striprtf takes the square of the length of a list of fonts that is damaged.
    """
    font = "0"
    fonts: dict[str, str] = {}
    for word, number in _FONT.findall(text):
        if word == "f":
            font = number
        elif int(number) not in _UNKNOWN_FONTS:
            fonts.setdefault(font, number)
    table = "\n".join(f"{{\\f{font}\\fcharset{number} x;}}" for font, number in fonts.items())
    return f"{{\\rtf1{{\\fonttbl{table}}}{text.replace('{', '', 1)}"


class _Marking:
    """Writes marks into a file.

    ``_ends`` has, for each open group, the mark to write at its end. ``_hidden`` counts the open groups of hidden text.
    """

    def __init__(self) -> None:
        self._ends: list[str] = [""]
        self._levels: dict[str, int] = {}
        self._hidden = 0

    def marked(self, text: str) -> str:
        """Return a file with marks where headings, tables, footnotes and hidden text begin or end."""
        for number, style in _STYLE.findall(text):
            if outline := _OUTLINE.search(style):
                self._levels[number] = int(outline[1]) if outline[1] else int(outline[2] or 1) - 1
        return _TOKEN.sub(self._replaced, text)

    def _replaced(self, found: re.Match[str]) -> str:
        token, word = found[0], found[1] or found[2]
        if token == "{":
            self._ends.append("")
        elif token == "}":
            return f"{self._ended()}}}"
        elif word in _MARKS:
            return _mark(_MARKS[word])
        elif word == "fldinst":
            return _SKIPPED
        elif word == "footnote":
            self._ends[-1] = _NOTE_END
            return _mark(_NOTE)
        elif word in ("deleted", "v", "plain"):
            return self._seen(token, is_hidden=word != "plain" and found[3] != "0")
        elif word in ("outlinelevel", "s"):
            level = self._levels.get(found[3]) if word == "s" else int(found[3] or 9)
            return token if level is None or level > 8 else _mark(_HEADINGS[level])
        return token

    def _ended(self) -> str:
        end = self._ends.pop() if len(self._ends) > 1 else ""
        self._hidden -= end == _HIDDEN_END
        return _mark(end) if end and not (end == _HIDDEN_END and self._hidden) else ""

    def _seen(self, token: str, *, is_hidden: bool) -> str:
        """Return the mark for the beginning or end of hidden text; return the token if neither is here."""
        if is_hidden == (self._ends[-1] == _HIDDEN_END) or self._ends[-1] == _NOTE_END:
            return token
        self._ends[-1] = _HIDDEN_END if is_hidden else ""
        self._hidden += 1 if is_hidden else -1
        is_outer = self._hidden == (1 if is_hidden else 0)
        return _mark(_HIDDEN if is_hidden else _HIDDEN_END) if is_outer else token


def _mark(character: str) -> str:
    return f"\\intbl {character}"  # a word before it, since striprtf may skip a character after "\u8217"


def _markdown(text: str) -> str:
    """Return the Markdown of the text that striprtf gives; blank lines separate paragraphs, but not items of a list."""
    text = _NOTES.sub(lambda note: f" ({' '.join(note[1].split())})", _UNSEEN.sub("", text))
    head, end, tail = text.rpartition(_ROW)
    parts: list[str] = []
    was_item = False
    for line in (_TABLE.sub(_table, head + end) + tail).split("\n"):
        block, is_item = _ITEM.subn(lambda found: f"{found[1] or '-'} ", _paragraph(line))
        if block:
            parts += ["\n" if is_item and was_item else "\n\n", block]
            was_item = bool(is_item)
    return "".join(parts[1:])


def _table(found: re.Match[str]) -> str:
    """Return the rows of a table as one line; the first row is the header."""
    rows = [row.split(_CELL) for row in found[0].split(_ROW)[:-1]]
    cells = [[" ".join(_MARK.sub(" ", cell).split()) for cell in row[:-1] or row] for row in rows]
    cells.insert(1, ["---"] * len(cells[0]))
    lines = (f"| {' | '.join(row)} |" for row in cells)
    return f"\n{_LINE.join(lines)}\n"


def _paragraph(line: str) -> str:
    """Return a paragraph; if it has the mark of a heading, return it as a heading of Markdown."""
    level = next((_HEADINGS.index(sign) + 1 for sign in line if sign in _HEADINGS), 0)
    text = _MARK.sub("", line.replace(_LINE, "\n").replace(_CELL, " | ")).strip()
    return f"{'#' * min(level, 6)} {' '.join(text.split())}" if level and text else text
