"""Tune a model to the words of a company, and swap it into a running LangChain retriever without a pause.

    python examples/swap_model.py

The words of this company ("blue slip", "the aquarium") mean nothing to the default model. A few pairs of question and
passage teach it. Then the collection migrates to the tuned model while the old model keeps answering; the retriever of
the running chain gets the migrated collection, which refuses the old model from then on.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from langchain_core.documents import Document

from langchain_twinvec import TwinvecEmbeddings, TwinvecRetriever, TwinvecVectorStore
from twinvec import Encoder
from twinvec.errors import SpaceMismatchError
from twinvec.training.run.config import TrainConfig
from twinvec.training.run.train import train
from twinvec.training.settings import Batches, InfoNCE, Schedule, Source

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
    shutil.rmtree("handbook_swap", ignore_errors=True)  # a collection of an earlier run has the tuned model
    old = Encoder("default")
    first = opened(old)
    first.add_documents([Document(text, id=key) for key, text in HANDBOOK.items()])
    retriever = TwinvecRetriever(retriever=first.collection, k=1, search_kwargs={"mode": "dense"})
    print("before:", answers(retriever))

    new = Encoder(tuned_model(Path("tuned")))
    report = first.collection.migrate(new)
    print(f"migrated: {report.encoded} texts encoded")
    second = opened(new)
    retriever.retriever = second.collection
    first.close()
    print("after: ", answers(retriever))

    try:
        opened(old)
    except SpaceMismatchError as error:
        print(f"refused: {str(error).partition(': ')[2][:80]}...")
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


def opened(encoder: Encoder) -> TwinvecVectorStore:
    return TwinvecVectorStore(TwinvecEmbeddings(encoder=encoder), "handbook", path="./handbook_swap")


def answers(retriever: TwinvecRetriever) -> str:
    found = {question: retriever.invoke(question)[0].id for question in QUESTIONS}
    right = sum(found[question] == wanted for question, wanted in QUESTIONS.items())
    return f"{right} of {len(QUESTIONS)} right: {found}"


if __name__ == "__main__":
    main()
