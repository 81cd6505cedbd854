"""Values of a command line that are not converted are those that typer's own conversion gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.main import get_command

from twinvec.support.plain_values import convert_only_where_needed

FOLDER = Path(__file__).parent


def shown(
    texts: list[str],
    more: list[str] | None = None,
    path: Path | None = None,
    folder: Annotated[Path, typer.Option(file_okay=False)] = FOLDER,
    real: Annotated[Path, typer.Option(resolve_path=True)] = FOLDER,
    mode: Literal["dense", "sparse"] | None = None,
    limit: Annotated[int, typer.Option(min=1)] = 10,
    wait: Annotated[float, typer.Option(envvar="LONGEST_WAIT")] = 10.0,
    numbers: list[int] | None = None,
    late: bool | None = None,
    whole: bool = False,
) -> dict[str, Any]:
    return locals()


def outcome(arguments, *, only_where_needed):
    """What the command got, with the types; or the words of its error."""
    app = typer.Typer(rich_markup_mode=None, context_settings={"default_map": {"more": ["from a file"]}})
    app.command()(shown)
    command = get_command(app)
    for parameter in command.params if only_where_needed else ():
        convert_only_where_needed(parameter)
        convert_only_where_needed(parameter)  # a second time changes nothing
    try:
        got = command(list(map(str, arguments)), standalone_mode=False)
    except Exception as error:
        return type(error), str(error)
    return {name: (type(value), value) for name, value in got.items()}


@pytest.mark.parametrize(
    "arguments",
    [
        ["a"],
        ["a", "b", "--more", "c", "--more", "d"],
        [],
        ["a", "--path", "nowhere"],
        ["a", "--path", FOLDER],
        ["a", "--path", __file__, "--folder", FOLDER],
        ["a", "--folder", __file__],
        ["a", "--real", FOLDER / ".."],
        ["a", "--mode", "dense", "--late", "--whole"],
        ["a", "--mode", "psychic"],
        ["a", "--limit", "3", "--wait", "2"],
        ["a", "--limit", "0"],
        ["a", "--limit", "three"],
        ["a", "--numbers", "1", "--numbers", "2"],
        ["a", "--numbers", "x"],
    ],
)
def test_values_and_errors_are_those_of_typer(arguments, monkeypatch):
    for wait in ("", "3.5", "soon"):
        monkeypatch.setenv("LONGEST_WAIT", wait)
        expected = outcome(arguments, only_where_needed=False)
        got = outcome(arguments, only_where_needed=True)
        assert without_wording(got) == without_wording(expected)
        assert isinstance(expected, dict) or expected[1] or not arguments
        assert not re.search("Input should|unable to parse", str(got)), "the words are not pydantic's"


def without_wording(outcome):
    """An outcome whose error says only what a value should be."""
    if isinstance(outcome, dict):
        return outcome
    kind, text = outcome
    return kind, re.sub(r"^.*? should", "it should", text).removeprefix("Value error, ").partition(", unable to")[0]


def test_a_path_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # the tests may run as root
    refused = outcome(["a", "--path", tmp_path], only_where_needed=True)
    assert refused == outcome(["a", "--path", tmp_path], only_where_needed=False)
    assert "is not readable" in refused[1]
