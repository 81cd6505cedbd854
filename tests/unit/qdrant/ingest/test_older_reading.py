"""Files of a collection that an older version made are read as that version read them, until ``reindex``."""

from __future__ import annotations

import socket

import pytest

import office_files
from reading_ahead import read_ahead
from twinvec.retrieval.base import Hit
from twinvec.retrieval.documents import Document
from twinvec_qdrant import Collection, Root, opening, read_source
from twinvec_qdrant.cli.results.places import Places
from twinvec_qdrant.ingest.reading.results import PagedDocument
from twinvec_qdrant.stored_roots import StoredRoot
from words import WordEncoder

URI = f"data:image/png;base64,{'A' * 120}"
NEW, EIGHTH, SEVENTH, SIXTH, FIFTH, FOURTH, THIRD, MIDDLE, OLD = 9, 8, 7, 6, 5, 4, 3, 2, 1
SUBRIP = "1\n00:00:01,000 --> 00:00:04,000\nTea is green.\n\n2\n00:00:05,000 --> 00:00:06,000\nMilk is white."
LETTER = "La réunion prévue à la mairie aura lieu après les fêtes."
EVENT = "BEGIN:VEVENT\nSUMMARY:Tea\nLOCATION:The garden\nEND:VEVENT"
HUGO = '+++\ntitle = "Leaves"\ndate = 2024-03-01\n+++\nGreen leaves.'
BOOK = "**Title:** All about tea\n**Language:** en\n\n# Tea\n\n"
READ = {  # of each version: the texts by path, where they differ from those of the version before
    OLD: {
        "a.pdf": "tea is brewed with boil-\ning water\n\n\x0cmilk is cold\n\n",
        "b.html": "[All of the book](all.html)\n\nSet brew\\_time to 4 \\* 60.\n\nHow long?Four minutes.",
        "c.docx": "the leaf\\_size of tea",
        "d.md": f"# Tea\n\n![A pot]({URI})",
        "e.eml": "a pot\\_of tea",
        "f.txt": f"a_b {URI}",
        "g.log": "\x1b[36mdeploy\x1b[0m started\nend",
        "h.mhtml": None,  # as the file is
        "i.pptx": "<!-- Slide number: 1 -->\n# All about tea\n\n![Picture 2](Picture2.jpg)\n\n"
        "<!-- Slide number: 2 -->\n# Water\n\n![Picture 2](Picture2.jpg)",
        "j.xlsx": "## Sheet\n| tea | price |\n| --- | --- |\n| green | 7 |\n\n## Empty\n|\n|  |",
        "k.md": HUGO,
        "l.epub": f"{BOOK}One.Two.",
        "m.html": "* One* Two",
        "n.log": "started âœ“ done âœ“ ended âœ“\nâœ",
        "o.eml": "tea \x96 5 \x80",
        "p.txt": "20 癈",
        "q.rtf": r"{\rtf1 Tea\par}",
        "r.xhtml": "<p>Tea</p>",
        "s.html": "Tea\n\nSoft\xadware",
        "t.srt": SUBRIP,
        "u.txt": "La r‚union pr‚vue … la mairie aura lieu aprŠs les fˆtes.",
        "v.ics": EVENT,
    },
    MIDDLE: {
        "a.pdf": "tea is brewed with boiling water\n\nmilk is cold",
        "b.html": "Set brew_time to 4 * 60.\n\nHow long?Four minutes.",
        "c.docx": "the leaf_size of tea",
        "d.md": "# Tea\n\n![A pot](data:image/png;base64...)",
        "e.eml": "a pot_of tea",
    },
    THIRD: {
        "b.html": "Set brew_time to 4 * 60.\n\nHow long?\n\nFour minutes.",
        "g.log": "deploy started\nend",
        "h.mhtml": "# Milk\n\nMilk is cold.",
        "i.pptx": "# All about tea\n\n# Water",
        "j.xlsx": "## Sheet\n| tea | price |\n| --- | --- |\n| green | 7 |",
        "k.md": "Green leaves.",
    },
    FOURTH: {"l.epub": f"{BOOK}One.\n\nTwo."},
    FIFTH: {
        "m.html": "* One\n* Two",
        "n.log": "started ✓ done ✓ ended ✓\n\ufffd",
        "o.eml": "tea – 5 €",
        "p.txt": "20 °C",
        "q.rtf": "Tea",
        "r.xhtml": "Tea",
        "s.html": "Software",
    },
    SIXTH: {"t.srt": "Tea is green.\nMilk is white."},
    SEVENTH: {},  # these texts stay: source maps are empty, and chunks of configuration have other headings
    EIGHTH: {},  # minified code is empty
    # also, indexes are empty, some files that failed are read, and some files hold records
    NEW: {"u.txt": LETTER, "v.ics": "# Tea\n\nPlace: The garden"},
}
NUMBER = len(READ[OLD])
CHANGED = {  # documents that the newest version reads differently
    version: len({name for each in range(version + 1, NEW + 1) for name in READ[each]})
    for version in (OLD, MIDDLE, THIRD, FOURTH, FIFTH)
}


