"""Checks of arguments: choices, integers, unknown names, addresses, outputs.

Errors name the argument, its value, and a remedy.

``field_fault`` describes a fault that pydantic found in a field, in words that follow the field's name.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from typing import Any, get_args

from twinvec.errors import ConfigurationError, InputError
from twinvec.support.atomic import partial_path
from twinvec.text import is_list

_NOUN = re.compile(r"^(Input|List|String|Dictionary) (?=should )")
"""Pydantic's noun for a field, which messages leave out because the field's name comes before."""

_MOST_SHOWN = 400  # limit of the length of a value in a message, in characters
_SCALARS = frozenset("biufUM")  # kinds of NumPy scalars: truth values, numbers, texts and moments

ADDRESS_FORM = "http://host:port or https://host:port"
"""The form of a server's address, for messages."""


def shown(value: object) -> str:
    """Return the ``repr`` of a value for a message; if it is long, only its two ends."""
    return shortened(repr(value))


def shortened(text: str) -> str:
    """Return a text for a message; if it is long, only its two ends."""
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN // 2]}...{text[-_MOST_SHOWN // 4 :]}"


def listed(names: Sequence[str], most: int) -> str:
    """Return at most ``most`` names for a message, and the number of the others: "a, b and 1,203 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def plain_scalar(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value (a moment to a datetime); return any other value as it is."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind not in _SCALARS or getattr(value, "ndim", None) != 0:
        return value
    return value.astype("datetime64[us]").item() if kind == "M" else value.item()


def check_choice(value: object, choices: Any, what: str) -> None:
    """Raise ConfigurationError, which names ``what``, unless a value is in ``choices`` (values, or a ``Literal``)."""
    known: tuple[object, ...] = get_args(choices) or tuple(choices)
    if not isinstance(value, tuple(map(type, known))) or value not in known:
        raise ConfigurationError(f"{what} {shown(value)} is not one of {', '.join(map(str, known))}")


def refuse_unknown(arguments: Mapping[str, object]) -> None:
    """Raise ConfigurationError if unknown keyword arguments are left over; the error names them all."""
    if arguments:
        raise ConfigurationError(f"unknown arguments: {', '.join(sorted(map(str, arguments)))}")


def check_flags(**flags: object) -> None:
    """Raise ConfigurationError, which names the argument, unless every value is True or False."""
    for name, value in flags.items():
        if not isinstance(plain_scalar(value), bool):
            raise ConfigurationError(f"{name} must be True or False, got {shown(value)}")


def is_integer(value: object) -> bool:
    """Return whether a value is an int or a NumPy integer, but not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def integer(value: int, name: str, least: int | None = None) -> int:
    """Return an int or NumPy integer as an int; raise ConfigurationError for another type or less than ``least``."""
    if not is_integer(value):
        raise ConfigurationError(f"{name} must be a whole number, got {shown(value)}")
    if least is not None and value < least:
        raise ConfigurationError(f"{name} must be at least {least}, got {value}")
    return int(value)


def number(value: float, name: str, least: float | None = None, most: float | None = None) -> float:
    """Return a number as a float; raise ConfigurationError for another type, or one outside the bounds, such as NaN."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ConfigurationError(f"{name} must be a number, got {shown(value)}")
    if least is not None and not least <= value <= (math.inf if most is None else most):
        bounds = f"be at least {least:g}" if most is None else f"lie between {least:g} and {most:g}"
        raise ConfigurationError(f"{name} must {bounds}, got {value}")
    return float(value)


def string(value: str, name: str) -> str:
    """Return a string; raise ConfigurationError for another type, or for a lone surrogate, which nothing can store."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a string, got {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{name} has a lone surrogate at character {error.start}: {shown(value)}") from None
    return value


def mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping with strings as keys; raise ConfigurationError for another type."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigurationError(f"{name}: expected a mapping with strings as keys, got {shown(value)}")
    return value


def as_list(values: Iterable[Any], name: str, of: str) -> list[Any]:
    """Return an iterable as a list; raise ConfigurationError, with a remedy, for one text or path, or another type."""
    if isinstance(values, (str, os.PathLike)):
        raise ConfigurationError(f"{name}: expected a list of {of}, got one text; write [{shown(values)}]")
    if not is_list(values):
        raise ConfigurationError(f"{name}: expected a list of {of}, got {shown(values)}")
    return list(values)


def file_path(value: str | os.PathLike[str], name: str) -> Path:
    """Return a path with ``~`` expanded; raise ConfigurationError as ``path_text`` does."""
    text = path_text(value, name)
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # the path names an unknown user's home
        raise ConfigurationError(f"{name} cannot be a path: {shown(text)}: {error}") from None


