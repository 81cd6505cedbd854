"""twinvec_qdrant: Qdrant collections bound to their embedding model, embedded or on a server.

Names are loaded when first used: the commands that talk to a process of ``twinvec serve`` need few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec_qdrant.adopting.adopt import adopt_collection
    from twinvec_qdrant.asking import (
        Answer,
        Asked,
        FoundHit,
        Passages,
        delete_documents,
        joined_answers,
        search_as_asked,
        stored_documents,
    )
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
    from twinvec_qdrant.frameworks.whole_documents import filtered, ingest_all, open_whole_documents, with_documents
    from twinvec_qdrant.ingest.cutting.chunking import Chunk, Chunker
    from twinvec_qdrant.ingest.helped.leading import Helpers
    from twinvec_qdrant.ingest.helped.parts import Part, PartReport
    from twinvec_qdrant.ingest.lines import RootElsewhere, read_line, written_line
    from twinvec_qdrant.ingest.reading.columns import RecordColumns
    from twinvec_qdrant.ingest.reading.results import Empty, Failure, HelperCall
    from twinvec_qdrant.ingest.reading.root import Root, read_source
    from twinvec_qdrant.list_and_drop import CollectionEntry, drop_collection, list_collections
    from twinvec_qdrant.opening_store import key_from_environment
    from twinvec_qdrant.records.description import SAME_VECTOR_COSINE
    from twinvec_qdrant.records.writer_process import Writer
    from twinvec_qdrant.report import AdoptReport, Backup, IngestReport
    from twinvec_qdrant.serving.process import DEFAULT_PATH, Announcement, ServingProcess, serving_process
    from twinvec_qdrant.settings import ChunkSettings, ClusterSettings, IndexSettings
    from twinvec_qdrant.several import (
        CollectionHit,
        CollectionHits,
        best_first,
        open_with_one_of,
        search_collections,
    )
    from twinvec_qdrant.updates.updating import UpdateReport, update_collection

__all__ = [
    "DEFAULT_PATH",
    "NOTHING",
    "SAME_VECTOR_COSINE",
    "AdoptReport",
    "Announcement",
    "Answer",
    "Asked",
    "Backup",
    "Chunk",
    "ChunkSettings",
    "Chunker",
    "ClusterSettings",
    "Collection",
    "CollectionEntry",
    "CollectionHit",
    "CollectionHits",
    "Empty",
    "Failure",
    "FoundHit",
    "HelperCall",
    "Helpers",
    "IndexSettings",
    "IngestReport",
    "Part",
    "PartReport",
    "Passages",
    "RecordColumns",
    "Root",
    "RootElsewhere",
    "ServingProcess",
    "UpdateReport",
    "Writer",
    "adopt_collection",
    "all_of",
    "backup_collection",
    "best_first",
    "delete_documents",
    "drop_collection",
    "exact_search",
    "filtered",
    "ingest_all",
    "joined_answers",
    "joined_options",
    "key_from_environment",
    "list_collections",
    "metadata_key",
    "open_whole_documents",
    "open_with_one_of",
    "payload_index_types",
    "payload_key",
    "query_space",
    "read_line",
    "read_source",
    "refuse_foreign",
    "restore_collection",
    "search_as_asked",
    "search_collections",
    "serving_process",
    "stored_documents",
    "takes_foreign",
    "text_id",
    "text_ids",
    "understood_filter",
    "update_collection",
    "vector_space",
    "with_documents",
    "written_line",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "adopting.adopt": "adopt_collection",
        "asking": "Answer Asked FoundHit Passages delete_documents joined_answers search_as_asked stored_documents",
        "backups": "backup_collection restore_collection",
        "collection": "Collection",
        "frameworks.filters": "NOTHING all_of metadata_key payload_key understood_filter",
        "frameworks.foreign_arguments": "exact_search joined_options payload_index_types refuse_foreign takes_foreign "
        "text_id text_ids",
        "frameworks.given_vectors": "query_space vector_space",
        "frameworks.whole_documents": "filtered ingest_all open_whole_documents with_documents",
        "ingest.cutting.chunking": "Chunk Chunker",
        "ingest.helped.leading": "Helpers",
        "ingest.helped.parts": "Part PartReport",
        "ingest.lines": "RootElsewhere read_line written_line",
        "ingest.reading.columns": "RecordColumns",
        "ingest.reading.results": "Empty Failure HelperCall",
        "ingest.reading.root": "Root read_source",
        "list_and_drop": "CollectionEntry drop_collection list_collections",
        "opening_store": "key_from_environment",
        "records.description": "SAME_VECTOR_COSINE",
        "records.writer_process": "Writer",
        "report": "AdoptReport Backup IngestReport",
        "serving.process": "DEFAULT_PATH Announcement ServingProcess serving_process",
        "settings": "ChunkSettings ClusterSettings IndexSettings",
        "several": "CollectionHit CollectionHits best_first open_with_one_of search_collections",
        "updates.updating": "UpdateReport update_collection",
    },
)
