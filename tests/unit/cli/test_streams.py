"""Standard streams of a command's process that are closed or take nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FULL = "/dev/full"
LONG = "a dog and " * 500


def run(command: str, *arguments: object) -> int:
    """Run twinvec with the arguments and the shell's redirections in ``command``, and return the exit code."""
    return started(f'"$0" -m twinvec "$@" {command}', *arguments).returncode


def started(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a shell script; its ``$0`` is Python, and ``$@`` are the arguments."""
    shell = ["sh", "-c", script, sys.executable, *map(str, arguments)]
    return subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=120)


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the streams")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_ends_no_command(closed, tiny_model, tmp_path):
    (tmp_path / "texts.txt").write_text("a dog\na cat\n")
    made = tmp_path / "vectors.npy"
    assert run(closed, "encode", tmp_path / "texts.txt", "-o", made, "--model", tiny_model("bert")) == 0
    assert made.exists()


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the streams")
def test_no_file_gets_the_number_of_a_closed_stream():
    program = (
        "from twinvec.cli.streams import prepare_streams\nprepare_streams()\nimport os; assert os.open('/', 0) > 2"
    )
    subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, program], check=True, timeout=60)


@pytest.mark.skipif(not os.path.exists(FULL), reason="this system has no file that is always full")
def test_messages_that_cannot_be_written_end_no_command(tiny_model, tmp_path):
    (tmp_path / "texts.txt").write_text(LONG)
    made = tmp_path / "vectors.npy"
    arguments = ("encode", tmp_path / "texts.txt", "-o", made, "--model", tiny_model("bert"))
    told = subprocess.run([sys.executable, "-m", "twinvec", *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    assert "were truncated" in told.stderr, "the message that cannot be written below"
    made.unlink()
    assert run(f"2>{FULL}", *arguments) == 0
    assert made.exists()


@pytest.mark.skipif(not os.path.exists(FULL), reason="this system has no file that is always full")
@pytest.mark.parametrize("flag", ["", "-u"])
def test_the_error_names_standard_output_that_cannot_be_written(flag, tiny_model):
    done = started(f'"$0" {flag} -m twinvec "$@" >{FULL}', "similarity", "a", "b", "--model", tiny_model("bert"))
    assert done.returncode == 1
    assert done.stderr == "twinvec: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the pipe")
def test_a_reader_that_has_read_enough_gets_no_error(tiny_model):
    script = '{ "$0" -m twinvec "$@"; } | true'
    assert started(script, "similarity", "a", "b", "--model", tiny_model("bert")).stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="other systems do not remove the current folder of a process")
def test_the_error_names_a_removed_current_folder(tmp_path):
    script = 'mkdir "$1" && cd "$1" && rmdir "$1" && exec "$0" -m twinvec similarity a b'
    done = started(script, tmp_path / "gone")
    assert done.returncode == 1
    assert done.stderr == "twinvec: the current folder was removed; change to a folder that exists\n"
