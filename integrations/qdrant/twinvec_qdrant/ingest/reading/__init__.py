"""Reading: what the user named (a folder, a file, standard input) -> documents.

``root`` says what is read, ``walking`` finds the files of a folder, ``files`` reads one file, and ``records`` and
``tables`` read the records of JSON lines and of tables.
"""

from __future__ import annotations

from twinvec_qdrant.ingest.reading.columns import RecordColumns
from twinvec_qdrant.ingest.reading.results import Empty, Failure, PagedDocument
from twinvec_qdrant.ingest.reading.root import STANDARD_INPUT, Reading, Root, read_source

__all__ = ["STANDARD_INPUT", "Empty", "Failure", "PagedDocument", "Reading", "RecordColumns", "Root", "read_source"]
