"""The command line: help, exit codes, plug-ins, and the commands of the core."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
import typer

import twinvec as package
from twinvec.cli import commands
from twinvec.cli.commands import COLLECTION_COMMANDS, COLLECTIONS_PACKAGE, COLLECTIONS_PLACE
from twinvec.errors import ModelNotFoundError
from twinvec.installation import install_line
from twinvec_qdrant.cli.app import register

HEAVY = ("torch", "transformers", "sentence_transformers", "qdrant_client", "qdrant_edge", "openvino", "scipy")


def test_help_lists_every_command_and_loads_nothing_heavy():
    program = (
        "import sys\nfrom twinvec.cli.app import main\n"
        "try: main(['--help'])\nexcept SystemExit as stop: assert not stop.code\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for command in ("encode", "similarity", "evaluate", "train", "ingest", "search", "info"):
        assert f"\n│ {command} " in done.stdout
    assert "LOADED []" in done.stdout


def test_help_groups_the_commands_in_panels(twinvec):
    shown = twinvec("--help").out
    panels = [line.strip("╭─╮ ") for line in shown.splitlines() if line.startswith("╭")]
    assert panels == ["Options", "Encode and compare", "Train and evaluate", "Collections", "Maintenance"]
    last = shown.split("─ Maintenance ─")[1]
    assert all(f"│ {command} " in last for command in ("drop", "migrate", "push", "reindex", "verify"))


def test_the_same_option_has_the_same_words_in_every_command():
    import typer

    from twinvec.cli.app import build_app

    words: dict[str, set[str]] = {}
    for command in typer.main.get_command(build_app()).commands.values():
        for option in command.params:
            for flag in set(option.opts) & {"--path", "--url", "--json", "--wait", "--split"}:
                words.setdefault(flag, set()).add(option.help)
    assert len(words) == 5
    assert {flag: len(each) for flag, each in words.items()} == dict.fromkeys(words, 1), words


@pytest.mark.parametrize("module", ["typer", "twinvec.cli.commands", "twinvec.cli.encode"])
def test_ctrl_c_while_a_command_is_imported_prints_one_line(module):
    program = (
        "import os, signal, sys\nfrom twinvec.__main__ import main\n"
        "class CtrlC:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, CtrlC())\n"
        "sys.argv = ['twinvec', 'encode', 'texts.txt']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        130,
        "",
        "twinvec: interrupted; run the same command again\n",
    )


def test_the_command_begins_where_ctrl_c_is_caught():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"twinvec": "twinvec.__main__:main"}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_lines_are_folded_between_words_on_a_terminal_only(is_terminal, monkeypatch):
    from io import StringIO

    from twinvec.cli.terminal import folded

    monkeypatch.setenv("COLUMNS", "40")
    stream = StringIO()
    stream.isatty = lambda: is_terminal
    path = "/a/folder/with-a-long-name/and/another-one/file.md"
    text = f"twinvec: {path}: cannot be read, although it is there\nsecond  line"
    lines = folded(text, stream).split("\n")
    if not is_terminal:
        assert lines == text.split("\n")
        return
    assert lines == ["twinvec:", f"  {path}:", "  cannot be read, although it is there", "second  line"]


def test_help_fits_80_columns_and_flags_show_no_type(monkeypatch):
    import typer

    from twinvec.cli.app import build_app

    monkeypatch.setenv("COLUMNS", "80")
    group = typer.main.get_command(build_app())
    examples = [
        line.strip()
        for command in group.commands.values()
        for line in command.help.splitlines()
        if line.strip().startswith("twinvec ")
    ]
    assert len(examples) > 20
    assert [line for line in examples if len(line) > 78] == [], "such a line would be folded"
    for command in group.commands.values():
        flags = [each for each in command.get_params(typer.Context(command)) if getattr(each, "is_flag", False)]
        assert flags, "at least --help"
        assert {each.metavar for each in flags} == {""}


def test_completion_can_be_installed(twinvec):
    assert "--install-completion" in twinvec("--help").out


def test_version(twinvec):
    assert twinvec("--version").out.strip() == package.__version__


@pytest.mark.parametrize(("arguments", "told"), [("sys.argv[1:]", "700 0 "), ("None", "10000 1 ")])
def test_a_process_of_a_command_collects_little_garbage(arguments, told):
    """A program that calls ``main`` with arguments keeps the settings of its garbage collector."""
    program = f"""