def path_text(value: str | os.PathLike[str], name: str) -> str:
    """Return a path unchanged; raise ConfigurationError for another type, or for a path that no file can have."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise ConfigurationError(f"{name} must be a path, got {shown(value)}")
    if not text:
        raise ConfigurationError(f"{name} is an empty text; '.' names the current folder")
    try:
        if b"\0" in os.fsencode(text):
            raise ConfigurationError(f"{name} has a NUL character: {shown(text)}")
    except UnicodeEncodeError as error:  # a lone surrogate
        raise ConfigurationError(f"{name} cannot be a path: {shown(text)}: {error}") from None
    return text


def is_server_address(value: str) -> bool:
    """Return whether a text is an address of the form ``ADDRESS_FORM``; the port may be left out."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        _ = parts.port  # raises ValueError for an invalid port
    except (ValueError, AttributeError, TypeError):
        return False
    host = parts.hostname or ""
    is_host = host.isprintable() and " " not in host and (":" in host or "%" not in host)  # fe80::1%eth0 names a link
    return parts.scheme in ("http", "https") and bool(host) and is_host


def is_loopback(host: str) -> bool:
    """Return whether a host name or an IP address stands for this machine; a name other than localhost does not."""
    from ipaddress import ip_address

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_methods(value: object, methods: Iterable[str], name: str, expected: str) -> None:
    """Raise ConfigurationError unless a value is an object with these methods or attributes."""
    if isinstance(value, type) or not all(hasattr(value, each) for each in methods):
        raise ConfigurationError(f"{name}: expected {expected}, got {shown(value)}")


def check_data(value: object, kind: type, name: str, expected: str) -> None:
    """Raise InputError unless a value is data of this kind."""
    if not isinstance(value, kind):
        raise InputError(f"{name}: expected {expected}, got {shown(value)}")


def check_settings(value: object, kind: type, name: str) -> None:
    """Raise ConfigurationError unless a value is None or settings of this kind."""
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"{name}: expected {kind.__name__}(...), got {shown(value)}")


def check_input_file(file: Path) -> None:
    """Raise ConfigurationError unless a file to read exists and is a file."""
    check_kind(file)
    if not file.exists():
        raise ConfigurationError(f"{file}: no such file")


def check_output_file(file: Path) -> None:
    """Make the folder of a file to write; raise ConfigurationError if that fails or the path is a folder or device."""
    check_kind(file)
    check_output_folder(file.parent)


def check_kind(file: Path) -> None:
    """Raise ConfigurationError if a path is a folder or a device, or cannot be looked up."""
    if _exists(file) and not file.is_file():
        raise ConfigurationError(f"{file}: is a {'folder' if file.is_dir() else 'device'}; name a file")


def check_free(path: Path) -> None:
    """Raise ConfigurationError if a file to write exists already."""
    if _exists(path):
        raise ConfigurationError(f"{path}: exists already; remove it, or name another")


def check_overwrites(output: Path, source: Path, *others: Path) -> None:
    """Raise ConfigurationError if a file to write, its partial file or one of the ``others`` is the file to read."""
    for path in (output, partial_path(output), *others):
        if _exists(path) and _exists(source) and path.samefile(source):
            raise ConfigurationError(f"{output}: would overwrite the input {source}; name another file")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # the name is too long, or a folder on the way cannot be read
        raise ConfigurationError(f"{shortened(str(path))}: cannot be looked up: {error.strerror}") from error


def check_output_folder(folder: Path) -> None:
    """Make a folder to write into; raise ConfigurationError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{folder}: the folder cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{folder}: cannot be written")


def field_fault(error: Mapping[str, Any], known: Mapping[str, str] | None = None) -> str:
    """Describe ``error``, a fault among pydantic's ``errors()``; no value is quoted, except for a discriminator.

    ``known`` maps names that resemble an unknown field to the fields that the message suggests.
    """
    given = error.get("input")
    instead = ", not a list" if isinstance(given, list) else ", not a mapping" if isinstance(given, dict) else ""
    chooser = str(error.get("ctx", {}).get("discriminator")).strip("'")
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            near = get_close_matches(str(error["loc"][-1]), known or (), 1)
            return f"is not known; did you mean {known[near[0]]}?" if known and near else "is not known; leave it out"
        case "union_tag_not_found":
            return f"{chooser} is missing"
        case "union_tag_invalid":
            return (
                f"{chooser} {error['ctx']['tag']!r} is not known; it should be one of {error['ctx']['expected_tags']}"
            )
        case "path_type":
            return f"should be the path of one file{instead}"
        case "string_type":
            return f"should be a valid string{instead}"
    message: str = error["msg"]
    return _NOUN.sub("", message.removeprefix("Value error, ").replace(" after validation", ""))
