"""Exact dense search over the positives of a file of pairs; texts and scores may be larger than memory.

The vectors are in a memory-mapped file, which a second run continues after an interruption. The texts of hits are read
from the file of pairs.
Shapes: Q queries, N texts, D dimensions, K hits.
"""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from twinvec.arrays import FloatArray, IntArray, unit
from twinvec.encoder import Encoder
from twinvec.errors import InputError
from twinvec.retrieval.base import Hit, check_limit
from twinvec.retrieval.filters import Filter
from twinvec.support.atomic import partial_path, put_in_place, resumable
from twinvec.support.locks import exclusive_lock
from twinvec.support.progress import progress_bar
from twinvec.training.data.text_hash import text_hash
from twinvec.training.mining.pair_file import numbered_rows, parse_row

_BLOCK = 65_536
_WINDOW = 4096


class DenseIndex:
    """The positives of a .jsonl file of pairs, each text once, searched by cosine.

    An existing file ``vectors`` (.npy) is used without a check, so its name must identify source and model. The name of
    an incomplete file ends in ".partial".

    Raises:
        InputError: ``source`` is empty, or one of its lines is not a pair.
        TextError: a text is invalid.
        ConfigurationError: another process is encoding into ``vectors``, or its disk is full.
    """

    def __init__(self, encoder: Encoder, source: Path, vectors: Path, *, progress: bool = False) -> None:
        self._encoder = encoder
        self._source = source
        first: dict[int, int] = {}
        for offset, row in numbered_rows(source):
            first.setdefault(text_hash(row["positive"]), offset)
        self._offsets = array("q", first.values())
        if not self._offsets:
            raise InputError(f"{source}: has no pairs")
        if not vectors.is_file():
            busy = f"{vectors}: another process is encoding into it"
            with resumable(vectors), exclusive_lock(vectors.with_suffix(".lock"), busy):
                self._encode(vectors, progress)
        self._vectors_ND: FloatArray = np.load(vectors, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._offsets)

    def search(self, query: str, limit: int = 10, filter: Filter | None = None) -> list[Hit]:
        """Return at most ``limit`` hits, best first. Hits have no payload, so a filter finds nothing."""
        return [] if filter is not None else self.search_many([query], limit)[0]

    def search_many(self, queries: Sequence[str], limit: int = 10) -> list[list[Hit]]:
        """Return the hits of each query, as ``search`` does."""
        check_limit(limit)
        queries_QD = unit(self._encoder.encode_query(list(queries)))
        scores_QK = np.empty((len(queries), 0), dtype=np.float32)
        rows_QK = np.empty((len(queries), 0), dtype=np.int64)
        for start in range(0, len(self), _BLOCK):
            block_QB = queries_QD @ self._vectors_ND[start : start + _BLOCK].T
            rows_QB = np.broadcast_to(np.arange(start, start + block_QB.shape[1]), block_QB.shape)
            scores_QK, rows_QK = np.hstack([scores_QK, block_QB]), np.hstack([rows_QK, rows_QB])
            if limit < scores_QK.shape[1]:
                best = np.argpartition(-scores_QK, limit - 1, axis=1)[:, :limit]
                scores_QK = np.take_along_axis(scores_QK, best, 1)
                rows_QK = np.take_along_axis(rows_QK, best, 1)
        return [self._hits(scores, rows) for scores, rows in zip(scores_QK, rows_QK, strict=True)]

    def _hits(self, scores: FloatArray, rows: IntArray) -> list[Hit]:
        order = np.lexsort((rows, -scores))
        texts = self._texts(rows[order].tolist())
        return [
            Hit(str(row), text, float(score), {"dense": float(score)})
            for row, score, text in zip(rows[order].tolist(), scores[order], texts, strict=True)
        ]

    def _texts(self, rows: Sequence[int]) -> Iterator[str]:
        with self._source.open("rb") as file:
            for row in rows:
                file.seek(self._offsets[row])
                yield parse_row(file.readline(), f"{self._source}")["positive"]

    def _encode(self, path: Path, progress: bool) -> None:
        partial = partial_path(path)
        with partial.open("a+b") as file, progress_bar("Encoding", len(self), "texts", shown=progress) as advance:
            done = self._kept(file)
            advance(done)
            for start in range(done, len(self), _WINDOW):
                rows = range(start, min(start + _WINDOW, len(self)))
                vectors_RD = unit(self._encoder.encode_document(list(self._texts(rows))))
                file.write(np.ascontiguousarray(vectors_RD, dtype=np.float32).data)
                file.flush()
                os.fsync(file.fileno())
                advance(len(rows))
        put_in_place(partial, path)

    def _kept(self, file: BinaryIO) -> int:
        """Truncate the file of an interrupted run to whole windows; return the number of vectors that it keeps."""
        header = io.BytesIO()
        settings = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False}
        np.lib.format.write_array_header_1_0(header, {**settings, "shape": (len(self), self._encoder.dim)})
        start, size = len(header.getvalue()), 4 * self._encoder.dim
        file.seek(0)
        if file.read(start) != header.getvalue():
            file.truncate(0)
            file.write(header.getvalue())
            return 0
        done = (file.seek(0, os.SEEK_END) - start) // (size * _WINDOW) * _WINDOW
        file.truncate(start + size * done)
        return done
