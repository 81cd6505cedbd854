"""A process that may open no more files: errors of the store, and nothing is called damaged."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

import pytest

from twinvec.errors import StoreUnavailableError
from twinvec_qdrant import Collection, backup_collection, list_collections, restore_collection
from twinvec_qdrant.stores.embedded.turns import Turns
from words import WordEncoder

resource = pytest.importorskip("resource")
TOO_MANY = "Too many open files"


@contextmanager
def free_descriptors(count: int):
    """Permit the process to open at most ``count`` more files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 50, before[1]))
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for each in held:
            os.close(each)


@pytest.fixture
def collection(tmp_path):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        assert opened.ingest(f"note {number}" for number in range(20)).new == 20
        opened.reindex()
        yield opened


def test_reindexing_raises_an_error_of_the_store_and_changes_nothing(collection, tmp_path):
    seen = set()
    for free in range(20):
        try:
            with free_descriptors(free):
                collection.reindex()
            break
        except StoreUnavailableError as error:
            seen.add(str(error).partition(": ")[2])
        assert collection.search("note 3")[0].id == "3"
    assert f"cannot be indexed: {TOO_MANY}" in seen
    assert all(TOO_MANY in each for each in seen), seen
    assert not list(tmp_path.glob("notes/shard.copy-*"))
    assert collection.verify().sound


def test_a_description_that_cannot_be_opened_is_not_called_damaged(collection, tmp_path, tmp_path_factory):
    backup = tmp_path_factory.mktemp("backups") / "notes"
    with free_descriptors(0), pytest.raises(StoreUnavailableError, match=f"cannot be read: {TOO_MANY}"):
        collection.info()
    assert collection.info()["points"] == 20
    backup_collection("notes", backup, tmp_path)
    with free_descriptors(0), pytest.raises(StoreUnavailableError, match=f"cannot be read: {TOO_MANY}"):
        restore_collection(backup, tmp_path, name="other")
    assert restore_collection(backup, tmp_path / "store", name="other").points["record"] == 20


def test_a_store_that_cannot_be_listed_is_not_called_empty(collection, tmp_path):
    with free_descriptors(0), pytest.raises(StoreUnavailableError, match=f"{tmp_path}: cannot be read: {TOO_MANY}"):
        list_collections(tmp_path)
    assert [each.name for each in list_collections(tmp_path)] == ["notes"]


def test_files_that_the_engine_cannot_open_are_not_called_damaged(collection, tmp_path):
    collection.close()
    seen = set()
    for free in range(20):
        try:
            with free_descriptors(free), Collection.open("notes", tmp_path, encoder=WordEncoder()):
                break
        except StoreUnavailableError as error:
            seen.add(str(error).partition(": ")[2])
    assert any(each.startswith("the engine could not") for each in seen), seen
    assert all(TOO_MANY in each for each in seen), seen


def test_a_process_goes_on_to_look_whether_others_wait(tmp_path):
    turns = Turns(tmp_path)
    turns.take(0)
    with free_descriptors(0):
        assert not turns.wanted()
    turns.give()
    turns.leave()
