"""What a command sends of what it has read, and what the process that serves the store takes of it."""

from __future__ import annotations

import json

import pytest

from twinvec_qdrant import Empty, Failure, read_line, written_line


@pytest.mark.parametrize(
    "failure",
    [
        Failure("t.csv:2", "3 cells", hides=True, below="t.csv/"),
        Failure("notes.jsonl:1", "not JSON", hides=True),
        Failure("a.md", "cannot be read"),
        Empty("b.md", "holds no text"),
    ],
)
def test_a_failure_arrives_with_what_it_may_hide(failure):
    found = read_line(json.loads(json.dumps(written_line(failure))))
    assert (type(found), found) == (type(failure), failure)


def test_a_failure_of_an_older_command_may_hide_every_document():
    found = read_line({"failure": {"source": "t.csv:2", "reason": "3 cells", "hides": True}})
    assert found == Failure("t.csv:2", "3 cells", hides=True)
