"""With what the page is used: keyboards, phones, dark rooms; servers that are gone or busy."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from http_servers import PathProxy
from http_servers import serving as running

pytestmark = pytest.mark.slow

PARTS = ("search", "add", "similarity", "answers", "map", "bias")
DEMONSTRATIONS = PARTS[2:]
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def parts_shown(page, address):
    """Show one part of an open page after the other."""
    expect(page.locator(".chip")).to_have_count(4)
    for part in PARTS:
        page.goto(f"{address}/#{part}")
        expect(page.locator(f"#panel-{part}")).to_be_visible()
        yield part


def test_a_server_that_is_gone_is_named_and_can_be_asked_again(visit, serving, store, tmp_path):
    visit.expected = ("ERR_CONNECTION_REFUSED",)
    with serving(tmp_path / "store") as (address, process):
        page = visit(address, "similarity")
        page.click("#panel-similarity button.main")
        expect(page.locator("#similarity-outcome .results")).to_be_visible()
        process.terminate()
        process.wait(timeout=120)
        page.click("#panel-similarity button.main")
        expect(page.locator("#similarity-outcome [role=alert]")).to_contain_text("The server does not answer")
        port = address.rpartition(":")[2]
        with serving(tmp_path / "store", "--port", port):
            page.get_by_role("button", name="Try again").click()
            expect(page.locator("#similarity-outcome .results")).to_be_visible()


def test_behind_a_proxy_with_a_path_of_its_own_the_page_and_the_documentation_work(visit, serving, store):
    with PathProxy("/tools/search") as proxy:
        own = f"http://127.0.0.1:{proxy.server_port}"
        with serving(store, "--allow-origin", own) as (address, _), running(proxy):
            proxy.target = int(address.rpartition(":")[2])
            page = visit(f"{own}{proxy.path}", "search")
            page.fill("#panel-search [name=query]", "holidays")
            page.keyboard.press("Enter")
            expect(page.locator("#panel-search .hit").first).to_be_visible()
            page.get_by_role("link", name="HTTP API").click()
            page.get_by_text("/readyz").first.click()
            page.get_by_role("button", name="Try it out").click()
            page.get_by_role("button", name="Execute").click()
            expect(page.locator(".live-responses-table .response-col_status").last).to_contain_text("200")


def test_a_busy_server_is_asked_again_when_it_says_so(visit, server):
    visit.expected = ("429",)
    page = visit(server, "similarity")
    answers = []

    def busy_at_first(route):
        answers.append(route.request.url)
        if len(answers) > 2:
            route.continue_()
            return
        error = {"error": {"message": "the server's queue is full", "type": "rate_limit_error"}}
        route.fulfill(status=429, headers={"Retry-After": "0"}, body=json.dumps(error), content_type="application/json")

    page.route("**/v1/embeddings", busy_at_first)
    page.click("#panel-similarity button.main")
    expect(page.locator("#similarity-outcome .results")).to_be_visible()
    assert len(answers) == 3


def test_the_page_of_a_proxy_is_no_answer(visit, server):
    page = visit(server, "similarity")
    page.route("**/v1/embeddings", lambda route: route.fulfill(body="<html>Log in</html>", content_type="text/html"))
    page.click("#panel-similarity button.main")
    expect(page.locator("#similarity-outcome [role=alert]")).to_contain_text("perhaps from a proxy or a login page")


def test_while_it_waits_the_page_says_so_and_a_new_request_takes_the_place_of_the_old(visit, server):
    visit.expected = ("ERR_FAILED",)
    page = visit(server, "similarity")
    held = []
    page.route("**/v1/embeddings", lambda route: held.append(route) if not held else route.continue_())
    page.click("#panel-similarity button.main")
    visit.until(page, lambda: held)
    expect(page.locator("#similarity-outcome")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#similarity-outcome .ghost")).to_have_count(3)
    expect(page.locator("#announce")).to_have_text("Comparing")
    page.fill("#panel-similarity [name=others]", "The second request.")
    page.click("#panel-similarity button.main")
    expect(page.locator("#similarity-outcome .bar-name")).to_have_text(["The second request."])
    expect(page.locator("#similarity-outcome")).not_to_have_attribute("aria-busy", "true")


def test_what_the_server_has_takes_no_other_announcements_place(visit, server):
    visit.expected = ("ERR_FAILED",)
    page = visit(server, "similarity")
    expect(page.locator("#announce")).to_contain_text("documents to search")
    held = []
    page.route("**/v1/*", lambda route: held.append(route) if len(held) < 2 else route.continue_())
    page.reload()
    expect(page.locator("#announce")).to_have_text("Asking the server what it has")
    visit.until(page, lambda: held)
    page.click("#panel-similarity button.main")
    expect(page.locator("#announce")).to_have_text("Comparing")
    visit.until(page, lambda: len(held) == 2)
    held[0].continue_()
    expect(page.locator(".chip")).to_have_count(4)
    expect(page.locator("#search-outcome")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#announce")).to_have_text("Comparing")


def test_the_keyboard_alone_searches_reads_and_goes_on(visit, server):
    page = visit(server)
    expect(page.locator(".chip")).to_have_count(4)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#search-query")).to_be_focused()
    page.keyboard.type("how do I request holidays")
    page.keyboard.press("Enter")
    title = page.locator(".hits .title").first
    expect(title).to_have_text("Time off")
    for _ in range(20):
        if title.evaluate("(element) => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(title).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#document-title")).to_be_focused()
    for _ in range(6):  # the sheet keeps the focus, or gives it to the browser, and never to what it covers
        page.keyboard.press("Tab")
        assert page.evaluate(
            "() => document.activeElement === document.body || !!document.activeElement.closest('#document')"
        )
    page.keyboard.press("Escape")
    expect(title).to_be_focused()


@pytest.mark.parametrize("part", PARTS)
def test_tab_reaches_everything_shows_where_it_is_and_leaves(visit, server, part):
    page = visit(server, part)
    expect(page.locator(".chip")).to_have_count(4)
    page.evaluate("() => document.activeElement.blur()")
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
            .filter((each) => each.checkVisibility() && each.tabIndex >= 0 && !each.closest("dialog"))
            .filter((each) => each.type !== "radio" || each.checked).length"""
    )
    seen, hidden = set(), []
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
                const at = document.activeElement;
                if (at === document.body) return null;
                const shown = at.matches("[type=checkbox], [type=radio]") ? at.parentElement.querySelector("span") ?? at
                    : at.matches("[type=file]") ? at.nextElementSibling : at;
                const style = getComputedStyle(shown);
                window.order ??= new Map();
                if (!window.order.has(at)) window.order.set(at, window.order.size);
                return [window.order.get(at), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
            }"""
        )
        if at is None:
            break
        seen.add(at[0])
        if not at[1]:
            hidden.append(page.evaluate("() => document.activeElement.outerHTML"))
    assert at is None, "the focus never leaves the page"
    assert len(seen) == wanted
    assert hidden == []


def test_arrow_keys_move_through_the_list_beside_the_map(visit, server):
    page = visit(server, "map")
    page.click("#panel-map button.main")
    sentences = page.locator(".sentence")
    expect(sentences.first).to_be_visible()
    sentences.first.focus()
    page.keyboard.press("ArrowDown")
    expect(sentences.nth(1)).to_be_focused()
    expect(page.locator(".map .tip")).to_have_text(sentences.nth(1).inner_text())
    page.keyboard.press("End")
    expect(sentences.last).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".sentence:focus")).to_have_count(0)


def test_parts_have_addresses_titles_and_a_current_link(visit, server):
    page = visit(server, "bias")
    for part in PARTS:
        page.locator(f"nav a[href='#{part}']").click()
        heading = page.locator(f"#title-{part}")
        expect(heading).to_be_focused()
        assert page.title() == f"{heading.inner_text()} · twinvec"
        assert page.locator("nav a[aria-current=page]").get_attribute("href") == f"#{part}"
        assert page.locator("main > section:visible").count() == 1


@pytest.mark.parametrize("part", PARTS)
def test_a_phone_shows_it_all_without_scrolling_sideways(visit, server, part):
    page = visit(server, part, **PHONE)
    expect(page.locator(".chip")).to_have_count(4)
    if part in DEMONSTRATIONS:
        page.click(f"#panel-{part} button.main")
        expect(page.locator(f"#{part}-outcome .results")).to_be_visible()
    elif part == "search":
        page.fill("#search-query", "holidays")
        page.keyboard.press("Enter")
        expect(page.locator(".hits > li").first).to_be_visible()
        page.locator(".title").first.click()
        expect(page.locator("#document dt").first).to_be_visible()
        page.locator("#document").get_by_role("button", name="Close").click()
    beyond = page.evaluate(
        """() => [...document.querySelectorAll("main *, header *")]
            .filter((each) => each.checkVisibility() && !each.closest(".hidden, svg, .chip, .segments"))
            .filter((each) => each.getBoundingClientRect().right > innerWidth + 0.5)
            .map((each) => each.outerHTML.slice(0, 200))"""
    )
    assert beyond == []
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360


def test_the_narrowest_page_does_not_scroll_sideways(visit, server):
    """320 pixels are what is left of a desk's 1280 at a zoom of 400% (WCAG 1.4.10)."""
    page = visit(server, viewport={"width": 320, "height": 740})
    widths = {}
    for part in parts_shown(page, server):
        if part == "search":
            page.get_by_text("Filter by metadata").click()
            expect(page.locator(".condition")).to_be_visible()
        widths[part] = page.evaluate("() => document.documentElement.scrollWidth")
    assert widths == dict.fromkeys(PARTS, 320)


