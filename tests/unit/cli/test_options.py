"""Collections by name, through the entry points of installed packages."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import typer.main

from twinvec import Encoder
from twinvec.cli import options
from twinvec.cli.app import build_app
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


@pytest.fixture
def opened_with(monkeypatch):
    """The keyword arguments with which an installed store was called; the store opens nothing."""
    found = []

    def open_collection(name, path, *, url, encoder, create, **changed):
        found.append(changed)
        raise ConfigurationError("seen")

    entry = SimpleNamespace(load=lambda: open_collection)
    monkeypatch.setattr(options, "entry_points", lambda group: [entry])
    return found


def test_a_store_gets_the_arguments_that_options_change(opened_with, tiny_model):
    given = ({}, {"precision": "bfloat16"}, {"wait": 2.5}, {"model": str(tiny_model("bert")), "precision": "bfloat16"})
    for each in given:
        with pytest.raises(ConfigurationError, match="seen"):
            options.open_collection("notes", **each)
    with pytest.raises(ConfigurationError, match="the model's 32, got 99"):
        options.open_collection("notes", model=str(tiny_model("bert")), dim=99)
    assert opened_with == [{}, {"precision": "bfloat16"}, {"wait_seconds": 2.5}, {}]


def test_commands_of_one_kind_have_the_same_options():
    commands = typer.main.get_command(build_app()).commands
    has = {name: {each for made in command.params for each in made.opts} for name, command in commands.items()}
    of_a_store = {name for name, taken in has.items() if {"--path", "--json"} <= taken or name == "show"}
    assert len(of_a_store) > 15
    assert {name for name in of_a_store if "--wait" not in has[name]} == {"serve"}
    encodes = {name for name, taken in has.items() if {"--model", "--ir"} & taken}
    assert {"similarity", "mine", "compare", "search"} < encodes
    assert {name for name in encodes if "--precision" not in has[name]} == {"adopt"}, "it compares some vectors only"
    truncates = {"encode", "ingest", "migrate", "evaluate", "compare"}
    assert truncates | {"export"} == {name for name, taken in has.items() if "--dim" in taken}
    helps = {made.help for name in truncates for made in commands[name].params if made.name == "dim"}
    assert helps == {"Truncate vectors to the first N dimensions (for Matryoshka models)."}
