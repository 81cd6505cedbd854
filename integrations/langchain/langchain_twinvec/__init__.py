"""twinvec for LangChain: embeddings, rerankers, a retriever, a vector store and its record manager."""

from langchain_twinvec.embeddings import TwinvecEmbeddings
from langchain_twinvec.record_manager import TwinvecRecordManager
from langchain_twinvec.rerankers import TwinvecCrossEncoder, TwinvecReranker
from langchain_twinvec.retriever import TwinvecRetriever
from langchain_twinvec.structured_query import TwinvecTranslator
from langchain_twinvec.vectorstore import TwinvecVectorStore

__all__ = [
    "TwinvecCrossEncoder",
    "TwinvecEmbeddings",
    "TwinvecRecordManager",
    "TwinvecReranker",
    "TwinvecRetriever",
    "TwinvecTranslator",
    "TwinvecVectorStore",
]
