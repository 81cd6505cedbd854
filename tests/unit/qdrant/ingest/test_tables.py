"""Records: the rows of tables and the lines of JSON, alone and inside a folder; and encodings that are guessed."""

from __future__ import annotations

import json
import os
from operator import length_hint

import pytest

from twinvec.errors import DocumentError, IngestError
from twinvec.text import MAX_TEXT_BYTES
from twinvec_qdrant import Collection, Empty, Failure, RecordColumns, Root, read_source
from twinvec_qdrant.ingest.reading import decoding
from twinvec_qdrant.ingest.reading.records import tables
from twinvec_qdrant.ingest.reading.records.columns import USUAL_COLUMNS
from words import WordEncoder

TABLE = 'id,title,text,year\nt1,Green,Green tea is steamed.,2020\nt2,,"Black tea, \nwhich is rolled.",2021\n'
TEXTS = {
    "cp1252": "Le café est fermé à cause d’une grève générale. Grüße aus Köln!",
    "cp1250": "Zażółć gęślą jaźń, proszę bardzo państwa, na zdrowie",
    "cp1251": "Привет, как дела? Это проверка кодировки текста.",
    "koi8-r": "Привет, как дела? Это проверка кодировки текста.",
    "cp1253": "Καλημέρα κόσμε, τι κάνεις σήμερα και αύριο",
    "shift_jis": "日本語のテキストです。今日はいい天気ですね。",
    "euc_jp": "日本語のテキストです。今日はいい天気ですね。",
    "gb18030": "你好，世界。这是一个测试文本。",
    "cp949": "안녕하세요 세계, 오늘 날씨가 좋네요",
    "utf-16": "日本語 and Köln",
    "utf-32": "日本語 and Köln",
    "utf-8-sig": "日本語 and Köln",
}
"""Encoding -> a text in it."""


def rows(source, **options):
    return [(each.id, each.title, each.text, dict(each.payload)) for each in read_source(source, **options)]


def test_the_rows_of_a_table_are_documents(tmp_path):
    path = tmp_path / "teas.csv"
    path.write_text(TABLE)
    assert rows(path) == [
        ("t1", "Green", "Green tea is steamed.", {"year": 2020}),
        ("t2", "", "Black tea, \nwhich is rolled.", {"year": 2021}),
    ]
    assert 2 <= length_hint(read_source(path)) <= 3  # a row may have several lines
    reading = Root(str(path)).read()
    list(reading)
    assert 0 < reading.done <= reading.size == path.stat().st_size


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_delimiter_and_encoding_are_found(mark, encoding, tmp_path):
    path = tmp_path / ("a.tsv" if mark == "\t" else "a.csv")
    lines = (("ID", "Text", "Ort"), ("1", "Grüße, aus Köln; und so", "Köln"), ("2", "naïve Leute", "Düren"))
    quoted = "\r\n".join(mark.join(f'"{cell}"' for cell in line) for line in lines)
    path.write_bytes(quoted.encode(encoding))
    assert rows(path) == [
        ("1", "", "Grüße, aus Köln; und so", {"Ort": "Köln"}),
        ("2", "", "naïve Leute", {"Ort": "Düren"}),
    ]


@pytest.mark.parametrize("stated", ["sep=|", "SEP=|", '"sep=|"', "sep=|\r"])
def test_a_line_of_excel_states_the_delimiter(stated, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"\ufeff{stated}\nid|text\n1|one; two; three\n\n2|four; five; six\n3|a|b\n", newline="")
    first, second, failure = read_source(path)
    assert [(each.id, each.text) for each in (first, second)] == [("1", "one; two; three"), ("2", "four; five; six")]
    assert failure.source == "a.csv:6"
    older = read_source(path)
    older.read_by(5)
    assert not any(getattr(each, "text", "").startswith("one") for each in older), "since reading version 6"