def texts(folder, version):
    """The texts of the folder's documents, as a version reads them."""
    found = {name: text for each in range(OLD, version + 1) for name, text in READ[each].items()}
    as_it_is = (folder / "h.mhtml").read_bytes().decode()
    return {name: as_it_is if text is None else text for name, text in found.items()}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    office_files.write_pdf(folder / "a.pdf", [["tea is brewed with boil-", "ing water"], ["milk is cold"]])
    (folder / "b.html").write_text(
        '<nav><a href="all.html">All of the book</a></nav><p>Set brew_time to 4 * 60.</p>'
        "<details><summary>How long?</summary>Four minutes.</details>"
    )
    office_files.write_docx(folder / "c.docx", ["the leaf_size of tea"])
    (folder / "d.md").write_text(f"# Tea\n\n![A pot]({URI})")
    office_files.write_eml(folder / "e.eml", html="<p>a pot_of tea</p>", subject="Tea", **{"from": "a@example.org"})
    (folder / "f.txt").write_text(f"a_b {URI}")
    (folder / "g.log").write_text("\x1b[36mdeploy\x1b[0m started\nend")
    office_files.write_mhtml(folder / "h.mhtml", "<h1>Milk</h1><p>Milk is cold.</p>")
    office_files.write_pptx(folder / "i.pptx", ["All about tea", "Water"], picture="")
    office_files.write_xlsx(folder / "j.xlsx", [["tea", "price"], ["green", 7]], empty=["Empty"])
    (folder / "k.md").write_text(HUGO)
    office_files.write_epub(folder / "l.epub", "All about tea", ["<h1>Tea</h1><aside>One.</aside><aside>Two.</aside>"])
    (folder / "m.html").write_text("<ul><li>One<li>Two</ul>")
    (folder / "n.log").write_bytes("started ✓ done ✓ ended ✓\n✓".encode()[:-1])
    head = b"From: a@example.org\nSubject: Tea\nContent-Type: text/plain; charset=iso-8859-1\n\n"
    (folder / "o.eml").write_bytes(head + "tea – 5 €".encode("cp1252"))
    (folder / "q.rtf").write_text(r"{\rtf1 Tea\par}")
    (folder / "r.xhtml").write_text("<p>Tea</p>")
    (folder / "s.html").write_text("<p hidden>Tea</p><p>Soft\xadware</p>")
    (folder / "p.txt").write_bytes("20 °C".encode("cp1252"))
    (folder / "t.srt").write_text(SUBRIP)
    (folder / "u.txt").write_bytes(LETTER.encode("cp850"))
    (folder / "v.ics").write_text(EVENT)
    return folder


def opened(tmp_path):
    return Collection.open("notes", tmp_path / "store", encoder=WordEncoder(), chunking=False)


@pytest.fixture(params=[OLD, MIDDLE, THIRD, FOURTH, FIFTH])
def old(folder, tmp_path, monkeypatch, request):
    """A collection as an older version made it, and the version of its reading, which the first one does not record."""
    recorded = {} if request.param == OLD else {"reading": request.param}
    with monkeypatch.context() as patched, opened_by_older(patched, tmp_path, recorded.get("reading")) as collection:
        reading = read_source(folder)
        reading.read_by(request.param)
        collection.ingest(list(reading))
        assert recorded.items() <= collection._backend.read_metadata().items()
        assert bool(recorded) == ("reading" in collection._backend.read_metadata())
        yield collection, request.param


def opened_by_older(patched, tmp_path, version=None):
    patched.setattr(opening, "NEWEST_READING", version)
    return opened(tmp_path)


def points(collection):
    """Return the payloads of all points by id, without the notes that record the folders ingested."""
    return {each.id: each.payload for each in collection._backend.scroll([]) if each.payload["kind"] != "note"}


