"""Checks of arguments: choices, integers and outputs."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from twinvec.errors import ConfigurationError
from twinvec.support.checks import (
    check_choice,
    check_free,
    check_input_file,
    check_methods,
    check_output_file,
    check_output_folder,
    file_path,
    integer,
    is_integer,
    is_loopback,
    is_server_address,
    number,
    string,
)

Color = Literal["red", "green"]


@pytest.mark.parametrize("choices", [Color, ("red", "green"), ["red", "green"], {"red": 1, "green": 2}])
def test_choices(choices):
    for value in ("red", "green"):
        check_choice(value, choices, "color")
    for value in ("blue", "", "re", None, 1, ["red"]):
        with pytest.raises(ConfigurationError) as raised:
            check_choice(value, choices, "color")
        assert str(raised.value) == f"color {value!r} is not one of red, green"


@pytest.mark.parametrize("check", [check_input_file, check_output_file, check_free])
def test_a_name_that_is_too_long_is_named(tmp_path, check):
    with pytest.raises(ConfigurationError, match=r"x: cannot be looked up: File name too long$"):
        check(tmp_path / ("x" * 300))


def test_an_error_shows_only_the_ends_of_a_long_value():
    for refuse in (
        lambda value: check_choice(value, Color, "color"),
        lambda value: integer(value, "limit"),
        lambda value: string(f"{value}\ud800", "name"),
        lambda value: check_methods(value, ("search",), "retriever", "a retriever"),
    ):
        with pytest.raises(ConfigurationError, match=r"'x{199}\.\.\.") as raised:
            refuse("x" * 1_000_000)
        assert len(str(raised.value)) < 500


def test_none_can_be_a_choice():
    check_choice(None, (None, "red"), "color")
    with pytest.raises(ConfigurationError, match="color 'blue' is not one of None, red"):
        check_choice("blue", (None, "red"), "color")


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_integers(value):
    assert is_integer(value)
    found = integer(value, "limit", 3)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("value", [3.0, np.float64(3), True, np.bool_(True), "3", None, [3]])
def test_other_values_are_not_integers(value):
    assert not is_integer(value)
    with pytest.raises(ConfigurationError) as raised:
        integer(value, "limit")
    assert str(raised.value) == f"limit must be a whole number, got {value!r}"


@pytest.mark.parametrize("value", [3, 0.5, np.float32(0.5), np.int64(3)])
def test_numbers(value):
    assert number(value, "share", 0, 3) == value
    assert type(number(value, "share")) is float


@pytest.mark.parametrize("value", ["3", None, True, [3], np.array([1.0, 2.0]), 1j])
def test_other_values_are_not_numbers(value):
    with pytest.raises(ConfigurationError, match=r"^share must be a number, got "):
        number(value, "share", 0, 1)


def test_numbers_outside_their_bounds():
    with pytest.raises(ConfigurationError, match=r"^share must lie between 0 and 1, got 1.5$"):
        number(1.5, "share", 0, 1)
    with pytest.raises(ConfigurationError, match=r"^share must lie between 0 and 1, got nan$"):
        number(float("nan"), "share", 0, 1)
    with pytest.raises(ConfigurationError, match=r"^seconds must be at least 0, got -1$"):
        number(-1, "seconds", least=0)


def test_strings_that_nothing_can_store_are_refused():
    assert string("Köln", "name") == "Köln"
    with pytest.raises(ConfigurationError, match=r"name must be a string, got b'x'"):
        string(b"x", "name")
    with pytest.raises(ConfigurationError, match="name has a lone surrogate at character 1"):
        string("a\ud800", "name")


def test_paths_that_no_file_can_have_are_refused(tmp_path):
    assert file_path(str(tmp_path), "path") == file_path(tmp_path, "path") == tmp_path
    wrong = {b"x": "must be a path", 5: "must be a path", "": "is an empty", "a\0b": "has a NUL", "\ud800": "cannot be"}
    for value, said in wrong.items():
        with pytest.raises(ConfigurationError, match=f"^path {said}"):
            file_path(value, "path")


def test_paths_of_other_libraries_are_paths(tmp_path):
    class Place:
        def __init__(self, place):
            self._place = place

        def __fspath__(self):
            return self._place

    assert file_path(Place(str(tmp_path)), "path") == tmp_path
    with pytest.raises(ConfigurationError, match=r"^path must be a path"):
        file_path(Place(b"bytes"), "path")


def test_objects_need_their_methods():
    check_methods([], ("append",), "items", "a list")
    for value in (5, list):
        with pytest.raises(ConfigurationError, match="items: expected a list, got"):
            check_methods(value, ("append",), "items", "a list")


def test_an_integer_that_is_too_small():
    with pytest.raises(ConfigurationError, match="limit must be at least 1, got 0"):
        integer(0, "limit", 1)
    assert integer(-5, "offset") == -5


def test_the_addresses_of_this_machine():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.0.0.2", "::1")))
    others = ("", "127.0.0.1.example.com", "localhost.example.com", "10.0.0.1", "0.0.0.0", "::", "2001:db8::1")
    assert not any(map(is_loopback, others))


def test_outputs_get_their_folder_or_are_refused(tmp_path):
    check_output_file(tmp_path / "new" / "deep" / "file.png")
    check_output_folder(tmp_path / "other")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "new", "other"]
    with pytest.raises(ConfigurationError, match="other: is a folder; name a file"):
        check_output_file(tmp_path / "other")
    (tmp_path / "taken").touch()
    for check, place in ((check_output_folder, "taken"), (check_output_file, "taken/file.png")):
        with pytest.raises(ConfigurationError, match="taken: the folder cannot be made: "):
            check(tmp_path / place)
    check_output_file(tmp_path / "taken")  # is replaced


@pytest.mark.parametrize(
    "address", ["http://localhost:6333", "https://é.example/q", "http://[fe80::1%25eth0]:6333", "http://a_b"]
)
def test_addresses_of_servers(address):
    assert is_server_address(address)


@pytest.mark.parametrize(
    "address", ["localhost", "ftp://a", "http://", "http://a:99999", "http://a b", "http://a%b", "http://a\x07b", None]
)
def test_what_is_not_an_address_of_a_server(address):
    assert not is_server_address(address)
