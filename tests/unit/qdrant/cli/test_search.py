"""What ``twinvec search``, ``show`` and ``get`` print: passages and places, relevance, several collections."""

from __future__ import annotations

import json
import re

import pytest

from twinvec_qdrant import Collection, search_collections

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


def test_records_have_titles_and_pages_but_no_file(twinvec, filled):
    shown = twinvec("search", "late fees", "-c", "rows", "--mode", "sparse", *filled).out
    assert re.search(r"(?m)^1\.  Fees(  \d+%)?\n    r1 · page 4\n    Late fees are five euros\.\n", shown)
    assert twinvec("search", "fees", "-c", "rows", "--mode", "sparse", *filled, "--files").out == "r1\n"


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


def test_what_a_terminal_would_obey_is_not_printed(twinvec, tmp_path, tiny_model):
    row = {"id": "evil\x1b[2J", "text": "A pump\x1b]0;owned\x07 for all.", "title": "Tit\x1ble"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    place = ("-c", "evil", "--path", tmp_path / "store")
    twinvec("ingest", tmp_path / "rows.jsonl", *place, "--model", tiny_model("bert"))
    for command in (("search", "pump", "--mode", "sparse"), ("show", "evil\x1b[2J")):
        shown = twinvec(*command, *place).out
        assert "pump" in shown
        assert not {"\x1b", "\x07"} & set(shown)


@pytest.mark.parametrize("found", ["sparse", "hybrid"])
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
    done = twinvec("search", "tea", "--path", tmp_path / "nothing")
    assert done.code == 1
    assert "no collections" in " ".join(done.err.split())


def test_a_document_of_several_collections_is_asked_for_by_collection(twinvec, folder, tiny_model, tmp_path):
    place = ("--path", tmp_path / "two")
    for name in ("one", "other"):
        assert twinvec("ingest", folder, "-c", name, "--model", tiny_model("bert"), *place).code == 0
    done = twinvec("show", "guide.md", *place)
    assert (done.code, done.out) == (1, "")
    assert done.err == "twinvec: 'guide.md' is in several collections: one, other; choose one with --collection\n"
    assert twinvec("show", "guide.md", *place, "-c", "other").out.startswith("guide.md\n")


def test_a_document_is_shown_for_people(twinvec, filled, folder):
    shown = twinvec("show", "guide.md", *filled).out
    assert shown == f"guide.md\nnotes\n\n{GUIDE}"
    assert twinvec("show", "guide.md#1", "-c", "notes", *filled).out == f"guide.md\n\n{GUIDE}"
    assert twinvec("show", "r1", *filled).out == "r1\nrows · page: 4\n\nFees\n\nLate fees are five euros.\n"
    done = twinvec("show", "guid.md", *filled)
    assert done.code == 1
    assert "'guide.md'" in done.err
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
    assert "no file on this machine" in done.err
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
