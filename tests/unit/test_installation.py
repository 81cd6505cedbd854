"""The line that installs more of a distribution: from where the distribution itself came."""

from __future__ import annotations

import json
import shlex

import pytest

from twinvec.errors import MissingExtraError
from twinvec.installation import hidden_folders, install_line


@pytest.fixture
def install(tmp_path, monkeypatch):
    """``install(name, source)``: a distribution with this ``direct_url.json`` (None: from a package index)."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)

    def add(name, source):
        info = site / f"{name.replace('-', '_')}-9.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
        if source is not None:
            (info / "direct_url.json").write_text(source if isinstance(source, str) else json.dumps(source))

    return add


def test_from_a_package_index(install):
    install("some-thing", None)
    assert install_line("some-thing", "fast") == "pip install 'some-thing[fast]'"
    assert install_line("not-installed", "fast") == "pip install 'not-installed[fast]'"
    assert install_line("not-installed") == "pip install not-installed"


@pytest.mark.parametrize(("editable", "option"), [(True, ["-e"]), (False, [])])
def test_from_a_folder(install, tmp_path, editable, option):
    clone = tmp_path / "my clone"
    clone.mkdir()
    install("some-thing", {"url": clone.as_uri(), "dir_info": {"editable": True} if editable else {}})
    assert shlex.split(install_line("some-thing", "fast")) == ["pip", "install", *option, f"{clone}[fast]"]
    clone.rmdir()
    assert install_line("some-thing", "fast") == "pip install 'some-thing[fast]'"


def test_from_a_wheel_and_from_a_repository(install, tmp_path):
    wheel = tmp_path / "some_thing-9-py3-none-any.whl"
    wheel.touch()
    install("some-thing", {"url": wheel.as_uri(), "archive_info": {}})
    assert shlex.split(install_line("some-thing", "fast"))[2:] == [f"{wheel}[fast]"]
    repository = {"url": "https://example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    install("another", {**repository, "subdirectory": "sub"})
    assert shlex.split(install_line("another", "fast"))[2:] == [
        "another[fast] @ git+https://example.org/a.git@abc#subdirectory=sub"
    ]


@pytest.mark.parametrize("source", ["{", "[]", "{}", '{"url": 3}'])
def test_a_damaged_record_is_none(install, source):
    install("some-thing", source)
    assert install_line("some-thing", "fast") == "pip install 'some-thing[fast]'"


def test_the_package_of_collections_comes_from_the_clone(install, tmp_path, monkeypatch):
    clone = tmp_path / "clone"
    folder = clone / "integrations" / "qdrant"
    folder.mkdir(parents=True)
    monkeypatch.setattr("twinvec.installation._IN_CLONE", {"collections": "integrations/qdrant"})
    monkeypatch.setattr("twinvec.installation._CORE", "the-core")
    install("the-core", {"url": clone.as_uri(), "dir_info": {"editable": True}})
    assert install_line("collections") == "pip install collections"
    (folder / "pyproject.toml").touch()
    assert install_line("collections") == f"pip install -e {folder}"


def test_a_server_hides_the_folder(install, tmp_path):
    install("some-thing", {"url": tmp_path.as_uri()})
    with hidden_folders():
        assert install_line("some-thing", "fast") == "pip install 'some-thing[fast]'"
    assert str(tmp_path) in install_line("some-thing", "fast")


def test_an_error_carries_the_line():
    error = MissingExtraError("a", "fast", "counting", "b")
    assert str(error) == "counting needs the package 'a': pip install 'b[fast]'"
