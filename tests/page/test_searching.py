"""Search in the browser: hits with their scores, passages and documents; modes, syntax, collections, relevance."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from playwright.sync_api import expect

from twinvec_qdrant import Collection

pytestmark = pytest.mark.slow

QUESTION = "how do I request holidays"


def search(page, query):
    page.fill("#search-query", query)
    page.click("#search-form button.main")
    expect(page.locator("#search-outcome")).not_to_have_attribute("aria-busy", "true")
    return page.locator(".hits > li")


def only(page, *names):
    """Choose collections."""
    expect(page.locator(".chip")).to_have_count(4)
    for chip in page.locator(".chip").all():
        chip.locator("input").set_checked(chip.inner_text().split()[0] in names, force=True)


def test_a_hit_has_its_place_its_passage_and_the_score_of_each_stage(visit, server):
    page = visit(server)
    hits = search(page, QUESTION)
    first = hits.first
    expect(first.locator(".title")).to_have_text("Time off")
    assert first.locator(".place").inner_text() == "handbook · leave.md"
    assert first.locator("mark").all_inner_texts() == ["Holidays", "requested"]
    names = first.locator(".bar-name").all_inner_texts()
    assert names == ["relevance", "meaning (dense)", "words (sparse)", "both (fused)"]
    assert all(re.fullmatch(r"\d+%|-?\d+\.\d\d", value) for value in first.locator(".bar-value").all_inner_texts())
    track, filled = (first.locator(f".lead-row .bar{part}").bounding_box()["width"] for part in ("", " i"))
    relevance = int(first.locator(".lead-row .bar-value").inner_text().removesuffix("%"))
    assert 100 * filled / track == pytest.approx(relevance, abs=2)
    expect(page.locator(".summary")).to_contain_text(re.compile(r"^\d+ hits in \d+ ms"))


def test_a_passage_of_several_hits_is_shown_once(visit, server):
    page = visit(server)
    only(page, "handbook")
    wanted = search(page, QUESTION)
    answered = wanted.first.locator(".passage").inner_text()

    def twice(route):
        found = route.fetch().json()
        for result in found.get("results", [found]):
            result["hits"].insert(2, {**result["hits"][0], "id": "copy.md", "payload": {}})
        route.fulfill(json=found)

    page.route("**/search", twice)
    hits = search(page, QUESTION)
    expect(hits.nth(2).locator(".title")).to_have_text("copy.md")
    expect(hits.nth(2).locator(".passage")).to_have_count(0)
    expect(hits.nth(2)).to_contain_text("The same passage as in Time off")
    assert hits.first.locator(".passage").inner_text() == answered
    page.unroute("**/search")


def test_reranking_adds_its_stage(visit, server):
    page = visit(server)
    only(page, "handbook")
    search(page, QUESTION)
    page.select_option("#search-rerank", "maxsim")
    expect(page.locator(".hits > li").first).to_contain_text("token by token (maxsim)")


def test_modes_compare_meaning_or_words(visit, server):
    page = visit(server)
    hits = search(page, QUESTION)
    for mode, there, absent in (("meaning", "dense", "sparse"), ("words", "sparse", "dense")):
        page.locator(".segments label", has_text=mode).click()
        expect(hits.first).not_to_contain_text(absent)
        expect(hits.first).to_contain_text(there)


def test_phrases_must_occur_and_words_must_not(visit, server):
    page = visit(server)
    expect(search(page, '"service desk"')).to_have_count(1)
    expect(page.locator(".hits .title")).to_have_text("Lost devices")
    search(page, "portal -holidays")
    titles = page.locator(".hits .title").all_inner_texts()
    assert titles[0] == "Working from elsewhere"
    assert "Time off" not in titles


def test_only_the_chosen_collections_are_searched(visit, server):
    page = visit(server)
    only(page, "recipes")
    expect(search(page, "holidays")).to_have_count(2)
    assert {place.split(" · ")[0] for place in page.locator(".place").all_inner_texts()} == {"recipes"}
    only(page, "recipes", "handbook")
    expect(page.locator(".hits > li")).to_have_count(7)
    expect(page.locator(".hits .title").first).to_have_text("Time off")
    only(page)
    search(page, "holidays")
    expect(page.locator("#search-outcome [role=alert]")).to_contain_text("Choose at least one collection")


def test_the_least_relevance_leaves_out_what_does_not_answer(visit, server):
    page = visit(server)
    everything = search(page, QUESTION).count()
    page.locator("#search-relevance").fill("60")
    expect(page.locator("#search-relevance-shown")).to_have_text("60%")
    expect(page.locator(".hits > li")).not_to_have_count(everything)
    shown = page.locator(".lead-row .bar-value").all_inner_texts()
    assert shown
    assert all(int(each.removesuffix("%")) >= 60 for each in shown)
    search(page, "migration of geese in autumn")
    expect(page.locator("#search-outcome .empty-title")).to_have_text("Nothing found")


def test_a_document_opens_with_its_metadata_and_its_passage(visit, server):
    page = visit(server)
    search(page, QUESTION)
    title = page.locator(".title", has_text="Time off")
    title.click()
    sheet = page.locator("#document")
    expect(sheet.locator(".document-text")).to_contain_text("Unused days expire at the end of March 🌱 next year.")
    metadata = dict(zip(sheet.locator("dt").all_inner_texts(), sheet.locator("dd").all_inner_texts(), strict=True))
    assert metadata == {"collection": "handbook", "id": "leave.md", "team": "people", "year": "2024"}
    expect(sheet.locator("mark")).to_contain_text("Holidays are requested two weeks ahead, in the portal.")
    expect(sheet.get_by_role("heading")).to_have_text("Time off")
    sheet.get_by_role("button", name="Go to the passage").click()
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(title).to_be_focused()


def test_hits_go_to_the_map(visit, server):
    page = visit(server)
    only(page, "handbook")
    search(page, QUESTION)
    page.get_by_role("button", name="Show them on the map").click()
    expect(page.locator("#map-outcome .point")).to_have_count(5)
    assert page.input_value("#panel-map [name=query]") == QUESTION
    expect(page).to_have_title("Map · twinvec")
    page.go_back()
    expect(page.locator(".hits > li:visible")).to_have_count(5)


def test_more_hits_are_a_click_away(visit, server):
    page = visit(server)
    only(page, "notes")
    hits = search(page, "note about the garden")
    expect(hits).to_have_count(10)
    page.get_by_role("button", name="More hits").click()
    expect(hits).to_have_count(12)
    expect(page.get_by_role("button", name="More hits")).to_have_count(0)


def test_an_empty_query_is_a_mistake(visit, server):
    page = visit(server)
    search(page, "  ")
    expect(page.locator("#search-outcome [role=alert]")).to_contain_text("Type what to search for")


def test_a_server_without_collections_says_how_to_begin(visit, files_only):
    page = visit(files_only)
    expect(page.locator("#search-outcome")).to_contain_text("There are no collections yet")
    page.locator("#search-outcome").get_by_role("link", name="Add documents").click()
    expect(page.get_by_role("heading", name="Add documents")).to_be_focused()


def conditions(page):
    """The values of the fields of each condition."""
    read = "(rows) => rows.map((row) => [...row.querySelectorAll('select, input')].map((field) => field.value))"
    return page.locator(".condition").evaluate_all(read)


def test_conditions_on_metadata_filter_and_are_in_the_address(visit, server):
    page = visit(server)
    expect(search(page, "portal")).to_have_count(10)
    page.get_by_text("Filter by metadata").click()
    first = page.locator(".condition").first
    expect(first.get_by_label("Key").locator("option")).to_have_text(["list", "note", "team", "year"])
    first.get_by_label("Key").select_option("year")
    first.get_by_label("Relation").select_option("is at least")
    first.get_by_label("Value").fill("2024")
    page.keyboard.press("Enter")
    expect(page.locator(".hits > li")).to_have_count(3)
    page.get_by_role("button", name="Add a condition").click()
    second = page.locator(".condition").nth(1)
    expect(second.get_by_label("Key")).to_be_focused()
    second.get_by_label("Key").select_option("team")
    second.get_by_label("Relation").select_option("is not")
    second.get_by_label("Value").fill("it")
    page.keyboard.press("Enter")
    expect(page.locator(".hits .title")).to_have_text(["Time off", "Expenses"])
    assert settings(page) == [("query", "portal"), ("where", "year >= 2024"), ("where", "team != it")]
    again = visit(server, page.url.partition("#")[2])
    expect(again.locator(".hits .title")).to_have_text(["Time off", "Expenses"])
    assert conditions(again) == [["year", ">=", "2024"], ["team", "!=", "it"]]
    page.get_by_role("button", name="Remove").first.click()
    expect(page.locator(".hits > li")).not_to_have_count(2)
    assert settings(page) == [("query", "portal"), ("where", "team != it")]
    expect(page.get_by_role("button", name="Add a condition")).to_be_focused()
    search(page, "holidays")
    page.go_back()
    expect(page.locator("#search-query")).to_have_value("portal")
    assert conditions(page) == [["team", "!=", "it"]]


@pytest.fixture(scope="module")
def mixed(encoder, serving, tmp_path_factory):
    """A server whose collections keep the same metadata as different kinds of values."""
    folder = tmp_path_factory.mktemp("mixed") / "store"
    kinds = {"values": (2024, True), "texts": ("2024", "true"), "others": (2020, False)}
    for name, (year, done) in kinds.items():
        with Collection.open(name, path=folder, encoder=encoder) as collection:
            payload = {"year": year, "done": done, "open": True, "day": f"{year}-05-01"}
            collection.ingest([{"id": f"{name}.md", "text": "The portal opens.", **payload}])
    with serving(folder) as (address, _):
        yield address


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("year = 2024", {"texts.md", "values.md"}),
        ("year != 2024", {"others.md"}),
        ("year >= 2021", {"values.md"}),
        ("done = True", {"values.md"}),
        ("done = true", {"texts.md", "values.md"}),
        ("day >= 2021-01-01", {"texts.md", "values.md"}),
    ],
)
def test_filters_take_values_as_each_collection_keeps_them(visit, mixed, condition, found):
    page = visit(mixed, f"search?{urlencode({'query': 'portal', 'where': condition})}")
    expect(page.locator(".hits .title")).to_have_count(len(found))
    assert set(page.locator(".hits .title").all_inner_texts()) == found


def test_filters_offer_limits_where_values_have_an_order(visit, mixed):
    page = visit(mixed, f"search?{urlencode({'query': 'portal', 'where': 'year = Infinity', 'in': 'others'})}")
    expect(page.locator("#search-outcome .empty")).to_contain_text("fewer conditions")
    row = page.locator(".condition").first
    relations = row.get_by_label("Relation").locator("option")
    expect(relations).to_have_count(4)
    row.get_by_label("Value").fill("2021")
    row.get_by_label("Relation").select_option("is at least")
    row.get_by_label("Key").select_option("done")
    expect(relations).to_have_count(4)  # texts in one collection
    row.get_by_label("Key").select_option("open")
    expect(relations).to_have_text(["is", "is not"])
    expect(row.get_by_label("Relation")).to_have_value("=")


def test_filters_need_no_collection_that_cannot_be_read(visit, server):
    visit.expected = ("409",)
    page = visit(server)
    refusal = {"error": {"code": "conflict", "message": "cannot be read"}}
    page.route("**/v1/collections/hostile", lambda route: route.fulfill(status=409, json=refusal))
    only(page, "handbook")
    page.get_by_text("Filter by metadata").click()
    row = page.locator(".condition")
    expect(row.get_by_label("Key").locator("option")).to_have_text(["team", "year"])
    row.get_by_label("Key").select_option("year")
    row.get_by_label("Value").fill("2024")
    expect(search(page, "portal")).to_have_count(3)


def test_an_address_with_conditions_that_nobody_wrote_is_mended(visit, server):
    page = visit(server, "search?query=portal&where=rubbish")
    expect(page.locator(".hits > li")).to_have_count(10)
    assert settings(page) == [("query", "portal")]
    page.goto(f"{server}/#search?query=portal&where=nobody+%3D+it")
    expect(page.locator("#search-outcome .empty")).to_contain_text("fewer conditions")
    assert conditions(page) == [["nobody", "=", "it"]]


def test_a_server_without_metadata_says_so(visit, files_only):
    page = visit(files_only)
    expect(page.locator("#search-outcome")).to_contain_text("There are no collections yet")
    page.get_by_text("Filter by metadata").click()
    expect(page.locator("#filter-hint")).to_have_text("The collections have no metadata.")
    expect(page.get_by_role("button", name="Add a condition")).to_be_disabled()


def settings(page):
    """The settings in the page's address."""
    return parse_qsl(urlsplit(page.url).fragment.partition("?")[2])