UNREADABLE = """() => {
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const over = ([red, green, blue, alpha = 1], under) =>
        [red, green, blue].map((each, index) => alpha * each + (1 - alpha) * under[index]);
    const line = (element) => element ? [...line(element.parentElement), element] : [];
    const ground = (element) => line(element).reduce(
        (under, each) => over(numbers(getComputedStyle(each).backgroundColor), under), [255, 255, 255]);
    const faded = (element) => line(element).reduce((all, each) => all * getComputedStyle(each).opacity, 1);
    const luminance = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, index) => {
        const part = colour[index] / 255;
        return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    }, 0);
    const faults = [];
    for (const each of document.querySelectorAll("body *")) {
        if (!each.checkVisibility() || each.closest(".hidden, .skip")) continue;
        const style = getComputedStyle(each);
        const name = each.outerHTML.slice(0, 120);
        if ([...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) {
            const drawing = each.ownerSVGElement;
            const scale = drawing ? drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width : 1;
            if (parseFloat(style.fontSize) * scale < 11.9) faults.push(`small: ${name}`);
            const under = ground(drawing ?? each);
            const [red, green, blue, alpha = 1] = numbers(drawing ? style.fill : style.color);
            const text = luminance(over([red, green, blue, alpha * faded(each)], under));
            const [high, low] = [text, luminance(under)].sort((a, b) => b - a);
            if ((high + 0.05) / (low + 0.05) < 4.5) faults.push(`pale: ${name}`);
        }
        if (each.matches("a, button, select, input:not([type=file]), textarea, summary")) {
            const { width, height } = (each.closest("label:not(.field)") ?? each).getBoundingClientRect();
            const range = each.type === "range";
            if (!range && (width < 23.9 || height < 23.9)) faults.push(`too small to hit: ${name}`);
        }
    }
    return faults;
}"""


