"""The files of the page: how they are served, and what they may not hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient

from twinvec_serve import create_app
from twinvec_serve.page.files import MEDIA_TYPES, page_files

NAMES = sorted(page_files())
TEXTS = {name: file.content.decode() for name, file in page_files().items()}
SCHEMES = {"light": 0, "dark": 1}


class Page(HTMLParser):
    """The tags of index.html with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []
        self._within: str | None = None

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._within = tag if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._within = None

    def handle_data(self, data):
        if self._within and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def client():
    return TestClient(create_app())


@pytest.fixture(scope="module")
def page():
    parser = Page()
    parser.feed(TEXTS["index.html"])
    assert len(parser.tags) > 100
    return parser


def attributes(page, name):
    return [values[name] for _, values in page.tags if name in values]


def test_the_page_and_its_files_are_served_with_their_types(client):
    assert client.get("/").content == page_files()["index.html"].content
    for name in NAMES:
        answer = client.get(f"/page/{name}")
        assert answer.status_code == 200
        assert answer.content == page_files()[name].content
        assert answer.headers["content-type"] == MEDIA_TYPES["." + name.rpartition(".")[2]]
    assert client.get("/favicon.ico").headers["content-type"] == "image/svg+xml"
    assert client.head("/").status_code == 200


@pytest.mark.parametrize("path", ["/", "/page/main.js"])
def test_a_browser_asks_again_and_is_told_that_nothing_changed(client, path):
    first = client.get(path)
    assert first.headers["cache-control"] == "no-cache"
    for known in (first.headers["etag"], f'"other", W/{first.headers["etag"]}', "*"):
        again = client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/page/base.css", "/page/main.js"])
def test_nothing_but_the_servers_own_files_may_run(client, path):
    headers = client.get(path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["object-src"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "name", ["nothing.js", "../files.py", "..%2Ffiles.py", "%2e%2e%2ffiles.py", "/etc/passwd", "index.html%00"]
)
def test_a_request_reaches_no_file_but_those(client, name):
    answer = client.get(f"/page/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"]


def test_the_page_needs_no_key():
    from pydantic import SecretStr

    from twinvec_serve import ServeSettings

    client = TestClient(create_app(ServeSettings(write_keys=(SecretStr("k" * 20),))))
    assert client.get("/").status_code == client.get("/page/main.js").status_code == 200
    assert client.get("/v1/models").status_code == 401


def test_the_page_has_no_inline_script_or_style(page):
    assert page.inline == []
    assert not [name for _, values in page.tags for name in values if name.startswith("on") or name == "style"]
    scripts = [values for tag, values in page.tags if tag == "script"]
    assert [values.get("src") for values in scripts] == ["page/main.js"]


@pytest.mark.parametrize("name", NAMES)
def test_no_file_names_another_place(name):
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", TEXTS[name])
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}  # the name of a namespace, which is never loaded
    assert not re.search(r"@import|url\(", TEXTS[name])


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".js")])
def test_no_script_makes_markup_from_text(name):
    assert not re.search(r"\b(inner|outer)HTML\b|insertAdjacentHTML|document\.write|\beval\(|new Function", TEXTS[name])


def test_all_that_is_named_is_there_and_loaded_at_once(page):
    named = {each for key in ("src", "href") for each in attributes(page, key) if each.startswith("page/")}
    assert {f"page/{name}" for name in NAMES if name != "index.html"} == named
    for name in NAMES:
        for module in re.findall(r'from "\./(.+?)"', TEXTS[name]):
            assert module in NAMES


def test_without_scripts_the_page_begins_with_what_it_needs():
    assert re.search(r'<main [^>]*>\s*<noscript><p class="[^"]*">This page needs JavaScript', TEXTS["index.html"])


def test_the_page_is_small():
    assert sum(len(file.content) for file in page_files().values()) < 120_000


def test_every_field_has_a_label_and_every_reference_a_target(page):
    ids = attributes(page, "id")
    assert len(ids) == len(set(ids))
    for name in ("for", "aria-labelledby", "aria-describedby"):
        assert set(attributes(page, name)) <= set(ids)
    labelled = set(attributes(page, "for"))
    markup = TEXTS["index.html"]
    for match in re.finditer(r"<(?:input|select|textarea)\b[^>]*>", markup):
        identity = re.search(r'id="([^"]+)"', match[0])
        before = markup[: match.start()]
        within_label = before.rfind("<label") > before.rfind("</label>")
        assert within_label or (identity and identity[1] in labelled), match[0]


def test_scripts_ask_for_elements_that_are_there(page):
    ids = set(attributes(page, "id"))
    asked = {each for text in TEXTS.values() for each in re.findall(r'find\("([^"]+)"\)', text)}
    assert len(asked) > 20
    assert asked <= ids


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("one", "other", "least"),
    [
        ("ink", "paper", 7),
        ("ink", "raised", 7),
        ("ink", "mark", 4.5),
        ("ink", "bad-soft", 4.5),
        ("soft", "paper", 4.5),
        ("soft", "raised", 4.5),
        ("accent", "paper", 4.5),
        ("accent", "accent-soft", 4.5),
        ("accent-ink", "accent", 4.5),
        ("bad", "paper", 4.5),
        ("control", "paper", 3),
        ("control", "raised", 3),
        ("accent", "sunk", 3),
    ],
)
def test_colours_are_far_enough_apart_to_be_read(scheme, one, other, least):
    """Contrast as WCAG 2.2 defines it: 4.5 for text, 3 for the edges of controls and for bars."""
    colours = re.split(r"prefers-color-scheme: dark", TEXTS["base.css"])
    found = {name: dict(re.findall(r"--([\w-]+): #([0-9a-f]{6});", colours[index])) for name, index in SCHEMES.items()}[
        scheme
    ]
    light, dark = sorted((luminance(found[one]), luminance(found[other])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= least


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
