"""Small disks, and folders that cannot be written, for processes of their own: mostly without the rights of root."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from holders import with_helpers

HELPERS = '''
import json, logging, os, sys
from pathlib import Path
from words import WordEncoder
from twinvec.errors import StoreUnavailableError
from twinvec_qdrant import Collection, backup_collection, drop_collection, list_collections

class Warnings(logging.Handler):
    """Keeps what is warned of."""
    def __init__(self):
        super().__init__(logging.WARNING)
        self.told = []
        logging.getLogger("twinvec_qdrant").addHandler(self)
    def emit(self, record):
        self.told.append(record.getMessage())

def opened(place):
    return Collection.open("notes", place, encoder=WordEncoder(), chunking=False)

def fill(place, name="filler"):
    """Use all room of a disk up."""
    handle, size = os.open(Path(place, name), os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2**20
    while size:
        try:
            os.write(handle, bytes(size))
        except OSError:
            size //= 2
    os.close(handle)
    assert os.statvfs(place).f_bavail == 0

def give_back(place, size, name="filler"):
    """Make so much room on a full disk."""
    os.truncate(Path(place, name), os.stat(Path(place, name)).st_size - size)

def refusal(call):
    """The text of the error that the call ends with."""
    try:
        call()
    except StoreUnavailableError as error:
        return str(error)
    raise AssertionError("no error")
'''
"""What programs on small disks begin with."""


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Permit this process no file of more bytes, as ``ulimit -f`` does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def on_small_disk(program: str, place: Path, options: str, **arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run a program where ``place`` is a disk in memory, with ``options`` of mount such as "size=64m".

    The program finds ``place`` and the arguments as variables. The test is skipped where nobody but root may mount.
    """
    if not _can_mount():
        pytest.skip("a small disk needs user namespaces (unshare -Urm), which this system does not permit")
    mounting = 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"'
    command = ["unshare", "-Urm", "sh", "-c", mounting, "sh", options, str(place)]
    return _run(command, program, place=place, **arguments)


def on_ext4(program: str, place: Path, megabytes: int, **arguments: Any) -> subprocess.CompletedProcess[str]:
    """The same where ``place`` is a disk with ext4, which needs room for each folder too; the test needs root."""
    image = place.with_suffix(".img")
    with open(image, "wb") as file:
        file.truncate(megabytes * 2**20)
    mounting = 'mount -o loop "$1" "$2" && shift 2 && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", mounting, "sh", str(image), str(place)]
    try:
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True, capture_output=True)
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount ext4, where loop devices are permitted")
    return _run(command, program, place=place, **arguments)


def without_rights(program: str, **arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run a program as a process that permissions of files bind; the test is skipped where root cannot leave rights."""
    if os.geteuid() != 0:
        return _run([], program, **arguments)
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and setpriv is missing")
    return _run(["setpriv", "--bounding-set=-all", "--inh-caps=-all"], program, **arguments)


def _run(command: list[str], program: str, **arguments: Any) -> subprocess.CompletedProcess[str]:
    given = "".join(
        f"{name} = {value if isinstance(value, bool) else str(value)!r}\n" for name, value in arguments.items()
    )
    source = f"{HELPERS}\n{given}\n{textwrap.dedent(program)}"
    done = subprocess.run(
        [*command, sys.executable, "-c", source], capture_output=True, text=True, env=with_helpers(), check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@cache
def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
