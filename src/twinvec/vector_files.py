"""A file of texts -> a file of vectors, in bounded memory.

The array is written beside its place and moved there when complete: a file under its own name is never half written.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError, InputError
from twinvec.files import read_texts
from twinvec.progress import progress_bar
from twinvec.storage import Storage


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

    Row i belongs to line i of a text file, an empty line included; blank lines of a ``.jsonl`` file do not count.

    Returns:
        The shape of the array.

    Raises:
        InputError: the source cannot be read, is empty, changes meanwhile, or a line is at fault; named by its number.
        ConfigurationError: the output cannot be written, or as for ``Encoder.encode``.
    """
    total = sum(1 for _ in read_texts(source, field))
    if not total:
        raise InputError(f"{source}: the file is empty; expected one text a line")
    partial = output.with_name(output.name + ".partial")
    done = 0
    try:
        with partial.open("wb") as file, progress_bar("Encoding", total, "texts", shown=progress) as advance:
            counted = 0

            def count(texts: int) -> None:
                nonlocal counted
                counted += texts
                advance(texts)

            for vectors in encoder.encode_stream(
                read_texts(source, field), prompt=prompt, storage=storage, on_batch=count
            ):
                if not done:
                    shape = (total, vectors.shape[1])
                    header = {"descr": np.lib.format.dtype_to_descr(vectors.dtype), "fortran_order": False}
                    np.lib.format.write_array_header_1_0(file, {**header, "shape": shape})
                file.write(np.ascontiguousarray(vectors).data)
                done += len(vectors)
                count(done - counted)  # texts that came more than once
            if done != total:
                raise InputError(f"{source}: had {total:,} texts, then {done:,}: it changed while it was read")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(output)
    except OSError as error:
        raise ConfigurationError(f"{output}: cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    return shape
