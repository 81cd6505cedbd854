"""Files of every kind with random damage: reading one gives a document or a failure, in bounded time."""

from __future__ import annotations

import faulthandler
import json
import random
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

import office_files
from cases import few_quick
from twinvec import Document
from twinvec_qdrant import Failure, read_source

LETTER = {"from": "Ann <ann@example.org>", "subject": "Lift", "date": "Mon, 06 May 2024 10:00:00 +0200"}
ROWS = [["kind", "price"], ["green tea", 7.5], ["black tea", 5.0]]
RECORD = {"id": "a", "text": "Tea", "price": 7.5, "more": {"kinds": [1, None]}}
PAGE = "<html><head><title>Tea</title></head><body><h1>Tea</h1><p>Brew <a href='x'>it</a>.</p></body></html>"
MOVED = "<w:p><w:moveTo><w:r><w:t>moved</w:t></w:r></w:moveTo></w:p>"
TEXTS = {
    ".csv": 'id;text;n\n1;"quoted ""text"" over\nlines";5\n2;Bü;6.5\n',
    ".html": PAGE,
    ".jsonl": f"{json.dumps(RECORD)}\n{json.dumps(RECORD | {'id': 'b'})}\n",
    ".rtf": r"{\rtf1\ansi{\fonttbl{\f0\fcharset204 Arial;}}{\stylesheet{\s1\outlinelevel0 heading 1;}}\pard\s1 Tea\par"
    r"\pard{\f0 \'d2}\u8222?{\v x}{\footnote Soft.}\par\trowd\intbl a\cell b\cell\row{\pict\bin3 abc}\par}",
    ".md": "---\ntitle: Tea\ndate: 2024-02-03\nnested: {a: {b: 1}}\n---\n# Tea\n\n![x](data:image/png;base64,AAAA)\n",
    ".svg": f"<svg xmlns='http://www.w3.org/2000/svg'><text x='1'>{'A pot of tea. ' * 40}<tspan>x</tspan></text></svg>",
    ".xhtml": f"<?xml version='1.0' encoding='utf-8'?>{PAGE}",
    ".txt": "Plain text with ümläuts and \x1b[31mcolours\x1b[0m.\n",
}
ODT = "<text:h text:outline-level='2'>Tea</text:h><text:list><text:list-item><text:p>green<text:note><text:note-body>"
ODT += "<text:p>dry</text:p></text:note-body></text:note></text:p></text:list-item></text:list>"
ODS = (
    "<table:table table:name='a'><table:table-row table:number-rows-repeated='2'><table:table-cell office:value='7.5' "
)
ODS += "office:value-type='float' table:number-columns-repeated='2'/></table:table-row></table:table>"
OFFICE = {
    ".docx": lambda path: office_files.write_docx(path, ["A report on tea", "Leaves are dried."], body=MOVED),
    ".eml": lambda path: office_files.write_eml(path, html=PAGE, text="Tea.", attachment="a.txt", **LETTER),
    ".epub": lambda path: office_files.write_epub(path, "Tea", ["<h1>One</h1><p>Leaves are dried.</p>"]),
    ".ipynb": lambda path: office_files.write_ipynb(path, [("markdown", "# Tea"), ("code", "brew(1)")]),
    ".mhtml": lambda path: office_files.write_mhtml(path, PAGE),
    ".msg": lambda path: office_files.write_msg(path, subject="Tea", sender="ann@example.org", body="Tea at four."),
    ".odp": lambda path: office_files.write_odf(path, f"<draw:page><draw:frame>{ODT}</draw:frame></draw:page>"),
    ".ods": lambda path: office_files.write_odf(path, ODS),
    ".odt": lambda path: office_files.write_odf(path, ODT),
    ".pdf": lambda path: office_files.write_pdf(path, [["A page on tea"], ["Another page"]]),
    ".pptx": lambda path: office_files.write_pptx(path, ["All about tea"], picture="a pot"),
    ".xls": lambda path: office_files.write_xls(path, ROWS),
    ".xlsx": lambda path: office_files.write_xlsx(path, ROWS),
}
SUFFIXES = sorted({*TEXTS, *OFFICE})
QUICK = [".csv", ".eml", ".jsonl", ".md", ".msg", ".ods", ".odt", ".rtf", ".svg", ".txt", ".xls", ".xlsx"]
PIECES = [
    *(b"\0", b"\xff", b"<", b">", b"&", b'"', b"{", b"]", b"\\ud800", b"NaN", b"1e999", b"9" * 5000, b"\r\n", b"\x1b["),
    *(b"\xed\xa0\x80", b"<!--", b"]]>", b"<![CDATA[", b"<!DOCTYPE", b"&#xD800;", b"=?utf-7?Q?+2AA-?=", b"=?x?B?////?="),
    *(b'charset="idna"', b"charset=utf-7", b"Content-Type: multipart/mixed; boundary=x\n", b'rowspan="99999999"'),
    *(b'r="999999999"', b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0"),
]
MOST_SECONDS = 60  # of a file; some take a second


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Data with one to twenty changes: bytes are replaced, inserted, left out or repeated, or the end is cut off."""
    made = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 5, 20])):
        place = dice.randrange(len(made) or 1)
        piece = dice.choice(PIECES)
        length = dice.choice([1, 4, 16, 200])
        match dice.randrange(6):
            case 0:
                made[place : place + 1] = bytes([dice.randrange(256)])
            case 1:
                made[place : place + length] = b""
            case 2:
                made[place:place] = piece
            case 3:
                made[place : place + len(piece)] = piece
            case 4:
                other = dice.randrange(len(made) or 1)
                made[place:place] = made[other : other + length]
            case 5 if dice.random() < 0.2:
                del made[place:]
    return bytes(made)


def damaged_part(data: bytes, dice: random.Random) -> bytes:
    """A zip archive whose archive is whole, and of which one part is damaged."""
    stream = BytesIO()
    with ZipFile(BytesIO(data)) as old, ZipFile(stream, "w", ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = dice.choice(names)
        for name in names:
            part = old.read(name)
            new.writestr(name, damaged(part, dice) if name == chosen else part)
    return stream.getvalue()


def seed_of(suffix: str, folder: Path) -> bytes:
    path = folder / f"seed{suffix}"
    if suffix in TEXTS:
        path.write_text(TEXTS[suffix], encoding="utf-8")
    else:
        OFFICE[suffix](path)
    return path.read_bytes()


@contextmanager
def limited():
    """Print the stack and end the process if the block takes too long. A loop in a library cannot be interrupted."""
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def check(found: object) -> None:
    if isinstance(found, Failure):
        assert found.reason
        assert "\n" not in found.reason
        assert f"{found.source} {found.reason}".encode()
    else:
        assert isinstance(found, Document)
        assert f"{found.id} {found.full_text}".encode()


@pytest.mark.parametrize("suffix", few_quick(SUFFIXES, QUICK))
def test_a_damaged_file_is_a_document_or_a_failure(suffix, tmp_path):
    read_all(suffix, range(12), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_many_damaged_files_are_documents_or_failures(suffix, tmp_path):
    read_all(suffix, range(12, 200), tmp_path)


def read_all(suffix: str, rounds: range, folder: Path) -> None:
    data = seed_of(suffix, folder)
    path = folder / f"a{suffix}"
    kinds = set()
    for number in rounds:
        dice = random.Random(f"{suffix} {number}")
        in_part = data.startswith(b"PK") and dice.random() < 0.5
        path.write_bytes(damaged_part(data, dice) if in_part else damaged(data, dice))
        with limited():
            for found in read_source(path):
                check(found)
                kinds.add(type(found))
    assert len(kinds) > 1 or suffix in (".html", ".xhtml"), f"all are {kinds}: the damage is too small or too large"
