"""Take the pictures of the page that the documentation shows: a server over this project's own guides, and Chromium.

    python tools/screenshots.py          # docs/images/page-*.png

It needs Debian's Chromium (``apt-get install chromium``).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SOURCES = {"guides": "docs/how-to", "tutorial": "docs/tutorial.md"}
QUESTION = "change the model while search goes on"
ARGUMENTS = ("--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking")


def main() -> None:
    program = shutil.which("chromium")
    if program is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, _serving(Path(folder)) as address, sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=ARGUMENTS)
        _search(browser, address)
        _demonstrations(browser, address)
        _phone(browser, address)
        browser.close()


def _search(browser: Browser, address: str) -> None:
    page = _opened(browser, f"{address}/#search", 1180, 780)
    _ask(page, QUESTION)
    page.evaluate("document.activeElement.blur()")
    _save(page, "search")


def _demonstrations(browser: Browser, address: str) -> None:
    page = _opened(browser, f"{address}/#similarity", 1180, 900)
    _press(page, "similarity")
    _save(page, "similarity")
    page = _opened(browser, f"{address}/#map", 1180, 800)
    _press(page, "map")
    page.evaluate("document.activeElement.blur()")
    page.locator("#map-outcome").evaluate("(element) => scrollTo({ top: element.offsetTop - 32, behavior: 'instant' })")
    _save(page, "map")
    page = _opened(browser, f"{address}/#bias", 1180, 800)
    _press(page, "bias")
    page.locator("#bias-outcome").evaluate(
        "(element) => scrollTo({ top: element.offsetTop - 32, behavior: 'instant' })"
    )
    _save(page, "bias")


def _phone(browser: Browser, address: str) -> None:
    page = _opened(browser, f"{address}/#search", 360, 740, color_scheme="dark", device_scale_factor=2)
    _ask(page, QUESTION)
    page.locator(".summary").evaluate("(element) => scrollTo({ top: element.offsetTop - 130, behavior: 'instant' })")
    page.evaluate("document.activeElement.blur()")
    _save(page, "phone")


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    """Run a server over collections of ``SOURCES``; give its address."""
    twinvec = [sys.executable, "-m", "twinvec"]
    place = ["--path", str(folder / "store")]
    for name, source in SOURCES.items():
        subprocess.run([*twinvec, "ingest", str(ROOT / source), "--collection", name, *place], check=True)
    command = [*twinvec, "serve", *place, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield str(json.loads(process.stdout.readline())["address"])
        finally:
            process.terminate()


def _opened(browser: Browser, address: str, width: int, height: int, **options: Any) -> Page:
    page = browser.new_context(viewport={"width": width, "height": height}, **options).new_page()
    page.goto(address)
    page.locator(".chip").first.wait_for(state="attached")
    return page


def _ask(page: Page, question: str) -> None:
    """Search; the second time shows how long a search takes when the model has been used."""
    page.fill("#search-query", question)
    for _ in range(2):
        page.keyboard.press("Enter")
        page.locator("#search-outcome:not([aria-busy]) .hits").wait_for()


def _press(page: Page, part: str) -> None:
    page.click(f"#panel-{part} button.main")
    page.locator(f"#{part}-outcome .results").wait_for()
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")


def _save(page: Page, name: str) -> None:
    """Save what the window shows, with few colours."""
    path = IMAGES / f"page-{name}.png"
    page.screenshot(path=path, animations="disabled")
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(path.relative_to(ROOT), f"{path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
