"""Files that are replaced as a whole: the old content stays when a writer fails, is killed or finds no room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from twinvec.support.atomic import atomic_write, partial_path, put_in_place, replaced, sync_files
from watched_disk import disk_steps

OLD, NEW = "old content", "new content: tea, für alle\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file.json"
    path.write_text(OLD)
    return path


def run(program, *arguments):
    """Run a program in a Python process of its own."""
    imports = "import os, resource, signal, sys; from pathlib import Path; from twinvec.support.atomic import *"
    return subprocess.run(
        [sys.executable, "-c", f"{imports}\n{program}", *map(str, arguments)], capture_output=True, text=True
    )


@pytest.mark.parametrize("content", [NEW, NEW.encode(), "", b""])
def test_the_content_is_replaced_and_nothing_else_is_left(file, content):
    atomic_write(file, content)
    assert file.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert list(file.parent.iterdir()) == [file]


def test_a_new_file_has_the_permissions_that_files_have(tmp_path):
    atomic_write(tmp_path / "atomic", NEW)
    (tmp_path / "plain").write_text(NEW)
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_readers_see_the_old_content_until_the_end(file):
    with replaced(file) as partial:
        partial.write_text(NEW)
        assert file.read_text() == OLD
    assert file.read_text() == NEW


def test_an_error_leaves_the_old_content_and_no_partial_file(file):
    def write():
        with replaced(file) as partial:
            partial.write_text(NEW)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert file.read_text() == OLD
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_finds_no_room_leaves_the_old_content(file):
    """A real failure of write(2): the process may not make files of more than 64 KiB."""
    program = (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))\n"
        "try:\n"
        "    atomic_write(Path(sys.argv[1]), 'x' * 1_000_000)\n"
        "except OSError as error:\n"
        "    print('refused', error.strerror)\n"
    )
    done = run(program, file)
    assert done.stdout == "refused File too large\n", done.stderr
    assert file.read_text() == OLD
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("moment", ["partial.write_text('half')", "partial.write_text('half'); os.sync()"])
def test_a_killed_writer_leaves_the_old_content_and_the_next_writer_goes_on(file, moment):
    program = f"with replaced(Path(sys.argv[1])) as partial:\n    {moment}\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    done = run(program, file)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert file.read_text() == OLD
    assert partial_path(file).read_text() == "half"
    atomic_write(file, NEW)
    assert file.read_text() == NEW
    assert list(file.parent.iterdir()) == [file]


def test_a_file_in_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        atomic_write(tmp_path / "nowhere" / "file", NEW)


def test_file_and_folder_are_forced_to_the_disk_around_the_rename(file, monkeypatch):
    steps = disk_steps(monkeypatch, "replace")
    atomic_write(file, NEW)
    assert [Path(step).name for step in steps] == [
        "file.json.partial",
        "file.json.partial -> file.json",
        file.parent.name,
    ]


def test_a_partial_file_that_was_written_before_is_put_in_place(file):
    partial = partial_path(file)
    partial.write_text(NEW)
    put_in_place(partial, file)
    assert file.read_text() == NEW
    assert list(file.parent.iterdir()) == [file]


def test_all_files_and_folders_below_a_folder_are_forced_to_the_disk(tmp_path, monkeypatch):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "deep").write_text("x")
    (tmp_path / "flat").write_text("y")
    (tmp_path / "flat").chmod(0o400)  # such as checkpoints of others
    seen = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append(os.readlink(f"/proc/self/fd/{handle}")))
    sync_files(tmp_path)
    assert seen == [*map(str, (tmp_path / "a", inner, inner / "deep", tmp_path / "flat", tmp_path))]
