"""Defaults of options: flag, then environment variable, then file, then the command's own; and ``twinvec init``."""

from __future__ import annotations

import json
import os
import pty
import re
import tomllib
from pathlib import Path

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from twinvec.cli import configuration
from twinvec.cli.app import build_app
from twinvec.cli.configuration import find_settings
from twinvec.cli.init import _text
from twinvec.cli.settings_file import Settings
from twinvec.errors import ConfigurationError
from twinvec_qdrant.cli import collections

VARIABLES = {f"TWINVEC_{name.upper()}" for name in Settings.model_fields}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty folder, where the commands start, and no variable set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def place(twinvec, monkeypatch):
    """``place("--url", ...)``: the collection, the path and the URL that ``twinvec info`` would open."""
    found = []

    def open_from_options(place, *_, **__):
        found.append((place.name, place.path and str(place.path), place.url))
        raise ConfigurationError("seen")

    monkeypatch.setattr(collections, "open_from_options", open_from_options)

    def run(*flags):
        done = twinvec("info", *flags)
        assert done.err == "twinvec: seen\n", done.err
        return found.pop()

    return run


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_flag_then_environment_then_file(place, home, monkeypatch):
    write(home / "twinvec.toml", 'collection = "of the file"\npath = "store"\n')
    assert place() == ("of the file", str(home / "store"), None)
    monkeypatch.setenv("TWINVEC_COLLECTION", "of the environment")
    monkeypatch.setenv("TWINVEC_PATH", "elsewhere")
    assert place() == ("of the environment", "elsewhere", None)
    assert place("-c", "of the flag", "--path", "here") == ("of the flag", "here", None)
    monkeypatch.setenv("TWINVEC_PATH", "")
    assert place() == ("of the environment", str(home / "store"), None), "an empty variable is none"


def test_a_store_of_a_nearer_source_replaces_the_other_kind(place, home, monkeypatch):
    write(home / "twinvec.toml", 'collection = "docs"\npath = "store"\n')
    assert place("--url", "http://a:1") == ("docs", None, "http://a:1")
    monkeypatch.setenv("TWINVEC_URL", "http://b:2")
    assert place() == ("docs", None, "http://b:2")
    assert place("--path", "here") == ("docs", "here", None)
    write(home / "twinvec.toml", 'collection = "docs"\nurl = "http://c:3"\n')
    monkeypatch.delenv("TWINVEC_URL")
    assert place() == ("docs", None, "http://c:3")
    monkeypatch.setenv("TWINVEC_PATH", "there")
    assert place() == ("docs", "there", None)


def test_two_stores_of_one_source_are_refused(twinvec, monkeypatch):
    monkeypatch.setenv("TWINVEC_PATH", "there")
    monkeypatch.setenv("TWINVEC_URL", "http://b:2")
    done = twinvec("info", "-c", "docs")
    assert done.code == 2
    assert "TWINVEC_PATH or TWINVEC_URL" in done.err


def test_the_file_of_the_nearest_folder_holds(place, home, monkeypatch):
    write(home / "pyproject.toml", '[tool.twinvec]\ncollection = "outer"\n')
    write(home / "a" / "pyproject.toml", '[project]\nname = "other"\n')
    write(home / "a" / "b" / "text.md", "no configuration")
    monkeypatch.chdir(home / "a" / "b")
    assert place()[0] == "outer", "a project file without a table does not count"
    write(home / "a" / "twinvec.toml", 'collection = "inner"\npath = "../store"\n')
    assert place() == ("inner", str(home / "store"), None), "the path counts from the file"
    write(home / "a" / "pyproject.toml", '[tool.twinvec]\ncollection = "beside"\n')
    assert place()[0] == "inner"


