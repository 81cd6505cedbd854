"""Files that other processes parse come in the order, with the ids, failures and sizes, of one process."""

from __future__ import annotations

import json
import os
import pickle
from operator import length_hint

import pytest

import office_files
from reading_ahead import read_ahead
from twinvec_qdrant import Empty, Failure, HelperCall, Root
from twinvec_qdrant.ingest.reading.files import SLOW_SUFFIXES
from twinvec_qdrant.ingest.reading.results import PagedDocument


@pytest.fixture
def folder(tmp_path):
    """Files of all kinds: text, records between slow ones, an empty one, broken ones, and one that cannot be read."""
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    office_files.write_pdf(folder / "a.pdf", [["tea is brewed"], ["water is hot"]])
    (folder / "b.md").write_text("---\ntitle: B\n---\n# A text")
    rows = [{"id": f"r{row}", "text": f"record {row}"} for row in range(9)]
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"id": "none"}]))
    office_files.write_docx(folder / "d.docx", ["leaves are dried"])
    (folder / "deep" / "e.csv").write_text("id,text\n1,one\n2,two\n")
    office_files.write_eml(folder / "deep" / "f.EML", text="Tea at four.", subject="Tea", **{"from": "a@example.org"})
    office_files.write_pdf(folder / "g.pdf", [[]])
    (folder / "h.xlsx").write_text("not a workbook")
    (folder / "i.html").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "j.pdf")
    (folder / "k.html").write_text("<p>the last one</p>")
    return folder


def steps(reading):
    """What is read, each with the bytes that are read by then."""
    return [(each, reading.done) for each in reading]


def test_the_order_and_the_sizes_are_those_of_one_process(folder):
    wanted = Root(str(folder)).read()
    for ahead in (1, 2, 100):
        found = Root(str(folder)).read(lambda items, ahead=ahead: read_ahead(items, ahead))
        assert (length_hint(found), found.size) == (length_hint(wanted), wanted.size)
        assert steps(found) == steps(Root(str(folder)).read())
    kinds = [type(each) for each in wanted]
    assert kinds.count(PagedDocument) == 1
    assert kinds.count(Empty) == 1
    assert kinds.count(Failure) == 4  # a record without text, a workbook, a link to nothing, a pipe
    assert len(kinds) == 21


def test_a_single_file_is_parsed_by_others_too(folder):
    calls = []

    def with_results(items):
        for each in items:
            calls.append(each)
            yield each.function(*each.arguments)

    assert list(Root(str(folder / "a.pdf")).read(with_results)) == list(Root(str(folder / "a.pdf")))
    assert len(calls) == 1


def test_a_call_is_what_another_process_needs(folder):
    """Its result follows from what is sent, without the file."""
    calls = []

    def with_results(items):
        for each in items:
            if isinstance(each, HelperCall):
                calls.append(pickle.dumps(each))
            else:
                yield each

    left = {each.source: each for each in Root(str(folder)).read(with_results) if isinstance(each, Failure)}
    assert left.keys() == {"c.jsonl:10", "i.html", "j.pdf"}  # what this process finds out itself
    wanted = {getattr(each, "id", None) or each.source: each for each in Root(str(folder))}
    for path in folder.rglob("*.*"):
        path.unlink()
    given = [pickle.loads(each) for each in calls]
    assert [each.arguments[0].suffix for each in given] == [".pdf", ".docx", ".eml", ".pdf", ".xlsx", ".html"]
    for each in given:
        (file, size), result = each.arguments, pickle.loads(pickle.dumps(each.function(*each.arguments)))
        assert each.size == size == len(file.data)
        assert result == (wanted[file.identity], size)


@pytest.mark.slow
def test_the_walk_goes_no_further_than_there_is_room(tmp_path):
    for row in range(20):
        (tmp_path / f"{row:02}.html").write_text(f"<p>{row}</p>")
    taken = []

    def with_results(items):
        def noted():
            for each in items:
                taken.append(each)
                yield each

        return read_ahead(noted(), ahead=5)

    for number, _ in enumerate(Root(str(tmp_path)).read(with_results), 1):
        assert len(taken) == min(number + 4, 20)


def test_a_file_that_every_process_dies_of_fails_alone(folder):
    def dies(call):
        return call.arguments[0].identity == "d.docx"

    wanted = steps(Root(str(folder)).read())
    found = steps(Root(str(folder)).read(lambda items: read_ahead(items, dies=dies)))
    place = next(row for row, (each, _) in enumerate(wanted) if getattr(each, "id", "") == "d.docx")
    assert found[place] == (Failure("d.docx", "every process that read the file died"), wanted[place][1])
    assert [*found[:place], *found[place + 1 :]] == [*wanted[:place], *wanted[place + 1 :]]


def test_text_files_are_quick():
    assert SLOW_SUFFIXES.isdisjoint({".txt", ".md", ".py", ".json", ".csv", ".jsonl"})
    assert {".pdf", ".html", ".eml", ".docx"} <= SLOW_SUFFIXES
