"""Texts that try to run: documents, their ids and metadata, file names, and what is typed in. All are shown as text."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

SCRIPT = "<script>window.ran = 1</script>"
IMAGE = '"><img src=x onerror="window.ran = 1">'


@pytest.fixture
def hostile_visit(visit):
    """``visit`` for pages on which, at the end, nothing has run and nothing has become an element."""
    pages = []

    def opened(*arguments, **options):
        pages.append(visit(*arguments, **options))
        return pages[-1]

    yield opened
    assert pages
    for page in pages:
        assert page.evaluate("() => window.ran") is None
        assert page.locator("main script, main img, dialog script, dialog img").count() == 0
        assert page.locator("script").count() == 1


def test_hits_and_documents_are_text(hostile_visit, server):
    page = hostile_visit(server)
    page.fill("#search-query", "plumber")
    page.keyboard.press("Enter")
    expect(page.locator(".hits .passage", has_text=SCRIPT)).to_be_visible()
    expect(page.locator(".hits .title", has_text=SCRIPT)).to_be_visible()
    for name, told in (("one", [IMAGE, SCRIPT]), (SCRIPT, [IMAGE, "javascript:window.ran=1"])):
        page.locator(".hits .title").get_by_text(name, exact=True).click()
        expect(page.locator("#document .document-text")).to_contain_text(IMAGE)
        for each in told:
            expect(page.locator("#document dl")).to_contain_text(each)
        page.keyboard.press("Escape")
    assert page.locator("#document a, .hits a").count() == 0


def test_what_is_typed_is_text(hostile_visit, server):
    page = hostile_visit(server)
    page.fill("#search-query", IMAGE)
    page.keyboard.press("Enter")
    expect(page.locator("#announce")).to_contain_text("hit")
    for part, fields in {
        "similarity": {"text": IMAGE, "others": f"{SCRIPT}\n{IMAGE}"},
        "answers": {"question": SCRIPT, "passages": f"{IMAGE}\n\n{SCRIPT}"},
        "map": {"sentences": f"{SCRIPT}\n{IMAGE}\nThe third sentence.", "query": IMAGE},
        "bias": {"occupations": f"{SCRIPT}\n{IMAGE}", "female": IMAGE},
    }.items():
        page.goto(f"{server}/#{part}")
        for name, value in fields.items():
            page.fill(f"#panel-{part} [name={name}]", value)
        page.click(f"#panel-{part} button.main")
        expect(page.locator(f"#{part}-outcome .results")).to_contain_text(IMAGE)


def test_files_and_their_failures_are_text(hostile_visit, server):
    page = hostile_visit(server, "add")
    page.select_option("#add-collection", "hostile")
    name = '"><img src=x onerror=window.ran=1>.txt'
    files = [
        {"name": name, "mimeType": "text/plain", "buffer": b"\xff\xfe\x00 no text \x81"},
        {"name": "fine.md", "mimeType": "text/markdown", "buffer": f"# {SCRIPT}\n\n{IMAGE} of files".encode()},
    ]
    page.set_input_files("#add-files", files)
    expect(page.locator(".failures strong")).to_contain_text("<img src=x onerror=window.ran=1>")
    page.goto(f"{server}/#search")
    page.fill("#search-query", '"of files"')
    page.keyboard.press("Enter")
    expect(page.locator(".hits .passage")).to_contain_text(IMAGE)


def test_even_a_mistake_of_the_page_could_not_run_a_text(visit, server):
    """The policy refuses markup that is made from a text, and scripts and handlers within a page."""
    visit.expected = ("TrustedHTML", "Content Security Policy")
    page = visit(server)
    refused = page.evaluate(
        """(text) => {
            try {
                document.querySelector("main").innerHTML = text;
                return false;
            } catch (error) {
                return error instanceof TypeError;
            }
        }""",
        IMAGE,
    )
    assert refused
    assert page.evaluate("() => window.ran") is None
