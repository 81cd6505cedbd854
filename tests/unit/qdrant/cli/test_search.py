"""What ``twinvec search``, ``show`` and ``get`` print: passages and places, relevance, several collections."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess

import pytest

import office_files
from cases import slow
from twinvec import Encoder, Hit
from twinvec.retrieval import Passage
from twinvec_qdrant import Collection, opening, search_collections
from twinvec_qdrant.asking import Asked, FoundHit, search_as_asked
from twinvec_qdrant.cli.results.hits import ShownHit, rendered, safe
from twinvec_qdrant.cli.results.places import Places
from twinvec_qdrant.ingest.cutting import markdown
from twinvec_qdrant.ingest.cutting.sections import sections_below
from twinvec_qdrant.settings import NEWEST_READING
from twinvec_qdrant.stored_roots import StoredRoot

GUIDE = """# Guide

Pumps were built here since 1970, and they are sold in all countries of the world today.

## Certificates

The office is open on all days. Nobody waits for long in the hall, where coffee is served to visitors.
A certificate is renewed two weeks ahead, at the desk of the second floor.

## Prices

| item | price |
|---|---|
| pump | 100 |
| valve | 20 |
"""


LONG = {"id": "r3", "text": f"{'It was a long day of rain. ' * 30}The valve is red. {'It was a short day. ' * 30}End."}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes" / "more").mkdir(parents=True)
    (tmp_path / "notes" / "guide.md").write_text(GUIDE)
    (tmp_path / "notes" / "more" / "a b.txt").write_text("Nothing of that kind.\n\nThe harbour opens at noon.\n")
    rows = [{"id": "r1", "text": "Late fees are five euros.", "title": "Fees", "page": 4}, LONG]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path / "notes"


@pytest.fixture
def filled(twinvec, folder, tmp_path, tiny_model):
    """Options that name a store with two collections; ``notes`` has files, and ``rows`` has records."""
    store = ("--path", tmp_path / "store", "--model", tiny_model("bert"))
    assert twinvec("ingest", folder, "-c", "notes", *store).code == 0
    assert twinvec("ingest", tmp_path / "rows.jsonl", "-c", "rows", *store, "--no-chunking").code == 0
    return ("--path", tmp_path / "store")


NOTES = ("-c", "notes", "--mode", "sparse")


def figures(done, code=0):
    assert done.code == code, done.err
    return json.loads(done.out)


def test_a_hit_has_its_passage_and_its_place(twinvec, filled):
    shown = twinvec("search", "how is a certificate renewed?", *NOTES, *filled).out
    name, place, passage = shown[shown.index("1.  ") :].splitlines()[:3]
    assert re.fullmatch(r"1\.  guide\.md(  \d+%)?", name)
    assert place == "    Guide > Certificates · line 8"
    assert passage == "    A certificate is renewed two weeks ahead, at the desk of the second floor."
    assert "# Guide" not in shown
    assert re.search(r"\n\nfound in [\d,]+ ms\n$", shown)
    table = twinvec("search", "what is the price of a valve", *NOTES, *filled, "--limit", 1).out
    assert "\n    | valve | 20 |\n" in table
    assert re.search(r"Guide > Prices · lines 1[24]-15\n", table)


def test_no_line_of_a_file_ends_with_blanks(twinvec, filled):
    place = ("-c", "notes", *filled)
    for command in (
        ("info", *place),
        ("collections", *filled),
        ("verify", *place),
        ("search", "certificate", *place, "--explain"),
        ("similarity", "tea", "coffee", "a long day of rain", "--model", filled_model(twinvec, place)),
    ):
        done = twinvec(*command)
        assert done.code == 0, done.err
        assert len(done.out.splitlines()) > 3
        assert [line for line in done.out.splitlines() if line != line.rstrip()] == []


def filled_model(twinvec, place):
    return figures(twinvec("info", *place, "--json"))["model"]


def test_records_have_titles_and_pages_but_no_file(twinvec, filled):
    shown = twinvec("search", "late fees", "-c", "rows", "--mode", "sparse", *filled).out
    assert re.search(r"(?m)^1\.  Fees(  \d+%)?\n    r1 · page 4\n    Late fees are five euros\.\n", shown)
    assert twinvec("search", "fees", "-c", "rows", "--mode", "sparse", *filled, "--files").out == "r1\n"


def test_a_passage_of_a_pdf_has_its_own_page_and_not_that_of_its_chunk(twinvec, tmp_path, tiny_model):
    slides = [["Quarterly review"], ["Revenue grew by a tenth"], ["Energy costs doubled"], ["Hiring goes on"]]
    office_files.write_pdf(tmp_path / "slides.pdf", slides)
    place = ("-c", "decks", "--path", tmp_path / "store")
    assert twinvec("ingest", tmp_path / "slides.pdf", *place, "--model", tiny_model("bert")).code == 0
    search = ("search", "energy costs", *place, "--mode", "sparse")
    (hit,) = figures(twinvec(*search, "--json"))["hits"]
    assert (hit["payload"]["page"], hit["page"]) == (1, 3)
    assert "slides.pdf" in twinvec(*search).out
    assert "\n    page 3\n    Energy costs doubled\n" in twinvec(*search).out
    assert "\n    pages 1-4\n" in twinvec(*search, "--full").out
    shown = twinvec("show", "slides.pdf", *place).out
    assert "Energy costs doubled" in shown
    assert "endobj" not in shown, "a PDF may consist of ASCII characters"


def test_the_full_text_and_the_scores_are_shown_on_demand(twinvec, filled):
    search = ("search", "certificate", *NOTES, *filled, "--limit", 1)
    assert "sparse" not in twinvec(*search).out
    assert re.search(r"\n    sparse \d\.\d{3}\n", twinvec(*search, "--explain").out)
    said = twinvec("search", "valve", "-c", "rows", *NOTES[2:], *filled).out.splitlines()[-3]
    assert "The valve is red." in said
    assert len(said) < 330
    whole = twinvec("search", "valve", "-c", "rows", *NOTES[2:], *filled, "--full").out
    assert LONG["text"] in whole


def test_places_only(twinvec, filled, folder, monkeypatch):
    search = ("search", "certificate", "harbour", "countries", *NOTES, *filled, "--files")
    assert twinvec(*search).out.splitlines() == [
        f"{folder}/guide.md:8",
        f"{folder}/more/a b.txt:1",
        f"{folder}/guide.md:3",
    ]
    monkeypatch.chdir(folder)
    assert twinvec(*search).out.splitlines()[0] == "guide.md:8"
    (folder / "guide.md").write_text("All is new.")
    assert twinvec(*search).out.splitlines()[0] == "guide.md", "lines are those of the file as it is now"
    (folder / "guide.md").unlink()
    assert twinvec(*search).out.splitlines()[0] == "guide.md"


def test_a_corrected_query_is_told(twinvec, filled):
    told = twinvec("search", "certifcate", "-c", "notes", *filled, "--mode", "sparse")
    assert "the collection lacks a word of 'certifcate'; searched for 'certificate'" in told.err
    found = twinvec("search", "certifcate", "-c", "notes", *filled, "--mode", "sparse", "--json")
    assert json.loads(found.out)["corrected"] == "certificate"
    right = twinvec("search", "certificate", "-c", "notes", *filled, "--mode", "sparse", "--json")
    assert "corrected" not in json.loads(right.out)
    assert right.err == ""


def test_a_query_that_is_an_id_is_told_how_to_print_its_document(twinvec, filled):
    for name, options in (("more/a b.txt", ("-c", "notes")), ("r1", ())):
        done = twinvec("search", name, "--mode", "sparse", *options, *filled)
        place = shlex.join(map(str, (*options, *filled)))
        line = f"twinvec show {shlex.quote(name)} {place}"
        assert done.err == f"twinvec: the query names a document; show it with: {line}\n"
        assert twinvec(*shlex.split(line)[1:]).code == 0
        printed = twinvec("search", name, "--mode", "sparse", *options, *filled, "--json")
        assert (printed.err, figures(printed)["named"]) == ("", [name])
        assert twinvec("search", name, *options, *filled, "--offset", 1).err == "", "told on the first page"
    assert figures(twinvec("search", "late fees", *filled, "--json")).keys() == {"hits"}
    several = figures(twinvec("search", "late fees", "r3", "--mode", "sparse", *filled, "--json"))["results"]
    assert [each.get("named") for each in several] == [None, ["r3"]]


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, NEWEST_READING])
def test_lines_of_files_that_are_read_without_parts_of_them(version, twinvec, tmp_path, tiny_model, monkeypatch):
    """An older collection reads a web archive as text; its own ingest, and the places of its hits, stay so."""
    folder, store = tmp_path / "files", ("--path", tmp_path / "store")
    folder.mkdir()
    ships = "".join(f"\x1b[36m{row}\x1b[0m A ship sails to the other side of the sea.\n\n" for row in range(30))
    log = f"{ships}\x1b[31mThe \x1b[1mharbour\x1b[0m opens at noon{', and it closes at night' * 6}.\n\n{ships}"
    (folder / "a.log").write_text(log)
    (folder / "b.md").write_text("+++\n# a comment\ntitle = 'Tea'\n+++\n\n## Zebra\n\nYes.\n\n## Zoo\n\nYes.\n")
    office_files.write_mhtml(folder / "c.mhtml", "<h1>Milk</h1><p>A cow is milked by hand.</p>")
    with monkeypatch.context() as older:
        older.setattr(opening, "NEWEST_READING", version)
        assert twinvec("ingest", folder, *NOTES[:2], *store, "--model", tiny_model("bert")).code == 0
    assert figures(twinvec("ingest", folder, *NOTES[:2], *store, "--json"))["unchanged"] == 3
    assert figures(twinvec("info", *NOTES[:2], *store, "--json"))["reading"] == version
    found = twinvec("search", "noon", "zebra", "cow", *NOTES, *store, "--files", "--limit", 1).out
    lines = found.replace(f"{folder}/", "").splitlines()
    numbered = enumerate((folder / "c.mhtml").read_text().splitlines(), 1)
    line = next(number for number, text in numbered if "cow" in text)
    assert lines[0] == "a.log:61"
    assert lines[1] == "b.md:8"
    assert lines[2] == ("c.mhtml" if version > 2 else f"c.mhtml:{line}")
    shown = twinvec("get", "c.mhtml", *NOTES[:2], *store).out
    assert "A cow is milked by hand." in shown
    assert ("Content-Type" in shown) == (version == 2)


@pytest.mark.slow
def test_a_terminal_gets_links_and_marks_at_any_width(on_terminal, filled, folder, monkeypatch):
    for columns in (80, 160):
        shown = on_terminal(columns, "search", "certificate renewed", *NOTES, *filled)
        assert max(map(len, shown.splitlines())) <= columns
        assert "A certificate is renewed two weeks" in " ".join(shown.split())


def test_no_color_means_plain_text(twinvec, filled, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    search = ("search", "harbour", *NOTES, *filled)
    coloured = twinvec(*search).out
    assert "\x1b]8;" in coloured
    assert "more/a%20b.txt" in coloured
    assert re.search("\x1b\\[[0-9;]*mharbour\x1b\\[0m", coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in twinvec(*search).out


def test_a_passage_keeps_its_lines_and_sheds_their_common_indentation():
    text = """\
       -c, --count
              prefix lines by the number of lines that occur here, and
              of those that do not

       class A:
           x = 1
