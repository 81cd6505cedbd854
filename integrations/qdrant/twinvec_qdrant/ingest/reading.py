"""Files -> documents: a folder, a file, or JSON lines.

A broken file or line becomes a ``Failure`` among the documents and stops no other. Text files are read as UTF-8;
formats that need a converter go through markitdown, which comes with the extra ``documents``.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from twinvec.errors import DocumentError, EngineError, MissingExtraError, TwinvecError
from twinvec.retrieval.documents import Document, as_document
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec.text import MAX_TEXT_BYTES
from twinvec_qdrant.ingest.front_matter import split_front_matter

_CONVERTED = {".docx", ".epub", ".htm", ".html", ".ipynb", ".msg", ".pdf", ".pptx", ".xls", ".xlsx"}
_MARKDOWN = {".md", ".markdown", ".mdx"}
_SKIPPED_FOLDERS = {"__pycache__", "node_modules"}
_FOLDER_MARKS = ("CACHEDIR.TAG", "pyvenv.cfg")  # a cache, a virtual environment
_STORE_MARKS = {"collection.json", "lock", "owner"}  # an embedded collection, perhaps the one that is being filled
_MAX_CONVERTED_BYTES = 256 * 1024 * 1024
_MAX_LINE_BYTES = 8 * MAX_TEXT_BYTES  # JSON may write a byte of text as six


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that could not be read.

    Attributes:
        source: The document's id, a folder, or "file.jsonl:17".
        reason: What was wrong and, where something can be done, what to do.
        hides: Whether documents may be behind it that were not seen (a folder that cannot be listed, a line without
            an id). What is missing after such a failure has not vanished: nothing may be pruned.
    """

    source: str
    reason: str
    hides: bool = False


def read_source(source: str | Path) -> Iterator[Document | Failure]:
    """The documents of a source, in a fixed order.

    A folder is read with all below it: a document a file, its id the path in the folder, with "/". Left out are
    hidden files and folders, caches, virtual environments, ``node_modules``, embedded collections, and links to
    folders. A file ending in ``.jsonl``, and "-", standard input, hold an object a line: ``id``, ``text``, perhaps
    ``title``; what else it has is payload. Any other single file is a document with its name as id.

    Documents of files have the payload ``{"path": ..., "format": "markdown" | "text"}``, and what a Markdown file says
    in its front matter, of which a ``title`` is the document's. An empty file is a document without text.

    Raises:
        DocumentError: there is no such file or folder.
    """
    if str(source) == "-":
        return _read_lines(sys.stdin.buffer, "-")
    path = Path(source)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise DocumentError(f"{_printable(str(path))}: {error.strerror}; expected a folder or a file") from error
    if stat.S_ISDIR(mode):
        return _Counted(_read_folder(path), sum(1 for _ in _walk(path)))
    if path.suffix.lower() == ".jsonl":
        return _Counted(_read_lines_of(path), _count_lines(path) if stat.S_ISREG(mode) else 0)
    return iter([_read_file(path, path.name)])


class _Counted(Iterator[Document | Failure]):
    """Documents, and a hint at their number for a progress bar."""

    def __init__(self, documents: Iterator[Document | Failure], number: int) -> None:
        self._documents = documents
        self._number = number

    def __next__(self) -> Document | Failure:
        return next(self._documents)

    def __length_hint__(self) -> int:
        return self._number


def _read_folder(folder: Path) -> Iterator[Document | Failure]:
    for found in _walk(folder):
        yield found if isinstance(found, Failure) else _read_file(*found)


def _walk(folder: Path) -> Iterator[tuple[Path, str] | Failure]:
    """The files below a folder with their ids."""
    left = [(folder, "")]  # a folder's place ends in "/", but for the topmost
    while left:
        path, place = left.pop()
        if place and not place.endswith("/"):
            yield path, place
            continue
        try:
            left += reversed(_entries(path, place))
        except OSError as error:
            yield Failure(_printable(place) or ".", f"folder cannot be listed: {error.strerror}", hides=True)


def _entries(folder: Path, place: str) -> list[tuple[Path, str]]:
    """The files and folders in a folder that are read, by name, with their places."""
    with os.scandir(folder) as listing:
        entries = {entry.name: entry for entry in listing}
    if place and (entries.keys() >= _STORE_MARKS or not entries.keys().isdisjoint(_FOLDER_MARKS)):
        return []
    found = []
    for name, entry in sorted(entries.items()):
        if name.startswith(".") or name in _SKIPPED_FOLDERS:
            continue
        path = folder / name
        if entry.is_dir(follow_symlinks=False):
            found.append((path, f"{place}{name}/"))
        elif not (entry.is_symlink() and _is_folder(path)):  # its files have their ids where the folder really is
            found.append((path, place + name))
    return found


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # reading it will say what is wrong
        return False


