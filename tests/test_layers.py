"""The architecture: imports between parts, the size of packages, and names that are looked up by a string.

``[tool.importlinter]`` in ``pyproject.toml`` holds the contracts on imports. Import Linter reads the source, so imports
inside functions and for type checkers count too. What it cannot see are modules named in strings: those of lazy
``__init__`` files, entry points and moved modules, which are loaded here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import grimp
import pytest

from twinvec.moved import MOVED

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = {
    ".": "src",
    "integrations/qdrant": "integrations/qdrant",
    "integrations/langchain": "integrations/langchain",
    "integrations/llama_index": "integrations/llama_index",
    "integrations/serve": "integrations/serve",
    "integrations/ray": "integrations/ray",
}
"""Project -> folder of its packages."""
MOST_MODULES = 14


def project(folder: str) -> dict:
    """The ``pyproject.toml`` of a project."""
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def packages() -> dict[str, Path]:
    """The ``__init__`` file of every package, by dotted name."""
    found = {}
    for source in DISTRIBUTIONS.values():
        for init in (ROOT / source).rglob("__init__.py"):
            found[".".join(init.parent.relative_to(ROOT / source).parts)] = init
    return found


def entry_points() -> list[EntryPoint]:
    """The entry points of all distributions, scripts among them."""
    found = []
    for folder in DISTRIBUTIONS:
        metadata = project(folder)["project"]
        groups = {"console_scripts": metadata.get("scripts", {}), **metadata.get("entry-points", {})}
        found += [EntryPoint(*item, group) for group, items in groups.items() for item in items.items()]
    return found


def test_imports_keep_the_contracts():
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"  # it disables loggers
    command = [sys.executable, "-c", lint, "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_contracts_see_all_code():
    """Every package is checked, with the imports inside functions and those for type checkers."""
    settings = project(".")["tool"]["importlinter"]
    assert settings["exclude_type_checking_imports"] is False
    roots = settings["root_packages"]
    assert all(any(name == root or name.startswith(f"{root}.") for root in roots) for name in packages())
    graph = grimp.build_graph(*roots, cache_dir=None, exclude_type_checking_imports=False)
    assert graph.direct_import_exists(importer="twinvec_qdrant.opening", imported="twinvec.encoder")  # in a function
    assert graph.direct_import_exists(importer="twinvec_qdrant.collection", imported="twinvec.rerankers.maxsim")


def test_a_package_has_few_modules():
    sizes = {name: len(list(init.parent.glob("*.py"))) - 1 for name, init in packages().items()}
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES} == {}
    assert max(sizes.values()) > MOST_MODULES // 2


def test_the_page_of_the_architecture_names_modules_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Where to look")[2]
    named = re.findall(r"`((?:twinvec|twinvec_qdrant)(?:\.\w+)+)`", page)
    assert len(named) > 8
    for name in named:
        import_module(name)


def test_lazy_names_resolve():
    lazy = [name for name, init in packages().items() if "lazy_names(" in init.read_text(encoding="utf-8")]
    assert {"twinvec", "twinvec.training.mining", "twinvec_qdrant"} <= set(lazy)
    for name in lazy:
        package = import_module(name)
        assert [each for each in dir(package) if not hasattr(package, each)] == [], name


@pytest.mark.parametrize("point", entry_points(), ids=lambda point: f"{point.group}:{point.name}")
def test_an_entry_point_loads(point):
    assert callable(point.load())


@pytest.mark.parametrize("path", sorted(MOVED.values()))
def test_a_moved_module_is_there(path):
    import_module(path)
