"""Every Python snippet of the README and the guides runs as written, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "integrations").glob("*/README.md")),
]


def snippets(page: Path) -> list[str]:
    return [token.content for token in MarkdownIt().parse(page.read_text(encoding="utf-8")) if token.info == "python"]


WITH_SNIPPETS = [page for page in PAGES if snippets(page)]


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_snippets_run_one_after_another(page: Path, tmp_path: Path) -> None:
    program = "\n\n".join(snippets(page))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_readme_has_its_three_snippets() -> None:
    assert len(snippets(ROOT / "README.md")) == 3
