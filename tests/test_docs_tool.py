"""The documentation's tool: what it writes about commands, and which faults it finds in a finished page."""

from __future__ import annotations

import pytest
from tools import docs

import twinvec
import twinvec_qdrant


def test_the_page_of_commands_has_every_command_with_its_options():
    page = docs.commands_page()
    for command in ("encode", "train", "evaluate", "export", "ingest", "search", "migrate"):
        assert f"### twinvec {command} {{ #twinvec-{command} }}" in page
    search = page.split("### twinvec search ")[1].split("### twinvec ")[0]
    assert "| --limit &lt;int range&gt; |" in search
    assert "\\[default: 10; 1&lt;=x&lt;=10000\\]" in search
    assert '```sh\ntwinvec search "how do I renew a certificate" -c docs --rerank maxsim\n' in search
    assert "```sh\nclaude mcp add docs -- twinvec mcp " in page  # an example need not begin with twinvec
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings)), headings


def test_the_reference_has_every_public_name_of_the_packages_once():
    named = [name for subject in docs.SUBJECTS.values() for name in docs.names_of(subject)]
    assert len(named) == len(set(named))
    for package in (twinvec, twinvec_qdrant):
        public = {name for name in package.__all__ if not name.startswith("_")}
        assert public == {name.rpartition(".")[2] for name in named if name.rpartition(".")[0] == package.__name__}


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://example.org/a.js"></script>',
        '<img alt="" src="http://example.org/a.png">',
        '<link rel="stylesheet" href="https://example.org/a.css">',
        "<p>[<code>Encoder</code>][twinvec.Encoder]</p>",
        "<p>\n::: twinvec.Encoder</p>",
    ],
)
def test_remote_files_and_unresolved_references_are_faults(html, tmp_path, monkeypatch):
    monkeypatch.setattr(docs, "SITE", tmp_path)
    (tmp_path / "page.html").write_text(f"<html>{html}</html>", encoding="utf-8")
    (fault,) = docs.faults_of(tmp_path / "page.html")
    assert fault.startswith("page.html ")


def test_links_and_own_files_are_no_faults(tmp_path):
    (tmp_path / "page.html").write_text(
        '<link rel="canonical" href="https://example.org/"><a href="https://example.org">a</a><script src="a.js">',
        encoding="utf-8",
    )
    assert not list(docs.faults_of(tmp_path / "page.html"))
