"""Optional packages: those that are missing and those that are installed and broken."""

from __future__ import annotations

import pickle
import re
import sys
from types import ModuleType

import pytest

from twinvec.errors import EngineError, MissingExtraError
from twinvec.installation import install_line
from twinvec.support.extras import import_extra


def test_a_package_and_a_module_of_a_package():
    import numpy.linalg

    assert import_extra("numpy", "eval", "counting") is sys.modules["numpy"]
    assert import_extra("numpy.linalg", "eval", "counting") is numpy.linalg


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("sklearn", "scikit-learn"),
        ("sklearn.cluster", "scikit-learn"),
        ("yaml", "PyYAML"),
        ("ir_measures", "ir-measures"),
        ("nowhere_to_be_found.inside", "nowhere-to-be-found"),
    ],
)
def test_a_missing_package_is_named_as_pip_knows_it(monkeypatch, module, package):
    top = module.partition(".")[0]
    for loaded in [name for name in sys.modules if name.partition(".")[0] == top]:
        monkeypatch.delitem(sys.modules, loaded)
    if package != "nowhere-to-be-found":
        monkeypatch.setitem(sys.modules, top, None)
    with pytest.raises(MissingExtraError) as raised:
        import_extra(module, "eval", "counting")
    assert str(raised.value) == f"counting needs the package '{package}': {install_line('twinvec', 'eval')}"
    assert isinstance(raised.value, ImportError)


def test_a_missing_module_of_a_package_that_is_too_old():
    with pytest.raises(MissingExtraError, match=re.escape(f"'numpy': {install_line('twinvec', 'eval')}")):
        import_extra("numpy.no_such_module", "eval", "counting")


def test_another_distribution_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "markitdown", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_line("twinvec-qdrant", "documents"))) as raised:
        import_extra("markitdown", "documents", "reading .pdf files", "twinvec-qdrant")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize(
    "line",
    [
        "raise ImportError('libtbb.so.12: cannot open shared object file')",
        "import a_package_that_it_needs",
        "from sys import a_name_that_is_gone",
    ],
)
def test_a_package_that_is_installed_and_broken_is_not_called_missing(tmp_path, monkeypatch, line):
    (tmp_path / "broken_package.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        EngineError, match=r"counting needs the package 'broken-package', which is installed but"
    ) as bad:
        import_extra("broken_package", "eval", "counting")
    assert isinstance(bad.value.__cause__, ImportError)
    assert str(bad.value.__cause__) in str(bad.value)


def test_other_errors_of_a_package_pass(tmp_path, monkeypatch):
    (tmp_path / "odd_package.py").write_text("raise RuntimeError('odd')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="odd"):
        import_extra("odd_package", "eval", "counting")


def test_a_module_that_is_loaded_is_not_loaded_again(monkeypatch):
    module = ModuleType("loaded_before")
    monkeypatch.setitem(sys.modules, "loaded_before", module)
    assert import_extra("loaded_before", "eval", "counting") is module
