"""Small files of many formats, made by hand or by the libraries that the extra ``documents`` brings."""

from __future__ import annotations

import json
import quopri
import re
import struct
import zipfile
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path

_DOCX = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'wordprocessingml.document.main+xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
    'Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>',
}
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_LINK = bytes.fromhex("d0c9ea79f9bace118c8200aa004ba90b")
_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def write_pdf(path: Path, pages: Sequence[Sequence[str]]) -> None:
    """A PDF of the lines of each page; a page without lines has only a drawing."""
    fonts = "<< /Font << /F1 3 0 R >> >>"
    kids = " ".join(f"{4 + 2 * row} 0 R" for row in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for row, lines in enumerate(pages):
        shown = " T* ".join(f"({line}) Tj" for line in lines)
        drawn = f"BT /F1 11 Tf 14 TL 60 740 Td {shown} ET" if lines else "60 60 200 200 re f"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {fonts} /Contents {5 + 2 * row} 0 R >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    data, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{text}\nendobj\n".encode("ascii")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    data += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n".encode("ascii")
    path.write_bytes(data + f"startxref\n{data.rindex(b'xref')}\n%%EOF\n".encode("ascii"))


WORD_SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def write_docx(
    path: Path,
    paragraphs: Sequence[str],
    *,
    body: str = "",
    space: str = WORD_SPACE,
    title: str = "",
    comment: str = "",
) -> None:
    """A Word document of paragraphs, and of ``body``, which is XML; perhaps with a title, and a comment at its end."""
    parts: dict[str, str] = {}
    if title:
        core = "http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
        named = f'xmlns:c="{core}" xmlns:dc="http://purl.org/dc/elements/1.1/"'
        parts["docProps/core.xml"] = f"<c:coreProperties {named}><dc:title>{title}</dc:title></c:coreProperties>"
    if comment:
        said = f'<w:comment w:id="0" w:initials="B"><w:p><w:r><w:t>{comment}</w:t></w:r></w:p></w:comment>'
        parts["word/comments.xml"] = f'<w:comments xmlns:w="{space}">{said}</w:comments>'
        body += '<w:p><w:r><w:t>End</w:t></w:r><w:r><w:commentReference w:id="0"/></w:r></w:p>'
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs) + body
    document = f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>'
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**_DOCX, "word/document.xml": document, **parts}.items():
            archive.writestr(name, text)


def write_xlsx(path: Path, rows: Sequence[Sequence[object]], *, empty: Sequence[str] = ()) -> None:
    """A workbook of one sheet, and of empty sheets of these names."""
    from openpyxl import Workbook

    book = Workbook()
    for name in empty:
        book.create_sheet(name)
    for row in rows:
        book.active.append(row)
    book.save(path)


def write_xls(
    path: Path, rows: Sequence[Sequence[str | float | bool | datetime | None]], *, link: tuple[int, int] | None = None
) -> None:
    """A workbook of one sheet in the old format (MS-XLS): a stream of records in a compound file.

    ``link`` is the last row and the last column of the cells, from the first ones on, that are a hyperlink.
    """
    formats = b"".join(_record(0xE0, struct.pack("<4H12x", 0, form, 0, 0)) for form in (0, 14))  # 14: a date
    cells = b"".join(
        _cell(row, column, value)
        for row, values in enumerate(rows)
        for column, value in enumerate(values)
        if value is not None
    )
    linked = b"" if link is None else _record(0x1B8, struct.pack("<4H16s2I", 0, link[0], 0, link[1], _LINK, 2, 0))
    sheet = _beginning(0x10) + cells + linked + _record(0x0A, b"")
    place = len(_beginning(5) + formats) + 4 + 13 + 4
    named = _record(0x85, struct.pack("<IBBBB", place, 0, 0, 5, 0) + b"Sheet")
    book = _beginning(5) + formats + named + _record(0x0A, b"") + sheet
    _write_compound(path, {"Workbook": book, "x": b"x", "y": b"y"})


def _beginning(kind: int) -> bytes:
    return _record(0x809, struct.pack("<4H8x", 0x600, kind, 0x0DBB, 0x07CC))


def _cell(row: int, column: int, value: str | float | bool | datetime) -> bytes:
    if isinstance(value, str):
        return _record(0x204, struct.pack("<4HB", row, column, 0, len(value), 0) + value.encode("latin-1"))
    if isinstance(value, bool):
        return _record(0x205, struct.pack("<3HBB", row, column, 0, value, 0))
    if isinstance(value, datetime):
        days = (value - datetime(1899, 12, 30)) / timedelta(days=1)
        return _record(0x203, struct.pack("<3Hd", row, column, 1, days))
    return _record(0x203, struct.pack("<3Hd", row, column, 0, value))


