"""Adding documents in the browser: files that are chosen or dropped, progress, the report with what failed."""

from __future__ import annotations

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
    page.locator("#add-drop").evaluate(DROP, [["many.jsonl", lines]])
    assert counts(page) == {"new": 400}
    seen = page.evaluate("window.seen")
    assert seen[0][2].startswith("Sending 1 file")
    assert any(text.startswith(("0 ", "1 ", "2 ", "3 ", "4 ")) for _, _, text in seen)


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
