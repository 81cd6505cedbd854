"""Patterns: the files and folders that the user, or a ``.gitignore`` file, excludes.

pathspec reads patterns as Git does. The last pattern that matches decides, and "!" includes again. An excluded folder
is not entered. So a pattern is compared only with a path itself, and not with the folders above the path.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from twinvec.errors import ConfigurationError
from twinvec.text import is_list

GITIGNORE = ".gitignore"
_FOLDER_END = "ps_d"  # pathspec's group for the "/" after a folder that a pattern names
_MAX_BYTES = 1024 * 1024
_REPOSITORIES = frozenset({".git", ".hg", ".jj", ".svn"})  # entered only if a pattern has the name itself as a part


class Ignored(NamedTuple):
    """The patterns of one ``.gitignore``, and the relative path of its folder: "" or "deep/"."""

    place: str
    patterns: GitIgnoreSpec


def pattern_list(given: Sequence[str], name: str) -> tuple[str, ...]:
    """Return a list of patterns as a tuple; raise ``ConfigurationError`` about the argument ``name`` for others."""
    if not is_list(given) or not all(isinstance(each, str) for each in given):
        raise ConfigurationError(f"{name}: expected a list of patterns, such as ['*.md'], got {given!r}")
    return tuple(given)


class Selection:
    """The patterns that the user gave: ``include`` and ``exclude``.

    Raises:
        ConfigurationError: a pattern is not valid.
    """

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        patterns = pattern_list(include, "include")
        self._include = _given(patterns, "include")
        self._of_hidden = _given(tuple(each for each in patterns if hidden_parts(each)), "include")
        self._hidden_parts = frozenset(part for each in patterns for part in hidden_parts(each))
        self._exclude = _given(pattern_list(exclude, "exclude"), "exclude")

    def leaves_out(self, place: str) -> bool:
        """Return whether a file, or a folder (its path ends in "/") with all its files, is excluded."""
        if self._exclude is not None and _last_match(self._exclude, place):
            return True
        return not place.endswith("/") and self._include is not None and not self._include.match_file(place)

    def takes_hidden(self, place: str) -> bool:
        """Return whether a pattern to include names a hidden file, or may name a file below a hidden folder.

        A path is hidden if a part of it begins with a dot. Only patterns with such a part name hidden files.
        """
        parts = place.rstrip("/").split("/")
        if self._of_hidden is None or not _REPOSITORIES.intersection(parts) <= self._hidden_parts:
            return False
        if self._of_hidden.match_file(place):
            return True
        is_named = not parts[-1].startswith(".") or any(fnmatchcase(parts[-1], each) for each in self._hidden_parts)
        return place.endswith("/") and is_named


def is_hidden(place: str) -> bool:
    """Return whether a part of a relative path begins with a dot."""
    return "/." in f"/{place}"


def hidden_parts(pattern: str) -> list[str]:
    """Return the parts of a pattern that begin with a dot, as ``.github`` does in ``.github/**``."""
    return [part for part in pattern.removeprefix("!").split("/") if part.startswith(".") and part.strip(".")]


def is_ignored(place: str, ignored: Sequence[Ignored]) -> bool:
    """Return whether ``.gitignore`` files exclude a file or folder; the innermost with a matching pattern decides."""
    for rules in reversed(ignored):
        if (found := _last_match(rules.patterns, place[len(rules.place) :])) is not None:
            return found
    return False


def _last_match(patterns: GitIgnoreSpec, place: str) -> bool | None:
    """Return whether the last pattern that matches the path has no "!"; None if no pattern matches the path itself."""
    for pattern in reversed(patterns.patterns):
        if pattern.include is None or pattern.regex is None or (found := pattern.regex.match(place)) is None:
            continue
        above = found.groupdict().get(_FOLDER_END) is not None and found.end(_FOLDER_END) < len(place)
        if not above:
            return pattern.include
    return None


def read_gitignore(path: Path, place: str) -> Ignored | None:
    """Return the patterns of a ``.gitignore``, or None if the path is not a regular file, which Git ignores, too.

    Raise ``OSError`` if the file cannot be read.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    with path.open("rb") as file:
        lines = file.read(_MAX_BYTES).decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
    return Ignored(place, _valid(lines))


def _valid(lines: Iterable[str]) -> GitIgnoreSpec:
    """Return the valid patterns of these lines; Git ignores invalid patterns, too."""
    kept = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        kept.append(line)
    return GitIgnoreSpec.from_lines(kept)


@lru_cache(maxsize=32)
def _given(patterns: tuple[str, ...], name: str) -> GitIgnoreSpec | None:
    try:
        return GitIgnoreSpec.from_lines(patterns) if patterns else None
    except ValueError as error:
        raise ConfigurationError(
            f"{name}: {' '.join(str(error).split())}; expected patterns as in a .gitignore, such as *.md or drafts/"
        ) from error