@pytest.mark.parametrize("texts", [['"fine" is a word'], ['"open'], ['"open', '"again']])
def test_a_tsv_file_that_quoting_does_not_fit_is_read_without(texts, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("id\ttext\n" + "".join(f"{row}\t{text}\n" for row, text in enumerate(texts)))
    assert rows(path) == [(str(row), "", text, {}) for row, text in enumerate(texts)]
    path.write_text('id\ttext\n1\t"two\nlines with ""quotes"""\n')
    assert rows(path) == [("1", "", 'two\nlines with "quotes"', {})]


def test_columns_can_be_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("isbn,Name,blurb,review,id\n7,Tea,Hot.,Good.,x\n8,Milk,,Fine.,y\n")
    columns = RecordColumns(id="isbn", text=("blurb", "review"), title="name")
    assert rows(path, columns=columns) == [
        ("7", "Tea", "Hot.\n\nGood.", {"id": "x"}),
        ("8", "Milk", "Fine.", {"id": "y"}),
    ]
    lines = path.with_suffix(".jsonl")
    lines.write_text('{"isbn": 7, "Name": "Tea", "blurb": "Hot.", "review": null, "year": 3}\n{"isbn": 8}\n')
    first, second = read_source(lines, columns=RecordColumns(id="isbn", text=("blurb", "review"), title="Name"))
    assert (first.id, first.title, first.text, first.payload) == ("7", "Tea", "Hot.", {"year": 3})
    assert second.reason == "the record has no 'Name'; it has ['isbn']"
    (failure,) = read_source(path, columns=RecordColumns(id="nothing"))
    assert (failure.source, failure.hides) == ("a.csv", True)
    assert "the table has no column 'nothing'; it has 'isbn'" in failure.reason


def test_a_column_can_be_several_parts_of_a_document(tmp_path):
    (tmp_path / "a.csv").write_text("name,body\ntea,Hot.\n")
    (tmp_path / "a.jsonl").write_text('{"name": "tea", "body": "Hot."}\n')
    columns = RecordColumns(id="name", text=("name", "body"), title="name")
    for name in ("a.csv", "a.jsonl"):
        assert rows(tmp_path / name, columns=columns) == [("tea", "tea", "tea\n\nHot.", {})]


def test_a_table_without_id_and_text_numbers_and_describes_its_rows(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("name,price,,code\ngreen tea,7.5,,007\n,,,\nmilk,1,x,12\n")
    assert rows(path) == [
        (
            "prices.csv/1",
            "",
            "name: green tea\nprice: 7.5\ncode: 007",
            {"name": "green tea", "price": 7.5, "code": "007"},
        ),
        (
            "prices.csv/3",
            "",
            "name: milk\nprice: 1\ncolumn 3: x\ncode: 12",
            {"name": "milk", "price": 1, "column 3": "x", "code": "12"},
        ),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,text\n1,a\n2,b,c\n", "3 cells"),
        ("id,text\n1,a\n,b\n", "no value in the column 'id'"),
        ("id,id\n1,a\n", "more than once"),
        ('id,text\n1,a\n2,"b\n', "line 3: unexpected end"),
        ('id,text\n1,"a\nb"\n2,"b\nc\n3,d\n', "lines 4 to 6: unexpected end"),
        ("id,text\n1,a\0\n", "NUL"),
    ],
)
def test_a_broken_table_says_what_is_wrong(text, reason, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text)
    failures = [each for each in read_source(path) if isinstance(each, Failure)]
    assert len(failures) == 1
    assert reason in failures[0].reason
    assert (failures[0].hides, failures[0].below) == (True, "")
    inside = [each for each in read_source(tmp_path) if isinstance(each, Failure)]
    assert [(each.hides, each.below) for each in inside] == [(True, "a.csv/")]


def test_a_broken_row_is_named_by_its_file_and_first_line(tmp_path):
    (tmp_path / "a.txt").write_text("tea")
    (tmp_path / "t.csv").write_text('id,text\n1,"two\nlines"\n\n,"no\nid"\n2,b\n')
    (tmp_path / "t.jsonl").write_text('{"id": 1, "text": "a"}\n{\n')
    with Collection.open("docs", tmp_path / "store", encoder=WordEncoder(), chunking=False) as docs:
        for name in ("a.txt", "t.csv", "t.jsonl"):
            report = docs.ingest(Root(tmp_path / name))
            told = [source for source, _ in report.failures]
            assert told == {"t.csv": ["t.csv:5"], "t.jsonl": ["t.jsonl:2"]}.get(name, [])


def test_rows_that_do_not_fit_the_header_are_one_failure(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('id,text\n1,a\n2,"b\nc",d\n3,e,f\n,g\n4,h,i\n5,j\n')
    misfit = "do not fit the header, in lines"
    first = "the first: the row has 3 cells, but the header names 2 columns; delete lines above the header"
    with Collection.open("docs", tmp_path / "store", encoder=WordEncoder(), chunking=False) as docs:
        report = docs.ingest(Root(path))
        assert (report.new, report.failed, report.failures) == (
            2,
            1,
            [("t.csv", f"4 rows {misfit} 3, 5, 6, ...; {first}, if there are any")],
        )
        path.write_text("id,text\n1,a\n2,b,c\n3,d,e\n")
        report = docs.ingest(Root(path), prune=True)  # one of the two rows may have the id 5
        assert (report.unchanged, report.deleted) == (1, 0)
        assert report.failures == [("t.csv", f"2 rows {misfit} 3, 4; {first}, if there are any")]
        path.write_text("id,text\n1,a,b\n2,c,d\n")
        with pytest.raises(IngestError):
            docs.ingest(Root(path))


def test_a_note_in_place_of_a_header_is_one_column(tmp_path):
    (tmp_path / "t.csv").write_text("# prices\nday,price\n1,2\n")
    (failure,) = read_source(tmp_path / "t.csv")
    assert isinstance(failure, Failure)
    assert "in lines 2, 3; the first: the row has 2 cells, but the header names 1 column" in failure.reason
    assert failure.reason.endswith("; delete lines above the header, if there are any")


STATEMENT = """\
"Kontoauszug";"DE89 3704 0044 0532 0130 00"
"Zeitraum:";"01.01.2004 - 31.01.2004"
"Kontostand vom 31.01.2004:";"1.234,56 EUR"

"Buchungstag";"Empfänger";"Verwendungszweck";"Betrag";"Währung";"Saldo";"Währung"
"05.01.2004";"Stadtwerke";"Strom; Januar";"-45,00";"EUR";"955,00";"EUR"
"12.01.2004";"Arbeit GmbH";"Gehalt
Januar";"2.100,00";"EUR";"3.055,00";"EUR"
"20.01.2004";"Teehaus";"";"-12,50";"EUR";"3.042,50";"EUR"
"""
PADDED = """\
Account statement,,,,
Account,123456,,,
,,,,
Date,Description,Debit,Credit,Balance
2004-01-05,Electricity,45.00,,955.00
2004-01-12,Salary,,2100.00,3055.00
"""


def test_the_header_of_a_bank_statement_is_found_below_other_lines(tmp_path):
    (tmp_path / "a.csv").write_bytes(STATEMENT.encode("cp1252"))
    (tmp_path / "b.csv").write_text("sep=;\n" + STATEMENT)
    (tmp_path / "c.csv").write_text(PADDED)
    first, second, third, *others = read_source(tmp_path)
    assert first.payload["Verwendungszweck"] == "Strom; Januar"
    assert first.text.endswith("Betrag: -45,00\nWährung: EUR\nSaldo: 955,00\nWährung 2: EUR")
    assert (first.id, second.payload["Verwendungszweck"], third.payload["Empfänger"]) == (
        *("a.csv/1", "Gehalt\nJanuar"),
        "Teehaus",
    )
    assert [each.text for each in others[:3]] == [first.text, second.text, third.text]
    assert [each.payload for each in others[3:]] == [
        {"Date": "2004-01-05", "Description": "Electricity", "Debit": 45.0, "Balance": 955.0},
        {"Date": "2004-01-12", "Description": "Salary", "Credit": 2100.0, "Balance": 3055.0},
    ]


@pytest.mark.parametrize(
    "table",
    [
        "text\nHello, world, 1\nBye, my world, 2\n",  # a header of names has no figures
        "text\nHello, big, world\nBye, my, world\n",  # a table has figures
        "text\ntime, 5\nHello, 7\n",  # a header of two names is below a blank line
        "name,,\nTea,green,5\nMilk,white,6\n",  # the first row with all cells has a figure
        ",age,town\nAnn,5,Rome\nBob,6,Bonn\n",  # a header may lack a name
        "name,age,town\nAnn,5,Rome\nBob,6,Bonn,Germany\n",
    ],
)
def test_a_header_at_the_top_stays_one(table, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(table)
    assert list(tables.read_table(path, "t", "", USUAL_COLUMNS)) == list(
        tables.read_table(path, "t", "", USUAL_COLUMNS, version=8)
    )


def test_an_older_version_takes_the_first_line_for_the_header(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(STATEMENT)
    *_, failed = tables.read_table(path, "t", "", USUAL_COLUMNS, version=8)
    assert "do not fit the header" in failed.value.reason
    path.write_text("day,sum,sum\n1,2,3\n")
    (failed,) = tables.read_table(path, "t", "", USUAL_COLUMNS, version=8)
    assert "more than once" in failed.value.reason


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_cell_that_is_too_long_fails_its_file_alone(suffix, tmp_path):
    mark = "\t" if suffix == "tsv" else ","
    (tmp_path / f"a.{suffix}").write_text(f"id{mark}text\n1{mark}b\n2{mark}{'x' * (MAX_TEXT_BYTES + 1)}\n")
    (tmp_path / "b.txt").write_text("tea")
    failure, tea = read_source(tmp_path)
    assert (failure.source, failure.below) == (f"a.{suffix}", f"a.{suffix}/")
    assert failure.reason.startswith("not a table: line 3: field larger than field limit")
    assert tea.text == "tea"


def test_lines_may_be_longer_than_a_cell(tmp_path):
    half = "x" * (MAX_TEXT_BYTES // 2 + 1)
    (tmp_path / "a.csv").write_text(f"id;text;more\n1;{half};{half}\n")
    assert [each.text for each in read_source(tmp_path / "a.csv")] == [half]


@pytest.mark.parametrize(
    "changed",
    [
        b"id,text,year\n1,a,none\n2,b,many\n",  # no number in a column of numbers
        b"id,text,year\n1,a,2020\n2,\xff\xfe,2021\n",
        b'id,text,year\n1,a,2020\n2,"b,2021\n',
        b"id,year,text\n1,2020,a\n2,2021,b\n",
        b"id,text,year\n",
    ],
)
def test_a_table_that_changes_while_it_is_read_fails_alone(changed, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text,year\n" + "".join(f"{row},text,2020\n" for row in range(10_000)))
    (tmp_path / "b.txt").write_text("tea")
    reading = read_source(tmp_path)
    next(reading)
    path.write_bytes(changed)
    *_, failure, tea = reading
    assert failure == Failure("a.csv", "the file changed while it was read; ingest it again", True, below="a.csv/")
    assert tea.text == "tea"


def test_an_empty_table_is_no_document(tmp_path):
    for text in ("", "id,text\n", "\n\n"):
        (tmp_path / "a.csv").write_text(text)
        assert rows(tmp_path / "a.csv") == []
    (tmp_path / "a.csv").write_text("id,text,year\n1,,2020\n")
    (only,) = read_source(tmp_path / "a.csv")
    assert (type(only), only.source) == (Empty, "1")


@pytest.mark.parametrize("text", ["", "id,text", "id,text\n", "id,text\n1,tea"])
def test_the_hint_of_a_short_table_is_no_negative_number(text, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    for source in (tmp_path / "a.csv", tmp_path):
        assert 0 <= length_hint(read_source(source)) <= 1
    with Collection.open("tables", tmp_path / "store", encoder=WordEncoder(), chunking=False) as collection:
        assert collection.ingest(Root(str(tmp_path / "a.csv"))).new == text.count("tea")


@pytest.mark.parametrize("broken", [b"A", b"\x00\xd8x\x00"])
def test_a_table_in_broken_utf_16_hides_its_rows_and_stops_no_other(broken, tmp_path):
    (tmp_path / "a.csv").write_bytes("id,text\n1,tea\n".encode("utf-16") + broken)
    (tmp_path / "b.csv").write_text("id,text\n1,tea\n")
    failure, document = read_source(tmp_path)
    assert (failure.source, failure.hides, document.id) == ("a.csv", True, "b.csv/1")
    assert "not text in a known encoding" in failure.reason


def test_a_wide_table_is_read_at_once(tmp_path, monkeypatch):
    class Name(str):
        compared = 0

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

        def strip(self, *letters):
            return self

    names = [Name(f"gene {row}") for row in range(1000)]
    assert tables._header(names) == tuple(names)
    assert Name.compared < 10 * len(names)


def test_records_in_a_folder_are_those_of_the_file_below_its_path(tmp_path):
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "teas.csv").write_text(TABLE)
    (folder / "notes.jsonl").write_text('{"id": "a", "text": "tea", "year": 3}\n{"id": "b"}\n{"id": "e", "text": ""}\n')
    (folder / "a.md").write_text("# A")
    found = list(read_source(folder))
    assert length_hint(read_source(folder)) >= len(found)
    documents = {each.id: each for each in found if not isinstance(each, Failure)}
    assert list(documents) == ["a.md", "deep/teas.csv/t1", "deep/teas.csv/t2", "notes.jsonl/a"]
    for name in ("deep/teas.csv", "notes.jsonl"):
        for alone in read_source(folder / name):
            if not isinstance(alone, Failure):
                there = documents[f"{name}/{alone.id}"]
                assert (alone.title, alone.text, alone.payload) == (there.title, there.text, there.payload)
    assert [(each.source, type(each)) for each in found if isinstance(each, Failure)] == [
        ("notes.jsonl:2", Failure),
        ("notes.jsonl/e", Empty),
    ]
    assert [each.id for each in read_source(folder, records=False)] == ["a.md", "deep/teas.csv", "notes.jsonl"]


def test_a_file_of_records_that_cannot_be_read_hides_them(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "nowhere")
    found = list(read_source(tmp_path))
    assert [(each.source, each.hides, each.below) for each in found] == [
        ("a.csv", False, ""),
        ("b.jsonl", True, "b.jsonl/"),
    ]
    (alone,) = read_source(tmp_path / "a.csv")
    assert "not a regular file" in alone.reason


def test_a_folder_with_records_is_ingested_and_pruned(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "teas.csv").write_text(TABLE)
    (folder / "empty.txt").write_text("not yet empty")
    with Collection.open("teas", tmp_path / "store", encoder=WordEncoder(max_tokens=64)) as collection:
        assert collection.ingest(read_source(folder)).new == 3
        (folder / "teas.csv").write_text(TABLE.replace("steamed", "pan-fired").rpartition("t2")[0])
        (folder / "empty.txt").write_text("")
        report = collection.ingest(read_source(folder))
        assert (report.updated, report.empty, report.deleted) == (1, 1, 0)
        assert [each.text for each in collection.get(["empty.txt"])] == ["not yet empty"]
        assert collection.search("steamed", mode="sparse") == []
        report = collection.ingest(read_source(folder), prune=True)
        assert (report.unchanged, report.empty, report.deleted) == (1, 1, 2)
        assert collection.find() == ["teas.csv/t1"]
        assert json.loads(json.dumps(report.empties)) == [["empty.txt", "holds no text"]]
        assert str(report).endswith("0 failed, 1 empty")
        assert [hit.id for hit in collection.search("tea", filter={"year": {"gte": 2020}})] == ["teas.csv/t1"]


@pytest.mark.parametrize("encoding", TEXTS)
def test_the_encoding_of_a_text_is_guessed_and_told(encoding, tmp_path):
    path = tmp_path / "a.txt"
    text = TEXTS[encoding]
    path.write_bytes(text.encode(encoding))
    (document,) = read_source(path)
    assert document.text == text
    assert ("encoding" in document.payload) == (not encoding.startswith("utf"))


@pytest.mark.parametrize("word", ["Köln", "Müller", "José", "naïve", "Düsseldorf liegt am Rhein"])
def test_a_short_text_is_taken_for_the_most_usual_encoding(word):
    assert decoding.decode(word.encode("latin-1")) == (word, "cp1252")


WESTERN = [
    *("10 µm ± 2 °C", "Grüße – “q” €", "„Spaß“", "Het is €5 – één", "©2024 Acme™", "20 °C", "£5", "n° 5", "30 m²"),
    *("id;name;preis\n1;Tee;5 €\n2;Kaffee;7 €\n", "Größe: 5 µm", "Hyvää päivää", "El niño, ¿qué?", "À l’école"),
]


@pytest.mark.parametrize("text", WESTERN)
def test_a_short_western_text_is_taken_for_one(text):
    assert decoding.decode(text.encode("cp1252")) == (text, "cp1252")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Łódź", "cp1250"),
        ("Zażółć gęślą jaźń", "cp1250"),
        ("Ľubica", "cp1250"),
        ("Příliš žluťoučký kůň", "cp1250"),
        ("Książka jest dobra", "cp1250"),
        ("Это проверка кодировки", "cp1251"),
        ("お茶は10月に飲みます", "cp932"),
        ("东京", "gb18030"),
    ],
)
def test_a_short_text_that_is_not_western_is_not_taken_for_one(text, encoding):
    assert decoding.decode(text.encode(encoding)) == (text, encoding)
    assert decoding.decode(text.encode(encoding), version=8) == decoding.decode(text.encode(encoding), version=4)


GERMAN = "Die Grüße für Jürgen wären schöner, sagte der Bürgermeister.\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (GERMAN.encode() * 9 + "Köln".encode()[:2], GERMAN * 9 + "K\ufffd"),
        (GERMAN.encode() * 9 + b"tea \xff and\n" + GERMAN.encode(), f"{GERMAN * 9}tea \ufffd and\n{GERMAN}"),
        ("茶要泡三分钟".encode()[:-1], "茶要泡三分\ufffd"),
        ("started ✓ done 🎉 ✓\n".encode() + b"\xe2\x9c", "started ✓ done 🎉 ✓\n\ufffd"),
        ("\ufeffL’été à Besançon, caf".encode() + b"\xc3", "L’été à Besançon, caf\ufffd"),
    ],
)
def test_a_text_in_utf_8_with_a_broken_byte_is_in_utf_8(data, text, tmp_path):
    (tmp_path / "a.txt").write_bytes(data)
    (document,) = read_source(tmp_path / "a.txt")
    assert (document.text, document.payload["encoding"]) == (text, "utf-8")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("CAFÉ» à la crème\n" * 9, "cp1252"),
        ("„Spaß“ für alle, sagt É", "cp1252"),
        ("ﾃｽﾄ", "cp932"),
        ("SZKÓŁA Ó", "cp1250"),
    ],
)
def test_bytes_that_are_utf_8_by_chance_do_not_make_a_text_utf_8(text, encoding):
    assert decoding.decode(text.encode(encoding))[1] not in ("", "utf-8")