def _read_file(path: Path, identity: str) -> Document | Failure:
    suffix = path.suffix.lower()
    try:
        if suffix in _CONVERTED:
            text = _convert(_read_bytes(path, _MAX_CONVERTED_BYTES), suffix)
        else:
            text = _decode(_read_bytes(path, MAX_TEXT_BYTES))
        payload, body = split_front_matter(text) if suffix in _MARKDOWN else ({}, text)
        payload |= {"path": identity, "format": "markdown" if suffix in _CONVERTED | _MARKDOWN else "text"}
        title = payload.pop("title") if isinstance(payload.get("title"), str) else ""
        return as_document(Document(identity, body, title, payload), 0)
    except OSError as error:
        return Failure(_printable(identity), f"cannot be read: {error.strerror or error}")
    except TwinvecError as error:
        return Failure(_printable(identity), str(error))


def _read_bytes(path: Path, limit: int) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its other end
        raise DocumentError("not a regular file")
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size > limit:
            raise DocumentError(f"{before.st_size:,} bytes, more than the limit of {limit:,}; split it first")
        data = file.read(before.st_size + 1)  # room for ``limit`` bytes would be made for every small file
        after = os.fstat(file.fileno())
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or len(data) != after.st_size:
        raise DocumentError("changed while it was read; ingest it again")
    return data


def _decode(data: bytes) -> str:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    if encoding == "utf-8-sig" and b"\0" in data:
        raise DocumentError("a binary file (it holds NUL bytes), of no kind that can be converted")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"neither UTF-8 text nor of a kind that can be converted: byte 0x{data[error.start]:02x} at {error.start}"
        ) from error


def _convert(data: bytes, suffix: str) -> str:
    telemetry.switch_off()  # it looks at files with ONNX Runtime
    try:
        package = import_extra("markitdown", "documents", f"reading {suffix} files", "twinvec-qdrant")
    except (MissingExtraError, EngineError) as error:
        raise DocumentError(str(error)) from error
    info = package.StreamInfo(extension=suffix)
    try:
        text = package.MarkItDown(enable_plugins=False).convert_stream(BytesIO(data), stream_info=info)
    except Exception as error:  # whatever its converters raise: they are many, and a broken file is no reason to stop
        lines = str(error).strip().splitlines()
        raise DocumentError(f"cannot be converted: {lines[0] if lines else type(error).__name__}") from error
    return str(text.markdown)


def _read_lines_of(path: Path) -> Iterator[Document | Failure]:
    try:
        with path.open("rb") as file:
            yield from _read_lines(file, path.name)
    except OSError as error:
        yield Failure(_printable(path.name), f"cannot be read: {error.strerror or error}", hides=True)


def _count_lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0


def _read_lines(file: BinaryIO, name: str) -> Iterator[Document | Failure]:
    for number, line in enumerate(_lines(file), 1):
        where = f"{_printable(name)}:{number}"
        try:
            if len(line) > _MAX_LINE_BYTES:
                raise DocumentError(f"a line of more than {_MAX_LINE_BYTES:,} bytes")
            text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode()
            if text.strip():
                yield as_document(_object(text), number - 1)
        except UnicodeDecodeError as error:
            yield Failure(where, f"not UTF-8: byte 0x{error.object[error.start]:02x} at {error.start}", hides=True)
        except TwinvecError as error:  # which line it is says more than which document
            yield Failure(where, str(error).removeprefix(f"document {number - 1}: "), hides=True)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines; of one that is too long no more than shows that it is."""
    while line := file.readline(_MAX_LINE_BYTES + 1):
        rest = line
        while rest and not rest.endswith(b"\n") and len(line) > _MAX_LINE_BYTES:
            rest = file.readline(_MAX_LINE_BYTES)
        yield line


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DocumentError(f'expected an object such as {{"id": ..., "text": ...}}, got {type(value).__name__}')
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _printable(name: str) -> str:
    """A file name that is no UTF-8 comes with lone surrogates, which nothing can print."""
    return name.encode("utf-8", "backslashreplace").decode()
