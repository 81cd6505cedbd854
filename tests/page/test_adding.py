"""Adding documents in the browser: files that are chosen or dropped, progress, the report with what failed."""

from __future__ import annotations

from contextlib import closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

DROP = """(area, files) => {
    const transfer = new DataTransfer();
    for (const [name, text] of files) transfer.items.add(new File([text], name));
    for (const kind of ["dragenter", "drop"]) {
        area.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }
}"""


@pytest.fixture
def files(tmp_path):
    texts = {
        "garden.md": "# The garden\n\nTomatoes are watered in the morning.\n",
        "tools.txt": "The spade hangs behind the door of the shed.\n",
        "seeds.jsonl": '{"id": "beans", "text": "Sown in May."}\n{"id": "peas", "text": "They like the cold."}\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "broken.txt").write_bytes(b"\xff\xfe\x00\x80 not a text \x81")
    return tmp_path


def counts(page):
    report = page.locator(".report")
    expect(report).to_be_visible(timeout=60_000)
    numbers = zip(report.locator("dt").all_inner_texts(), report.locator("dd").all_inner_texts(), strict=True)
    return {name: int(number) for name, number in numbers}


def test_chosen_files_make_a_collection_that_is_searched(visit, server, files):
    page = visit(server, "add")
    page.select_option("#add-collection", "")
    page.fill("#add-name", "garden")
    page.set_input_files("#add-files", [files / "garden.md", files / "tools.txt", files / "seeds.jsonl"])
    assert counts(page) == {"new": 4}
    assert page.locator("#add-collection").input_value() == "garden"
    page.get_by_role("link", name="Search them").click()
    page.fill("#search-query", "where is the spade")
    page.keyboard.press("Enter")
    expect(page.locator(".hits .passage").first).to_have_text("The spade hangs behind the door of the shed.")


def test_what_failed_is_named_and_the_rest_is_stored(visit, server, files):
    page = visit(server, "add")
    page.select_option("#add-collection", "recipes")
    page.set_input_files("#add-files", [files / "garden.md", files / "broken.txt"])
    assert counts(page) == {"new": 1, "failed": 1}
    expect(page.locator(".failures li")).to_have_count(1)
    expect(page.locator(".failures strong")).to_contain_text("broken.txt")
    assert str(files) not in page.locator("#add-outcome").inner_text()
    assert "/tmp" not in page.locator("#add-outcome").inner_text()


def test_a_warning_of_the_server_is_shown_with_the_report(visit, server, tmp_path):
    (tmp_path / "plumber.txt").write_text("配管工が水道管を修理する。" * 5, encoding="utf-8")
    page = visit(server, "add")
    page.select_option("#add-collection", "recipes")
    page.set_input_files("#add-files", [tmp_path / "plumber.txt"])
    assert counts(page) == {"new": 1}
    expect(page.locator("#add-outcome .warning")).to_contain_text("1 chunk consists mostly of words")


def test_files_are_dropped_and_a_second_time_they_are_known(visit, server):
    page = visit(server, "add")
    page.select_option("#add-collection", "notes")
    area = page.locator("#add-drop")
    dropped = [["dropped.md", "# Dropped\n\nA file from the desk."], ["second.txt", "Another one."]]
    area.evaluate(DROP, dropped)
    assert counts(page) == {"new": 2}
    area.evaluate(DROP, dropped)
    expect(page.locator(".report dt")).to_have_text(["unchanged"])
    area.evaluate(DROP, [["second.txt", "Another one, changed."]])
    expect(page.locator(".report dt")).to_have_text(["updated"])


@contextmanager
def another_ingest(server, name):
    """Let another client's ingest have the collection within the block."""
    headers = ("Content-Type: application/x-ndjson", "Accept: text/event-stream", "Transfer-Encoding: chunked")
    with closing(HTTPConnection(urlsplit(server).netloc, timeout=120)) as connection:
        connection.putrequest("POST", f"/v1/collections/{name}/documents")
        for header in headers:
            connection.putheader(*header.split(": "))
        connection.endheaders()
        answer = connection.getresponse()  # the ingest has begun, and waits for documents
        yield
        connection.send(b"0\r\n\r\n")
        assert b"event: report" in answer.read()


def test_progress_is_shown_while_files_are_stored(visit, server):
    page = visit(server, "add")
    page.select_option("#add-collection", "notes")
    page.evaluate("""() => {
        window.seen = [];
        new MutationObserver(() => {
            const bar = document.querySelector("#add-outcome progress");
            if (bar) window.seen.push([bar.value, bar.max, document.getElementById("add-progress").textContent]);
        }).observe(
            document.getElementById("add-outcome"),
            { childList: true, subtree: true, attributes: true, characterData: true },
        );
    }""")
    lines = "\n".join(f'{{"id": "many {each}", "text": "The {each}th line of many."}}' for each in range(400))
    with another_ingest(server, "notes"):  # so that the first progress is told before all is done
        page.locator("#add-drop").evaluate(DROP, [["many.jsonl", lines]])
        page.wait_for_function("() => window.seen.some(([, , text]) => text.startsWith('0 documents'))")
    assert counts(page) == {"new": 400}
    assert page.evaluate("window.seen")[0][2].startswith("Sending 1 file")


def test_a_new_collection_needs_a_name(visit, server, files):
    page = visit(server, "add")
    page.select_option("#add-collection", "")
    page.fill("#add-name", " ")
    page.set_input_files("#add-files", files / "garden.md")
    expect(page.locator("#add-outcome [role=alert]")).to_contain_text("Give the new collection a name")


def test_a_refused_name_is_explained_by_the_server(visit, server, files):
    visit.expected = ("400",)
    page = visit(server, "add")
    page.select_option("#add-collection", "")
    page.fill("#add-name", "../elsewhere")
    page.set_input_files("#add-files", files / "garden.md")
    expect(page.locator("#add-outcome [role=alert]")).to_contain_text("expected printable text without /")


def test_a_folder_is_chosen_without_a_mouse(visit, server, files):
    page = visit(server, "add")
    page.select_option("#add-collection", "notes")
    (files / "deep").mkdir()
    (files / "deep" / "shed.md").write_text("# The shed\n\nIt needs paint.", encoding="utf-8")
    page.set_input_files("#add-folder", files)
    assert counts(page) == {"new": 5, "failed": 1}
    expect(page.locator(".failures strong")).to_have_text(f"{files.name}/broken.txt")


def test_files_that_are_dropped_beside_the_area_do_not_take_the_page_away(visit, server):
    page = visit(server, "add")
    beside = """(files) => {
        const transfer = new DataTransfer();
        if (files) transfer.items.add(new File(["A text."], "a.txt"));
        else transfer.setData("text/plain", "A text.");
        return ["dragover", "drop"].map((kind) => {
            const event = new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true });
            document.querySelector("h1").dispatchEvent(event);
            return event.defaultPrevented;
        });
    }"""
    assert page.evaluate(beside, True) == [True, True]
    assert page.evaluate(beside, False) == [False, False]  # a text, which goes into the fields


def test_files_that_come_while_others_are_added_are_told_to_wait(visit, server):
    page = visit(server, "add")
    page.select_option("#add-collection", "notes")
    held = []
    page.route("**/documents", lambda route: held.append(route))
    area = page.locator("#add-drop")
    area.evaluate(DROP, [["first.txt", "The first file."]])
    expect(page.locator("#add-progress")).to_contain_text("Sending 1 file")
    area.evaluate(DROP, [["later.txt", "Another file."]])
    expect(page.locator("#add-outcome .later")).to_contain_text("Wait for their report")
    expect(page.locator("#announce")).to_contain_text("Wait for their report")
    visit.until(page, lambda: held)
    held[0].continue_()
    assert counts(page) == {"new": 1}


def test_an_ingest_that_waits_for_another_says_so(visit, server):
    page = visit(server, "add")
    page.select_option("#add-collection", "notes")
    page.evaluate("""() => {
        window.seen = [];
        new MutationObserver(() => window.seen.push(document.getElementById("add-progress")?.textContent))
            .observe(document.getElementById("add-outcome"), { childList: true, subtree: true, characterData: true });
    }""")
    events = (
        'event: progress\ndata: {"done": 0, "waiting": true}\n\nevent: report\ndata: {"new": 1, "failures": []}\n\n'
    )
    page.route("**/documents", lambda route: route.fulfill(body=events, content_type="text/event-stream"))
    page.locator("#add-drop").evaluate(DROP, [["first.txt", "The first file."]])
    assert counts(page) == {"new": 1}
    assert "Waiting until another ingest of this collection has ended" in page.evaluate("window.seen")


def test_what_was_added_is_searched_in_its_collection(visit, server):
    page = visit(server, "search?query=plumber")
    expect(page.locator(".hits > li").first).to_be_visible()
    page.click("nav a[href='#add']")
    page.select_option("#add-collection", "recipes")
    page.locator("#add-drop").evaluate(DROP, [["tart.md", "# Tart\n\nThe plumber bakes a tart of plums."]])
    counts(page)
    page.get_by_role("link", name="Search them").click()
    expect(page.locator(".place").first).to_contain_text("recipes")
    chosen = page.locator("[name=collection]:checked").evaluate_all("(boxes) => boxes.map((box) => box.value)")
    assert chosen == ["recipes"]
    assert page.input_value("#search-query") == "plumber"
