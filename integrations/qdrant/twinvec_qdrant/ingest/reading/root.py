"""Roots: the folder, file or stream that the user wants to ingest, with all settings that decide how it is read.

A root can be read again and again: the same files give the same documents with the same ids, in the same order.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from twinvec.errors import DocumentError
from twinvec.escaping import escaped
from twinvec.retrieval.documents import Document
from twinvec.support.checks import check_flags, check_settings, path_text
from twinvec_qdrant.ingest.reading.files import FileBytes, is_slow, parse_file, read_file, take_file
from twinvec_qdrant.ingest.reading.letters.mail_files import suffix_of
from twinvec_qdrant.ingest.reading.patterns import Selection, pattern_list
from twinvec_qdrant.ingest.reading.records.columns import USUAL_COLUMNS, RecordColumns
from twinvec_qdrant.ingest.reading.records.json_files import JSON_SUFFIX, count_objects, kind_of_json, read_json
from twinvec_qdrant.ingest.reading.records.json_lines import (
    NEWER_RECORDS_SUFFIX,
    RECORDS_SUFFIX,
    count_lines,
    read_lines,
    read_records,
)
from twinvec_qdrant.ingest.reading.records.mailboxes import MAILBOX_SUFFIX, count_letters, is_mailbox, read_mailbox
from twinvec_qdrant.ingest.reading.records.tables import TABLE_SUFFIXES, read_table
from twinvec_qdrant.ingest.reading.results import NOT_UTF8, Failure, HelperCall, Read, WithResults, printable
from twinvec_qdrant.ingest.reading.walking import FoundFile, Walk
from twinvec_qdrant.settings import NEWEST_READING, check_fields

STANDARD_INPUT = "-"
"""Path of a root that reads JSON lines from standard input."""

RECORD_SUFFIXES = frozenset({RECORDS_SUFFIX, *TABLE_SUFFIXES})
"""Endings of files of records; each such file is a root of its own if the user names it."""

_LINES = (RECORDS_SUFFIX, NEWER_RECORDS_SUFFIX)
# endings of files that may hold records, with the first reading version that looks into them; "" is no ending
_LOOKED_INTO_SINCE = {JSON_SUFFIX: 6, MAILBOX_SUFFIX: 6, "": 9}
_WILD = frozenset("*?[")
_LOST = "every process that read the file died"


class Reading(Iterator[Document | Failure]):
    """The documents of a root, with their number and size as far as these are known in advance.

    ``length_hint`` gives the number of documents, or 0 if it is unknown. ``walk`` finds the files of a
    folder again; it is None for other roots.
    """

    def __init__(
        self,
        reads: Callable[[Reading], Iterable[Read]],
        number: int = 0,
        size: int = 0,
        walk: Walk | None = None,
    ) -> None:
        self.version = NEWEST_READING
        self.walk = walk
        self._reads = iter(reads(self))
        self._number = number
        self.size = size  # bytes of all files together; 0 if unknown
        self.done = 0  # bytes of the files, or parts of files, that have been read so far

    def read_by(self, version: int) -> None:
        """Read files by this reading version of a collection instead of the newest version."""
        self.version = version

    def empty_folders(self) -> Iterable[str]:
        """Return the folders that hold nothing at all, as prefixes of ids; the root itself is not among them."""
        return () if self.walk is None else map(printable, self.walk.empty_folders())

    def __next__(self) -> Document | Failure:
        value, size = next(self._reads)
        self.done += size
        return value

    def __length_hint__(self) -> int:
        return self._number


@dataclass(frozen=True, slots=True)
class Root:
    """A folder, a file, or "-" (standard input), and how it is read.

    Attributes:
        path: The folder, the file, or "-".
        include: Patterns of the files to read in a folder, as in a ``.gitignore``; default: all files. A pattern with a
            part that begins with a dot, such as ``.github/**``, also takes in the hidden files that it matches.
        exclude: Patterns of the files and folders to leave out; they win over ``include``.
        gitignore: Whether to skip files and folders that ``.gitignore`` files in the folder exclude.
        records: Whether a table, a JSON file or a mailbox, and JSON lines inside a folder, give one document for each
            record. False reads such a file as one text, as twinvec 0.2 did.
        columns: Columns that hold the id, the text and the title of records.

    Raises:
        ConfigurationError: a pattern is not valid.
    """

    path: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    gitignore: bool = True
    records: bool = True
    columns: RecordColumns = USUAL_COLUMNS

    def __post_init__(self) -> None:
        Selection(self.include, self.exclude)
        check_flags(gitignore=self.gitignore, records=self.records)
        check_settings(self.columns, RecordColumns, "columns")

    @classmethod
    def named(cls, name: str | Path, **options: Any) -> Root:
        """Return the root that the user names: a path, "-", or a pattern such as ``docs/**/*.md``.

        A pattern selects the matching files below its fixed part (``docs``). ``options`` are fields of the root.
        """
        text = path_text(name, "source")
        if text == STANDARD_INPUT or _WILD.isdisjoint(text) or os.path.exists(text):
            return cls(text, **options)
        parts = Path(text).parts
        fixed = next(row for row, part in enumerate(parts) if not _WILD.isdisjoint(part))
        pattern = "/" + "/".join(parts[fixed:])
        return cls(str(Path(*parts[:fixed])), **{**options, "include": (pattern, *options.get("include", ()))})

    def __iter__(self) -> Reading:
        return self.read()

    def read(self, with_results: WithResults | None = None) -> Reading:
        """Return the documents, as ``read_source`` does.

        With ``with_results``, other processes parse the files that are slow to parse (``is_slow``), and this process
        only reads the bytes of these files, some files ahead. It reads all other files and records itself, each in its
        turn, so that the order of the documents stays the same.

        Raises:
            DocumentError: the file or folder does not exist or cannot be accessed.
        """
        if self.path == STANDARD_INPUT:
            return Reading(lambda _: read_lines(sys.stdin.buffer, "", "", self.columns))
        path = Path(path_text(self.path, "path"))
        try:
            status = path.stat()
        except OSError as error:
            shown = escaped(printable(str(path)))
            raise DocumentError(f"{shown}: {error.strerror}; expected a folder or a file") from error
        if stat.S_ISDIR(status.st_mode):
            return self._read_folder(self._walk(), with_results)
        found = FoundFile(path, path.name, status.st_size, in_folder=False)
        reads = partial(self._reads, iter([found]), with_results)
        if not stat.S_ISREG(status.st_mode):
            return Reading(reads)
        return Reading(reads, self._count(found), status.st_size)

    def is_empty(self) -> bool:
        """Return whether the root has nothing to ingest, not even a document without text.

        Return False for standard input, and for a file that can be read only once.
        """
        path = Path(self.path)
        if self.path == STANDARD_INPUT or not (os.path.isdir(path) or os.path.isfile(path)):
            return False
        file = FoundFile(path, path.name, 0, in_folder=False)
        found = self._walk().files() if os.path.isdir(path) else iter([file])
        return not any(isinstance(each, Failure) or self._holds(each) for each in found)

    def follows(self, path: Path) -> bool:
        """Return whether a change of ``path`` may change the documents; ``path`` is absolute if ``self.path`` is."""
        if self.path == STANDARD_INPUT:
            return False
        return path == Path(self.path) or (os.path.isdir(self.path) and self._walk().follows(path))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults, as a JSON object."""
        values: dict[str, Any] = {"path": self.path}
        for name in ("include", "exclude"):
            if patterns := getattr(self, name):
                values[name] = list(patterns)
        for name in ("gitignore", "records"):
            if not getattr(self, name):
                values[name] = False
        if self.columns != USUAL_COLUMNS:
            values["columns"] = self.columns.as_dict()
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Root:
        """Build the root from the result of ``as_dict``.

        Raises:
            ConfigurationError: an unknown field, or a pattern that is not valid.
        """
        check_fields(cls, values, "a root")
        patterns = {name: tuple(values[name]) for name in ("include", "exclude") if name in values}
        columns = RecordColumns.from_dict(values.get("columns", {}))
        return cls(**{**values, **patterns, "columns": columns})

    def _walk(self) -> Walk:
        return Walk(Path(self.path), Selection(self.include, self.exclude), gitignore=self.gitignore)

    def _read_folder(self, walk: Walk, with_results: WithResults | None) -> Reading:
        number = size = 0
        for each in walk.files():
            number += 1 if isinstance(each, Failure) else self._count(each)
            size += 0 if isinstance(each, Failure) else each.size
        return Reading(partial(self._reads, walk.files(), with_results), number, size, walk)

    def _reads(
        self, found: Iterator[FoundFile | Failure], with_results: WithResults | None, reading: Reading
    ) -> Iterator[Read]:
        calls = (_with_call(each, reading.version) for each in found)
        for each in found if with_results is None else with_results(calls):
            if isinstance(each, Read):
                yield each
            elif isinstance(each, Failure):
                yield Read(each, 0)
            else:
                yield from self._read_one(each, reading.version)

    def _read_one(self, found: FoundFile, version: int = NEWEST_READING) -> Iterator[Read]:
        kind, prefix = self._kind(found, version), found.prefix
        if kind and prefix != printable(prefix):  # ids cannot begin with this prefix
            yield Read(Failure(printable(found.place), NOT_UTF8), found.size)
        elif kind in _LINES:
            yield from read_records(found.path, found.place, prefix, self.columns)
        elif kind in TABLE_SUFFIXES:
            yield from read_table(found.path, found.place, prefix, self.columns, version)
        elif kind == JSON_SUFFIX:
            yield from read_json(found.path, found.place, prefix, self.columns)
        elif kind == MAILBOX_SUFFIX:
            yield from read_mailbox(found.path, found.place, prefix, version)
        else:
            yield Read(read_file(found.path, found.place, version), found.size)

    def _holds(self, found: FoundFile) -> bool:
        """Return whether a file has anything to ingest; only a file of records may have nothing."""
        return not self._kind(found) or next(self._read_one(found), None) is not None

    def _count(self, found: FoundFile) -> int:
        """Estimate how many documents a file holds."""
        kind = self._kind(found)
        if kind == JSON_SUFFIX:
            return count_objects(found.path)
        if kind == MAILBOX_SUFFIX:
            return count_letters(found.path)
        return max(count_lines(found.path) - (kind in TABLE_SUFFIXES), 0) if kind else 1

    def _kind(self, found: FoundFile, version: int = NEWEST_READING) -> str:
        """Return the kind of a file of records, as the usual ending of its name, or "" if the file is one document."""
        path, suffix = found.path, found.path.suffix.lower()
        is_lines = suffix in _LINES and (version > 3 or suffix == RECORDS_SUFFIX)
        if not (self.records or (is_lines and not found.in_folder)):
            return ""
        # reading a pipe would wait for a writer; os.path, unlike Path, does not raise if the folder cannot be searched
        if is_lines or suffix in TABLE_SUFFIXES:
            is_special = os.path.exists(path) and not os.path.isfile(path)
            return "" if is_special and (found.in_folder or not path.is_fifo()) else suffix
        since = _LOOKED_INTO_SINCE.get(suffix)
        if since is None or version < since or not os.path.isfile(path):
            return ""
        if suffix == JSON_SUFFIX:
            return kind_of_json(path, self.columns)
        return MAILBOX_SUFFIX if is_mailbox(path, named=bool(suffix)) else ""


