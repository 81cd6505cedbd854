"""The four distributions as they are published: what their wheels hold, what they say, what they depend on."""

from __future__ import annotations

import ast
import email
import re
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from sys import stdlib_module_names

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
PACKAGES = {
    ".": {"src/twinvec"},
    "integrations/qdrant": {"twinvec_qdrant"},
    "integrations/langchain": {"langchain_twinvec"},
    "integrations/llama_index": {
        "llama_index/embeddings/twinvec",
        "llama_index/postprocessor/twinvec_rerank",
        "llama_index/retrievers/twinvec",
        "llama_index/vector_stores/twinvec",
    },
}
"""Project -> its packages."""


@pytest.mark.parametrize("project", PACKAGES)
def test_a_wheel_holds_its_packages_whole_and_nothing_else(project, tmp_path) -> None:
    (path,) = WheelBuilder(str(ROOT / project)).build(directory=str(tmp_path))
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (home,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        metadata = email.message_from_string(wheel.read(f"{home}/METADATA").decode())
    expected = {f"{home}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    if project in (".", "integrations/qdrant"):
        expected.add(f"{home}/entry_points.txt")
    for package in PACKAGES[project]:
        files = [each for each in (ROOT / project / package).rglob("*") if each.suffix in (".py", ".typed")]
        expected |= {each.relative_to(ROOT / project).as_posix().removeprefix("src/") for each in files}
        assert f"{package.removeprefix('src/')}/py.typed" in names
    assert names == expected  # so no __init__.py in what LlamaIndex shares with others
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip() == (ROOT / project / "README.md").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("project", PACKAGES)
def test_what_is_imported_is_declared(project) -> None:
    declared = tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = declared.get("optional-dependencies", {})
    wanted = [*declared["dependencies"], *(each for name in extras.keys() - {"dev"} for each in extras[name])]
    known = {_normal(re.split(r"[\[<>=!~ ;]", each)[0]) for each in (*wanted, declared["name"])}
    providers = packages_distributions()
    files = [file for package in PACKAGES[project] for file in (ROOT / project / package).rglob("*.py")]
    seen = set()
    for file in files:
        for module in _imported(ast.parse(file.read_text(encoding="utf-8"))):
            top = module.split(".")[0]
            if top not in stdlib_module_names:
                seen.add(top)
                assert known & {_normal(each) for each in providers.get(top, [top])}, f"{file} imports {module}"
    assert "twinvec" in seen or project == "."


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of imported modules, but for those that only a type checker imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        else:
            yield from _imported(node)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
