"""A real server and a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ARGUMENTS = (
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HANDBOOK = [
    {
        "id": "leave.md",
        "title": "Time off",
        "text": "Holidays are requested two weeks ahead, in the portal.\n\n"
        "Unused days expire at the end of March 🌱 next year.",
        "team": "people",
        "year": 2024,
    },
    {
        "id": "parental.md",
        "title": "Parental leave",
        "text": "Parents take up to three years of leave. The request is made seven weeks before it begins.",
        "team": "people",
        "year": 2023,
    },
    {
        "id": "vpn.md",
        "title": "Working from elsewhere",
        "text": "The VPN client is installed from the portal. It asks for a second factor at every start.",
        "team": "it",
        "year": 2024,
    },
    {
        "id": "laptops.md",
        "title": "Lost devices",
        "text": "A lost laptop is reported to the service desk within a day, at any hour.",
        "team": "it",
        "year": 2022,
    },
    {
        "id": "expenses.md",
        "title": "Expenses",
        "text": "Receipts are handed in by the fifth of the month, and paid at its end.",
        "team": "finance",
        "year": 2024,
    },
]
RECIPES = [
    {"id": "soup.md", "title": "Onion soup", "text": "Onions are browned slowly in butter, then cooked in broth."},
    {"id": "bread.md", "title": "Rye bread", "text": "The sour dough rests overnight. The bread is baked for an hour."},
]
SCRIPT = "<script>window.ran = 1</script>"
IMAGE = '"><img src=x onerror="window.ran = 1">'
HOSTILE = [
    {"id": "one", "text": f"{SCRIPT} The plumber {IMAGE} comes on Friday.", "note": IMAGE, "list": [SCRIPT]},
    {"id": f"two {IMAGE}", "title": SCRIPT, "text": f"A plumber repairs pipes. {IMAGE}", "javascript:window.ran=1": 1},
]
NOTES = [{"id": f"note {number}", "text": f"Note {number} about the garden."} for number in range(12)]
COLLECTIONS = {"handbook": HANDBOOK, "recipes": RECIPES, "hostile": HOSTILE, "notes": NOTES}


@contextmanager
def _serving(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run ``twinvec serve`` over a store; give its address and its process."""
    from twinvec.engines.graph_cache import cache_folder

    command = [sys.executable, "-m", "twinvec", "serve", "--path", str(folder), "--port", "0", "--json", *options]
    # the graphs of this process' cache: no server converts the model again
    environment = {**os.environ, "HOME": str(folder.parent), "TWINVEC_CACHE": str(cache_folder())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder.parent, env=environment) as process:
        try:
            yield json.loads(process.stdout.readline())["address"], process
        finally:
            process.terminate()
            assert process.wait(timeout=120) == 0


@pytest.fixture(scope="session")
def serving():
    """``with serving(folder, "--api-key-file", file) as (address, process)``: a real server over a store."""
    return _serving


@pytest.fixture(scope="session")
def filled_store(encoder, tmp_path_factory) -> Path:
    """A folder with the collections."""
    from twinvec_qdrant import Collection

    folder = tmp_path_factory.mktemp("page") / "store"
    for name, documents in COLLECTIONS.items():
        with Collection.open(name, path=folder, encoder=encoder) as collection:
            assert collection.ingest(documents).new == len(documents)
    return folder


@pytest.fixture(scope="module")
def store(filled_store, tmp_path_factory) -> Iterator[Path]:
    """A copy of it that the tests of one file may change; it goes afterwards, since it lies in memory."""
    folder = tmp_path_factory.mktemp("copy")
    yield shutil.copytree(filled_store, folder / "store")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(store, prompted_model) -> Iterator[str]:
    """The address of a server with the collections, the default model, and one that has prompts."""
    with _serving(store, "--model", "default", "--model", f"{prompted_model}=prompted") as (address, _):
        yield address


@pytest.fixture(scope="module")
def files_only(tmp_path_factory, prompted_model) -> Iterator[str]:
    """The address of a server that has no collections."""
    with _serving(tmp_path_factory.mktemp("none") / "store", "--model", f"{prompted_model}=prompted") as (address, _):
        yield address


@pytest.fixture(scope="session")
def prompted_model(tiny_model, tmp_path_factory) -> Path:
    """A model that encodes queries and documents in different ways, with its graph: servers need not import torch."""
    from twinvec.export.model import export_model

    model = tiny_model("bert", prompts={"query": "find: ", "document": "passage: "})
    return export_model(model, tmp_path_factory.mktemp("prompted") / "model").folder


@pytest.fixture(scope="module")
def browser():
    """Chromium, without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    playwright.expect.set_options(timeout=60_000)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=120_000)
        yield browser
        browser.close()


class Visitor:
    """Opens pages, and keeps what they asked for and what they complained about."""

    def __init__(self, browser) -> None:
        self._browser = browser
        self._contexts = []
        self.hosts: set[str] = set()
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()

    def __call__(self, address, part="", **options):
        """Open a part of the page; options are those of a context, such as ``viewport``."""
        context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(60_000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on("websocket", lambda socket: self.hosts.add(socket.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._on_console)
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.goto(f"{address}/#{part}")
        return page

    @staticmethod
    def until(page, condition):
        """Wait for what only the test knows, such as that one of its routes has got a request."""
        while not condition():
            page.wait_for_timeout(10)  # the events of the page are taken in meanwhile

    def _on_console(self, message):
        if message.type in ("error", "warning") and not any(each in message.text for each in self.expected):
            self.complaints.append(f"{message.text} {message.location['url']}")

    def close(self):
        for context in self._contexts:
            context.close()


@contextmanager
def _visiting(browser) -> Iterator[Visitor]:
    """Give a visitor; no request leaves this machine, and the browser has nothing to complain of."""
    visitor = Visitor(browser)
    yield visitor
    visitor.close()
    assert visitor.hosts
    assert all(host.partition(":")[0] == "127.0.0.1" for host in visitor.hosts), visitor.hosts
    assert visitor.complaints == []


@pytest.fixture
def visit(browser):
    """``visit(address, "map")``: a page for one test."""
    with _visiting(browser) as visitor:
        yield visitor


@pytest.fixture(scope="module")
def empty_page(browser, files_only):
    """The page of a server without collections, for all tests of a file that call its functions and change nothing."""
    with _visiting(browser) as visitor:
        yield visitor(files_only)
