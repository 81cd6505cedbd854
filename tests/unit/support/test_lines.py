"""``support.lines``: what a file of data may be. Other tests read the lines of such files."""

from __future__ import annotations

import csv
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from twinvec.errors import InputError
from twinvec.support.lines import MAX_LINE_BYTES, long_fields, parse_object, read_lines, read_texts, text_field


def test_a_device_and_a_named_pipe_are_refused_because_they_may_never_end(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "link.jsonl").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "link.jsonl", tmp_path / "pipe.txt"):
        with pytest.raises(InputError, match=r"^.*: is a device or a named pipe; name a file, or /dev/stdin$"):
            list(read_texts(path))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path))


def test_the_limit_of_fields_is_restored_when_the_last_reader_of_a_table_has_ended():
    before = csv.field_size_limit()
    first, second = ExitStack(), ExitStack()
    first.enter_context(long_fields())
    second.enter_context(long_fields())
    first.close()
    assert csv.field_size_limit() > before, "the second reader goes on, as in another thread"
    second.close()
    assert csv.field_size_limit() == before


def test_a_pipe_that_the_process_has_open_is_read():
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "wb") as file:
        file.write(b"tea\nmilk")
        file.close()
        assert list(read_lines(Path(f"/dev/fd/{reading}"))) == ["tea\n", "milk"]


def test_a_repeated_key_is_found_among_many():
    keys = ",".join(f'"{number}": 1' for number in range(200_000))
    with pytest.raises(InputError, match=r"^line 1: the key '199999' comes twice in an object; remove one of the two$"):
        parse_object(f'{{{keys}, "199999": 2}}', "line 1")


def test_an_object_without_keys_has_no_text():
    with pytest.raises(InputError, match=r"^a\.jsonl:1: the object has no keys$"):
        text_field({}, "text", "a.jsonl:1")


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path):
    with (tmp_path / "long.txt").open("wb") as file:
        file.write(b"tea\n")
        file.truncate(2 * MAX_LINE_BYTES)  # takes no room on the disk
    lines = read_lines(tmp_path / "long.txt")
    assert next(lines) == "tea\n"
    with pytest.raises(InputError, match=r"long\.txt:2: the line has more than 67,108,864 bytes$"):
        next(lines)
