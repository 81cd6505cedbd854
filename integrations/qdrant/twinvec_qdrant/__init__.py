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
    from twinvec_qdrant.frameworks.whole_documents import ingest_all, open_whole_documents, with_documents
    from twinvec_qdrant.ingest.chunking import Chunk, Chunker
    from twinvec_qdrant.ingest.helped.leading import Helpers
    from twinvec_qdrant.ingest.helped.parts import Part, PartReport
    from twinvec_qdrant.ingest.lines import RootElsewhere, read_line, written_line
    from twinvec_qdrant.ingest.reading import Empty, Failure, RecordColumns, Root, read_source
    from twinvec_qdrant.ingest.reading.calls import HelperCall
    from twinvec_qdrant.list_and_drop import CollectionEntry, drop_collection, list_collections
    from twinvec_qdrant.opening_store import key_from_environment
    from twinvec_qdrant.records.description import SAME_VECTOR_COSINE
    from twinvec_qdrant.records.writer_process import Writer
    from twinvec_qdrant.report import AdoptReport, Backup, IngestReport
    from twinvec_qdrant.serving.process import Announcement, ServingProcess, serving_process
    from twinvec_qdrant.settings import ChunkSettings, ClusterSettings, IndexSettings
    from twinvec_qdrant.several import CollectionHit, CollectionHits, search_collections
    from twinvec_qdrant.updates.updating import UpdateReport, update_collection

__all__ = [
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
    "delete_documents",
    "drop_collection",
    "exact_search",
    "ingest_all",
    "joined_answers",
    "joined_options",
    "key_from_environment",
    "list_collections",
    "metadata_key",
    "open_whole_documents",
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
        "NOTHING": "frameworks.filters",
        "SAME_VECTOR_COSINE": "records.description",
        "AdoptReport": "report",
        "Announcement": "serving.process",
        "Answer": "asking",
        "Asked": "asking",
        "Backup": "report",
        "Chunk": "ingest.chunking",
        "ChunkSettings": "settings",
        "Chunker": "ingest.chunking",
        "ClusterSettings": "settings",
        "Collection": "collection",
        "CollectionEntry": "list_and_drop",
        "CollectionHit": "several",
        "CollectionHits": "several",
        "Empty": "ingest.reading",
        "Failure": "ingest.reading",
        "FoundHit": "asking",
        "HelperCall": "ingest.reading.calls",
        "Helpers": "ingest.helped.leading",
        "IndexSettings": "settings",
        "IngestReport": "report",
        "Part": "ingest.helped.parts",
        "PartReport": "ingest.helped.parts",
        "Passages": "asking",
        "RecordColumns": "ingest.reading",
        "Root": "ingest.reading",
        "RootElsewhere": "ingest.lines",
        "ServingProcess": "serving.process",
        "UpdateReport": "updates.updating",
        "Writer": "records.writer_process",
        "adopt_collection": "adopting.adopt",
        "all_of": "frameworks.filters",
        "backup_collection": "backups",
        "delete_documents": "asking",
        "drop_collection": "list_and_drop",
        "exact_search": "frameworks.foreign_arguments",
        "ingest_all": "frameworks.whole_documents",
        "joined_answers": "asking",
        "joined_options": "frameworks.foreign_arguments",
        "key_from_environment": "opening_store",
        "list_collections": "list_and_drop",
        "metadata_key": "frameworks.filters",
        "open_whole_documents": "frameworks.whole_documents",
        "payload_index_types": "frameworks.foreign_arguments",
        "payload_key": "frameworks.filters",
        "query_space": "frameworks.given_vectors",
        "read_line": "ingest.lines",
        "read_source": "ingest.reading",
        "refuse_foreign": "frameworks.foreign_arguments",
        "restore_collection": "backups",
        "search_as_asked": "asking",
        "search_collections": "several",
        "serving_process": "serving.process",
        "stored_documents": "asking",
        "takes_foreign": "frameworks.foreign_arguments",
        "text_id": "frameworks.foreign_arguments",
        "text_ids": "frameworks.foreign_arguments",
        "understood_filter": "frameworks.filters",
        "update_collection": "updates.updating",
        "vector_space": "frameworks.given_vectors",
        "with_documents": "frameworks.whole_documents",
        "written_line": "ingest.lines",
    },
)
