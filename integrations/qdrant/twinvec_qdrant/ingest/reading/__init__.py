"""Reading: what the user named (a folder, a file, standard input) -> documents.

``root`` says what is read, ``walking`` finds the files of a folder, ``files`` reads one file, and ``records`` and
``tables`` read the records of JSON lines and of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec_qdrant.ingest.reading.columns import RecordColumns
    from twinvec_qdrant.ingest.reading.results import Empty, Failure, PagedDocument, printable
    from twinvec_qdrant.ingest.reading.root import RECORD_SUFFIXES, STANDARD_INPUT, Reading, Root, read_source

__all__ = [
    "RECORD_SUFFIXES",
    "STANDARD_INPUT",
    "Empty",
    "Failure",
    "PagedDocument",
    "Reading",
    "RecordColumns",
    "Root",
    "printable",
    "read_source",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "columns": "RecordColumns",
        "results": "Empty Failure PagedDocument printable",
        "root": "RECORD_SUFFIXES STANDARD_INPUT Reading Root read_source",
    },
)