def _record(kind: int, data: bytes) -> bytes:
    return struct.pack("<2H", kind, len(data)) + data


def write_pptx(path: Path, titles: Sequence[str], *, picture: str | None = None) -> None:
    """A presentation with a slide for each title, and with a picture of this description on each of them."""
    from pptx import Presentation

    show = Presentation()
    for title in titles:
        shapes = show.slides.add_slide(show.slide_layouts[5]).shapes
        shapes.title.text = title
        if picture is not None:
            shown = shapes.add_picture(BytesIO(b64decode(_PNG)), 0, 10_000_000)
            shown._element.nvPicPr.cNvPr.set("descr", picture)
    show.save(path)


OFFICE_VARIANTS = {  # ending -> ending of the usual document, and content type of the main part
    "docm": ("docx", "application/vnd.ms-word.document.macroEnabled.main+xml"),
    "dotm": ("docx", "application/vnd.ms-word.template.macroEnabledTemplate.main+xml"),
    "dotx": ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml"),
    "potm": ("pptx", "application/vnd.ms-powerpoint.template.macroEnabled.main+xml"),
    "potx": ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.template.main+xml"),
    "ppsm": ("pptx", "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml"),
    "ppsx": ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.slideshow.main+xml"),
    "pptm": ("pptx", "application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml"),
    "xlsm": ("xlsx", "application/vnd.ms-excel.sheet.macroEnabled.main+xml"),
    "xltm": ("xlsx", "application/vnd.ms-excel.template.macroEnabled.main+xml"),
    "xltx": ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.template.main+xml"),
}
_MAIN_TYPE = re.compile(
    r"application/vnd\.openxmlformats-officedocument\.\w+\.(?:document|presentation|sheet)\.main\+xml"
)


def save_as(path: Path, suffix: str) -> Path:
    """Copy an office file to a file with another ending (a key of ``OFFICE_VARIANTS``); return the new path."""
    saved = path.with_suffix(f".{suffix}")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(saved, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name == "[Content_Types].xml":
                text, changed = _MAIN_TYPE.subn(OFFICE_VARIANTS[suffix][1], part.decode())
                assert changed == 1
                part = text.encode()
            new.writestr(name, part)
    return saved


def write_ipynb(path: Path, cells: Sequence[tuple[str, str]]) -> None:
    """A notebook of (kind, source) cells."""
    made = [{"cell_type": kind, "metadata": {}, "source": [source]} for kind, source in cells]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}))


def write_eml(path: Path, *, html: str = "", text: str = "", attachment: str = "", **headers: str) -> None:
    """A letter; ``headers`` by their names in small letters."""
    message = EmailMessage()
    for name, value in headers.items():
        message[name] = value
    if text:
        message.set_content(text)
    if html and text:
        message.add_alternative(html, subtype="html")
    elif html:
        message.set_content(html, subtype="html")
    if attachment:
        message.add_attachment(b"x", maintype="application", subtype="octet-stream", filename=attachment)
    path.write_bytes(message.as_bytes())


def write_mhtml(path: Path, html: str, *, charset: str = "", address: str = "https://tea.example/brewing") -> None:
    """A web page with an image, in a single file as a browser saves it; ``charset`` is stated if it is given."""
    stated = f"; charset={charset}" if charset else ""
    encoded = quopri.encodestring(html.encode(charset or "utf-8")).decode()
    parts = [
        f"Content-Type: text/html{stated}\nContent-ID: <frame@mhtml.blink>\n"
        f"Content-Transfer-Encoding: quoted-printable\nContent-Location: {address}\n\n{encoded}\n",
        f"Content-Type: image/png\nContent-Transfer-Encoding: base64\nContent-Location: {address}/pot.png\n\n{_PNG}\n",
    ]
    head = (
        f"From: <Saved by Blink>\nSnapshot-Content-Location: {address}\nSubject: Tea\nMIME-Version: 1.0\n"
        'Content-Type: multipart/related;\n\ttype="text/html";\n\tboundary="----Boundary--7"\n\n\n'
    )
    text = head + "".join(f"------Boundary--7\n{part}" for part in parts) + "------Boundary--7--\n"
    path.write_bytes(text.replace("\n", "\r\n").encode())


