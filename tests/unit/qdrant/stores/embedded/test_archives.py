"""Archives of backups: every reader unpacks them, holes stay holes, and one that is cut is refused."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tracemalloc

import pytest

from twinvec.errors import StoreCorruptError
from twinvec_qdrant.stores.embedded.archives import packed, unpack

NAMES = {"backup.json": b"{}", "empty": b"", "shard/edge": b"a" * 512, f"shard/{'long-' * 40}/é.dat": b"b" * 513}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    for name, content in NAMES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "shard" / "nothing").mkdir()
    with open(folder / "shard" / "holes", "wb") as file:
        file.write(b"begin")
        file.seek(40 * 2**20)
        file.write(b"middle")
        file.truncate(80 * 2**20 + 1)
    return folder


def archive_of(folder):
    return io.BytesIO(b"".join(packed(folder)))


def same(folder, other):
    """Whether two folders have the same files and folders."""
    there = [sorted(each.relative_to(place) for each in place.rglob("*")) for place in (folder, other)]
    assert there[0] == there[1]
    return all(
        (folder / name).read_bytes() == (other / name).read_bytes() for name in there[0] if (folder / name).is_file()
    )


def test_an_archive_is_unpacked_as_it_was(folder, tmp_path):
    unpack(archive_of(folder), tmp_path / "other")
    assert same(folder, tmp_path / "other")
    assert (tmp_path / "other" / "shard" / "holes").stat().st_blocks * 512 < 2**20


def test_other_programs_unpack_it(folder, tmp_path):
    archive = archive_of(folder).getvalue()
    assert len(archive) % tarfile.RECORDSIZE == 0
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(tmp_path / "python", filter="data")
    (tmp_path / "tar").mkdir()
    subprocess.run(["tar", "-x", "-C", "tar"], cwd=tmp_path, input=archive, check=True)
    assert same(folder, tmp_path / "python")
    assert same(folder, tmp_path / "tar")


def test_memory_stays_flat(folder, tmp_path):
    with open(tmp_path / "archive", "wb") as file:
        tracemalloc.start()
        file.writelines(packed(folder))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 4 * 2**20
    assert (tmp_path / "archive").stat().st_size > 80 * 2**20


def test_files_have_the_permissions_of_new_files(folder, tmp_path):
    before = os.umask(0o077)
    try:
        unpack(archive_of(folder), tmp_path / "other")
    finally:
        os.umask(before)
    assert {each.stat().st_mode & 0o077 for each in (tmp_path / "other").rglob("*")} == {0}


@pytest.mark.parametrize("share", [0.0001, 0.3, 0.6])
def test_an_archive_that_is_cut_is_refused(folder, tmp_path, share):
    archive = archive_of(folder).getvalue()
    with pytest.raises(StoreCorruptError, match="cannot be unpacked"):
        unpack(io.BytesIO(archive[: int(share * len(archive))]), tmp_path / "other")


def test_a_list_of_holes_is_not_read(tmp_path):
    member = tarfile.TarInfo("holes")
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    holes = b"4000000\n" + b"1\n" * 4_000_000
    archive = io.BytesIO(member.tobuf() + holes)
    tracemalloc.start()
    with pytest.raises(StoreCorruptError, match="declared holes"):
        unpack(archive, tmp_path / "folder")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * 2**20


def test_many_headers_of_one_file_are_refused(tmp_path):
    member = tarfile.TarInfo("file")
    member.pax_headers = {"comment": "x"}
    header = member.tobuf(tarfile.PAX_FORMAT)[:1024]
    with pytest.raises(StoreCorruptError, match="cannot be unpacked"):
        unpack(io.BytesIO(header * 1200 + member.tobuf()), tmp_path / "folder")


@pytest.mark.parametrize(
    ("first", "last"),
    [(tarfile.REGTYPE, tarfile.REGTYPE), (tarfile.REGTYPE, tarfile.DIRTYPE), (tarfile.DIRTYPE, tarfile.REGTYPE)],
)
def test_a_file_and_a_folder_of_one_name_are_refused(tmp_path, first, last):
    members = [tarfile.TarInfo("a"), tarfile.TarInfo("a"), tarfile.TarInfo("a/b")]
    members[0].type, members[1].type = first, last
    with pytest.raises(StoreCorruptError, match="cannot be unpacked"):
        unpack(io.BytesIO(b"".join(each.tobuf() for each in members) + bytes(1024)), tmp_path / "folder")


def test_nothing_is_written_beside_the_folder(tmp_path):
    for name, kind in (("../outside", tarfile.REGTYPE), ("link", tarfile.SYMTYPE), ("device", tarfile.CHRTYPE)):
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "../../outside"
        with pytest.raises(StoreCorruptError, match="cannot be unpacked"):
            unpack(io.BytesIO(member.tobuf() + bytes(1024)), tmp_path / "folder")
    assert not (tmp_path / "outside").exists()