def _with_call(found: FoundFile | Failure, version: int) -> FoundFile | Failure | Read | HelperCall:
    """Return, for a file that is slow to parse, the call that parses it or the failure to read it; else ``found``."""
    if isinstance(found, Failure) or not is_slow(suffix_of(found.path, version), version):
        return found
    file = take_file(found.path, found.place, version)
    if isinstance(file, Failure):
        return Read(file, found.size)
    lost = Read(Failure(printable(found.place), _LOST), found.size)
    return HelperCall(_parse, (file, found.size), len(file.data), lost)


def _parse(file: FileBytes, size: int) -> Read:
    return Read(parse_file(file), size)


def read_source(
    source: str | Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    gitignore: bool = True,
    records: bool = True,
    columns: RecordColumns | None = None,
) -> Iterator[Document | Failure]:
    """Return the documents of a folder with its subfolders, of a file, or of "-" (standard input), in a fixed order.

    A ``.jsonl`` or ``.ndjson`` file, and standard input, hold one object per line with ``id``, ``text`` and perhaps
    ``title``; all other keys are payload. A ``.json`` file holds an array of such objects, or a single one. A ``.csv``
    or ``.tsv`` file holds a document in each row, with the header's names for keys. An ``.mbox`` file holds e-mails. In
    a folder, the ids of all these documents begin with the path of their file: "notes.jsonl/ID".

    Any other file is a document. Its id is the path within the folder, with "/", or a single file's name. Its payload
    is ``path``, ``format`` ("markdown", "rst" or "text") and the front matter of a Markdown file, whose ``title``
    becomes the document's title, or the sender, recipients and date of an e-mail. ``encoding`` is in the payload if the
    encoding was guessed.

    Hidden files and folders that no pattern of ``include`` names, Office's lock files, caches, virtual environments,
    ``node_modules``, embedded collections, links to folders and links that leave the folder are skipped. A file that
    several links reach is one document, with the first path.

    Args:
        source: The folder, the file, or "-".
        include: Patterns of the files to read in a folder, as in a ``.gitignore``; default: all files. A pattern with a
            part that begins with a dot, such as ``.github/**``, also takes in the hidden files that it matches.
        exclude: Patterns of the files and folders to leave out; they win over ``include``.
        gitignore: Whether to skip files and folders that ``.gitignore`` files in the folder exclude.
        records: Whether a table, a JSON file or a mailbox, and JSON lines inside a folder, give one document for each
            record; False reads such a file as one text.
        columns: Which columns hold the id, the text and the title of records.

    Raises:
        DocumentError: the file or folder does not exist or cannot be accessed.
        ConfigurationError: a pattern is not valid.
    """
    patterns = pattern_list(include, "include"), pattern_list(exclude, "exclude")
    check_settings(columns, RecordColumns, "columns")
    return Root(path_text(source, "source"), *patterns, gitignore, records, columns or USUAL_COLUMNS).read()