def test_the_address_names_the_search_and_the_way_back_leads_to_the_one_before(visit, server):
    page = visit(server)
    only(page, "handbook", "recipes")
    search(page, "sour bread")
    assert settings(page) == [("query", "sour bread"), ("in", "handbook"), ("in", "recipes")]
    page.locator(".segments label", has_text="words").click()
    expect(page.locator(".hits")).not_to_contain_text("dense")
    first = page.url
    assert settings(page)[-1] == ("mode", "sparse")
    search(page, "service desk")
    page.locator(".segments label", has_text="auto").click()
    expect(page.locator(".hits")).to_contain_text("dense")
    only(page, "handbook", "recipes", "notes", "hostile")
    assert settings(page) == [("query", "service desk")]  # in all collections, also those of later
    page.go_back()
    expect(page.locator(".hits .title").first).to_have_text("Rye bread")
    assert page.url == first
    assert page.input_value("#search-query") == "sour bread"
    expect(page.locator("[name=mode]:checked")).to_have_value("sparse")
    expect(page.locator("[name=collection]:checked")).to_have_count(2)
    page.click("nav a[href='#map']")
    page.click("nav a[href='#search']")
    expect(page).to_have_url(first)


def test_a_link_to_a_search_shows_it_again(visit, server):
    page = visit(server, "search?query=holidays&in=handbook&mode=dense&rerank=maxsim&relevance=5")
    expect(page.locator(".hits .title").first).to_have_text("Time off")
    expect(page.locator(".hits > li").first).to_contain_text("token by token (maxsim)")
    assert page.locator("[name=collection]:checked").evaluate_all("(boxes) => boxes.map((box) => box.value)") == [
        "handbook"
    ]
    expect(page.locator("#search-relevance-shown")).to_have_text("5%")
    assert page.title() == "Search · twinvec"


