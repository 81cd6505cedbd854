"""Temporary folders: a process that is killed while it removes one leaves it to the next one."""

from __future__ import annotations

import os
from itertools import count

import pytest

from deaths import Died
from twinvec.support.locks import TemporaryFolder, remove_abandoned


def filled(parent):
    folder = TemporaryFolder("a-", parent)
    (folder.path / "inner").mkdir()
    (folder.path / "inner" / "file").write_text("text")
    return folder


@pytest.mark.parametrize("call", ["unlink", "rmdir", "rename"])
def test_a_removal_that_is_killed_is_finished_by_the_next_process(call, tmp_path, monkeypatch):
    for last in count():
        folder, steps, function = filled(tmp_path), count(), getattr(os, call)

        def killed(*arguments, function=function, last=last, steps=steps, **options):
            if next(steps) == last:
                raise Died
            return function(*arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(os, call, killed)
            try:
                folder.remove()
                break
            except Died:
                pass
        assert len(list(tmp_path.iterdir())) == 1
        remove_abandoned("a-", tmp_path)
        assert not list(tmp_path.iterdir())
    assert last > 0
    assert not list(tmp_path.iterdir())


def test_a_folder_in_use_stays(tmp_path):
    folder = TemporaryFolder("a-", tmp_path)
    (tmp_path / "a-of-another-program").mkdir()
    assert remove_abandoned("a-", tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 2
    folder.remove()
    assert [each.name for each in tmp_path.iterdir()] == ["a-of-another-program"]
