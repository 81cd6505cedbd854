"""Word documents with tracked changes and fields: what Word shows once all changes are accepted is text."""

from __future__ import annotations

import zipfile
from io import BytesIO

import pytest

import office_files
from twinvec_qdrant.ingest.reading.converting import convert
from twinvec_qdrant.ingest.reading.office.word_changes import with_all_text

RUN = "<w:r><w:t>{}</w:t></w:r>"


def run(text: str, name: str = "", attributes: str = "") -> str:
    inner = RUN.format(text)
    return f"<w:{name}{attributes}>{inner}</w:{name}>" if name else inner


def document(tmp_path, *paragraphs: str, **options) -> bytes:
    path = tmp_path / "a.docx"
    office_files.write_docx(path, ["Tea"], body="".join(f"<w:p>{each}</w:p>" for each in paragraphs), **options)
    return path.read_bytes()


@pytest.mark.parametrize("space", [office_files.WORD_SPACE, "http://purl.oclc.org/ooxml/wordprocessingml/main"])
def test_moved_text_and_fields_are_text_where_they_stand_now(tmp_path, space):
    marked = '<w:pPr><w:rPr><w:moveTo w:id="3"/></w:rPr></w:pPr>'
    data = document(
        tmp_path,
        run("moved ", "moveFrom", ' w:id="1"') + run("gone ", "del") + run("here"),
        marked + run("moved ", "moveTo", ' w:id="2"') + run("new", "ins"),
        run("as of ") + run("6 May", "fldSimple", ' w:instr=" DATE "') + run(", see ")
        + f'<w:moveTo w:id="4">{run("page 2", "fldSimple")}</w:moveTo>',
        space=space,
    )  # fmt: skip
    assert convert(data, ".docx") == "Tea\n\nhere\n\nmoved new\n\nas of 6 May, see page 2"
    assert convert(data, ".docx", 4) == "Tea\n\nhere\n\nnew\n\nas of , see"


def test_text_with_custom_xml_tags_is_text(tmp_path):
    """mammoth reads it from version 1.13 on; a collection of an older reading keeps the text that it has."""
    tagged = f'<w:customXml w:element="kind"><w:customXmlPr/>{run("green ")}</w:customXml>{run("or black")}'
    data = document(tmp_path, tagged)
    assert convert(data, ".docx") == "Tea\n\ngreen or black"
    assert convert(data, ".docx", 4) == "Tea\n\nor black"


def test_the_parts_stay_compressed_as_they_are(tmp_path):
    names = zipfile.ZipFile(BytesIO(document(tmp_path))).namelist()
    kinds = {name: zipfile.ZIP_STORED if row % 2 else zipfile.ZIP_DEFLATED for row, name in enumerate(names)}
    kinds["word/document.xml"] = zipfile.ZIP_DEFLATED
    kinds["word/media/tea.png"] = zipfile.ZIP_STORED
    data = document(tmp_path, run("moved", "moveTo"))
    copy = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as read, zipfile.ZipFile(copy, "w") as written:
        for name, kind in kinds.items():
            written.writestr(name, read.read(name) if name in names else b"tea", kind)
    changed = zipfile.ZipFile(BytesIO(with_all_text(copy.getvalue())))
    assert b"moveTo" not in changed.read("word/document.xml")
    assert {each.filename: each.compress_type for each in changed.infolist()} == kinds


def test_text_that_was_moved_away_is_no_text(tmp_path):
    data = document(tmp_path, run("moved", "moveFrom"), run("6 May", "moveFrom").replace("<w:r>", "<w:fldSimple><w:r>")
                    .replace("</w:r>", "</w:r></w:fldSimple>"))  # fmt: skip
    assert b"fldSimple" in zipfile.ZipFile(BytesIO(data)).read("word/document.xml")
    assert convert(data, ".docx") == "Tea"


def test_a_document_without_such_elements_stays_as_it_is(tmp_path):
    data = document(tmp_path, run("new", "ins"))
    assert with_all_text(data) is data
    broken = document(tmp_path, "<w:moveTo><w:p>")
    assert with_all_text(broken) is broken
    for damaged in (b"", b"PK\3\4", broken[:100], broken.replace(b"<w:moveTo>", b"<w:moveTO>")):
        assert with_all_text(damaged) == damaged


def test_entities_are_not_expanded(tmp_path):
    data = document(tmp_path, "<w:moveTo/>")
    path = tmp_path / "b.docx"
    with zipfile.ZipFile(BytesIO(data)) as read, zipfile.ZipFile(path, "w") as written:
        for name in read.namelist():
            part = read.read(name)
            if name == "word/document.xml":
                part = b'<!DOCTYPE a [<!ENTITY t "zebra">]>' + part.replace(b"Tea", b"&t;")
            written.writestr(name, part)
    changed = zipfile.ZipFile(BytesIO(with_all_text(path.read_bytes()))).read("word/document.xml")
    assert b"<w:moveTo" not in changed
    assert b"&t;" in changed
