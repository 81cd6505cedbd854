"""Relevance in other languages than English: the right and the foreign hits that it keeps, in a multilingual manual.

    apt-get download installation-guide-amd64 && dpkg-deb -x installation-guide-amd64_*.deb build/guide
    python benchmarks/languages.py build/guide/usr/share/doc/installation-guide-amd64 [--languages de fr ja]
        [--output benchmarks/LANGUAGES.md]

The folder holds a folder of HTML pages for each language. Each language becomes a collection with the default model,
which was trained on English. The collection is calibrated by ten English questions of ``calibration.questions``, and
then again by ten questions in its own language. After each calibration, two kinds of queries are searched: the first
headings of its pages, and the other questions in its language, which are about other subjects. The last columns repeat
this with ``maxsim``, with the landmarks of English and with those of the collection. A second table has the share of
headings that find their own page first, by each stage and by both.
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
    """Return the rows of a language in both tables: the table of relevance, and the table of first hits."""
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
    """Return the share of headings that are kept, and the share of foreign questions that find something."""
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
        f"`python benchmarks/languages.py MANUALS --languages {' '.join(chosen)}`, on a manual that has the same pages "
        "in all languages. Kept: the share of first headings for which their own page has a relevance of "
        f"{DEFAULT_MIN_RELEVANCE} or more. Found: the share of questions about other subjects, in the manual's "
        "language, for which any page has such a relevance. In percent, with 95% intervals (Wilson). The two landmarks "
        "are the cosines that an unrelated and a near text reach.\n",
        "| language | pages | landmarks by English questions | kept | found | by its own questions | kept | found | "
        "maxsim by the landmarks of English: kept | found | by its own: kept | found |",
        "|---|---:|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    firsts = [
        "\nThe share of headings that find their own page first, in percent. Unknown: headings that consist mostly of "
        "words that the model does not know. A hybrid search for such a heading ranks by words. If most chunks of a "
        "manual consist of such words, every hybrid search in the manual does.\n",
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