"""
    start = text.index("-c")

    def shown(start, end):
        hit = Hit("uniq.txt", text, 1.0, passage=Passage(text[start:end], start, end, ((0, 2),)))
        shown = rendered([(1, ShownHit(FoundHit(hit, "uniq.txt")))], full=False, explain=False)
        lines = "\n".join(each.plain for each in shown)
        return [line[4:] for line in lines.split("\n")[1:-1]]

    prose = "prefix lines by the number of lines that occur here, and of those that do not"
    assert shown(start, len(text)) == ["-c, --count", prose, "class A:", "    x = 1"]
    within = text.index("that occur")
    assert shown(within, text.index("class")) == ["that occur here, and of those that do not"]


@pytest.mark.parametrize("source", ["a/values.yaml", "main.go", "Dockerfile", "ci/Dockerfile.prod", "x.SQL"])
def test_lines_of_a_file_that_is_no_prose_stay_lines(source):
    text = "Adds the flag of orders.\nALTER TABLE orders"
    hit = Hit(source, text, 1.0, passage=Passage(text, 0, len(text), ((0, 4),)))
    for name, expected in ((source, text.split("\n")), ("plan.md", [text.replace("\n", " ")])):
        shown = rendered([(1, ShownHit(FoundHit(hit, name)))], full=True, explain=False)
        assert [line[4:] for line in "\n".join(each.plain for each in shown).split("\n")[1:-1]] == expected


def test_a_quotation_is_joined_without_the_signs_of_its_further_lines():
    text = "> **Note:** The pump\n> is a > b\n>> at noon.\n>\n> Wait\n>"
    hit = Hit("plan.md", text, 1.0, passage=Passage(text, 0, len(text), ((12, 15), (55, 59))))
    shown = rendered([(1, ShownHit(FoundHit(hit, hit.id)))], full=False, explain=False)
    lines = "\n".join(each.plain for each in shown).split("\n")[1:-1]
    assert " ".join(line[4:] for line in lines) == "> **Note:** The pump is a > b at noon. Wait >"


def test_the_path_of_code_is_shown_once():
    payload = {"path": "src/tea.py", "heading": "src/tea.py > class Pot"}
    hit = Hit("src/tea.py", "x = 1", 1.0, payload=payload, passage=Passage("x = 1", 0, 5, ()))
    for source in ("src/tea.py", "kitchen:src/tea.py"):
        _, place, *_ = rendered([(1, ShownHit(FoundHit(hit, source)))], full=False, explain=False)
        assert place.plain == "    class Pot"


def test_a_passage_of_several_hits_is_shown_once():
    text = "The pump starts at noon."
    hits = [Hit(name, text, 1.0, passage=Passage(text, 0, len(text), ((4, 8),))) for name in ("a.md", "copy.md")]
    others = [Hit(name, "", 0.5, passage=Passage("", 0, 0, ())) for name in ("b.md", "c.md")]
    ranked = [(rank, ShownHit(FoundHit(hit, hit.id))) for rank, hit in enumerate([*hits, *others], 11)]
    lines = [each.plain for each in rendered(ranked, full=False, explain=False)]
    first, same = ["11. a.md", f"    {text}", ""], ["12. copy.md", "    the same passage as hit 11", ""]
    assert lines == [*first, *same, "13. b.md", "", "14. c.md", ""]


def test_a_long_name_is_folded_as_its_passage_is(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    hit = Hit("name " * 50, "A pump.", 1.0, relevance=0.5)
    first, *_ = rendered([(12, ShownHit(FoundHit(hit, hit.id)))], full=False, explain=False)
    lines = first.plain.split("\n")
    assert len(lines) > 2
    assert lines[0].startswith("12. name")
    assert all(line.startswith("    name") for line in lines[1:])
    assert lines[-1].endswith("name  50%") or lines[-1].endswith("50%")


def test_what_a_terminal_would_obey_is_not_printed(twinvec, tmp_path, tiny_model):
    row = {"id": "evil\x1b[2J", "text": "A pump\x1b]0;owned\x07 for all.", "title": "Tit\x1ble"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    place = ("-c", "evil", "--path", tmp_path / "store")
    twinvec("ingest", tmp_path / "rows.jsonl", *place, "--model", tiny_model("bert"))
    for command in (("search", "pump", "--mode", "sparse"), ("show", "evil\x1b[2J")):
        shown = twinvec(*command, *place).out
        assert "pump" in shown
        assert not {"\x1b", "\x07"} & set(shown)


def test_words_with_joiners_and_soft_hyphens_stay_whole():
    text = "👩\u200d💻 com\u00admunicates: نمی\u200cخواهم a\u200bb"
    assert safe(text) == text
    assert safe("\u202eexe.txt\u2066 \x9b31m\x85\x00") == " exe.txt   31m  "


@pytest.mark.parametrize("found", [slow("sparse"), "hybrid"])
def test_all_collections_of_a_store_are_searched(twinvec, filled, found):
    hits = figures(twinvec("search", "late fees for a pump", *filled, "--mode", found, "--json"))["hits"]
    assert {hit["collection"] for hit in hits} == {"notes", "rows"}
    assert {(hit["collection"], hit["id"]) for hit in hits} >= {("notes", "guide.md"), ("rows", "r1")}
    shown = twinvec("search", "late fees for a pump", *filled, "--mode", found).out
    assert re.search("\n    rows · r1 · page 4\n", shown)
    one = figures(twinvec("search", "late fees for a pump", *filled, "--mode", found, "--limit", 1, "--json"))["hits"]
    two = ("--limit", 1, "--offset", 1, "--json")
    assert one + figures(twinvec("search", "late fees for a pump", *filled, "--mode", found, *two))["hits"] == hits[:2]


def test_a_broken_collection_does_not_stop_the_others(twinvec, filled, tmp_path):
    for path in (tmp_path / "store" / "notes").rglob("*"):
        if path.is_file():
            path.write_bytes(b"rubbish")
    done = twinvec("search", "late fees", *filled, "--mode", "sparse", "--json")
    printed = figures(done, code=3)
    assert [hit["id"] for hit in printed["hits"]] == ["r1"]
    assert list(printed["failed"]) == ["notes"]
    assert "'notes' was not searched" in " ".join(done.err.split())
    found = search_collections("late fees", path=tmp_path / "store", mode="sparse")
    assert [(each.collection, each.hit.id) for each in found.hits] == [("rows", "r1")]
    assert list(found.failed) == ["notes"]
    assert twinvec("search", "late fees", "-c", "notes", *filled).code == 1


def test_models_are_loaded_once_and_each_collection_has_its_own(twinvec, filled, tmp_path, tiny_model, monkeypatch):
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": "m", "text": "pumps"}))
    for name, model in (("again", tiny_model("bert")), ("other", tiny_model("bert", seed=1))):
        twinvec("ingest", tmp_path / "more.jsonl", "-c", name, *filled, "--model", model)
    loaded = []
    load = Collection.open.__globals__["load_space_encoder"]
    monkeypatch.setattr(
        "twinvec_qdrant.opening.load_space_encoder", lambda *given: loaded.append(given[0]) or load(*given)
    )
    found = search_collections("pumps", 20, tmp_path / "store")
    assert {each.collection for each in found.hits} == {"notes", "rows", "again", "other"}
    assert sorted(loaded) == sorted([str(tiny_model("bert")), str(tiny_model("bert", seed=1))])
    assert found.failed == {}


def test_a_store_without_collections(twinvec, tmp_path):
    (tmp_path / "empty").mkdir()
    for name, reason in {"empty": "the store has no collections", "mistyped": "the folder does not exist"}.items():
        done = twinvec("search", "tea", "--path", tmp_path / name)
        assert done.code == 1
        assert f"{tmp_path / name}: {reason}; twinvec ingest" in " ".join(done.err.split())


def test_a_document_of_several_collections_is_asked_for_by_collection(twinvec, folder, tiny_model, tmp_path):
    place = ("--path", tmp_path / "two")
    for name in ("one", "other"):
        assert twinvec("ingest", folder, "-c", name, "--model", tiny_model("bert"), *place).code == 0
    done = twinvec("show", "guide.md", *place)
    assert (done.code, done.out) == (1, "")
    assert done.err == "twinvec: 'guide.md' is in several collections: one, other; choose one with --collection\n"
    assert twinvec("show", "guide.md", *place, "-c", "other").out.startswith("guide.md\n")


def test_the_payload_of_a_document_is_shown_without_the_marks_of_python(twinvec, tiny_model, tmp_path):
    payload = {"tags": ["ä", "b"], "open": True, "by": {"name": "Ann"}, "none": None}
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "r", "text": "pumps", **payload}))
    place = ("-c", "rows", "--path", tmp_path / "shown")
    assert twinvec("ingest", tmp_path / "rows.jsonl", *place, "--model", tiny_model("bert")).code == 0
    assert (
        twinvec("show", "r", *place).out == 'r\ntags: ä, b · open: true · by: {"name": "Ann"} · none: null\n\npumps\n'
    )


def test_a_document_is_shown_for_people(twinvec, filled, folder, monkeypatch):
    shown = twinvec("show", "guide.md", *filled).out
    assert shown == f"guide.md\nnotes\n\n{GUIDE}"
    assert twinvec("show", "guide.md#1", "-c", "notes", *filled).out == f"guide.md\n\n{GUIDE}"
    assert twinvec("show", "r1", *filled).out == "r1\nrows · page: 4\n\nFees\n\nLate fees are five euros.\n"
    done = twinvec("show", "guid.md", *filled)
    assert done.code == 1
    assert "'guide.md'" in done.err
    monkeypatch.chdir(folder / "more")
    assert twinvec("show", folder / "guide.md", *filled).out == shown
    assert twinvec("show", "../guide.md", *filled).out == shown
    assert twinvec("show", "a b.txt", *filled).out.startswith("more/a b.txt\nnotes\n")
    (folder / "guide.md").unlink()
    assert "A certificate is renewed" in twinvec("show", "guide.md", *filled).out, "the collection still has it"


def test_a_document_is_opened(twinvec, filled, folder, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", lambda place: opened.append(place) or len(opened) - 1)
    assert twinvec("show", "guide.md", "--open", *filled).out == ""
    assert opened == [str(folder / "guide.md")]
    done = twinvec("show", "guide.md", "--open", *filled)
    assert done.code == 1
    assert "no program" in done.err
    done = twinvec("show", "r1", "--open", *filled)
    assert "Late fees" in done.out
    assert "not a file on this machine" in done.err
    assert len(opened) == 2


def test_get_names_the_nearest_ids(twinvec, filled):
    done = twinvec("get", "r1", "r2", "-c", "rows", *filled, "--json")
    (document,) = figures(done, code=1)["documents"]
    assert document["text"].startswith("Fees")
    assert "no document 'r2'" in done.err


def test_without_a_calibration_there_is_no_relevance_to_ask_for(twinvec, filled):
    done = twinvec("search", "fees", "-c", "rows", *filled, "--mode", "dense", "--min-relevance", ".4")
    if done.code:
        assert "not calibrated" in " ".join(done.err.split())


def test_syntax_and_phrasings(twinvec, filled):
    search = ("search", *NOTES, *filled, "--json")
    assert [hit["id"] for hit in figures(twinvec(*search, '"harbour opens"'))["hits"]] == ["more/a b.txt"]
    assert figures(twinvec(*search, "harbour -noon"))["hits"] == []
    found = figures(twinvec(*search, "where do ships go", "--words", "harbour", "--answer", "At noon."))["hits"]
    assert found[0]["id"] == "more/a b.txt"


FAQ = """# FAQ

