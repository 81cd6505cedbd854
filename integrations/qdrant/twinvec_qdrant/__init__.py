"""twinvec_qdrant: Qdrant collections bound to their embedding model, embedded or on a server.

Names are loaded at their first use, because commands that talk to a ``twinvec serve`` process need few of them. The
imports below are for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec_qdrant.adopting.adopt import adopt_collection as adopt_collection
    from twinvec_qdrant.asking import Answer as Answer
    from twinvec_qdrant.asking import Asked as Asked
    from twinvec_qdrant.asking import FoundHit as FoundHit
    from twinvec_qdrant.asking import Passages as Passages
    from twinvec_qdrant.asking import delete_documents as delete_documents
    from twinvec_qdrant.asking import joined_answers as joined_answers
    from twinvec_qdrant.asking import reindex_as_asked as reindex_as_asked
    from twinvec_qdrant.asking import search_as_asked as search_as_asked
    from twinvec_qdrant.asking import stored_documents as stored_documents
    from twinvec_qdrant.backups import ReceivedBackup as ReceivedBackup
    from twinvec_qdrant.backups import TemporaryBackup as TemporaryBackup
    from twinvec_qdrant.backups import backup_collection as backup_collection
    from twinvec_qdrant.backups import restore_collection as restore_collection
    from twinvec_qdrant.collection import Collection as Collection
    from twinvec_qdrant.frameworks.filters import NOTHING as NOTHING
    from twinvec_qdrant.frameworks.filters import all_of as all_of
    from twinvec_qdrant.frameworks.filters import metadata_key as metadata_key
    from twinvec_qdrant.frameworks.filters import payload_key as payload_key
    from twinvec_qdrant.frameworks.filters import understood_filter as understood_filter
    from twinvec_qdrant.frameworks.foreign_arguments import exact_search as exact_search
    from twinvec_qdrant.frameworks.foreign_arguments import joined_options as joined_options
    from twinvec_qdrant.frameworks.foreign_arguments import payload_index_types as payload_index_types
    from twinvec_qdrant.frameworks.foreign_arguments import refuse_foreign as refuse_foreign
    from twinvec_qdrant.frameworks.foreign_arguments import takes_foreign as takes_foreign
    from twinvec_qdrant.frameworks.foreign_arguments import text_id as text_id
    from twinvec_qdrant.frameworks.foreign_arguments import text_ids as text_ids
    from twinvec_qdrant.frameworks.given_vectors import query_space as query_space
    from twinvec_qdrant.frameworks.given_vectors import vector_space as vector_space
    from twinvec_qdrant.frameworks.whole_documents import filtered as filtered
    from twinvec_qdrant.frameworks.whole_documents import ingest_all as ingest_all
    from twinvec_qdrant.frameworks.whole_documents import open_whole_documents as open_whole_documents
    from twinvec_qdrant.frameworks.whole_documents import stored_ids as stored_ids
    from twinvec_qdrant.frameworks.whole_documents import with_documents as with_documents
    from twinvec_qdrant.ingest.cutting.chunking import Chunk as Chunk
    from twinvec_qdrant.ingest.cutting.chunking import Chunker as Chunker
    from twinvec_qdrant.ingest.helped import Helpers as Helpers
    from twinvec_qdrant.ingest.helped import Part as Part
    from twinvec_qdrant.ingest.helped import PartReport as PartReport
    from twinvec_qdrant.ingest.lines import RootElsewhere as RootElsewhere
    from twinvec_qdrant.ingest.lines import read_line as read_line
    from twinvec_qdrant.ingest.lines import written_line as written_line
    from twinvec_qdrant.ingest.reading.records.columns import RecordColumns as RecordColumns
    from twinvec_qdrant.ingest.reading.results import Empty as Empty
    from twinvec_qdrant.ingest.reading.results import Failure as Failure
    from twinvec_qdrant.ingest.reading.results import HelperCall as HelperCall
    from twinvec_qdrant.ingest.reading.root import Root as Root
    from twinvec_qdrant.ingest.reading.root import read_source as read_source
    from twinvec_qdrant.list_and_drop import CollectionEntry as CollectionEntry
    from twinvec_qdrant.list_and_drop import drop_collection as drop_collection
    from twinvec_qdrant.list_and_drop import list_collections as list_collections
    from twinvec_qdrant.opening_store import key_from_environment as key_from_environment
    from twinvec_qdrant.question_writing.chat_endpoint import ChatEndpoint as ChatEndpoint
    from twinvec_qdrant.question_writing.writing import QuestionOptions as QuestionOptions
    from twinvec_qdrant.question_writing.writing import QuestionReport as QuestionReport
    from twinvec_qdrant.question_writing.writing import write_questions as write_questions
    from twinvec_qdrant.records.description import SAME_VECTOR_COSINE as SAME_VECTOR_COSINE
    from twinvec_qdrant.records.documents import DocumentEntry as DocumentEntry
    from twinvec_qdrant.records.documents import StoredChunk as StoredChunk
    from twinvec_qdrant.records.writer_process import Writer as Writer
    from twinvec_qdrant.report import AdoptReport as AdoptReport
    from twinvec_qdrant.report import Backup as Backup
    from twinvec_qdrant.report import IndexReport as IndexReport
    from twinvec_qdrant.report import IngestReport as IngestReport
    from twinvec_qdrant.report import MigrationReport as MigrationReport
    from twinvec_qdrant.report import PushReport as PushReport
    from twinvec_qdrant.report import VerifyReport as VerifyReport
    from twinvec_qdrant.serving.names import check_new_name as check_new_name
    from twinvec_qdrant.serving.process import DEFAULT_PATH as DEFAULT_PATH
    from twinvec_qdrant.serving.process import Announcement as Announcement
    from twinvec_qdrant.serving.process import ServingProcess as ServingProcess
    from twinvec_qdrant.serving.process import serving_process as serving_process
    from twinvec_qdrant.settings import ChunkSettings as ChunkSettings
    from twinvec_qdrant.settings import ClusterSettings as ClusterSettings
    from twinvec_qdrant.settings import IndexSettings as IndexSettings
    from twinvec_qdrant.several import CollectionHit as CollectionHit
    from twinvec_qdrant.several import CollectionHits as CollectionHits
    from twinvec_qdrant.several import best_first as best_first
    from twinvec_qdrant.several import open_with_one_of as open_with_one_of
    from twinvec_qdrant.several import search_collections as search_collections
    from twinvec_qdrant.stores.base import CollectionGoneError as CollectionGoneError
    from twinvec_qdrant.stores.base import UnindexedError as UnindexedError
    from twinvec_qdrant.updates.file_memory import FileMemory as FileMemory
    from twinvec_qdrant.updates.updating import UpdateReport as UpdateReport
    from twinvec_qdrant.updates.updating import update_collection as update_collection

_HOMES = {
    "adopting.adopt": "adopt_collection",
    "asking": "Answer Asked FoundHit Passages delete_documents joined_answers reindex_as_asked search_as_asked "
    "stored_documents",
    "backups": "ReceivedBackup TemporaryBackup backup_collection restore_collection",
    "collection": "Collection",
    "frameworks.filters": "NOTHING all_of metadata_key payload_key understood_filter",
    "frameworks.foreign_arguments": "exact_search joined_options payload_index_types refuse_foreign takes_foreign "
    "text_id text_ids",
    "frameworks.given_vectors": "query_space vector_space",
    "frameworks.whole_documents": "filtered ingest_all open_whole_documents stored_ids with_documents",
    "ingest.cutting.chunking": "Chunk Chunker",
    "ingest.helped": "Helpers Part PartReport",
    "ingest.lines": "RootElsewhere read_line written_line",
    "ingest.reading.records.columns": "RecordColumns",
    "ingest.reading.results": "Empty Failure HelperCall",
    "ingest.reading.root": "Root read_source",
    "list_and_drop": "CollectionEntry drop_collection list_collections",
    "opening_store": "key_from_environment",
    "question_writing.chat_endpoint": "ChatEndpoint",
    "question_writing.writing": "QuestionOptions QuestionReport write_questions",
    "records.description": "SAME_VECTOR_COSINE",
    "records.documents": "DocumentEntry StoredChunk",
    "records.writer_process": "Writer",
    "report": "AdoptReport Backup IndexReport IngestReport MigrationReport PushReport VerifyReport",
    "serving.names": "check_new_name",
    "serving.process": "DEFAULT_PATH Announcement ServingProcess serving_process",
    "settings": "ChunkSettings ClusterSettings IndexSettings",
    "several": "CollectionHit CollectionHits best_first open_with_one_of search_collections",
    "stores.base": "CollectionGoneError UnindexedError",
    "updates.file_memory": "FileMemory",
    "updates.updating": "UpdateReport update_collection",
}

__all__ = sorted(" ".join(_HOMES.values()).split())
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