def test_a_binary_file_with_much_utf_8_stays_one():
    with pytest.raises(DocumentError, match="byte 0xff at 613"):
        decoding.decode(GERMAN.encode() * 9 + b"\x01\xff\x02")


def test_the_byte_that_is_no_text_is_named_by_its_place_in_the_file():
    with pytest.raises(DocumentError, match="byte 0xc3 at 15"):
        decoding.decode("\x02 tea, f\u00fcr caf".encode() + b"\xc3", version=4)


def test_a_table_in_utf_8_with_a_broken_byte_has_all_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(f"id,text\n1,{'Grüße ' * 9}\n".encode() + b"2,K\xffln\n")
    assert [each.text for each in read_source(path)] == ["Grüße " * 9, "K\ufffdln"]


@pytest.mark.slow
def test_a_late_letter_decides_the_encoding(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text\n" + b"1,plain\n" * 200_000 + "2,Grüße aus Köln\n".encode("cp1252"))
    assert path.stat().st_size > 1 << 20
    *_, last = read_source(path)
    assert last.text == "Grüße aus Köln"


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\0\0", b"\x1f\x8b\x08\x04\xff\xfe", bytes(range(1, 256)), b"\xff\xfe\0"]
)
def test_a_binary_file_is_refused(data, tmp_path):
    (tmp_path / "a.txt").write_bytes(data)
    (failure,) = read_source(tmp_path / "a.txt")
    assert isinstance(failure, Failure)
    assert not isinstance(failure, Empty)