def stored_texts(collection):
    """Return the texts of all documents by id, without the titles that are stored above them."""
    titles = {"e.eml": "Tea\n\n", "o.eml": "Tea\n\n", "k.md": "Leaves\n\n"}
    return {each.id: each.text.removeprefix(titles.get(each.id, "")) for each in collection.get(collection.find())}


def counts(report):
    return report.new, report.updated, report.unchanged, report.deleted, report.encoded


@pytest.mark.parametrize("version", [OLD, MIDDLE, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH, EIGHTH, NEW])
def test_a_version_reads_files_in_its_way(folder, version):
    for options in ((), (read_ahead,)):
        reading = Root(str(folder)).read(*options)
        reading.read_by(version)
        documents = {each.id: each for each in reading}
        assert {name: each.text for name, each in documents.items()} == texts(folder, version)
    pdf, hugo = documents["a.pdf"], documents["k.md"]
    assert isinstance(pdf, PagedDocument)
    assert pdf.payload["format"] == ("markdown" if version == OLD else "text")
    assert [pdf.text[start:].lstrip("\x0c")[:4] for start in pdf.pages] == ["tea ", "milk"]
    assert documents["h.mhtml"].payload["format"] == ("markdown" if version >= THIRD else "text")
    assert (hugo.title, hugo.payload.get("date")) == (("Leaves", "2024-03-01") if version >= THIRD else ("", None))


@pytest.mark.parametrize(("version", "lines"), [(FOURTH, (1, 1)), (NEW, None)])
def test_a_passage_has_lines_in_a_file_that_was_read_as_text(folder, version, lines):
    reading = Root(str(folder), include=("*.rtf",)).read()
    reading.read_by(version)
    (document,) = reading
    hit = Hit(document.id, document.text, 1.0, {}, {"source": document.id, **document.payload})
    places = Places([StoredRoot("notes", True, str(folder), socket.gethostname())])
    assert places.lines(document.id, hit, 0, len(document.text)) == lines


def test_files_are_read_in_the_newest_way_without_a_collection(folder):
    assert {each.id: each.text for each in Root(str(folder))} == texts(folder, NEW)


def test_an_older_collection_is_unchanged_by_its_own_ingest(folder, old):
    collection, version = old
    before = points(collection)
    for options in ({"dry_run": True}, {}, {"prune": True}):
        assert counts(collection.ingest(Root(str(folder)), **options)) == (0, 0, NUMBER, 0, 0)
        recorded = None if version == OLD and options.get("dry_run") else version
        assert collection._backend.read_metadata().get("reading") == recorded
    assert counts(collection.ingest(read_source(folder))) == (0, 0, NUMBER, 0, 0)
    assert points(collection) == before
    assert collection.info()["reading"] == version


