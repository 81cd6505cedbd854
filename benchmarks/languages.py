"""Relevance in other languages than English: what it keeps and lets through in one manual, which is in many.

    apt-get download installation-guide-amd64 && dpkg-deb -x installation-guide-amd64_*.deb build/guide
    python benchmarks/languages.py build/guide/usr/share/doc/installation-guide-amd64 [--languages de fr ja]
        [--output benchmarks/LANGUAGES.md]

The folder has one of HTML pages for each language. Every one becomes a collection with the default model, which has
learnt English. It is calibrated by ten of the questions of ``calibration.questions`` in English, and then in its own
language. Each time it is asked for the first headings of its pages, and the other questions in its language, which are
about other subjects; at last once more, with ``maxsim`` by the landmarks of English and by those of the collection.
A second table has how often a heading finds its own page first, by each stage and by both.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from relevance import DEPTH, is_relevant, percent
from twinvec import Encoder, MaxSimReranker, RetrieveRerank
from twinvec.retrieval.base import Mode, unknown_texts
from twinvec.retrieval.relevance import DEFAULT_MIN_RELEVANCE
from twinvec_qdrant import Collection, Root
from twinvec_qdrant.calibration import measuring
from twinvec_qdrant.calibration.language import ENGLISH
from twinvec_qdrant.calibration.questions import QUESTIONS
from twinvec_qdrant.records.description import stored_description

CALIBRATING = 10
HEADINGS = 40
"""Headings asked for, of each manual."""


def rows(folder: Path, language: str, encoder: Encoder) -> tuple[str, str]:
    """Return the rows of a language: of the table of relevance, and of that of first hits."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        patch.object(measuring, "QUESTIONS", {code: asked[:CALIBRATING] for code, asked in QUESTIONS.items()}),
        Collection.open("manual", temporary, encoder=encoder) as collection,
    ):
        collection.ingest(Root(str(folder)))
        documents = collection.get(collection.find())
        headings = {document.text.partition("\n")[0].rpartition(" > ")[2]: document.id for document in documents}
        headings = dict(sorted(headings.items())[:HEADINGS])
        cells = [language, str(len(documents))]
        for asked in (ENGLISH, language):
            with patch.object(measuring, "languages_of", lambda _, code=asked: [code]):
                collection.reindex()
            calibration = stored_description(collection._backend).calibration
            assert calibration is not None
            cells += [f"{calibration.unrelated:.2f} to {calibration.near:.2f}", *shares(collection, headings, language)]
        for reranker in (MaxSimReranker(encoder), collection.maxsim()):
            cells += shares(RetrieveRerank(collection, reranker), headings, language)
        by_stage: tuple[Mode, ...] = ("dense", "sparse", "hybrid")
        found = [collection.search_many(list(headings), DEPTH, mode=mode) for mode in by_stage]
        found.append(RetrieveRerank(collection, collection.maxsim()).search_many(list(headings), DEPTH))
        first = [
            percent([bool(hits) and hits[0].id == page for page, hits in zip(headings.values(), each, strict=True)])
            for each in found
        ]
        unknown = percent(unknown_texts(encoder, list(headings)))
    return f"| {' | '.join(cells)} |", f"| {' | '.join((language, unknown, *first))} |"


def shares(retriever: Collection | RetrieveRerank, headings: Mapping[str, str], language: str) -> list[str]:
    """Return which share of the headings is kept, and for which share of the other questions something is found."""
    own = zip(headings.values(), retriever.search_many(list(headings), DEPTH), strict=True)
    kept = [any(hit.id == page and is_relevant(hit) for hit in hits) for page, hits in own]
    others = retriever.search_many(QUESTIONS[language][CALIBRATING:], DEPTH)
    found = [any(map(is_relevant, hits)) for hits in others]
    return [percent(kept), percent(found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manuals", type=Path)
    parser.add_argument("--languages", nargs="+", help="default: all that have enough questions")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    folders = {each.name.split("_")[0].split("-")[0]: each for each in sorted(options.manuals.iterdir())}
    languages = [code for code, asked in QUESTIONS.items() if code in folders and len(asked) > CALIBRATING]
    chosen = options.languages or languages
    encoder = Encoder("default")
    lines = [
        "# Relevance in other languages: results\n",
        f"`python benchmarks/languages.py MANUALS --languages {' '.join(chosen)}`, on a manual of which the pages are "
        "the same in all languages. Kept: a page found for its first heading with a relevance of "
        f"{DEFAULT_MIN_RELEVANCE} or more. Found: questions about "
        "other subjects, in the manual's language, for which some page has it. In percent, with 95% intervals "
        "(Wilson). The landmarks are what an unrelated text reaches, and what a near one does.\n",
        "| language | pages | landmarks by English questions | kept | found | by its own questions | kept | found | "
        "maxsim by the landmarks of English: kept | found | by its own: kept | found |",
        "|---|---:|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    firsts = [
        "\nHow often a heading finds its own page first, in percent. Unknown: headings that consist mostly of words "
        "that the model does not know. In a hybrid search, words decide for these, and for all headings of a manual of "
        "which most chunks are of such words.\n",
        "| language | unknown | vectors | words | hybrid | hybrid, then maxsim |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for language in chosen:
        relevance, first = rows(folders[language], language, encoder)
        lines.append(relevance)
        firsts.append(first)
        print(relevance, first, sep="\n", flush=True)
    lines += firsts
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