## Is option alpha free?

No.

## Is option beta free?

No.

## Is option gamma free?

No.

## When?

**Off**ice hours are short.

## Wifi?

Off
"""


@pytest.mark.parametrize("line_end", ["\n", slow("\r\n"), slow("\r")])
def test_a_short_section_is_found_below_its_own_heading(twinvec, tmp_path, tiny_model, line_end):
    (tmp_path / "faq.md").write_bytes(FAQ.replace("\n", line_end).encode())
    (tmp_path / "plain.txt").write_bytes(line_end.join(["A first line.", "The zebra sleeps.", "A last line."]).encode())
    store = ("--path", tmp_path / "store")
    assert twinvec("ingest", tmp_path, "-c", "notes", *store, "--model", tiny_model("bert")).code == 0

    def best(query):
        found = twinvec("search", query, *NOTES, *store, "--chunks", "--files", "--limit", 1).out
        return found.strip().rpartition("/")[2]

    assert [best(f"option {name}") for name in ("alpha", "beta", "gamma")] == ["faq.md:5", "faq.md:9", "faq.md:13"]
    assert best("wifi") == "faq.md:21"
    assert best("zebra").startswith("plain.txt:"), "a text with such line ends has lines too"


def test_a_file_is_cut_into_sections_once_for_all_its_hits(tmp_path, monkeypatch):
    """Cutting takes a second for a file of two megabytes, and a file may have a thousand hits."""
    cuts = []

    def counted(*arguments):
        cuts.append(arguments)
        return sections_below(*arguments)

    monkeypatch.setattr(markdown, "sections_below", counted)
    (tmp_path / "faq.md").write_text("".join(f"## Is option {each} free?\n\nNo.\n\n" for each in range(30)))
    root = StoredRoot("notes", True, str(tmp_path), socket.gethostname())

    def lines(text, option):
        hit = Hit("faq.md", text, 1.0, {}, {"source": "faq.md", "heading": f"Is option {option} free?"})
        return places.lines("faq.md", hit, 0, len(text))

    places = Places([root])
    assert lines("An older text of the file.", 3) is None
    assert not cuts
    assert [lines("No.", each) for each in range(30)] == [(4 * each + 3,) * 2 for each in range(30)]
    assert len(cuts) == 1


@pytest.mark.parametrize("version", [5, NEWEST_READING])
def test_a_section_below_a_heading_with_markup_is_found(version, twinvec, tmp_path, tiny_model, monkeypatch):
    marked = FAQ.replace("alpha", "*alpha*").replace("beta", "`beta`")
    (tmp_path / "faq.md").write_text(marked)
    store = ("--path", tmp_path / "store")
    with monkeypatch.context() as older:
        older.setattr(opening, "NEWEST_READING", version)
        assert twinvec("ingest", tmp_path, *NOTES[:2], *store, "--model", tiny_model("bert")).code == 0
    for name, heading, line in (("alpha", "option *alpha*", 5), ("beta", "option `beta`", 9)):
        search = ("search", f"option {name}", *NOTES, *store, "--chunks", "--limit", 1)
        (hit,) = figures(twinvec(*search, "--json"))["hits"]
        shown = heading if version < NEWEST_READING else f"option {name}"
        assert hit["payload"]["heading"].removeprefix("FAQ > ") == f"Is {shown} free?"  # the path may be cut
        assert hit["text"].startswith(hit["payload"]["heading"])
        assert twinvec(*search, "--files").out.strip().endswith(f"faq.md:{line}")
    (tmp_path / "faq.md").write_text(f"{marked}\n## An *added* one\n\nYes.\n")
    assert figures(twinvec("ingest", tmp_path, *NOTES[:2], *store, "--json"))["updated"] == 1
    added = figures(twinvec("search", "added", *NOTES, *store, "--chunks", "--json"))["hits"][0]["payload"]["heading"]
    assert added.removeprefix("FAQ > ") == f"An {'*added*' if version < NEWEST_READING else 'added'} one"


RST_FAQ = """FAQ
===

