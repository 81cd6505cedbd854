"""Code is cut at functions and classes, and a collection keeps to the way in which it was begun."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import office_files
from twinvec import Document
from twinvec.errors import ConfigurationError
from twinvec_qdrant import Chunker, ChunkSettings, Collection, read_source
from twinvec_qdrant.ingest.cutting import code, ways
from words import WordEncoder

PYTHON = '''"""A server."""

import os

LIMIT = 3


# serves files
@final
class Server:
    """Serves."""

    def start(self, port: int) -> None:
        """Start at once."""
        os.listen(port)

    async def stop(self) -> None:
        await os.close()


def main() -> None:
    Server().start(80)
'''
SOURCES = {
    "a.go": ("type S struct {\n\tn int\n}\n\n// Run runs.\nfunc (s *S) Run() {\n\tgo f()\n}\n", "func (s *S) Run"),
    "a.rs": (
        "/// A url.\n#[derive(Debug)]\npub struct Url;\nimpl Show for Url {\n  fn show(&self) {}\n}\n",
        "impl Show for Url",
    ),
    "a.ts": ("import a from 'b';\nexport class A {\n  run() {}\n}\nexport const f = () => { return 1 };\n", "const f"),
    "a.tsx": ("const x = 1;\nexport function Page() { return <p>{x}</p>; }\n", "function Page"),
    "a.js": ("class A { m() { return 1 } }\nfunction b() {}\n", "function b"),
    "A.java": ("class A {\n  @Override\n  public void run() { go(); }\n}\ninterface B {}\n", "interface B"),
    "a.c": ("#include <a.h>\n/* adds */\nstatic int *add(int a) {\n  return 0;\n}\n", "int *add"),
    "a.hpp": ("namespace n {\ntemplate <class T>\nclass Q : B {\n  int i() { return 1; }\n};\n}\n", "namespace n"),
    "A.cs": ("namespace A {\n  public class B {\n    public void Run() { }\n  }\n}\n", "namespace A"),
    "a.rb": ("module A\n  class B\n    def c\n      1\n    end\n  end\nend\n", "module A"),
    "a.php": ("<?php\nfunction y($a) { return $a; }\nclass B { function x() {} }\n", "class B"),
    "a.sh": ("# greets\nhello() {\n  echo hello\n}\nhello\n", "hello"),
}
"""File -> code, and a name in it."""


def chunks(text: str, name: str = "src/app.py", max_tokens: int = 40, **settings) -> list:
    settings.setdefault("code", code.installed_languages())
    chunker = Chunker(WordEncoder(max_tokens=512), ChunkSettings(max_tokens=max_tokens, **settings))
    return chunker.chunks(Document(name, text, payload={"path": name, "format": "text"}))


def test_all_named_languages_are_installed():
    assert set(code.installed_languages()) == set(code.LANGUAGES)
    assert len(SOURCES) + 1 == len(code.LANGUAGES)


def test_functions_and_classes_are_chunks_below_their_names():
    found = chunks(PYTHON)
    assert [each.heading for each in found] == [
        "src/app.py",
        "src/app.py > class Server",
        "src/app.py > class Server > def start",
        "src/app.py > class Server > async def stop",
        "src/app.py > def main",
    ]
    assert found[1].text.startswith("src/app.py > class Server\n\n# serves files\n@final\nclass Server:")
    assert found[2].text.endswith("        os.listen(port)")
    assert "\n\n    def start(" in found[2].text  # with its indentation
    lines = [line for each in found for line in each.text.split("\n")[1:] if line.strip()]
    assert lines == [line for line in PYTHON.split("\n") if line.strip()]


def test_what_fits_is_one_chunk_with_its_path():
    (only,) = chunks("def f(): ...\n")
    assert (only.heading, only.text) == ("src/app.py", "src/app.py\n\ndef f(): ...")


@pytest.mark.parametrize("name", SOURCES)
def test_each_language_names_its_definitions(name):
    text, wanted = SOURCES[name]
    sections = code.code_sections(text, code.language_of(name), [name], lambda path, body: len(path) > 1)
    assert [name, wanted] in [path for path, _ in sections]
    deeper = code.code_sections(text, code.language_of(name), [name], lambda *_: False)
    for found in (sections, deeper):
        assert "".join(body for _, body in found).replace("\n\n", "\n") == text.replace("\n\n", "\n")
    assert len(deeper) >= len(sections)


def test_comments_stand_with_what_they_are_about():
    text = "import a\n\n\n# far away\n\n\n# one\n# two\ndef f():\n    pass\n\nx = 1  # of x\ndef g():\n    pass\n"
    sections = code.code_sections(text, "python", ["a"], lambda path, _: len(path) > 1)
    assert [(path[-1], body.strip().split("\n")[0]) for path, body in sections] == [
        ("a", "import a"),
        ("def f", "# one"),
        ("a", "x = 1  # of x"),
        ("def g", "def g():"),
    ]


ODD = {
    "broken": "def f(:\n  class",
    "mark": "\ufeffdef f(): ...\n" * 40,
    "nested": "(" * 20_000,
    "wide": "é = 'ü'\ndef ß(): '日本'\n" * 60,
    "crlf": "def f(): 1\r\n" * 60,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_code_loses_no_word(text):
    found = chunks(text)
    assert not any(each.truncated for each in found)
    said = "".join("".join(each.text.split("\n\n", 1)[1].split()) for each in found)
    assert said == "".join(text.split())


def test_a_long_function_is_cut_into_full_pieces():
    body = "".join(f"    total = add(total, {row})\n" for row in range(60))
    found = chunks(f"def f():\n{body}")
    assert {each.heading for each in found} == {"src/app.py > def f"}
    assert 3 < len(found) < 30
    assert all("\n    total" in each.text for each in found)


def test_very_long_code_is_cut_as_text(monkeypatch):
    monkeypatch.setattr(code, "MAX_CHARACTERS", 100)
    assert {each.heading for each in chunks(PYTHON)} == {"src/app.py"}


def test_markdown_and_addresses_are_no_code():
    assert code.language_of("https://example.org/index.php") is None
    assert code.code_language(Document("a.py", "x", payload={"format": "markdown"})) is None
    assert code.code_language(Document("1", "x", payload={"path": "b/A.PY"})) == "python"


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("a text about servers")
    return folder


def opened(tmp_path, **options) -> Collection:
    return Collection.open("code", tmp_path / "store", encoder=WordEncoder(max_tokens=40), **options)


def test_a_dry_run_cuts_code_beside_pdfs_as_the_ingest_does(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    office_files.write_pdf(sources / "z.pdf", [["One page."]])
    for name in ("app.py", "run.py"):
        (sources / name).write_text(PYTHON)
    with opened(tmp_path) as collection:
        foreseen = collection.ingest(read_source(sources), dry_run=True)
        assert collection.ingest(read_source(sources)).chunks == foreseen.chunks


def test_the_first_code_decides_and_is_recorded(tmp_path, folder):
    with opened(tmp_path) as collection:
        collection.ingest(read_source(folder))
        assert "code" not in collection.info()["chunking"]
        (folder / "app.py").write_text(PYTHON)
        assert collection.ingest(read_source(folder), dry_run=True).new == 1
        assert "code" not in collection.info()["chunking"]
        report = collection.ingest(read_source(folder))
        assert (report.new, report.unchanged) == (1, 1)
        assert collection.info()["chunking"]["code"] == list(code.installed_languages())
    with opened(tmp_path) as collection:
        assert collection.ingest(read_source(folder)).unchanged == 2
        (hit, *_) = collection.search("start listen port", mode="sparse")
        assert hit.payload["heading"] == "app.py > class Server > def start"


def test_code_of_an_older_version_stays_as_it_is(tmp_path, folder, monkeypatch):
    (folder / "app.py").write_text(PYTHON)
    with monkeypatch.context() as patch, opened(tmp_path) as collection:
        patch.setattr(ways.Cutting, "ways", lambda self, document: {})  # as version 0.2 did
        assert collection.ingest(read_source(folder)).new == 2
        before = collection.count()
    with opened(tmp_path) as collection:
        report = collection.ingest(read_source(folder))
        assert (report.unchanged, report.encoded, collection.count()) == (2, 0, before)
        (folder / "new.py").write_text(PYTHON)
        collection.ingest(read_source(folder))
        assert collection.info()["chunking"]["code"] == []
        assert not [hit for hit in collection.search("start", group=False) if " > " in hit.payload["heading"]]
        with pytest.raises(ConfigurationError, match="only code, pages and surroundings"):
            collection.reindex(chunking=ChunkSettings(max_tokens=20))
        collection.reindex(chunking=ChunkSettings(code=("python",)))
        report = collection.ingest(read_source(folder))
        assert (report.updated, report.unchanged) == (2, 1)
        assert [hit for hit in collection.search("start", group=False) if " > " in hit.payload["heading"]]


def test_a_missing_grammar_fails_the_document_and_names_the_extra(tmp_path, folder, monkeypatch):
    (folder / "app.py").write_text(PYTHON)
    with opened(tmp_path) as collection:
        collection.ingest(read_source(folder))
    (folder / "app.py").write_text(PYTHON + "\n\ndef more(): ...\n")
    (folder / "b.txt").write_text("another text")
    real = code.import_extra

    def import_extra(module, *rest):
        return real("missing_" + module if module == "tree_sitter_python" else module, *rest)

    monkeypatch.setattr(code, "import_extra", import_extra)
    code.grammar.cache_clear()
    with opened(tmp_path) as collection:
        report = collection.ingest(read_source(folder))
        assert (report.new, report.unchanged, report.failed) == (1, 1, 1)
        assert "qdrant[code]'" in report.failures[0][1]
        assert "os.listen" in collection.get(["app.py"])[0].text
    code.grammar.cache_clear()


def test_without_grammars_code_is_cut_as_text_for_good(tmp_path, folder, monkeypatch):
    (folder / "app.py").write_text(PYTHON)
    real = importlib.util.find_spec
    with monkeypatch.context() as patch:
        patch.setattr(code, "find_spec", lambda name: None if name.startswith("tree_sitter") else real(name))
        with opened(tmp_path) as collection:
            collection.ingest(read_source(folder))
    with opened(tmp_path) as collection:
        assert collection.info()["chunking"]["code"] == []
        assert collection.ingest(read_source(folder)).unchanged == 2


def test_the_caller_may_decide(tmp_path, folder):
    (folder / "app.py").write_text(PYTHON)
    opened(tmp_path).close()
    with opened(tmp_path, chunking=ChunkSettings(code=(), pages=False)) as collection:
        collection.ingest(read_source(folder))
        assert collection.info()["chunking"] == ChunkSettings(code=(), pages=False).as_dict()
    opened(tmp_path, chunking=ChunkSettings()).close()
    with pytest.raises(ConfigurationError, match="not chunks"):
        opened(tmp_path, chunking=ChunkSettings(code=("python",)))


def test_chunks_of_a_pdf_know_their_page(tmp_path, folder):
    lines = [
        [f"page {page} line {row} speaks of subject{page}x{row} at length" for row in range(9)] for page in range(3)
    ]
    office_files.write_pdf(folder / "book.pdf", lines)
    (folder / "own.md").write_text("---\npage: 77\n---\nA page of my own.")
    with opened(tmp_path) as collection:
        report = collection.ingest(read_source(folder))
        assert (report.new, report.failed) == (3, 0)
        assert collection.info()["chunking"]["pages"] is True
        for page in range(3):
            (hit,) = collection.search(f"subject{page}x8", limit=1, mode="sparse")
            assert (hit.id, hit.payload["page"]) == ("book.pdf", page + 1)
        found = collection.search("subject", group=False, limit=50, filter={"page": {"gte": 2, "lt": 70}})
        assert {hit.payload["page"] for hit in found} == {2, 3}
        assert collection.find({"page": 77}) == ["own.md"]
        assert collection.ingest(read_source(folder)).unchanged == 3
        copy = tmp_path / "copy"
        assert collection.push(copy).copied == 3
    with Collection.open("code", copy, encoder=WordEncoder(max_tokens=40)) as collection:
        assert collection.info()["chunking"]["pages"] is True
        assert collection.ingest(read_source(folder)).unchanged == 3


def test_a_pdf_of_an_older_version_keeps_its_chunks(tmp_path, folder, monkeypatch):
    office_files.write_pdf(folder / "book.pdf", [["one page of tea"], ["another page of milk"]])
    with monkeypatch.context() as patch, opened(tmp_path) as collection:
        patch.setattr(ways.Cutting, "ways", lambda self, document: {})
        collection.ingest(read_source(folder))
    with opened(tmp_path) as collection:
        assert collection.ingest(read_source(folder)).unchanged == 2
        assert collection.info()["chunking"]["pages"] is False
