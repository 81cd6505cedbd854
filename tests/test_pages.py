"""Every block of the documentation that a reader may run does run; none escapes the tests in silence."""

from __future__ import annotations

from collections import Counter

import pytest

import fences

README = fences.ROOT / "README.md"
PAGES = [page for page in fences.pages() if page != README and any(fence.runs for fence in fences.fences(page))]

NOT_RUN: dict[str, dict[str, int]] = {}
"""Reason -> page -> how many of its blocks are shown without being run, for this reason."""


def relative(page):
    return page.relative_to(fences.ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_blocks_run_one_after_another(page, tmp_path):
    fences.run(page, tmp_path)


def test_every_block_is_run_or_known_as_shown_only():
    everything = [fence for page in fences.pages() for fence in fences.fences(page)]
    assert len(everything) > 50
    for fence in everything:
        where = f"{relative(fence.page)}:{fence.line}"
        assert fence.info in (*fences.PYTHON, *fences.SHELL, *fences.SHOWN), f"{where}: unknown language {fence.info!r}"
        collected = fence.page == README or fence.page in PAGES
        assert not fence.runs or collected, f"{where} is run by no test"
    shown = Counter((fence.value, relative(fence.page)) for fence in everything if fence.note == "not run")
    assert shown == {(why, page): count for why, found in NOT_RUN.items() for page, count in found.items()}


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


def test_a_block_without_an_end_is_an_error(tmp_path):
    (tmp_path / "page.md").write_text("```python\nprint()\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="does not end"):
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