@pytest.mark.parametrize(
    "options", [{**PHONE, "color_scheme": "dark"}, {"viewport": {"width": 768, "height": 900}, "color_scheme": "light"}]
)
def test_texts_can_be_read_and_controls_be_hit(visit, server, options):
    """Contrast of 4.5 with what is faded, 12 pixels, targets of 24 pixels: WCAG 2.2, level AA."""
    page = visit(server, **options)
    faults = {}
    for part in parts_shown(page, server):
        if part == "search":
            page.fill("#search-query", "holidays")
            page.keyboard.press("Enter")
            expect(page.locator(".hits > li").first).to_be_visible()
            page.locator(".meanings summary").click()
        elif part in DEMONSTRATIONS:
            page.click(f"#panel-{part} button.main")
            expect(page.locator(f"#{part}-outcome .results")).to_be_visible()
            page.mouse.move(0, 0)
        faults[part] = page.evaluate(UNREADABLE)
    assert faults == {part: [] for part in PARTS}


def test_between_a_phone_and_a_desk_hits_have_the_whole_width(visit, server):
    page = visit(server, "search", viewport={"width": 768, "height": 900})
    page.fill("#search-query", "holidays")
    page.keyboard.press("Enter")
    texts, panel = page.locator(".hit-text").first.bounding_box(), page.locator("#panel-search").bounding_box()
    assert texts["width"] == panel["width"]


def test_forced_colours_still_say_what_is_chosen_and_how_long_a_bar_is(visit, server):
    page = visit(server, "search", forced_colors="active")
    expect(page.locator(".chip")).to_have_count(4)
    page.locator(".chip input").first.uncheck(force=True)
    page.fill("#search-query", "holidays")
    page.keyboard.press("Enter")
    expect(page.locator(".hits > li").first).to_be_visible()

    def ground(selector, at=0):
        return page.locator(selector).nth(at).evaluate("(each) => getComputedStyle(each).backgroundColor")

    assert ground(".chip span", 0) != ground(".chip span", 1)
    assert ground(".segments span", 0) != ground(".segments span", 1)
    assert ground(".bar i") not in (ground("body"), ground(".bar"))
    assert ground("nav a[aria-current]") != ground("nav a:not([aria-current])")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_colour_scheme(visit, server, scheme):
    page = visit(server, color_scheme=scheme)
    red, green, blue = map(
        int, page.evaluate("() => getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")
    )
    assert (red + green + blue > 600) == (scheme == "light")


def test_the_page_needs_few_requests_and_no_second_round(visit, server):
    page = visit(server)
    expect(page.locator(".chip")).to_have_count(4)
    page.wait_for_function("() => performance.getEntriesByName(`${location.origin}/v1/collections`).length")
    entries = page.evaluate(
        "() => performance.getEntriesByType('resource').map((each) => [each.name, each.initiatorType])"
    )
    names = [name.removeprefix(server) for name, _ in entries]
    names.remove("/page/icon.svg")  # the tab's icon and the page's sign are one file
    assert len(names) == len(set(names)) < 30
    assert {name for name in names if not name.startswith("/page/")} == {"/v1/models", "/v1/collections"}