Is ``alpha`` free?
------------------

Yes, it is.

Is :opt:`beta` free?
--------------------

Yes, it is.
"""


@pytest.mark.parametrize("version", [5, NEWEST_READING])
def test_a_section_of_restructured_text_is_found(version, twinvec, tmp_path, tiny_model, monkeypatch):
    """An older collection reads it as text, until it is reindexed."""
    (tmp_path / "faq.rst").write_text(RST_FAQ)
    store = ("--path", tmp_path / "store")
    with monkeypatch.context() as older:
        older.setattr(opening, "NEWEST_READING", version)
        assert twinvec("ingest", tmp_path, *NOTES[:2], *store, "--model", tiny_model("bert")).code == 0
    if version == 5:
        (hit,) = figures(twinvec("search", "alpha", *NOTES, *store, "--json"))["hits"]
        assert (hit["payload"]["format"], hit["payload"]["heading"]) == ("text", "")
        assert figures(twinvec("ingest", tmp_path, *NOTES[:2], *store, "--json"))["unchanged"] == 1
        assert twinvec("reindex", *NOTES[:2], *store).code == 0
        assert figures(twinvec("ingest", tmp_path, *NOTES[:2], *store, "--json"))["updated"] == 1
    for name, line in (("alpha", 7), ("beta", 12)):
        search = ("search", f"{name} free", *NOTES, *store, "--chunks", "--limit", 1)
        (hit,) = figures(twinvec(*search, "--json"))["hits"]
        assert hit["payload"]["heading"].removeprefix("FAQ > ") == f"Is {name} free?"  # the path may be cut
        assert hit["payload"]["format"] == "rst"
        assert twinvec(*search, "--files").out.strip().endswith(f"faq.rst:{line}")


def test_two_places_that_nothing_tells_apart_give_no_line(twinvec, tmp_path, tiny_model):
    (tmp_path / "faq.md").write_text("# FAQ\n\n## Zebra\n\nNo.\n\n## Zebra\n\nNo.\n")
    store = ("--path", tmp_path / "store")
    assert twinvec("ingest", tmp_path / "faq.md", "-c", "notes", *store, "--model", tiny_model("bert")).code == 0
    found = twinvec("search", "zebra", *NOTES, *store, "--chunks", "--files").out.splitlines()
    assert found == [f"{tmp_path}/faq.md"]


ORDER = "\x1b]0;pwned\x07"


@pytest.fixture
def rude(twinvec, tmp_path, tiny_model):
    """Options that name a collection of documents whose names or texts hold what a terminal takes as an order."""
    folder = tmp_path / "rude"
    folder.mkdir()
    (folder / "rows.jsonl").write_text(json.dumps({"id": "text", "text": f"The zebra {ORDER}sleeps."}))
    (folder / "new\nline.md").write_text("The walrus sleeps.")
    (folder / f"it's{ORDER}.md").write_text("The badger sleeps.")
    (folder / "two  blanks.txt").write_text("The otter sleeps.")
    options = ("-c", "notes", "--path", tmp_path / "store")
    assert twinvec("ingest", folder, *options, "--model", tiny_model("bert")).code == 0
    return options


def test_names_are_one_line_and_can_be_copied_into_a_shell(twinvec, rude, tmp_path):
    for query, name in (
        ("walrus", "new\nline.md"),
        ("badger", f"it's{ORDER}.md"),
        ("otter", "two  blanks.txt"),
    ):
        search = ("search", query, *rude, "--mode", "sparse", "--limit", 1)
        (line,) = twinvec(*search, "--files").out.splitlines()
        assert line.endswith(":1")
        assert "\x1b" not in line
        path = line.removesuffix(":1")
        found = re.search(r"(?m)^1\.  (.*?)(  \d+%)?$", twinvec(*search).out)
        for shown, meant in ((path, f"{tmp_path}/rude/{name}"), (found[1], name)):
            if shown.startswith("$'"):
                shown = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True, text=True)
                shown = shown.stdout
            assert shown == meant
        assert twinvec("show", name, *rude).code == 0


@pytest.mark.slow
def test_get_cleans_texts_for_a_terminal_only(twinvec, on_terminal, rude):
    ids = ("rows.jsonl/text", f"it's{ORDER}.md")
    assert f"The zebra {ORDER}sleeps." in twinvec("get", *ids, *rude).out, "a pipe gets what is stored"
    for command in (("get", *ids), ("delete", "--filter", f"id={ids[1]}", "--dry-run")):
        shown = on_terminal(80, *command, *rude)
        assert "it\\'s\\x1b]0;pwned\\x07.md" in shown
        assert "\x07" not in shown


def test_a_query_that_the_model_does_not_know_is_told(twinvec, filled):
    asked = twinvec("search", "ราคา", "late fees", "-c", "notes", *filled, "--json")
    assert len(figures(asked)["results"]) == 2
    assert asked.err.count("twinvec: ") == 1
    assert asked.err.startswith("twinvec: the query 'ราคา' consists mostly of words that the model does not know")
    assert "does not know" in twinvec("search", "ราคา", *filled).err
    assert twinvec("search", "ราคา", *NOTES, *filled).err == ""


def test_a_query_that_the_model_does_not_know_has_passages_by_words(tmp_path, tiny_model):
    text = "\n\n".join(["แม่น้ำ กลาง ร้อน ชื้น " * 12, "ราคา สามบาท " * 22, "ถนน สะพาน ตลาด " * 18])
    encoder = Encoder(tiny_model("bert"))
    with Collection.open("thai", tmp_path, encoder=encoder, chunking=False) as collection:
        collection.ingest([{"id": "1", "text": text}])
        for query, expected in (("ราคา", "ราคา"), ("สะพาน", "ถนน"), ("ร้อน", "แม่น้ำ")):
            (answer,) = search_as_asked(collection, [query], Asked(passages="states"))
            assert answer.unknown
            assert answer.hits[0].hit.passage.text.startswith(expected)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("ok=true", "'ok' holds texts: write --filter 'ok=\"true\"'"),
        slow("zip=80331", "'zip' holds texts: write --filter 'zip=\"80331\"'"),
        slow("year=abc", "'year' holds numbers"),
        slow("flag=1", "'flag' holds true or false"),
        (
            "nosuchkey=1",
            "the collection has no index of the key 'nosuchkey'; it has indexes of flag, ok, who.name, year, zip",
        ),
        slow("nosuchkey!=1", ""),  # which all documents satisfy
        slow('zip="1"', ""),
        slow("year>=3000", ""),
        slow("who=1", ""),
        slow("title=1", ""),
        ('{"or": [{"nosuchkey": 1}]}', ""),
    ],
)
def test_a_filter_that_finds_nothing_is_explained(twinvec, table, given, told):
    done = twinvec("search", "tea", *table, "--filter", given)
    assert done.code == 0
    assert done.err == (f"twinvec: {told}\n" if told else "")
    assert ("nothing found" in done.out) == (given != "nosuchkey!=1")
    assert twinvec("search", "tea", *table, "--filter", given, "--json").err == ""
    everywhere = twinvec("search", "tea", *table[2:], "--filter", given)
    assert everywhere.err == (f"twinvec: rows: {told}\n" if told else "")


@pytest.fixture(scope="module")
def table(tmp_path_factory, tiny_model):
    """Options that name a collection of one record with texts that look like other values."""
    place = tmp_path_factory.mktemp("table")
    row = {
        "id": "1",
        "text": "good tea",
        "ok": "true",
        "zip": "80331",
        "year": 2020,
        "flag": True,
        "who": {"name": "bob"},
    }
    with Collection.open("rows", place, encoder=Encoder(tiny_model("bert"))) as opened:
        opened.ingest([row])
    return ("-c", "rows", "--path", place)
