"""Files to documents: what is read, under which id, and what is refused."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import lzma
import os
import sys
import threading
from operator import length_hint
from pathlib import Path

import pytest

from twinvec.errors import DocumentError
from twinvec_qdrant import Collection, Failure, Root, read_source
from twinvec_qdrant.ingest.front_matter import MAX_BYTES, MAX_DEPTH, split_front_matter
from twinvec_qdrant.settings import NEWEST_READING
from words import WordEncoder


def read(source) -> dict[str, object]:
    """Text by id; the reason of a failure stands for the text."""
    return {
        getattr(each, "id", None) or each.source: each.reason if isinstance(each, Failure) else each.text
        for each in read_source(source)
    }


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    (folder / "z" / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("# A")
    (folder / "z" / "deep" / "b.txt").write_text("b")
    return folder


def test_a_folder_gives_its_files_in_order_with_their_paths_as_ids(folder):
    documents = list(read_source(folder))
    assert [(each.id, each.text, each.payload["format"]) for each in documents] == [
        ("a.md", "# A", "markdown"),
        ("z/deep/b.txt", "b", "text"),
    ]
    assert length_hint(read_source(folder)) == 2


def test_the_bytes_of_an_image_in_markdown_are_no_text(tmp_path):
    uri = "data:image/png;base64," + "iVBORw0KGgo/+" * 999 + "=="
    svg = "data:image/svg+xml;charset=utf-8;base64," + "PHN2Zy" * 99
    (tmp_path / "a.md").write_text(f'![tea]({uri}) is hot\n<img src="{svg}">\n\n[1]: {uri} "a cup"\n')
    short = "![dot](data:image/gif;base64,R0lGODlhAQABAAAAACw=) and data:text/plain,tea"
    (tmp_path / "b.md").write_text(short)
    (tmp_path / "c.txt").write_text(uri)
    image, drawing = "data:image/png;base64...", "data:image/svg+xml;charset=utf-8;base64..."
    expected = f'![tea]({image}) is hot\n<img src="{drawing}">\n\n[1]: {image} "a cup"\n'
    assert read(tmp_path) == {"a.md": expected, "b.md": short, "c.txt": uri}


def test_hidden_files_and_caches_are_left_out(folder):
    for name in (".git/config", "node_modules/x.md", "__pycache__/x.pyc", "env/pyvenv.cfg", "env/lib.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    assert set(read(folder)) == {"a.md", "z/deep/b.txt"}


def test_links_to_folders_are_not_followed(folder, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    before = read(folder)
    (folder / "0").symlink_to(folder / "z", target_is_directory=True)
    (folder / "z" / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "out").symlink_to(tmp_path / "outside", target_is_directory=True)
    assert read(folder) == before


def test_what_is_no_text_fails_alone(folder):
    (folder / "image.bin").write_bytes(b"\x89PNG\0\0")
    (folder / "image.raw").write_bytes(b"\x89\xff\x01\x02")
    (folder / "wide.txt").write_bytes("Köln".encode("utf-16"))
    (folder / "wider.txt").write_bytes("Köln".encode("utf-32"))
    (folder / "widest.txt").write_bytes(codecs.BOM_UTF32_BE + "Köln".encode("utf-32-be"))
    (folder / "broken.txt").write_bytes("Köln".encode("utf-32")[:-1])
    (folder / "marked.txt").write_bytes("\ufeffKöln".encode())
    (folder / "empty.txt").touch()
    with (folder / "huge.txt").open("wb") as huge:
        huge.truncate(50 * 2**20)
    (folder / "gone.txt").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe")
    found = read(folder)
    assert {found[f"{name}.txt"] for name in ("wide", "wider", "widest", "marked")} == {"Köln"}
    assert "not text in a known encoding" in found["broken.txt"]
    assert found["empty.txt"] == "holds no text"
    assert "binary" in found["image.bin"]
    assert "52,428,800 bytes, more than the limit" in found["huge.txt"]
    assert "0x89 at 0" in found["image.raw"]
    assert "No such file" in found["gone.txt"]
    assert "not a regular file" in found["pipe"]
    assert found["a.md"] == "# A"


def test_a_compressed_file_says_how_it_is_compressed(tmp_path):
    for name, opened in (("rows.csv.gz", gzip.open), ("log.xz", lzma.open)):
        with opened(tmp_path / name, "wb") as file:
            file.write(b"tea\n" * 99)
    (tmp_path / "log.zst").write_bytes(b"\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00\x99\xe9\xd8\x51")
    kinds = {"rows.csv.gz": "gzip", "log.xz": "xz", "log.zst": "zstd"}
    assert read(tmp_path) == {
        name: f"compressed with {kind}; decompress it, and ingest its content" for name, kind in kinds.items()
    }


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        (lambda path: path.write_text(""), True),
        (lambda path: path.write_text('{"id": "new", "text": "tea"}\n'), True),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"tea", b"ale")), True),
        (lambda path: path.write_bytes(path.read_bytes() + b'{"id": "late", "text": "tea"}\n'), False),  # a log grows
        (lambda path: path.unlink(), False),  # the opened file is read whole
    ],
    ids=["emptied", "shorter", "rewritten", "longer", "removed"],
)
def test_lines_of_json_that_change_while_they_are_read_hide_their_documents(tmp_path, change, fails):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"id": str(row), "text": "tea"}) + "\n" for row in range(10_000)))
    reading = read_source(tmp_path)
    first = next(reading)
    change(path)
    *_, last = first, *reading
    assert isinstance(last, Failure) == fails
    if fails:
        assert last == Failure(
            "log.jsonl", "the file changed while it was read; ingest it again", True, below="log.jsonl/"
        )


def test_a_file_that_changes_while_it_is_read_fails(folder, monkeypatch):
    real, looked = os.fstat, []

    def fstat(descriptor):
        looked.append(descriptor)
        if len(looked) == 2:  # the second look at the first file is the one after reading
            (folder / "a.md").write_text("# A, and more")
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", fstat)
    found = read(folder)
    assert "changed while it was read" in found["a.md"]
    assert found["z/deep/b.txt"] == "b"
    assert read(folder)["a.md"] == "# A, and more"


def test_names_that_are_not_unicode_can_be_reported(folder):
    for name in (b"caf\xe9.txt", b"caf\xe9.html", b"caf\xe9.csv", b"caf\xe9.jsonl", b"th\xe9/tea.md"):
        path = folder / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"id": "a", "text": "b"}\n' * 2)
    failures = [each for each in read_source(folder) if isinstance(each, Failure)]
    sources = [rf"caf\udce9.{suffix}" for suffix in ("csv", "html", "jsonl", "txt")]
    assert [each.source for each in failures] == [*sources, r"th\udce9/tea.md"]
    assert {each.reason for each in failures} == {"the path is not UTF-8; rename the file, or the folder that is not"}


def test_a_single_file_of_records_may_have_any_name(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    path.write_text('{"id": "a", "text": "b"}\n')
    assert read(path) == {"a": "b"}


def test_a_name_may_begin_like_the_home_of_a_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("~$letter.md").write_text("Dear all")
    assert [document.id for document in read_source("~$letter.md")] == ["~$letter.md"]
    (entry,) = os.scandir()
    assert [document.text for document in read_source(entry)] == ["Dear all"]


def test_a_folder_that_cannot_be_listed_hides_documents(folder, monkeypatch):
    real = os.scandir

    def scandir(path):
        if path == folder / "z":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)  # the tests may run as root, whom nothing is denied
    failures = [each for each in read_source(folder) if isinstance(each, Failure)]
    assert [(each.source, each.hides, each.below) for each in failures] == [("z/", True, "z/")]


def test_a_folder_whose_entries_cannot_be_looked_at_stops_no_other(folder, monkeypatch):
    (folder / "link").symlink_to(folder / "z")
    (folder / "z" / "link").symlink_to(folder / "a.md")
    (folder / "z" / "deep" / "c.csv").write_text("id,text\n")
    real = Path.stat

    def stat(path, **options):
        if path.name == "link" or path.parent.name == "deep":
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(Path, "is_dir", lambda path: path.name != "link" or bool(path.stat()))
    denied = "cannot be read: Permission denied"
    below = dict.fromkeys(("z/deep/b.txt", "z/deep/c.csv", "z/link"), denied)
    assert read(folder) == {"a.md": "# A", "link": denied, **below}
    assert Root(str(folder)).follows(folder / "z" / "deep" / "c.csv")
    assert not Root(str(folder / "z" / "deep")).is_empty()


def test_a_tree_may_be_deeper_than_functions_can_be_called(tmp_path, monkeypatch):
    deep = sys.getrecursionlimit() + 20
    monkeypatch.chdir(tmp_path)
    for _ in range(deep):
        Path("a").mkdir()
        os.chdir("a")
    Path("b.txt").write_text("b")
    os.chdir(tmp_path)
    try:
        assert read(tmp_path) == {f"{'a/' * deep}b.txt": "b"}
    finally:
        for _ in range(deep):
            os.chdir("a")
        Path("b.txt").unlink()
        for _ in range(deep):
            os.chdir("..")
            Path("a").rmdir()


def test_collections_in_the_folder_are_left_out(folder):
    before = read(folder)
    for name in ("one", "two"):
        with Collection.open(name, folder / "z" / "store", encoder=WordEncoder(), chunking=False) as collection:
            assert collection.ingest(read_source(folder)).new == len(before)
    assert read(folder) == before


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "notes.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text('{"id": "a", "text": "tea"}\n'), daemon=True)
    documents = read_source(pipe)
    writer.start()
    assert [each.id for each in documents] == ["a"]


def test_a_device_is_a_failure_whatever_its_name_says(tmp_path):
    for name in ("a.jsonl", "a.csv", "a.json", "a.txt"):
        (tmp_path / name).symlink_to("/dev/zero")
        assert list(read_source(tmp_path / name)) == [Failure(name, "not a regular file")]


@pytest.mark.parametrize(("text", "number"), [("", 0), ("{}", 1), ("{}\n", 1), ("{}\n{}", 2)])
def test_a_last_line_counts_with_and_without_a_line_feed(tmp_path, text, number):
    (tmp_path / "notes.jsonl").write_text(text)
    assert length_hint(read_source(tmp_path / "notes.jsonl")) == number


def test_json_lines_are_documents_and_broken_lines_are_named(tmp_path):
    path = tmp_path / "notes.jsonl"
    lines = [
        b'{"id": "a", "text": "tea", "year": 3}',
        b"",
        b'{"id": "b"',
        b"[]",
        b'{"text": "no id"}',
        b'{"id": "c", "text": NaN}',
        b'{"id": "\xff", "text": "x"}',
        b'{"_id": 7, "text": "seven"}',
    ]
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\n")
    assert length_hint(read_source(path)) == len(lines)
    found = list(read_source(path))
    documents = [each for each in found if not isinstance(each, Failure)]
    assert [(each.id, each.text, dict(each.payload)) for each in documents] == [
        ("a", "tea", {"year": 3}),
        ("7", "seven", {}),
    ]
    failures = [each for each in found if isinstance(each, Failure)]
    assert [each.source for each in failures] == [f"notes.jsonl:{number}" for number in (3, 4, 5, 6, 7)]
    assert all(each.hides and each.below == "" for each in failures)


def test_what_is_wrong_with_a_line_is_said_of_the_line(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text('{"id": "a", "text": null}\n{"id": "b"}\n')
    assert read(path) == {
        "notes.jsonl:1": "'text' is null; expected a string",
        "notes.jsonl:2": "no 'text' among the keys ['id']; expected a string",
    }


def test_front_matter_is_payload_and_not_text(folder):
    (folder / "a.md").write_text("---\ntitle: Tea\ntags: [hot, green]\ndate: 2024-03-01\n---\n\n# Brewing\n\nHot.\n")
    (folder / "b.md").write_text("---\nnot: [closed\n---\ntext")
    (folder / "c.md").write_text("---\n\na line\n\n---\n\ntext")
    (folder / "d.md").write_text("---\na: &a [1]\nb: *a\n---\ntext")
    (folder / "e.txt").write_text("---\na: 1\n---\ntext")
    (folder / "f.md").write_text("---\n---\ntext")
    found = {each.id: each for each in read_source(folder)}
    tea = found["a.md"]
    assert (tea.title, tea.text) == ("Tea", "# Brewing\n\nHot.\n")
    assert tea.payload == {"tags": ["hot", "green"], "date": "2024-03-01", "path": "a.md", "format": "markdown"}
    for name in ("b.md", "c.md", "d.md", "e.txt"):
        assert found[name].text == (folder / name).read_text(), name
        assert set(found[name].payload) == {"path", "format"}, name
    assert found["f.md"].text == "text"


@pytest.mark.parametrize(
    "block",
    [
        f"x: 0x{'f' * 6000}",
        "x: " + "[" * 40_000,
        "x: " + "[" * 40 + "]" * 40,
        "x: " + "{a: " * 10_000,
        "- " * 30_000,
        'x: ["]", ' * 5000,
        "\n".join(f"key{row}: value" for row in range(20_000)),
        "x: 1" + ":1" * 400 + ".5",
        'x: !!int ""',
        "x: !!bool maybe",
        "x: !!timestamp soon",
        "? [a, b]\n: c",
        "x: \x07",
    ],
)
def test_front_matter_that_means_nothing_is_text(block):
    text = f"---\n{block}\n---\ntext"
    assert split_front_matter(text) == ({}, text)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("tags: a\ntitle: x: y", "line 3: mapping values are not allowed"),
        ("title: @me", "line 2: found character"),
        ("tags: a\ndate: 2024-02-30", "line 3: day is out of range"),
        ("a: {b: [2024-02-30]}", "line 2: day is out of range"),
        ("a: &a [1]\nb: *a", "line 3: aliases"),
        ("a: [.nan]", "not JSON: NaN is not a JSON value; give null"),
        ("a: -.inf", "not JSON: -Infinity is not a JSON value; give null"),
        ("x:\n  " + "[" * 40 + "]" * 40, "line 3: more than 20 levels"),
        ("x: \x07", "unacceptable character #x0007"),
        (f"x: {'y' * MAX_BYTES}", "more than the limit of 65,536 bytes"),
    ],
)
def test_why_a_front_matter_is_text_is_told_with_the_file_and_the_line(block, reason, folder, caplog):
    text = f"---\n{block}\n---\ntext"
    (folder / "b.md").write_text(text)
    assert read(folder)["b.md"] == text
    (told,) = caplog.messages
    assert told.startswith(f"b.md: the front matter cannot be read and stays text: {reason}")


@pytest.mark.parametrize("block", ["just a line", "- a list", "\nprose: with: colons", "\n" + "y" * MAX_BYTES])
def test_prose_between_two_rules_is_no_broken_front_matter(block, folder, caplog):
    text = f"---\n{block}\n---\ntext"
    (folder / "b.md").write_text(text)
    assert read(folder)["b.md"] == text
    assert caplog.messages == []


@pytest.mark.parametrize(("version", "between"), [(NEWEST_READING, "T"), (5, " ")])
def test_a_date_with_a_time_in_a_front_matter_is_in_iso_8601(version, between, folder):
    block = "when: 2024-03-01 10:00:00\nday: 2024-03-01\nat: [2024-03-01T10:00:00+02:00]"
    (folder / "a.md").write_text(f"---\n{block}\n---\ntext")
    reading = read_source(folder)
    reading.read_by(version)
    found = {each.id: each.payload for each in reading}["a.md"]
    assert (found["when"], found["day"]) == (f"2024-03-01{between}10:00:00", "2024-03-01")
    assert found["at"] == [f"2024-03-01{between}10:00:00+02:00"]


KEYS = """2024-01-31: launch
2024-02-01 09:30:00: review
2024-02-30: no day
1.10: version
010: octal
yes: agreed
on: {2020: a, 2021-05-06: [{no: b}]}
~: nothing
"3": text"""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            NEWEST_READING,
            {
                "2024-01-31": "launch",
                "2024-02-01 09:30:00": "review",
                "2024-02-30": "no day",
                "1.10": "version",
                "010": "octal",
                "yes": "agreed",
                "on": {"2020": "a", "2021-05-06": [{"no": "b"}]},
                "null": "nothing",
                "3": "text",
            },
        ),
        (5, {"1.1": "version", "8": "octal", "true": {"2020": "a"}, "null": "nothing", "3": "text"}),
    ],
)
def test_keys_of_a_front_matter_stay_as_they_are_written(version, expected, folder):
    block = KEYS if version > 5 else KEYS.replace("2024-02-30: no day\n", "")
    (folder / "a.md").write_text(f"---\n{block}\n---\ntext")
    reading = read_source(folder)
    reading.read_by(version)
    payload = {each.id: each.payload for each in reading}["a.md"]
    assert payload == {"path": "a.md", "format": "markdown", **expected}


def test_a_set_in_a_front_matter_is_the_same_in_every_process():
    assert split_front_matter("---\nx: !!set {c, a, b}\n---\ntext") == ({"x": ["a", "b", "c"]}, "text")


def test_front_matter_may_be_large_and_deep():
    block = f"x: {'[' * (MAX_DEPTH - 1)}{']' * (MAX_DEPTH - 1)}\ny: {'v' * (MAX_BYTES - 200)}"
    values, text = split_front_matter(f"---\n{block}\n---\ntext")
    assert (set(values), text) == ({"x", "y"}, "text")


HUGO = """+++
title = 'Tea'
tags = ["hot", "green"]
date = 2024-03-01
published = 2024-03-01T10:00:00Z
[params]
weight = 3
+++

