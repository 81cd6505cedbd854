"""Reading: what the user named (a folder, a file, standard input) -> documents.

``root`` says what is read, ``walking`` finds the files of a folder, ``files`` reads one file, and ``records`` and
``tables`` read the records of JSON lines and of tables.
"""

from __future__ import annotations

from twinvec_qdrant.ingest.reading.columns import RecordColumns
from twinvec_qdrant.ingest.reading.records import RECORDS_SUFFIX
from twinvec_qdrant.ingest.reading.results import Empty, Failure, PagedDocument, printable
from twinvec_qdrant.ingest.reading.root import STANDARD_INPUT, Reading, Root, read_source
from twinvec_qdrant.ingest.reading.tables import TABLE_SUFFIXES

RECORD_SUFFIXES = frozenset({RECORDS_SUFFIX, *TABLE_SUFFIXES})
"""How the names of files of records end."""

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
