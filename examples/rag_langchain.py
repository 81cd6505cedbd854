"""Answer questions from a handbook with LangChain: ingest, retrieve, rerank, answer. Needs no keys and no network.

    python examples/rag_langchain.py [QUESTION]

The collection is in ./handbook; a second run finds it filled and writes nothing. LangChain's fake chat model stands in
for a real model: it answers with the first passage of its prompt. A blank question finds no passage.
"""

from __future__ import annotations

import sys

from langchain_core.documents import Document
from langchain_core.indexing import index
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from langchain_twinvec import TwinvecEmbeddings, TwinvecRecordManager, TwinvecRetriever, TwinvecVectorStore

HANDBOOK = {
    "leave": "Holidays are requested two weeks ahead, in the calendar of the team.",
    "sick": "Whoever is ill calls before nine; from the third day on a doctor's note is needed.",
    "vpn": "The VPN client is installed from the portal and asks for the token of the phone.",
    "expenses": "Expenses are paid at the end of the month if the receipts are there by the 20th.",
    "laptop": "A new laptop is ordered by the manager every four years.",
}
PROMPT = ChatPromptTemplate.from_template("Answer from these passages alone.\n\n{passages}\n\nQuestion: {question}")


def main() -> None:
    question = sys.argv[1] if len(sys.argv) > 1 else "How do I get into the network from home?"
    embeddings = TwinvecEmbeddings(model="default")
    store = TwinvecVectorStore(embeddings, "handbook", path="./handbook")
    documents = [Document(text, metadata={"source": f"{key}.md"}) for key, text in HANDBOOK.items()]
    done = index(
        documents, TwinvecRecordManager(store), store, cleanup="full", source_id_key="source", key_encoder="blake2b"
    )
    print(f"{done['num_added']} added, {done['num_skipped']} unchanged, {done['num_deleted']} deleted")

    retriever = TwinvecRetriever(retriever=store.collection, reranker=store.collection.maxsim(), k=2)
    passages = retriever.invoke(question)
    for passage in passages:
        scores = ", ".join(f"{stage} {score:.2f}" for stage, score in passage.metadata["twinvec_scores"].items())
        print(f"  {passage.metadata['source']}: {scores}")

    answer = passages[0].page_content if passages else "No passage answers this."
    chain = (
        {"passages": retriever | join, "question": RunnablePassthrough()}
        | PROMPT
        | FakeListChatModel(responses=[answer])
        | StrOutputParser()
    )
    print(f"{question}\n{chain.invoke(question)}")
    store.close()


def join(passages: list[Document]) -> str:
    return "\n".join(passage.page_content for passage in passages)


if __name__ == "__main__":
    main()
