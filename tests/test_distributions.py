"""The distributions as they are published: their wheels and sdists, their metadata, versions and dependencies."""

from __future__ import annotations

import ast
import email
import re
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from sys import stdlib_module_names
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from twinvec import __version__
from twinvec.moved import MOVED

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
    "integrations/serve": {"twinvec_serve"},
    "integrations/ray": {"twinvec_ray"},
}
"""Project -> its packages."""


def test_every_project_needs_a_python_whose_tarfile_has_filters() -> None:
    """Python 3.11.0 to 3.11.3 lack ``tarfile.data_filter``, by which archives of backups are unpacked."""
    for project in PACKAGES:
        read = tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))
        needed = SpecifierSet(read["project"]["requires-python"])
        assert [each in needed for each in ("3.11.3", "3.11.4", "3.12.0")] == [False, True, True], project


def test_every_project_names_the_same_versions_of_python() -> None:
    expected = [f"Programming Language :: Python :: {each}" for each in ("3", "3.11", "3.12", "3.13")]
    for project in PACKAGES:
        assert [each for each in _metadata(project).core.classifiers if "Python" in each] == expected, project


def test_training_avoids_the_transformers_that_no_peft_suits() -> None:
    """transformers 5.24.0 loads and adds adapters only with peft 0.22, which was not released when 5.24.0 was."""
    for extra in ("train", "dev"):
        needed = {each.name: each for each in map(Requirement, _metadata(".").core.optional_dependencies[extra])}
        permitted = needed["transformers"].specifier
        assert [each in permitted for each in ("5.23.0", "5.24.0", "5.25.0")] == [True, False, True], extra


@pytest.mark.parametrize("project", PACKAGES)
def test_a_wheel_holds_its_packages_whole_and_nothing_else(project, tmp_path) -> None:
    (path,) = WheelBuilder(str(ROOT / project)).build(directory=str(tmp_path))
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (home,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        metadata = email.message_from_string(wheel.read(f"{home}/METADATA").decode())
    expected = {f"{home}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    if project in (".", "integrations/qdrant", "integrations/serve", "integrations/ray"):
        expected.add(f"{home}/entry_points.txt")
    expected |= {name.removeprefix("src/") for name in _files(project)}
    assert {f"{package.removeprefix('src/')}/py.typed" for package in PACKAGES[project]} < names
    assert names == expected  # so no __init__.py in what LlamaIndex shares with others
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip() == (ROOT / project / "README.md").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("project", PACKAGES)
def test_an_sdist_holds_its_packages_whole_with_readme_and_licence(project, tmp_path) -> None:
    (path,) = SdistBuilder(str(ROOT / project)).build(directory=str(tmp_path))
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    expected = {*_files(project), "README.md", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore"}
    assert names == (expected | {"CHANGELOG.md"} if project == "." else expected)
    assert (ROOT / project / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_all_have_one_version_and_require_it_of_one_another() -> None:
    built = {project: _metadata(project) for project in PACKAGES}
    names = {each.name for each in built.values()}
    assert names == {
        "twinvec",
        "twinvec-qdrant",
        "langchain-twinvec",
        "llama-index-embeddings-twinvec",
        "twinvec-serve",
        "twinvec-ray",
    }
    assert {each.version for each in built.values()} == {__version__}
    major, minor = map(int, __version__.split(".")[:2])
    required = {
        project: {each for each in metadata.core.dependencies if _name(each) in names}
        for project, metadata in built.items()
    }
    ours = {name: f"{name}<{major}.{minor + 1},>={major}.{minor}" for name in names}
    adapters = {ours["twinvec"], ours["twinvec-qdrant"]}
    assert required == {
        ".": set(),
        "integrations/qdrant": {ours["twinvec"]},
        "integrations/langchain": adapters,
        "integrations/llama_index": adapters,
        "integrations/serve": adapters,
        "integrations/ray": adapters,
    }


def test_the_changelog_has_the_version_and_the_moved_modules() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions, dates = zip(*re.findall(r"^## \[(.+?)\](?: - (\S+))?$", text, re.M), strict=True)
    assert versions[:2] == ("Unreleased", __version__)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for date in dates[1:])
    assert dict(re.findall(r"^\| `(.+)` \| `(.+)` \|$", text, re.M)) == MOVED


@pytest.mark.parametrize("project", PACKAGES)
def test_what_is_imported_is_declared(project) -> None:
    declared = tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = declared.get("optional-dependencies", {})
    usable = extras.keys() - {"dev", "docs", "release"}
    wanted = [*declared["dependencies"], *(each for name in usable for each in extras[name])]
    known = {_name(each) for each in (*wanted, declared["name"])}
    providers = _providers()
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


def _files(project: str) -> set[str]:
    """Paths of all files of a project's packages."""
    files = (file for package in PACKAGES[project] for file in (ROOT / project / package).rglob("*"))
    return {
        file.relative_to(ROOT / project).as_posix()
        for file in files
        if file.is_file() and "__pycache__" not in file.parts
    }


def _metadata(project: str) -> Any:
    return ProjectMetadata(str(ROOT / project), PluginManager())


@cache
def _providers() -> Mapping[str, list[str]]:
    """Return for each top-level module the installed distributions that contain it."""
    return packages_distributions()


def _name(requirement: str) -> str:
    """The name of a distribution that a requirement such as ``a-name[extra]>=1`` names."""
    return _normal(re.split(r"[\[<>=!~ ;]", requirement)[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