# Brewing

Hot.
"""


def test_a_front_matter_of_toml_is_payload_and_not_text(folder):
    (folder / "a.md").write_text(HUGO)
    (folder / "b.md").write_bytes(HUGO.replace("\n", "\r\n").encode())
    (folder / "c.txt").write_text(HUGO)
    (folder / "d.md").write_text("+++ not a rule\n+++\na = 1\n+++\ntext")
    (folder / "e.md").write_text("+++\na = 1\n\ntext")
    (folder / "f.md").write_text("+++\n+++\ntext")
    found = {each.id: each for each in read_source(folder)}
    payload = {
        "tags": ["hot", "green"],
        "date": "2024-03-01",
        "published": "2024-03-01T10:00:00+00:00",
        "params": {"weight": 3},
        "format": "markdown",
    }
    for name in ("a.md", "b.md"):
        assert found[name].title == "Tea"
        assert found[name].text.replace("\r", "") == "# Brewing\n\nHot.\n"
        assert found[name].payload == {"path": name, **payload}
    for name in ("c.txt", "d.md", "e.md"):
        assert found[name].text == (folder / name).read_text(), name
        assert set(found[name].payload) == {"path", "format"}, name
    assert found["f.md"].text == "text"


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("tags = 1\ntitle = x: y", "line 3: Invalid value"),
        ("\n\na = 1\na = 2", None),  # as prose between two rules begins
        ("a = 1\n\na = 2", "line 4: Cannot overwrite a value"),
        ("date = 2024-02-30", "line 2: Invalid date"),
        ("x = " + "[" * 40_000, "more than 20 levels"),
        ("x = " + "[" * 20 + "]" * 20, "more than 20 levels"),
        ("a." * 20 + "a = 1", "more than 20 levels"),
        ("a." * 30_000 + "a = 1", "more than 20 levels"),
        ("x = " + "{a = " * 10_000, "more than 20 levels"),
        (f"x = '{'y' * MAX_BYTES}'", "more than the limit of 65,536 bytes"),
        (f"x = 0x{'f' * 6000}", "Exceeds the limit"),
        ("x = nan", "not JSON: NaN is not a JSON value; give null"),
    ],
)
def test_why_a_front_matter_of_toml_is_text_is_told_with_the_line(block, reason, folder, caplog):
    text = f"+++\n{block}\n+++\ntext"
    (folder / "b.md").write_text(text)
    assert read(folder)["b.md"] == text
    start = f"b.md: the front matter cannot be read and stays text: {reason}"
    assert [told.startswith(start) for told in caplog.messages] == ([] if reason is None else [True])


def test_a_front_matter_of_toml_may_be_large_and_deep():
    block = f"x = {'[' * (MAX_DEPTH - 1)}{']' * (MAX_DEPTH - 1)}\ny = '{'v' * (MAX_BYTES - 200)}'"
    values, text = split_front_matter(f"+++\n{block}\n+++\ntext", toml=True)
    assert (set(values), text) == ({"x", "y"}, "text")


def test_only_the_newest_reading_knows_toml():
    assert split_front_matter(HUGO) == ({}, HUGO)


@pytest.mark.parametrize(
    ("shown", "plain"),
    [
        ("\x1b[36mdeploy\x1b[0m started\r\n", "deploy started\r\n"),
        ("\x1b[1;38;2;9;9;9mtea\x1b[m\x1b[2K\x1b[?25l", "tea"),
        ("\x1b]0;a title\x07tea\n", "tea\n"),
        ("\x1b]8;;https://tea.example\x1b\\tea\x1b]8;;\x1b\\", "tea"),
        ("\x1b(B\x1b[mtea\x1b7\x1bM", "tea"),
        ("\x1b]0;without an end\ntea", "0;without an end\ntea"),
        ("\x1b[\ntea\x1b", "\ntea\x1b"),
        ("[36m tea", "[36m tea"),
    ],
)
def test_escape_sequences_of_terminals_are_no_text(folder, shown, plain):
    (folder / "a.log").write_bytes(f"tea\n{shown}".encode())
    assert read(folder)["a.log"] == f"tea\n{plain}"
    assert shown.count("\n") == plain.count("\n")


def test_a_log_of_escape_sequences_alone_holds_no_text(folder):
    (folder / "a.log").write_text("\x1b[2J\x1b[H\n")
    assert read(folder)["a.log"] == "holds no text"


def test_standard_input_is_json_lines(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps({"id": "a", "text": "b"}).encode())))
    assert read("-") == {"a": "b"}


def test_a_single_file_is_a_document_and_nothing_is_an_error(folder):
    assert read(folder / "a.md") == {"a.md": "# A"}
    with pytest.raises(DocumentError, match="No such file"):
        read_source(folder / "nothing")


@pytest.mark.parametrize(
    ("name", "content", "empty"),
    [
        ("a.md", "", False),
        ("a.jsonl", "", True),
        ("a.jsonl", "\n \n", True),
        ("a.jsonl", '{"id": "a", "text": "b"}', False),
        ("a.jsonl", "not json", False),
        ("a.csv", "id,text\n", True),
        ("a.csv", "id,text\na,b", False),
        (".hidden", "text", True),
        ("a.tmp", "text", True),
    ],
)
def test_a_root_is_empty_if_reading_it_gives_nothing(tmp_path, name, content, empty):
    (tmp_path / name).write_text(content)
    root = Root(str(tmp_path), exclude=("*.tmp",))
    assert root.is_empty() is empty
    assert (list(root.read()) == []) is empty
    if not (name.startswith(".") or name.endswith(".tmp")):
        assert Root(str(tmp_path / name)).is_empty() is empty


def test_what_can_be_read_only_once_is_not_looked_into(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert not Root("-").is_empty()
    assert not Root(str(tmp_path / "pipe.jsonl")).is_empty()
    assert not Root(str(tmp_path)).is_empty(), "it is a failure to tell"