def test_a_models_folder_counts_from_the_file(home):
    (home / "models" / "mine").mkdir(parents=True)
    write(home / "twinvec.toml", 'model = "models/mine"\nrerank = "maxsim"\n')
    (home / "below").mkdir()
    found = find_settings(home / "below")
    assert (found.model, found.rerank) == (str(home / "models" / "mine"), "maxsim")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('colection = "docs"', "colection: unknown key; did you mean collection?"),
        ("zzz = 1", "zzz: unknown key; the keys are collection, path, url, model, mode, rerank, precision"),
        ("collection = 3", "collection: should be a valid string"),
        ('collection = " "', "collection: is empty"),
        ('mode = "fast"', "mode: should be 'hybrid', 'dense' or 'sparse'"),
        ('precision = "int4"', "precision: should be 'auto', 'float32', 'int8', 'bfloat16' or 'float16'"),
        ('path = "a"\nurl = "http://b:1"', "path and url name two stores"),
        ("collection = docs", "not valid TOML"),
        ('api_key = "0123"', "api_key: a secret is not for this file; set the environment variable QDRANT_API_KEY"),
        ('url = "https://me:0123@b:1"', "url: holds a password; a secret is not for this file"),
        ('url = "b:6333"', "url: should be the address of a server, http://host:port"),
        ('path = "~nobody-of-this-name/a"', "path cannot be a path: '~nobody-of-this-name/a'"),
        ('path = "a\\u0000b"', "path has a NUL character"),
    ],
)
@pytest.mark.parametrize("name", ["twinvec.toml", "pyproject.toml"])
def test_a_wrong_file_is_named_with_its_key(twinvec, home, name, text, told):
    write(home / name, text if name == "twinvec.toml" else f"[tool.twinvec]\n{text}")
    done = twinvec("info")
    assert done.code == 1
    assert done.err.startswith(f"twinvec: {home / name}: ")
    assert told in done.err
    assert "0123" not in done.err
    assert twinvec("info", "--help").code == 0
    assert twinvec("info", "--help").out.count("partial") == 0


def test_a_file_may_begin_with_a_byte_order_mark(home):
    (home / "twinvec.toml").write_bytes(b'\xef\xbb\xbfcollection = "docs"')
    assert find_settings(home).collection == "docs"


def test_a_model_too_long_for_a_path_is_left_to_its_loader(home):
    write(home / "twinvec.toml", f'model = "{"a" * 5000}"')
    assert find_settings(home).model == "a" * 5000


def test_a_folder_that_may_not_be_entered(home):
    """A name that is too long stands for a folder that the process may not enter, which root may."""
    with pytest.raises(ConfigurationError, match=r"twinvec\.toml: cannot be read: "):
        find_settings(home / ("a" * 300))


def test_the_table_of_a_project_is_a_table(twinvec, home):
    write(home / "pyproject.toml", "tool.twinvec = 3")
    done = twinvec("info")
    assert (done.code, done.err.strip()) == (
        1,
        f"twinvec: {home / 'pyproject.toml'}: [tool.twinvec]: should be a table of settings",
    )
    write(home / "pyproject.toml", "tool = 3")
    assert twinvec("info").code == 2, "the file has no settings of twinvec"


@pytest.mark.parametrize(
    "text",
    [
        '[tool]\ntwinvec = {collection = "docs"}',
        '[tool]\ntwinvec.collection = "docs"',
        '[tool."twinvec"]\ncollection = "docs"',
        '[ tool . twinvec ]\ncollection = "docs"',
        'tool = {twinvec = {collection = "docs"}}',
    ],
)
def test_the_table_of_a_project_may_be_written_in_any_form(home, text):
    write(home / "pyproject.toml", text)
    assert find_settings(home).collection == "docs"


def test_a_project_that_only_names_twinvec_has_no_settings(home):
    for text in (
        '[project]\ndependencies = ["twinvec"]\n',
        'tool = 3\nname = "twinvec"\n',
        '[project]\ndependencies = ["twinvec"',
        '[tool.other]\nof = "twinvec"\n',
    ):
        write(home / "pyproject.toml", text)
        assert find_settings(home) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("TWINVEC_COLECTION", "TWINVEC_COLLECTION"),
        ("TWINVEC_COLLECTION_NAME", "TWINVEC_COLLECTION"),
        ("twinvec_path", "TWINVEC_PATH"),
        ("TWINVEC_MODLE", "TWINVEC_MODE or TWINVEC_MODEL"),
        ("TWINVEC_SERVER_PORT", "TWINVEC_SERVE_PORT or TWINVEC_SERVE_HOST"),
        ("TWINVEC_API_KEYS", "TWINVEC_API_KEY or TWINVEC_READ_API_KEY"),
    ],
)
def test_a_misspelt_variable_is_named(twinvec, home, monkeypatch, name, meant):
    monkeypatch.setenv(name, "docs")
    done = twinvec("collections")
    assert done.code == 0
    assert f"twinvec: the environment variable {name} has no effect; did you mean {meant}?" in done.err