def test_an_address_with_settings_that_do_not_exist_is_mended(visit, server):
    page = visit(server)
    expect(page.locator(".chip")).to_have_count(4)
    page.goto(f"{server}/#search?query=bread&mode=none&rerank=none-such&relevance=high&other=1")
    expect(page.locator(".hits .title").first).to_have_text("Rye bread")
    assert settings(page) == [("query", "bread")]
    mended = page.url
    page.go_back()
    expect(page).to_have_url(mended)
    expect(page.locator(".hits .title").first).to_have_text("Rye bread")


def test_the_address_names_the_open_document_and_the_way_back_closes_it(visit, server):
    page = visit(server)
    search(page, QUESTION)
    before = page.url
    page.locator(".title", has_text="Time off").click()
    expect(page.locator("#document dt").first).to_be_visible()
    link = page.url
    assert settings(page)[-2:] == [("collection", "handbook"), ("document", "leave.md")]
    page.go_back()
    expect(page.locator("#document")).to_be_hidden()
    page.go_forward()
    expect(page.locator("#document dt").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(before)
    again = visit(link.partition("/#")[0], link.partition("/#")[2])
    expect(again.locator("#document .document-text")).to_contain_text("Unused days expire")
    expect(again.locator("#document-title")).to_have_text("Time off")
    expect(again.locator(".hits > li").first).to_be_attached()
    again.locator("#document").get_by_role("button", name="Close").click()
    expect(again).to_have_url(before)


HELD = """(() => {
    window.held = [];
    window.backs = 0;
    history.back = () => { window.backs += 1; };
    const add = HTMLDialogElement.prototype.addEventListener;
    HTMLDialogElement.prototype.addEventListener = function (type, listener, ...rest) {
        const heard = (event) => window.held.push(() => listener.call(this, event));
        add.call(this, type, type === "close" ? heard : listener, ...rest);
    };
})();"""
RELEASE = "() => window.held.splice(0).map((hear) => hear()).length"


def test_a_document_that_is_closed_takes_no_other_away(visit, server):
    """The browser tells that a document was closed when the address names another, or the same again."""
    page = visit(server)
    page.add_init_script(HELD)
    page.reload()
    search(page, QUESTION)
    page.locator(".title", has_text="Time off").click()
    expect(page.locator("#document dt").first).to_be_visible()
    page.go_back()
    expect(page.locator("#document")).to_be_hidden()
    page.go_forward()
    expect(page.locator("#document dt").first).to_be_visible()
    visit.until(page, lambda: page.evaluate(RELEASE) == 1)
    page.keyboard.press("Escape")
    expect(page.locator("#document")).to_be_hidden()
    page.locator(".title", has_text="Expenses").click()
    expect(page.locator("#document .document-text")).to_contain_text("Receipts")
    visit.until(page, lambda: page.evaluate(RELEASE) == 1)
    assert page.evaluate("() => window.backs") == 0
    page.keyboard.press("Escape")
    visit.until(page, lambda: page.evaluate(RELEASE) == 1)
    assert page.evaluate("() => window.backs") == 1


def test_a_document_with_thousands_of_keys_shows_its_text_at_once(visit, serving, encoder, tmp_path):
    from twinvec_qdrant import Collection

    keys = {f"key {number}": number for number in range(3000)}
    with Collection.open("wide", path=tmp_path / "store", encoder=encoder) as wide:
        wide.ingest([{"id": "keys", "title": " ", "text": "The plumber has many keys.", "long": "v" * 20_000, **keys}])
    with serving(tmp_path / "store") as (address, _):
        page = visit(address, "search?query=plumber&collection=wide&document=keys")
        expect(page.locator("#document .document-text")).to_be_in_viewport()
        expect(page.locator("#document-title")).to_have_text("keys")
        expect(page.locator("#document summary", has_text="20,000 characters")).to_have_count(1)
        page.locator("#document summary", has_text="2,983 more").click()
        expect(page.locator("#document dt", has_text="key 2999")).to_be_visible()
        page.wait_for_load_state("networkidle")


HITS = """async (hits) => {
    const { hitList } = await import("/page/hits.js");
    document.getElementById("search-outcome").replaceChildren(hitList(hits));
}"""
OVERRIDE = "\N{RIGHT-TO-LEFT OVERRIDE}"


def test_titles_of_any_length_and_direction_keep_their_place(visit, files_only):
    page = visit(files_only)
    expect(page.locator("#search-outcome")).to_contain_text("There are no collections yet")
    texts = [
        ("x" * 400, "A " * 250, "A text.\n\n\n\n\n\nIts end."),
        (f"{OVERRIDE}abc", "دليل", "السباك يصلح الأنابيب."),
    ]
    hits = [
        {"id": name, "collection": "words", "text": text, "scores": {}, "payload": {"title": title, "heading": "  "}}
        for name, title, text in texts
    ]
    page.evaluate(HITS, hits)
    assert page.locator(".title").first.bounding_box()["height"] < 90
    assert page.locator(".passage").first.bounding_box()["height"] < 90
    assert page.locator(".place").nth(1).locator("span").all_inner_texts() == ["words", f"{OVERRIDE}abc"]
    shown = (
        page.locator(".passage")
        .nth(1)
        .evaluate(
            """(passage) => {
            const range = document.createRange();
            range.selectNodeContents(passage);
            const [text, place] = [range.getBoundingClientRect(), passage.getBoundingClientRect()];
            return [text.left - place.left, place.right - text.right];
        }"""
        )
    )
    assert shown[0] > 50 > 1 > shown[1]  # at the right
