"""A server that wants a key, which the page asks for."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

READ, WRITE = "read-" + "r" * 20, "write-" + "w" * 20


@pytest.fixture(scope="module")
def closed_server(serving, store, tmp_path_factory):
    """The address of a server that wants a key."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"read {READ}\nwrite {WRITE}\n", encoding="utf-8")
    with serving(store, "--api-key-file", str(keys)) as (address, _):
        yield address


def give_key(page, key):
    type_key(page, key)
    expect(page.locator("#key")).to_be_hidden()


def type_key(page, key):
    expect(page.locator("#key")).to_be_visible()
    page.fill("#key-value", key)
    page.keyboard.press("Enter")


def test_a_server_with_keys_is_asked_once_with_the_key_of_this_tab(visit, closed_server):
    visit.expected = ("401",)
    page = visit(closed_server)
    type_key(page, "wrong-" + "x" * 20)  # the dialog comes back as soon as the server has refused it
    expect(page.locator("#key-hint")).to_contain_text("refuses this key")
    give_key(page, READ)
    expect(page.locator(".chip")).to_have_count(4)
    assert page.evaluate("() => [sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
    page.reload()
    expect(page.locator(".chip")).to_have_count(4)
    expect(page.locator("#key")).to_be_hidden()
    assert READ not in page.content()


def test_without_a_key_the_page_says_why_it_shows_nothing(visit, closed_server):
    visit.expected = ("401",)
    page = visit(closed_server)
    expect(page.locator("#key")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#search-outcome [role=alert]")).to_contain_text("key")
    page.get_by_role("button", name="Try again").click()
    give_key(page, WRITE)
    expect(page.locator("#search-outcome")).to_contain_text("documents to search")


def test_a_key_that_may_only_read_adds_nothing(visit, closed_server):
    visit.expected = ("401", "403")
    page = visit(closed_server, "add")
    give_key(page, READ)
    expect(page.locator("#add-collection option")).to_have_count(5)
    page.select_option("#add-collection", "recipes")
    page.set_input_files("#add-files", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"A text."})
    expect(page.locator("#add-outcome [role=alert]")).to_contain_text("may not write")
    page.get_by_role("button", name="Key", exact=True).click()
    give_key(page, WRITE)
    page.locator("#add-outcome").get_by_role("button", name="Try again").click()
    expect(page.locator(".report dd")).to_have_text(["1"])