def test_other_variables_get_no_warning(twinvec, monkeypatch):
    of_kubernetes = {"TWINVEC_SERVICE_PORT": "6380", "TWINVEC_SERVER_PORT": "tcp://10.0.0.1:6380"}
    of_others = {"TWINVEC_DATA": "a", "TWINVEC_PORT": "1", "TWINVEC_HOME": "a", "TWINVEC_MODLE": "", "TWIN_PATH": "a"}
    known = {f"TWINVEC_{name}": "1" for name in configuration.VARIABLES if name not in ("PATH", "URL")}
    for name, value in (of_kubernetes | of_others | known).items():
        monkeypatch.setenv(name, value)
    assert "no effect" not in twinvec("collections").err
    monkeypatch.setenv("TWINVEC_COLECTION", "docs")
    monkeypatch.setenv("_TWINVEC_COMPLETE", "complete_bash")
    assert "no effect" not in twinvec("collections").err, "a shell would print it in the middle of a command"


def test_the_known_variables_are_those_that_the_code_reads():
    root = Path(configuration.__file__).parents[3]
    sources = [*(root / "src").rglob("*.py"), *(root / "integrations").rglob("*.py")]
    read = {name for path in sources for name in re.findall(r'"TWINVEC_([A-Z_]*[A-Z])"', path.read_text("utf-8"))}
    assert read == set(configuration.VARIABLES)


def test_all_wrong_keys_are_named(twinvec, home):
    write(home / "twinvec.toml", "mode = 1\nrerank = 2\n")
    done = twinvec("info")
    assert "mode: " in done.err
    assert "rerank: " in done.err


def test_without_a_collection_the_error_says_the_three_ways(twinvec):
    done = twinvec("info")
    assert done.code == 2
    said = " ".join(done.err.replace("│", " ").split())
    for way in ("--collection NAME", "TWINVEC_COLLECTION", 'collection = "NAME" in twinvec.toml', '"twinvec init"'):
        assert way in said


def test_every_option_with_a_variable_shows_it_and_nothing_else_takes_it():
    group = typer.main.get_command(build_app())
    named = {
        (command, each.name): each.envvar
        for command, made in group.commands.items()
        for each in made.params
        if each.envvar
    }
    own = {(command, name) for command, name in named if command == "serve" and name not in ("path", "url")}
    assert {named.pop(each) for each in own} == {f"TWINVEC_SERVE_{name.upper()}" for _, name in own}
    assert set(named.values()) == VARIABLES
    assert all(variable == f"TWINVEC_{name.upper()}" for (_, name), variable in named.items())
    assert ("drop", "collection") not in named, "what deletes is named each time"
    assert ("search", "model") not in named, "a collection records its model"
    assert {"info", "search", "update"} < {command for command, name in named if name == "collection"}
    for command in group.commands.values():
        shown = command.get_help(typer.Context(command)) if command.name in ("info", "search", "encode") else ""
        for name, variable in ((each.name, each.envvar) for each in command.params if each.envvar and shown):
            assert variable in shown.replace("\n", ""), name


@pytest.mark.slow
def test_an_existing_collection_keeps_its_model(twinvec, home, tiny_model, monkeypatch):
    first, second = str(tiny_model("bert")), str(tiny_model("mpnet"))
    write(home / "docs" / "a.md", "tea and milk")
    write(home / "twinvec.toml", f"collection = 'docs'\nmodel = '{first}'\nmode = 'sparse'\n")
    assert twinvec("ingest", "docs").code == 0
    monkeypatch.setenv("TWINVEC_MODEL", second)
    write(home / "docs" / "b.md", "coffee")
    assert json.loads(twinvec("ingest", "docs", "--json").out)["new"] == 1
    assert json.loads(twinvec("info", "--json").out)["model"] == first
    hit = json.loads(twinvec("search", "tea", "--json").out)["hits"][0]
    assert set(hit["scores"]) == {"sparse"}, "the file's mode"
    assert twinvec("ingest", "docs", "-c", "other", "--json").code == 0
    assert json.loads(twinvec("info", "-c", "other", "--json").out)["model"] == second
    write(home / "pairs.jsonl", json.dumps({"anchor": "a drink", "positive": "tea and milk"}))
    assert twinvec("mine", "pairs.jsonl", "-o", "rows.jsonl", "-c", "docs").code == 0
    for command in (["ingest", "docs"], ["mine", "pairs.jsonl", "-o", "more.jsonl", "-c", "docs"]):
        refused = twinvec(*command, "--model", second)
        assert refused.code == 1, "a flag is meant"
        assert first in refused.err


