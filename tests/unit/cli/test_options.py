"""Collections by name, through the entry points of installed packages."""

from __future__ import annotations

import re

import pytest

from twinvec import Encoder
from twinvec.cli import options
from twinvec.errors import CollectionNotFoundError, ConfigurationError, SpaceMismatchError
from twinvec.installation import install_line
from twinvec_qdrant import Collection


def test_a_collection_that_is_there_is_opened(tmp_path, tiny_model):
    model = str(tiny_model("bert"))
    with Collection.open("notes", tmp_path, encoder=Encoder(model), chunking=False) as made:
        made.ingest([("a", "tea and milk")])
    for named in (model, None):  # None: the model that the collection records
        with options.open_collection("notes", tmp_path, model=named) as opened:
            assert opened.search("tea", 1)[0].id == "a"
    with pytest.raises(SpaceMismatchError):
        options.open_collection("notes", tmp_path, model=str(tiny_model("mpnet")))


def test_none_is_made(tmp_path):
    with pytest.raises(CollectionNotFoundError):
        options.open_collection("notes", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_path_and_url_contradict_each_other(tmp_path):
    with pytest.raises(ConfigurationError, match="path, url"):
        options.open_collection("notes", tmp_path, url="http://localhost:6333")


def test_without_a_store_the_install_command_is_told(monkeypatch):
    monkeypatch.setattr(options, "entry_points", lambda group: [])
    with pytest.raises(ConfigurationError, match=re.escape(install_line("twinvec-qdrant"))):
        options.open_collection("notes")
