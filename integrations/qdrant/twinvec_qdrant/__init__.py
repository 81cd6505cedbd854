"""twinvec_qdrant: Qdrant collections bound to their embedding model, embedded or on a server."""

from __future__ import annotations

from twinvec_qdrant.backups import backup_collection, restore_collection
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.frameworks.filters import NOTHING, all_of, metadata_key, payload_key, understood_filter
from twinvec_qdrant.frameworks.foreign_arguments import (
    exact_search,
    joined_options,
    payload_index_types,
    refuse_foreign,
    takes_foreign,
    text_id,
    text_ids,
)
from twinvec_qdrant.frameworks.given_vectors import query_space, vector_space
from twinvec_qdrant.frameworks.whole_documents import ingest_all, open_whole_documents, with_documents
from twinvec_qdrant.ingest.chunking import Chunk, Chunker
from twinvec_qdrant.ingest.reading import Empty, Failure, RecordColumns, Root, read_source
from twinvec_qdrant.list_and_drop import CollectionEntry, drop_collection, list_collections
from twinvec_qdrant.records.description import SAME_VECTOR_COSINE
from twinvec_qdrant.records.writer_process import Writer
from twinvec_qdrant.report import Backup, IngestReport
from twinvec_qdrant.settings import ChunkSettings, ClusterSettings, IndexSettings

__all__ = [
    "NOTHING",
    "SAME_VECTOR_COSINE",
    "Backup",
    "Chunk",
    "ChunkSettings",
    "Chunker",
    "ClusterSettings",
    "Collection",
    "CollectionEntry",
    "Empty",
    "Failure",
    "IndexSettings",
    "IngestReport",
    "RecordColumns",
    "Root",
    "Writer",
    "all_of",
    "backup_collection",
    "drop_collection",
    "exact_search",
    "ingest_all",
    "joined_options",
    "list_collections",
    "metadata_key",
    "open_whole_documents",
    "payload_index_types",
    "payload_key",
    "query_space",
    "read_source",
    "refuse_foreign",
    "restore_collection",
    "takes_foreign",
    "text_id",
    "text_ids",
    "understood_filter",
    "vector_space",
    "with_documents",
]
