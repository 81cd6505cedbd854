"""Reading: a folder, a file or JSON lines -> documents.

A broken file or line becomes a ``Failure`` among the documents, and reading goes on. Text files are read as UTF-8 or
UTF-16; markitdown, from the extra ``documents``, converts other formats.
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

from twinvec.errors import DocumentError, TwinvecError
from twinvec.retrieval.documents import Document, as_document
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec.text import MAX_TEXT_BYTES
from twinvec_qdrant.ingest.front_matter import MARKDOWN_SUFFIXES, split_front_matter

_CONVERTED = {".docx", ".epub", ".htm", ".html", ".ipynb", ".msg", ".pdf", ".pptx", ".xls", ".xlsx"}
_SKIPPED_FOLDERS = {"__pycache__", "node_modules"}
_FOLDER_MARKS = ("CACHEDIR.TAG", "pyvenv.cfg")  # files that mark a cache and a virtual environment
_STORE_MARKS = {"collection.json", "lock", "owner"}  # files of an embedded collection, perhaps the one to be filled
_MAX_CONVERTED_BYTES = 256 * 1024 * 1024
_MAX_LINE_BYTES = 8 * MAX_TEXT_BYTES  # JSON may escape a byte of text as six bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that could not be read.

    Attributes:
        source: The document's id, a folder, or "file.jsonl:17".
        reason: What was wrong, and what to do about it.
        hides: Whether it may hide other documents, as an unreadable folder or a line without an id does. An ingest then
            prunes nothing, because missing documents may still exist.
    """

    source: str
    reason: str
    hides: bool = False


def read_source(source: str | Path) -> Iterator[Document | Failure]:
    """Return the documents of a folder with its subfolders, of a file, or of "-" (standard input), in a fixed order.

    A source that ends in ``.jsonl``, and standard input, hold one object per line with ``id``, ``text`` and perhaps
    ``title``; all other keys are payload. Otherwise every file is a document, even an empty one. Its id is the path
    within the folder, with "/", or a single file's name. Its payload is ``path``, ``format`` ("markdown" or "text")
    and the front matter of a Markdown file, whose ``title`` becomes the document's title. Hidden files and folders,
    caches, virtual environments, ``node_modules``, embedded collections and links to folders are skipped.

    Raises:
        DocumentError: the file or folder does not exist or cannot be accessed.
    """
    if str(source) == "-":
        return _read_lines(sys.stdin.buffer, "-")
    path = Path(source)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise DocumentError(f"{_printable(str(path))}: {error.strerror}; expected a folder or a file") from error
    if stat.S_ISDIR(mode):
        documents = (each if isinstance(each, Failure) else _read_file(*each) for each in _walk(path))
        return _Counted(documents, sum(1 for _ in _walk(path)))
    if path.suffix.lower() == ".jsonl":
        return _Counted(_read_lines_of(path), _count_lines(path) if stat.S_ISREG(mode) else 0)
    return iter([_read_file(path, path.name)])


class _Counted(Iterator[Document | Failure]):
    """Documents, with a hint at their number for a progress bar."""

    def __init__(self, documents: Iterator[Document | Failure], number: int) -> None:
        self._documents = documents
        self._number = number

    def __next__(self) -> Document | Failure:
        return next(self._documents)

    def __length_hint__(self) -> int:
        return self._number


def _walk(folder: Path) -> Iterator[tuple[Path, str] | Failure]:
    """Yield the files below a folder with their ids."""
    left = [(folder, "")]  # the place of a subfolder ends in "/", that of ``folder`` is empty
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
    """Return the files and folders to read in a folder with their places, in the order of their names."""
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
        elif not (entry.is_symlink() and _is_folder(path)):  # not a linked folder: its files belong to its target
            found.append((path, place + name))
    return found


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # reading the file will report the reason
        return False


def _read_file(path: Path, identity: str) -> Document | Failure:
    suffix = path.suffix.lower()
    try:
        if suffix in _CONVERTED:
            text = _convert(_read_bytes(path, _MAX_CONVERTED_BYTES), suffix)
        else:
            text = _decode(_read_bytes(path, MAX_TEXT_BYTES))
        payload, body = split_front_matter(text) if suffix in MARKDOWN_SUFFIXES else ({}, text)
        payload |= {"path": identity, "format": "markdown" if suffix in {*_CONVERTED, *MARKDOWN_SUFFIXES} else "text"}
        title = payload.pop("title") if isinstance(payload.get("title"), str) else ""
        return as_document(Document(identity, body, title, payload), 0)
    except OSError as error:
        return Failure(_printable(identity), f"cannot be read: {error.strerror or error}")
    except TwinvecError as error:
        return Failure(_printable(identity), str(error))


def _read_bytes(path: Path, limit: int) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
        raise DocumentError("not a regular file")
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size > limit:
            raise DocumentError(f"{before.st_size:,} bytes, more than the limit of {limit:,}; split it first")
        data = file.read(before.st_size + 1)  # reading ``limit`` bytes would allocate as many for every small file
        after = os.fstat(file.fileno())
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or len(data) != after.st_size:
        raise DocumentError("the file changed while it was read; ingest it again")
    return data


def _decode(data: bytes) -> str:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    if encoding == "utf-8-sig" and b"\0" in data:
        raise DocumentError("a binary file (it holds NUL bytes) of a format that cannot be converted")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"neither UTF-8 text nor a format that can be converted: byte 0x{data[error.start]:02x} at {error.start}"
        ) from error


def _convert(data: bytes, suffix: str) -> str:
    telemetry.switch_off()  # markitdown uses ONNX Runtime
    package = import_extra("markitdown", "documents", f"reading {suffix} files", "twinvec-qdrant")
    info = package.StreamInfo(extension=suffix)
    try:
        text = package.MarkItDown(enable_plugins=False).convert_stream(BytesIO(data), stream_info=info)
    except Exception as error:  # its many converters raise many types, and one broken file must not stop the reading
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
        except TwinvecError as error:  # the line already says which document it is
            yield Failure(where, str(error).removeprefix(f"document {number - 1}: "), hides=True)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines; one that is too long is truncated to one byte above the limit."""
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
    raise ValueError(f"{name} is not a JSON value")


def _printable(name: str) -> str:
    """Return a file name that can be printed: escape lone surrogates, which stand for bytes that are not UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()