def write_epub(path: Path, title: str, chapters: Sequence[str]) -> None:
    """Write a book whose chapters have these bodies (HTML)."""
    names = [f"chapter{number}.xhtml" for number in range(len(chapters))]
    items = "".join(f'<item id="{each}" href="{each}"/>' for each in names)
    spine = "".join(f'<itemref idref="{each}"/>' for each in names)
    about = f"<dc:title>{title}</dc:title><dc:language>en</dc:language>"
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr("META-INF/container.xml", '<container><rootfile full-path="book/all.opf"/></container>')
        metadata = f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">{about}</metadata>'
        parts = f"{metadata}<manifest>{items}</manifest><spine>{spine}</spine>"
        book.writestr("book/all.opf", f'<package xmlns="http://www.idpf.org/2007/opf">{parts}</package>')
        for name, body in zip(names, chapters, strict=True):
            head = f"<head><title>{title}</title></head>"
            page = f'<html xmlns="http://www.w3.org/1999/xhtml">{head}<body>{body}</body></html>'
            book.writestr(f"book/{name}", f'<?xml version="1.0" encoding="utf-8"?>{page}')


_ODF_SPACES = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for short, name in {
        **{name: name for name in ("office", "text", "table", "presentation", "style")},
        "draw": "drawing",
        "svg": "svg-compatible",
    }.items()
)


def write_odf(
    path: Path, body: str, *, looks: str = "", content_looks: str = "", manifest: str = "", prolog: str = ""
) -> None:
    """A text, slides or a workbook of OpenDocument, by the ending of the name, of this XML; looks are styles."""
    kind = {".odp": "presentation", ".ods": "spreadsheet", ".odt": "text"}[path.suffix]
    spaces = f'{_ODF_SPACES} xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}", zipfile.ZIP_STORED)
        archive.writestr("META-INF/manifest.xml", f"<manifest>{manifest}</manifest>")
        archive.writestr("styles.xml", f"<office:document-styles {spaces}>{looks}</office:document-styles>")
        automatic = f"<office:automatic-styles>{content_looks}</office:automatic-styles>"
        content = f"{automatic}<office:body><office:{kind}>{body}</office:{kind}></office:body>"
        content = f"<office:document-content {spaces}>{content}</office:document-content>"
        archive.writestr("content.xml", f'<?xml version="1.0" encoding="UTF-8"?>{prolog}{content}')


def write_msg(path: Path, *, subject: str, sender: str, body: str) -> None:
    """An Outlook message: a compound file of three streams."""
    _write_compound(
        path,
        {
            "__substg1.0_0037001F": subject.encode("utf-16-le"),
            "__substg1.0_0C1F001F": sender.encode("utf-16-le"),
            "__substg1.0_1000001F": body.encode("utf-16-le"),
        },
    )


def write_encrypted(path: Path) -> None:
    """An Office file with a password (MS-OFFCRYPTO): a compound file around the encrypted archive."""
    _write_compound(path, {"DataSpaces": b"0" * 64, "EncryptedPackage": b"1" * 64, "EncryptionInfo": b"2" * 64})


def _write_compound(path: Path, streams: Mapping[str, bytes]) -> None:
    """A compound file (MS-CFB, version 3) of three streams: FAT, directory, mini FAT, then the mini stream."""
    mini, mini_fat, starts = b"", [], {}
    for name, data in streams.items():
        starts[name] = len(mini_fat)
        count = -(-len(data) // 64)
        mini += data.ljust(64 * count, b"\0")
        mini_fat += [*range(len(mini_fat) + 1, len(mini_fat) + count), _END]
    entries = [_entry("Root Entry", 5, 3, len(mini), child=2)]
    for row, name in enumerate(sorted(streams)):  # the middle one is the root of their tree
        left, right = (1, 3) if row == 1 else (_FREE, _FREE)
        entries.append(_entry(name, 2, starts[name], len(streams[name]), left, right))
    fat = [_FAT, _END, _END, *range(4, 3 + -(-len(mini) // 512)), _END]
    header = struct.pack("<8s16s6H", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"", 62, 3, 0xFFFE, 9, 6, 0)
    header += struct.pack("<4x10I", 0, 1, 1, 0, 4096, 2, 1, _END, 0, 0) + struct.pack("<I", _FREE) * 108
    sectors = (_numbers(fat), b"".join(entries), _numbers(mini_fat), mini.ljust(-(-len(mini) // 512) * 512, b"\0"))
    path.write_bytes(header + b"".join(sectors))


def _numbers(values: Sequence[int]) -> bytes:
    return struct.pack("<128I", *values, *[_FREE] * (128 - len(values)))


def _entry(
    name: str, kind: int, start: int, size: int, left: int = _FREE, right: int = _FREE, child: int = _FREE
) -> bytes:
    text = name.encode("utf-16-le")
    tree = (len(text) + 2, kind, 1, left, right, child)
    return struct.pack("<64sHBBIII16s4x16xIQ", text, *tree, b"", start, size)
