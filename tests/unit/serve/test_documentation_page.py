"""The documentation of the API in a real browser: drawn under the policy of the server, and from it alone."""

from __future__ import annotations

import shutil

import pytest

from unit.serve.processes import serving

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]


def test_the_documentation_is_drawn_under_the_policy(tmp_path, tiny):
    asked, complaints = [], []
    with serving(tmp_path, tiny) as server, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=120_000)
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{server.address}/docs")
        page.get_by_text("/v1/embeddings").first.click()
        page.get_by_role("button", name="Try it out").first.wait_for()
        assert page.get_by_text("/healthz").count() >= 1
        browser.close()
    assert complaints == []
    assert len(asked) >= 5
    assert all(url.startswith((server.address, "data:")) for url in asked)