LINES = {
    "d.md": ("# Tea", 1, 3),
    "g.log": ("deploy", 1, 2),
    "k.md": ("Green", 5, 5),
    "h.mhtml": ("Milk", None, None),
    "n.log": ("started", 1, 2),
    "u.txt": ("La r", 1, 1),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("version", [OLD, MIDDLE, THIRD, FOURTH, NEW])
def test_the_lines_of_a_hit_are_found_in_its_file_by_every_version(folder, version, name):
    """Also without the bytes of an image, without escape sequences, and below a front matter."""
    reading = read_source(folder)
    reading.read_by(version)
    (document,) = (each for each in reading if each.id == name)
    hit = Hit(name, document.text, 1.0, {}, {"source": name, **document.payload})
    places = Places([StoredRoot("notes", True, str(folder), socket.gethostname())])
    begin, first, last = LINES[name]
    if version < THIRD and name in ("h.mhtml", "k.md"):  # the whole file is the text
        first, last = 1, document.text.count("\n") + 1
    assert places.lines(name, hit, 0, len(document.text)) == (None if first is None else (first, last))
    piece = document.text.index(begin)
    found = places.lines(name, hit, piece, piece + len(begin))
    assert found is None if first is None else found is not None and first <= found[0] == found[1] <= last


@pytest.mark.slow
def test_reindex_brings_an_older_collection_to_the_newest_reading(folder, old):
    collection, version = old
    collection.ingest(Root(str(folder)))
    collection.reindex(payload_indexes=False)
    assert collection.info()["reading"] == version
    collection.reindex()
    assert collection.info()["reading"] == NEW
    report = collection.ingest(Root(str(folder)))
    assert (report.updated, report.unchanged) == (CHANGED[version], NUMBER - CHANGED[version])
    assert stored_texts(collection) == texts(folder, NEW)
    assert counts(collection.ingest(Root(str(folder)))) == (0, 0, NUMBER, 0, 0)


def test_an_older_collection_without_such_files_reads_them_as_before_the_third_version(folder, tmp_path, monkeypatch):
    """A collection of an older version keeps the escape sequences of its texts."""
    with monkeypatch.context() as patched, opened_by_older(patched, tmp_path) as collection:
        log = {"path": "g.log", "format": "text"}
        collection.ingest([Document("g.log", READ[OLD]["g.log"], payload=log)])
        report = collection.ingest(Root(str(folder)))
        assert (report.new, report.unchanged) == (NUMBER - 1, 1)
        assert collection.info()["reading"] == MIDDLE
        assert stored_texts(collection) == texts(folder, MIDDLE)


def test_an_older_collection_without_documents_reads_in_the_newest_way(folder, tmp_path, monkeypatch):
    with monkeypatch.context() as patched, opened_by_older(patched, tmp_path) as collection:
        collection.ingest(Root(str(folder)))
        assert collection.info()["reading"] == NEW
        assert stored_texts(collection) == texts(folder, NEW)


def test_a_new_collection_records_the_newest_reading_which_a_copy_keeps(folder, tmp_path):
    with opened(tmp_path) as collection:
        assert collection.info()["reading"] == NEW
        collection.ingest([{"id": "b.html", "text": "given by an application"}])
        assert collection.ingest(Root(str(folder))).updated == 1
        collection.push(tmp_path / "other")
    with Collection.open("notes", tmp_path / "other", encoder=WordEncoder()) as copy:
        assert copy.info()["reading"] == NEW
        assert counts(copy.ingest(Root(str(folder)))) == (0, 0, NUMBER, 0, 0)


ROWS = '{"id": "r1", "text": "green"}\n{"id": "r2", "text": "black"}\n'
MAIL = "From a Thu Jan  1 00:00:00 2026\nFrom: a@example.org\nMessage-ID: <{}>\n\ntea\n\n"
RECORDS = {  # files of records: name -> their text, and the first version that finds the records r1 and r2
    "rows.ndjson": (ROWS, FOURTH),
    "rows.json": (ROWS, SIXTH),
    "array.json": (f"[{ROWS.strip().replace(chr(10), ',')}]", SIXTH),
    "Inbox": (MAIL.format("r1") + MAIL.format("r2"), NEW),
    "mail.mbox": (MAIL.format("r1") + MAIL.format("r2"), SIXTH),
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("version", [OLD, MIDDLE, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH, EIGHTH, NEW])
def test_files_of_records_are_texts_in_older_collections(tmp_path, name, version, monkeypatch):
    """In an older collection, such a file is one document with all its text, alone and in a folder."""
    content, since = RECORDS[name]
    path = tmp_path / "notes" / name
    path.parent.mkdir()
    path.write_text(content)
    recorded = None if version == OLD else version
    log = {"path": "a.pdf", "format": "text"}  # a document by which a collection that records nothing is of version 1
    with monkeypatch.context() as patched, opened_by_older(patched, tmp_path, recorded) as collection:
        collection.ingest([Document("a.pdf", "tea", payload=log)])
        for root, prefix in ((path, ""), (path.parent, f"{name}/")):
            collection.ingest(Root(str(root)), source=f"{root.name} alone")
            found = {each.partition(":")[2] or each for each in collection.find(source=f"{root.name} alone")} - {
                "a.pdf"
            }
            assert found == ({f"{prefix}r1", f"{prefix}r2"} if version >= since else {name})
            assert collection.ingest(Root(str(root)), source=f"{root.name} alone", prune=root != path).encoded == 0
        assert collection.info()["reading"] == version


def test_json_lines_by_their_other_name_are_read_like_the_usual_ones(tmp_path):
    for name in ("rows.jsonl", "rows.ndjson", "ROWS2.NDJSON"):
        (tmp_path / name).write_text(ROWS + "{")
        found = list(read_source(tmp_path / name))
        assert [each.id for each in found[:2]] == ["r1", "r2"]
        assert found[2].source == f"{name}:3"
    whole = Root(str(tmp_path), records=False)
    assert sorted(each.id for each in whole) == ["ROWS2.NDJSON", "rows.jsonl", "rows.ndjson"]
    assert next(iter(Root(str(tmp_path / "rows.ndjson"), records=False))).id == "r1"
