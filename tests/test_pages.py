"""Every block of the documentation that a reader may run does run; none escapes the tests in silence."""

from __future__ import annotations

import ast
import shlex
from collections import Counter

import pytest
from markdown_it import MarkdownIt
from tools.docs import documented_names
from typer.main import get_command

import fences
from twinvec.cli import build_app

README = fences.ROOT / "README.md"
PAGES = [page for page in fences.pages() if page != README and any(fence.runs for fence in fences.fences(page))]

NOT_RUN = {
    "changes the settings of the user's shell": {"docs/how-to/shell-completion.md": 2},
    "goes on until Ctrl-C": {"docs/how-to/ingest.md": 1},
    "installs packages": {
        "CONTRIBUTING.md": 2,
        "README.md": 1,
        "docs/how-to/engines.md": 1,
        "docs/how-to/evaluation.md": 1,
        "docs/how-to/export.md": 1,
        "docs/how-to/ingest.md": 1,
        "docs/how-to/serve.md": 1,
        "docs/tutorial.md": 1,
        "integrations/langchain/README.md": 1,
        "integrations/llama_index/README.md": 1,
        "integrations/qdrant/README.md": 1,
    },
    "installs packages and starts a server": {"integrations/serve/README.md": 1},
    "installs packages and starts a cluster": {"docs/how-to/ray.md": 1, "integrations/ray/README.md": 1},
    "needs Docker": {"docs/how-to/serve.md": 1},
    "needs a cluster": {"docs/how-to/ray.md": 3},
    "needs a cluster and a server": {"docs/how-to/ray.md": 1, "docs/scale.md": 1, "integrations/ray/README.md": 1},
    "needs a certificate": {"docs/how-to/serve.md": 1},
    "needs a server": {"integrations/serve/README.md": 1},
    "needs a Qdrant server": {
        "docs/how-to/langchain.md": 2,
        "docs/how-to/llama-index.md": 1,
        "docs/how-to/server.md": 4,
        "docs/tutorial.md": 1,
    },
    "needs a Qdrant cluster": {"docs/how-to/tenants.md": 1},
    "needs a damaged store": {"docs/how-to/backup.md": 1},
    "needs a language model": {"docs/how-to/questions.md": 1},
    "needs a model hub": {"docs/how-to/evaluation.md": 1, "docs/how-to/rerank.md": 1, "docs/how-to/training.md": 1},
    "needs data that you bring": {
        "docs/how-to/configure.md": 1,
        "docs/how-to/evaluation.md": 1,
        "docs/how-to/hard-negatives.md": 1,
    },
    "needs several GPUs": {"docs/how-to/training.md": 1},
    "needs the collection of the demo": {"README.md": 1},
    "runs in a clone, where a test runs it": {"docs/how-to/training.md": 1},
    "the tests cannot run themselves": {"CONTRIBUTING.md": 1, "README.md": 1},
    "the tutorial runs it": {"README.md": 1, "docs/how-to/evaluation.md": 1},
}
"""Reason -> page -> how many of its blocks are shown without being run, for this reason."""


def every_fence():
    return [fence for page in fences.pages() for fence in fences.fences(page)]


def relative(page):
    return page.relative_to(fences.ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_blocks_run_one_after_another(page, tmp_path):
    fences.run(page, tmp_path)


def test_every_block_is_run_or_known_as_shown_only():
    everything = every_fence()
    assert len(everything) > 50
    for fence in everything:
        where = f"{relative(fence.page)}:{fence.line}"
        assert fence.info in (*fences.PYTHON, *fences.SHELL, *fences.SHOWN), f"{where}: unknown language {fence.info!r}"
        collected = fence.page == README or fence.page in PAGES
        assert not fence.runs or collected, f"{where} is run by no test"
    shown = Counter((fence.value, relative(fence.page)) for fence in everything if fence.note == "not run")
    assert shown == {(why, page): count for why, found in NOT_RUN.items() for page, count in found.items()}


@pytest.mark.parametrize("page", fences.pages(), ids=relative)
def test_a_markdown_parser_finds_no_other_blocks(page):
    """Code without a fence, which no test would see, stands in the benchmarks' pages only."""
    lines = {fence.line for fence in fences.fences(page)}
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            assert token.map[0] + 1 in lines
        elif token.type == "code_block":
            within = lines & set(range(token.map[0] + 1, token.map[1] + 1))
            assert within or page.parent.name == "benchmarks", (
                f"{relative(page)}:{token.map[0] + 1}: code without a fence"
            )


def test_commands_that_are_shown_exist():
    app = get_command(build_app())
    lines = [
        line.removeprefix("$ ")
        for fence in every_fence()
        if fence.info in fences.SHELL
        for line in fence.text.split("\n")
    ]
    shown = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("twinvec ")]
    assert len(shown) > 30
    for command, *arguments in shown:
        if command.startswith("--"):
            continue
        options = {each for parameter in app.commands[command].params for each in parameter.opts}
        used = {argument for argument in arguments if argument.startswith("-")}
        assert used <= options, f"twinvec {command} has no {used - options}"


@pytest.mark.slow
def test_names_that_are_imported_are_in_the_reference():
    documented, imported = documented_names(), set()
    programs = [fence.text for fence in every_fence() if fence.info in fences.PYTHON]
    programs += [path.read_text(encoding="utf-8") for path in sorted((fences.ROOT / "examples").glob("*.py"))]
    for program in programs:
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and node.module and "twinvec" in node.module:
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert len(imported) > 30
    assert imported <= documented


PAGE = """
```python
first = 1
```

- a list

    ```sh
    second
    ```

=== "A tab"

    !!! note
        ~~~~ python
        ```
        third
        ~~~~

> ```console
> $ fourth
> printed
> ```

<!-- not run: a reason -->
```sh
fifth
```
"""


def test_blocks_are_found_wherever_they_stand(tmp_path):
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    found = fences.fences(tmp_path / "page.md")
    assert [(fence.info, fence.text) for fence in found] == [
        ("python", "first = 1\n"),
        ("sh", "second\n"),
        ("python", "```\nthird\n"),
        ("console", "$ fourth\nprinted\n"),
        ("sh", "fifth\n"),
    ]
    assert [fence.runs for fence in found] == [True] * 4 + [False]


@pytest.mark.parametrize(
    ("page", "told"),
    [("```python\nprint()\n", "does not end"), ("text ```python\nprint()\n```\n", "begins where it is not seen")],
)
def test_a_block_that_cannot_be_found_is_an_error(page, told, tmp_path):
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    with pytest.raises(AssertionError, match=told):
        fences.fences(tmp_path / "page.md")


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("```python\nraise ValueError('told')\n```", "told"),
        ("```sh\nfalse | cat\n```", "CalledProcessError"),
        ("```python\nprint(1)\n```\n<!-- output -->\n```text\n2\n```", "the output now is\n1"),
    ],
)
def test_a_block_that_fails_or_prints_something_else_fails(page, told, tmp_path):
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    with pytest.raises(AssertionError, match=told):
        fences.run(tmp_path / "page.md", tmp_path)


def test_blocks_share_names_files_and_output(tmp_path):
    page = (
        "<!-- file: name.txt -->\n```text\nAda\n```\n```python\nname = open('name.txt').read().strip()\n```\n"
        "```sh\ncat name.txt\n```\n<!-- output -->\n```text\nA...\n```\n```python\nprint(name)\n```\n"
        "<!-- output -->\n```text\nAda\n```\n"
    )
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    fences.run(tmp_path / "page.md", tmp_path)
