"""Answer questions from a handbook with LlamaIndex: ingest, retrieve, rerank, answer. Needs no keys and no network.

    python examples/rag_llama_index.py [QUESTION]

The collection is in ./handbook_nodes, with the state of the pipeline; a second run finds both and embeds nothing.
LlamaIndex's mock model stands in for a real model: it answers with its prompt, which shows what a model would see.
"""

from __future__ import annotations

import sys
from pathlib import Path

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.postprocessor.twinvec_rerank import TwinvecRerank
from llama_index.vector_stores.twinvec import TwinvecVectorStore

HANDBOOK = {
    "leave": "Holidays are requested two weeks ahead, in the calendar of the team.",
    "sick": "Whoever is ill calls before nine; from the third day on a doctor's note is needed.",
    "vpn": "The VPN client is installed from the portal and asks for the token of the phone.",
    "expenses": "Expenses are paid at the end of the month if the receipts are there by the 20th.",
    "laptop": "A new laptop is ordered by the manager every four years.",
}
STATE = Path("handbook_nodes.json")


def main() -> None:
    question = sys.argv[1] if len(sys.argv) > 1 else "How do I get into the network from home?"
    embed_model = TwinvecEmbedding("default")
    store = TwinvecVectorStore(embed_model, "handbook", path="./handbook_nodes")
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=128, chunk_overlap=0), embed_model],
        docstore=SimpleDocumentStore.from_persist_path(str(STATE)) if STATE.exists() else SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
        vector_store=store,
    )
    written = pipeline.run(documents=[Document(id_=f"{key}.md", text=text) for key, text in HANDBOOK.items()])
    assert pipeline.docstore is not None
    pipeline.docstore.persist(str(STATE))
    print(f"{len(written)} nodes written")

    index = VectorStoreIndex.from_vector_store(store, embed_model=embed_model)
    engine = index.as_query_engine(
        llm=MockLLM(),
        similarity_top_k=5,
        vector_store_query_mode="hybrid",
        node_postprocessors=[TwinvecRerank(2, encoder=embed_model.encoder)],
    )
    response = engine.query(question)
    for node in response.source_nodes:
        print(f"  {node.node.ref_doc_id}: {node.score:.2f}")
    print(response)
    store.close()


if __name__ == "__main__":
    main()
