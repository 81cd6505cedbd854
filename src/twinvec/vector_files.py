"""Encode a file of texts into a file of vectors, in bounded memory.

``support.atomic`` writes the array to a partial file and renames it when it is complete. A lock lets one process at a
time write an output, so a process may overwrite the partial file of a killed one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError, InputError
from twinvec.storage import Storage, Vectors
from twinvec.support.atomic import partial_path, put_in_place
from twinvec.support.checks import check_kind, check_overwrites
from twinvec.support.lines import read_texts
from twinvec.support.locks import exclusive_lock
from twinvec.support.progress import Advance, progress_bar
from twinvec.tokens.truncation import work_of


def encode_file(
    encoder: Encoder,
    source: Path,
    output: Path,
    *,
    field: str = "text",
    prompt: str | None = None,
    storage: Storage | None = None,
    progress: bool = False,
) -> tuple[int, int]:
    """Encode each line of a text file, or ``field`` of each object of a ``.jsonl`` file, into a ``.npy`` file.

    Row i belongs to line i of a text file, empty lines included. Blank lines of a ``.jsonl`` file are skipped.

    Returns:
        The shape of the array.

    Raises:
        InputError: the source cannot be read, is empty, changes while it is read, or has an invalid line, which the
            message names.
        ConfigurationError: the output cannot be written, is the source, or is locked by another process; or an argument
            of ``encode`` is invalid.
    """
    _check_paths(source, output)
    total = work = 0
    for text in read_texts(source, field, encoder.max_text_bytes):
        total += 1
        work += work_of(text, encoder.max_tokens)
    if not total:
        raise InputError(f"{source}: the file is empty; expected one text a line")
    done = 0
    with _partial(output) as partial, progress_bar("Encoding", total, "texts", work=work, shown=progress) as advance:
        shown = _TextProgress(encoder.max_tokens, advance)
        texts = shown.reading(read_texts(source, field, encoder.max_text_bytes))
        for vectors in encoder.encode_stream(texts, prompt=prompt, storage=storage, advance=shown):
            shape = (total, vectors.shape[1])
            with _writing(output):
                _append(partial, vectors, None if done else shape)
            done += len(vectors)
            shown.add_repeated()
        if done != total:
            raise InputError(f"{source}: changed while it was read: it had {total:,} texts, then {done:,}; start again")
        with _writing(output):
            put_in_place(partial, output)
    return shape


def _check_paths(source: Path, output: Path) -> None:
    """Refuse an output that cannot be written or is the source, and a source that can be read only once."""
    check_kind(output)
    if not output.parent.is_dir():
        raise ConfigurationError(f"{output}: cannot be written: there is no folder {output.parent}")
    check_overwrites(output, source)
    if os.path.exists(source) and not os.path.isfile(source) and not os.path.isdir(source):
        raise InputError(f"{source}: is a pipe or a device; write the texts to a file, which is read twice")


class _TextProgress:
    """Advances a bar by the texts that an encoder computes, and by repeated texts, which are not computed again."""

    def __init__(self, max_tokens: int, advance: Advance) -> None:
        self._max_tokens = max_tokens
        self._advance = advance
        self._texts = 0  # number of texts that were read but are not shown in the progress yet
        self._work = 0.0

    def reading(self, texts: Iterator[str]) -> Iterator[str]:
        for text in texts:
            self._texts += 1
            self._work += work_of(text, self._max_tokens)
            yield text

    def __call__(self, count: int, /, *, failed: int = 0, work: float | None = None, note: str | None = None) -> None:
        self._texts -= count
        self._work -= work or 0
        self._advance(count, failed=failed, work=work, note=note)

    def add_repeated(self) -> None:
        """Show all texts read so far as finished; call this when they are encoded."""
        self(self._texts, work=self._work)


@contextmanager
def _writing(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{output}: cannot be written: {error.strerror or error}") from error


@contextmanager
def _partial(output: Path) -> Iterator[Path]:
    """Lock the output and yield an empty partial file; remove the file afterwards."""
    lock, partial = output.with_name(f"{output.name}.lock"), partial_path(output)
    with ExitStack() as held:
        with _writing(output):
            held.enter_context(exclusive_lock(lock, f"{output}: another process is encoding into it"))
            partial.write_bytes(b"")
            held.callback(partial.unlink, missing_ok=True)
        yield partial


def _append(partial: Path, vectors: Vectors, shape: tuple[int, int] | None) -> None:
    """Append rows; before the first rows, write a header with ``shape``, the shape of the whole array."""
    with partial.open("ab") as file:
        if shape is not None:
            header = {"descr": np.lib.format.dtype_to_descr(vectors.dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(vectors).data)