def test_mine_takes_the_place_of_a_store_for_a_collection_only(twinvec, home, tiny_model):
    write(home / "twinvec.toml", f"path = 'store'\nmodel = '{tiny_model('bert')}'\n")
    rows = [{"anchor": f"question {n}", "positive": f"answer {n}"} for n in range(4)]
    write(home / "pairs.jsonl", "\n".join(map(json.dumps, rows)))
    assert twinvec("mine", "pairs.jsonl", "-o", "rows.jsonl").code == 0
    refused = twinvec("mine", "pairs.jsonl", "-o", "other.jsonl", "--path", "store")
    assert "give --collection with --path, --url and --grpc-port" in refused.err


def test_init_writes_what_is_given(twinvec, place, home):
    done = twinvec("init", "--collection", 'do"cs', "--rerank", "maxsim")
    assert done.code == 0
    assert str(home / "twinvec.toml") in done.out
    assert place() == ('do"cs', str(home / ".twinvec"), None)
    assert find_settings(home).rerank == "maxsim"
    text = (home / "twinvec.toml").read_text()
    assert '# mode = "hybrid"' in text
    assert "QDRANT_API_KEY" in text


def test_init_replaces_nothing_unless_forced(twinvec, home):
    write(home / "twinvec.toml", 'collection = "mine"\n')
    done = twinvec("init", "-c", "other")
    assert done.code == 1
    assert "--force" in done.err
    assert (home / "twinvec.toml").read_text() == 'collection = "mine"\n'
    assert twinvec("init", "-c", "other", "--url", "http://a:1", "--force").code == 0
    assert tomllib.loads((home / "twinvec.toml").read_text()) == {"collection": "other", "url": "http://a:1"}


def test_init_that_cannot_write_keeps_the_file(twinvec, home):
    write(home / "twinvec.toml", 'collection = "mine"\n')
    (home / "twinvec.toml.partial").mkdir()
    done = twinvec("init", "-c", "other", "--force")
    assert done.code == 1
    assert "twinvec.toml: cannot be written: Is a directory" in done.err
    assert (home / "twinvec.toml").read_text() == 'collection = "mine"\n'


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--url", "https://me:0123@b:1"), "password"),
        (("--url", "http://b:1", "--path", "c"), "two stores"),
        (("--url", "b:1"), "url: should be the address of a server"),
        (("--collection", "a\udcff"), "collection: has a lone surrogate"),
    ],
)
def test_init_writes_no_file_that_would_be_refused(twinvec, home, flags, told):
    done = twinvec("init", *flags)
    assert (done.code, list(home.iterdir())) == (1, [])
    assert told in done.err
    assert "0123" not in done.err


def test_init_asks_on_a_terminal(twinvec, home, monkeypatch):
    parent, child = pty.openpty()
    os.write(parent, b"handbook\n\nstores/all\n\n")
    with os.fdopen(child) as answers, os.fdopen(parent, "wb"):
        monkeypatch.setattr("sys.stdin", answers)
        assert twinvec("init").code == 0
    expected = {"collection": "handbook", "path": "stores/all", "model": "default"}
    assert tomllib.loads((home / "twinvec.toml").read_text()) == expected


@given(st.dictionaries(st.sampled_from(["collection", "path", "rerank"]), st.text(st.characters(codec="utf-8"))))
def test_any_value_is_read_back(values):
    assert tomllib.loads(_text(dict.fromkeys(Settings.model_fields) | values)) == values
