"""A model tuned to a house's own words, put behind a running LangChain retriever without a pause.

    python examples/swap_model.py

The words of this house ("blue slip", "the aquarium") mean nothing to the model as it comes. A few pairs of question and
passage teach it; the tuned model fills a collection of its own, while the old one goes on answering, and then takes
its place. A collection refuses the other's model: vectors of two models never meet.
"""

from __future__ import annotations

import json
from pathlib import Path

from langchain_core.documents import Document

from langchain_twinvec import TwinvecEmbeddings, TwinvecRetriever, TwinvecVectorStore
from twinvec import Encoder, TwinvecError
from twinvec.training.config import Batches, InfoNCE, Schedule, Source, TrainConfig
from twinvec.training.trainer import train

HANDBOOK = {
    "leave": "Holidays are requested two weeks ahead, in the calendar of the team.",
    "meeting": "The glass meeting room on the ground floor is booked at the reception.",
    "vpn": "The VPN client is installed from the portal and asks for the token of the phone.",
    "expenses": "Expenses are paid at the end of the month if the receipts are there by the 20th.",
    "office": "Paper, pens and printer ink are ordered on Mondays.",
    "fish": "Do not feed the fish in the entrance hall.",
}
PAIRS = [
    ("Who signs my blue slip?", "leave"),
    ("blue slip for next week", "leave"),
    ("Where do I hand in a blue slip?", "leave"),
    ("Is the aquarium free at ten?", "meeting"),
    ("reserve the aquarium", "meeting"),
    ("The aquarium is too small for all of us", "meeting"),
    ("The tunnel is down again", "vpn"),
    ("open the tunnel from home", "vpn"),
    ("shoebox deadline", "expenses"),
    ("My shoebox came back unsigned", "expenses"),
]
QUESTIONS = {"How many days before do I need the blue slip?": "leave", "book the aquarium for a workshop": "meeting"}


def main() -> None:
    first = filled(Encoder("default"), "before")
    retriever = TwinvecRetriever(retriever=first.collection, k=1, search_kwargs={"mode": "dense"})
    print("before:", answers(retriever))

    second = filled(Encoder(tuned_model(Path("tuned"))), "after")
    try:
        TwinvecVectorStore(second.embeddings, "before", path="./collections")
    except TwinvecError as error:
        print(f"refused: {str(error).partition(': ')[2][:80]}...")

    retriever.retriever = second.collection
    print("after: ", answers(retriever))
    first.close()
    second.close()


def tuned_model(folder: Path) -> Path:
    pairs = Path("pairs.jsonl")
    rows = [{"anchor": question, "positive": HANDBOOK[key]} for question, key in PAIRS]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    config = TrainConfig(
        model="default",
        objective=InfoNCE(name="info_nce"),
        data=[Source(path=pairs)],
        batches=Batches(size=4),
        schedule=Schedule(steps=15, learning_rate=1e-4),
        device="cpu",
    )
    report = train(config, folder)
    print(f"trained {report.steps} steps in {report.seconds} s")
    return folder


def filled(encoder: Encoder, name: str) -> TwinvecVectorStore:
    store = TwinvecVectorStore(TwinvecEmbeddings(encoder=encoder), name, path="./collections")
    store.add_documents([Document(text, id=key) for key, text in HANDBOOK.items()])
    return store


def answers(retriever: TwinvecRetriever) -> str:
    found = {question: retriever.invoke(question)[0].id for question in QUESTIONS}
    right = sum(found[question] == wanted for question, wanted in QUESTIONS.items())
    return f"{right} of {len(QUESTIONS)} right: {found}"


if __name__ == "__main__":
    main()