import atexit, gc, sys
frozen = gc.get_freeze_count()  # Python 3.12 starts with some
atexit.register(lambda: print(gc.get_threshold()[0], int(gc.get_freeze_count() > frozen), end=" "))
from twinvec.cli.app import main
main({arguments})
"""
    command = [sys.executable, "-c", "import gc; gc.set_threshold(700)" + program, "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert shown.split("\n")[-1] == told


def test_tables_are_of_one_class():
    from twinvec.cli.terminal import table

    assert type(table("one", "a")) is type(table("two", "b"))


@pytest.mark.parametrize("command", ["encode", "similarity", "ingest", "search", "info", "evaluate", "train", "mine"])
def test_every_command_explains_itself(twinvec, command):
    done = twinvec(command, "--help")
    assert done.code == 0
    assert f"twinvec {command} " in done.out.split("╭─")[0].split("Usage:")[1].split("\n", 1)[1], "an example"


@pytest.mark.parametrize("arguments", [["no-such-command"], ["similarity", "one"], ["encode", "--no-such-option"]])
def test_wrong_usage_is_2(twinvec, arguments):
    done = twinvec(*arguments)
    assert done.code == 2
    assert done.out == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--device", "foo"), "device 'foo' cannot be used"),
        (("--device", "cpu", "--device", "cuda:x"), "device 'cuda:x' cannot be used"),
        (("--dim", "0"), "greater than or equal to 1"),
    ],
)
def test_an_option_of_encode_that_cannot_be_is_wrong_usage(twinvec, tmp_path, options, said):
    (tmp_path / "texts.txt").write_text("tea\n")
    done = twinvec("encode", tmp_path / "texts.txt", "-o", tmp_path / "vectors.npy", *options)
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())


def test_an_error_is_explained_in_one_line_and_1(twinvec):
    done = twinvec("similarity", "a", "b", "--model", "no/such/folder/at/all")
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("twinvec: ")
    assert "no/such/folder/at/all" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("place", [0, 6])
def test_debug_shows_where(place):
    from twinvec.cli.app import main

    arguments = ["similarity", "a", "b", "--model", "no/such/folder", "--json"]
    with pytest.raises(ModelNotFoundError):
        main([*arguments[:place], "--debug", *arguments[place:]])


def test_a_broken_package_does_not_take_the_commands_of_others(twinvec, tmp_path, monkeypatch):
    info = tmp_path / "broken_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[twinvec.commands]\nbroken = broken_plugin:register\n")
    (tmp_path / "broken_plugin.py").write_text("raise OSError('no such library')\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = twinvec("--help")
    assert done.code == 0
    assert "search" in done.out
    assert "broken-plugin: OSError: no such library" in done.err


@pytest.mark.slow
def test_similarity(twinvec, encoder):
    texts = ["a dog runs", "a puppy is running", "stocks fell"]
    done = twinvec("similarity", *texts, "--json")
    found = json.loads(done.out)
    first, *others = encoder.encode(texts)
    assert found["text"] == texts[0]
    assert [each["text"] for each in found["similarities"]] == texts[1:]
    assert [each["score"] for each in found["similarities"]] == pytest.approx(
        [first @ other for other in others], abs=1e-5
    )
    shown = twinvec("similarity", *texts).out
    assert f"{found['similarities'][0]['score']:.4f}" in shown


def test_encode_a_text_file(twinvec, encoder, tmp_path):
    lines = ["one", "", "two words", "one", "Straße \u65e5\u672c"]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = twinvec("encode", tmp_path / "texts.txt", "-o", tmp_path / "vectors.npy", "--json")
    report = json.loads(done.out)
    assert (report["texts"], report["columns"], report["space"]) == (5, 384, encoder.space)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), encoder.encode(lines), atol=1e-5)
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


@pytest.mark.slow
def test_encode_a_field_of_json_lines(twinvec, encoder, tmp_path):
    rows = [{"question": "who?"}, {"question": "what?"}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = ("encode", tmp_path / "rows.jsonl", "-o", tmp_path / "v.npy", "--field", "question")
    assert twinvec(*arguments, "--storage", "binary", "--dim", 64).code == 0
    assert np.load(tmp_path / "v.npy").shape == (2, 8)
    assert "2 vectors of 384" in twinvec(*arguments).out
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), encoder.encode(["who?", "what?"]), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.txt", b"", "empty"),
        ("a.txt", b"fine\nbroken \xff\n", "a.txt:2"),
        ("a.jsonl", b'{"text": "fine"}\n{"text": 3}\n', "a.jsonl:2"),
        ("a.jsonl", b'{"text": "fine"}\n{"other": "x"}\n', "a.jsonl:2"),
        ("a.jsonl", b'{"text": "fine"}\nnot json\n', "a.jsonl:2"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', "a.jsonl:1"),
        ("missing.txt", None, "missing.txt"),
        ("a.csv", b"id,text\n1,tea\n", "a.csv: a table"),
    ],
)
def test_encode_names_what_is_wrong_and_writes_nothing(twinvec, tmp_path, name, content, told):
    (tmp_path / "v.npy").write_bytes(b"of an earlier run")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = twinvec("encode", tmp_path / name, "-o", tmp_path / "v.npy")
    assert done.code == 1
    assert told in done.err
    assert (tmp_path / "v.npy").read_bytes() == b"of an earlier run"


def test_encode_into_a_folder_that_is_not_there(twinvec, tmp_path):
    (tmp_path / "a.txt").write_text("text\n")
    done = twinvec("encode", tmp_path / "a.txt", "-o", tmp_path / "no" / "v.npy")
    assert done.code == 1
    assert "v.npy: cannot be written" in done.err


@pytest.mark.parametrize(
    "arguments",
    [["ingest", "docs", "--collection", "docs", "--prune"], ["search", "a", "b", "-c", "docs"], ["migrate", "--help"]],
)
def test_a_command_of_collections_says_how_to_get_it(twinvec, monkeypatch, arguments):
    monkeypatch.setattr(commands, "entry_points", lambda group: [])
    monkeypatch.setattr(commands, "find_spec", lambda name: None)
    done = twinvec(*arguments)
    assert done.code == 1
    line = install_line("twinvec-qdrant")
    assert done.err == f"twinvec: the command {arguments[0]!r} is in the package 'twinvec-qdrant': {line}\n"
    assert twinvec("no-such-command").code == 2
    assert "│ ingest" not in twinvec("--help").out


def test_the_commands_of_collections_are_known():
    registered = typer.Typer()
    register(registered)
    assert {command.name for command in registered.registered_commands} <= set(COLLECTION_COMMANDS)
    assert len(registered.registered_commands) > 5
    (entry,) = distribution(COLLECTIONS_PACKAGE).entry_points.select(group="twinvec.commands")
    assert entry.value == COLLECTIONS_PLACE, "what is not looked up is what the package declares"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_character_that_the_output_lacks_ends_no_command(encoding):
    program = (
        "from twinvec.cli import terminal\nterminal.replace_unknown_characters()\n"
        "terminal.show_json({'place': 'a \u2192 b'})\nprint('a \u2192 b')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, env=environment)
    values, text = done.stdout.decode(encoding).splitlines()
    assert json.loads(values) == {"place": "a \u2192 b"}
    assert text == ("a \u2192 b" if encoding == "utf-8" else "a ? b")


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (("encode", "a" * 3000, "-o", "v.npy"), "cannot be read: File name too long"),
        (("evaluate", "bm25", "--sts", "a" * 3000), "File name too long"),
    ],
)
def test_a_name_that_is_too_long_for_a_file_is_an_error_of_one_line(twinvec, command, fault):
    done = twinvec(*command)
    assert done.code == 1
    assert re.fullmatch(rf"twinvec: a+\.\.\.a+: {fault}\n", done.err)


@pytest.mark.parametrize("imported", [True, False])
def test_the_end_of_a_command_collects_garbage_only_if_triton_is_imported(imported):
    """Objects of triton that are not collected at the end are reported on stderr."""
    program = (
        "import sys, types\n"
        "class Told:\n    def __del__(self): print('collected')\n"
        "told = Told()\ntold.itself = told\n"
        "from twinvec.cli.app import _collect_garbage_rarely\n_collect_garbage_rarely()\n"
        f"if {imported}: sys.modules['triton'] = types.ModuleType('triton')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert done.stdout == ("collected\n" if imported else "")
